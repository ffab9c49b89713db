// What bills teach, where several processes read theirs at the same time.
import { expect, test } from 'vitest'
import { learnPrice, type PriceSubject, priceKnown, type SeenBill } from '../../src/ledger/prices.ts'
import { spentOf } from '../../src/ledger/spent.ts'
import { pipelineIdOf } from '../support/plan-ledger.ts'
import { january, plan, walk } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase({ each: true })

const subject: PriceSubject = { account: 'web-analytics:1', dataset: 'web-analytics.keywords', stated: null, seen: [] }

const page = (rows: number, credits: number): SeenBill => ({
  size: { rowsAsked: 1000, rows, metrics: 1, values: 1 },
  credits,
  saidIn: 'answer',
  jobId: null,
})

const counts = (): Promise<{ live: number; dropped: number }> =>
  db.one('select count(*) filter (where dropped_at is null)::int as live, count(dropped_at)::int as dropped from etl.prices')

test('two pages that both meet a new price drop the old one once, and keep what the first of them saw', async () => {
  const { kysely } = db.database
  await learnPrice(kysely, subject, await priceKnown(kysely, subject), page(240, 130))
  const before = await priceKnown(kysely, subject)
  // Both were asked for while the old price counted; the second one waits for the first.
  await Promise.all([
    kysely.transaction().execute((trx) => learnPrice(trx, subject, before, page(240, 600))),
    kysely.transaction().execute((trx) => learnPrice(trx, subject, before, page(120, 300))),
  ])
  expect((await counts()).dropped).toBe(1)
  expect((await priceKnown(kysely, subject)).bills.map(({ credits }) => credits)).toContain(600)
})

test('a bill that the price explains adds nothing', async () => {
  const { kysely } = db.database
  const first = await learnPrice(kysely, subject, await priceKnown(kysely, subject), page(240, 600))
  const second = await learnPrice(kysely, subject, first, page(120, 300))
  const third = await learnPrice(kysely, subject, second, page(60, 150))
  expect(third).toEqual(await priceKnown(kysely, subject))
  expect((await counts()).dropped).toBe(0)
})

test('pages whose bill nobody could see count in a budget as much as those whose bill was seen; without any they are unknown', async () => {
  const { kysely, pool } = db.database
  const planning = walk('a.com')
  await plan(db, planning, january)
  const { account, pipeline } = planning.definition
  const pipelineId = await pipelineIdOf(db, planning.definition)
  const book = (slot: number, requests: number, credits: number, unpriced: number) =>
    pool.query(
      `insert into etl.request_credits (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
        select (now() at time zone 'UTC')::date, $1, pipeline_id, tag_set_id, true, $3, $4, $5, 0, $6 from etl.pipelines where pipeline_id = $2`,
      [account, pipelineId, slot, requests, credits, unpriced],
    )
  const spent = async () => (await spentOf(kysely, { account, pipeline: null }, pipeline)).day
  await book(1, 3, 0, 3)
  expect(await spent()).toBe(0)
  await book(2, 3, 80, 1)
  expect(await spent()).toBe(240)
})
