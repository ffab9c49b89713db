// Another number of first rows is wanted: every loaded month is planned again, those too that are closed because nothing asks about them any more.
import { readFileSync, writeFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { summaryOf } from '../support/command.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const { fileOf, millrace, query } = testWorld({
  lists: { domains: ['a.com', 'b.com'] },
  service: () => startVendorSandbox({ requestsPerSecond: null, keywords: 80 }),
})

test('months older than the look-back are loaded with the new number, once', async () => {
  const file = fileOf('keywords')
  const yaml = readFileSync(file, 'utf8').replace('country: [us, gb]', 'country: [us]')
  const topped = (top: number): void => writeFileSync(file, yaml.replace(/params: \{ /, `params: { top: ${top}, `))
  const backfill = async () =>
    summaryOf(await succeeded(millrace('backfill', 'keywords', '--from', '2026-05', '--to', '2026-05', '--json'))).units
  const rows = () => query('select domain, count(*)::int as n from data.keywords_v1 group by 1 order by 1')
  writeFileSync(file, yaml)
  expect(await backfill()).toMatchObject({ planned: 2, loaded: 2 })
  expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
  // All rows are another number than 20, too.
  topped(20)
  expect(await backfill()).toMatchObject({ planned: 2, loaded: 2 })
  expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
  topped(40)
  expect(await backfill()).toMatchObject({ loaded: 2 })
  expect(await rows()).toEqual([
    { domain: 'a.com', n: 40 },
    { domain: 'b.com', n: 40 },
  ])
  expect(await backfill()).toMatchObject({ loaded: 0, unchanged: 2 })
})

test('a number beyond the rows that there are is asked for once, though its bytes are those that are loaded', async () => {
  const file = fileOf('keywords')
  const yaml = readFileSync(file, 'utf8')
    .replace(/top: \d+, /, '')
    .replace(/page_size: \d+/, 'page_size: 20')
  const backfill = async () =>
    summaryOf(await succeeded(millrace('backfill', 'keywords', '--from', '2026-06', '--to', '2026-06', '--json')))
  writeFileSync(file, yaml)
  expect(await backfill()).toMatchObject({ units: { loaded: 2 }, rows: { inserted: 160 } })
  writeFileSync(file, yaml.replace(/params: \{ /, 'params: { top: 100, '))
  // Whether there are more rows than were known is not known before.
  expect((await backfill()).rows).toMatchObject({ inserted: 0, updated: 0 })
  expect(await backfill()).toMatchObject({ units: { unchanged: 2 }, requests: 0 })
})
