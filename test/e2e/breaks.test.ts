// A service that changes its method under a warehouse: the first night that loads it notices, asks for nothing more than on any night, and plan offers the months before.
import { expect, test } from 'vitest'
import { openChangingWorld, playChange, tables } from '../support/method-changes.ts'

test('is noticed by the first night that loads it, for no request more than ordinary restatements cost, and never before', async () => {
  const { since, millrace, query, close } = await playChange(1)
  const plan = await millrace('plan', 'keywords')
  const { older } = plan.events.find(({ event }) => event === 'pipeline') as {
    older: { sample: { command: string; units: number } }[]
  }
  expect(older).toMatchObject([{ startsOn: `${since}-01`, sample: { command: expect.stringContaining('--only') } }])
  // The sample, as it is offered: older months of one cell, of which none changed.
  const words = older[0]?.sample.command.replaceAll("'", '').split(' ').slice(1) ?? []
  await millrace(...words, '--yes')
  expect(await query(`select starts_on::text, seen_back_to::text from bi.breaks where pipeline = 'keywords'`)).toEqual([
    { starts_on: `${since}-01`, seen_back_to: `${since}-01` },
  ])
  await close()
}, 120_000)

test('that names a version of its data: another version is a break in the first night, however little it changed; months asked for since follow it', async () => {
  const { sandbox, query, millrace, restate, night, close } = await openChangingWorld(7, { dataVersion: '2026.1' })
  const breaks = () => query(`select pipeline, starts_on::text, kind, data_version, columns from bi.breaks order by pipeline`)
  await night()
  await night()
  expect(await breaks()).toEqual([])
  sandbox.configure({ dataVersion: '2026.2' })
  restate()
  await night()
  const noticed = tables.map((pipeline) => ({
    pipeline,
    starts_on: '2026-09-01',
    kind: 'version',
    data_version: '2026.2',
    columns: [],
  }))
  expect(await breaks()).toEqual(noticed)
  await night()
  expect(await breaks()).toEqual(noticed)
  const alarms = await millrace('plan', 'keywords')
  expect(alarms.events.find(({ event }) => event === 'pipeline')).toMatchObject({
    older: [{ startsOn: '2026-09-01', from: '2026-07', to: '2026-08' }],
  })
  await millrace('backfill', 'keywords', '--from', '2026-07', '--to', '2026-08', '--force', '--yes')
  expect((await breaks())[0]).toMatchObject({ pipeline: 'keywords', starts_on: '2026-07-01' })
  await close()
}, 120_000)
