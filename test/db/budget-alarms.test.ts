// Budgets of a month that are spent, or nearly: who is told of it.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { tagSetOf } from '../../src/ledger/pipelines.ts'
import { quotaCauses } from '../../src/schedule/notify/alarm-causes.ts'
import type { Runtime } from '../../src/run/runtime.ts'
import { newPipeline } from '../support/ledger.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

test('a tag whose month is spent to 80 % or 100 % is an alarm, whichever pipelines a run has at hand', async () => {
  const { kysely } = db.database
  const { pipelineId } = await newPipeline(db, { parameters: '{}' })
  const tagSet = await kysely.transaction().execute((trx) => tagSetOf(trx, { client: 'acme' }))
  const today = sql<string>`(clock_timestamp() at time zone 'UTC')::date`
  const of = { pipeline_id: pipelineId, account: 'default', tag_set_id: tagSet, day: today, is_night: true }
  const spend = (credits: number) =>
    kysely
      .insertInto('etl.request_credits')
      .values({ ...of, slot: credits, requests: '1', credits: String(credits), uncertain: '0', unpriced: '0' })
      .execute()
  const runtime = {
    database: db.database,
    definitions: [],
    sources: new Map(),
    clock: { now: () => Date.now() },
    settings: { raw: { MILLRACE_TAG_BUDGETS: 'client=acme:200/month,client=acme:10/day,client=beta:1/month' } },
  }
  const found = async () =>
    (await quotaCauses(runtime as unknown as Runtime)).map(({ severity, message }) => `${severity}: ${message}`)
  await spend(79)
  expect(await found()).toEqual([])
  await spend(90)
  expect(await found()).toEqual([
    expect.stringMatching(/^warning: client acme of .* has spent or reserved 169 of its 200 credits/),
  ])
  await sql`update etl.request_credits set credits = credits + 20`.execute(kysely)
  expect((await found()).map((message) => message.slice(0, 7))).toEqual(['warning', 'error: '])
})
