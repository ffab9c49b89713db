// What a month comes to, by the prices that bills taught: the same that plan, guard and budgets count with.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { databaseMs } from '../../src/db/database-clock.ts'
import type { Source } from '../../src/extract/source.ts'
import { pricesOf } from '../../src/plan/price.ts'
import type { Scope } from '../../src/plan/frames.ts'
import { type Forecast, forecasts } from '../../src/ledger/month-end.ts'
import { definitionFor, plan, preview, previewAll, runtimeFor, sourceOf } from '../support/planning.ts'
import { pipelineIdOf, submitted } from '../support/plan-ledger.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase({ each: true })

/** The day before the one on which the service publishes a month. */
const dayBefore = async (): Promise<number> => {
  const { rows } = await sql<{ readonly day: string }>`
    select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM') || '-09' as day`.execute(db.database.kysely)
  return Date.parse(`${rows[0]?.day}T20:00:00Z`)
}

const forecastOf = async (source: Source, definition: Definition): Promise<Forecast | undefined> => {
  const runtime = runtimeFor(db, { source, definition }) as unknown as Parameters<typeof pricesOf>[0]
  const all = await forecasts(db.database.kysely, await dayBefore(), pricesOf(runtime, [definition]))
  return all.find(({ pipeline }) => pipeline === definition.pipeline)
}

const range = (from: string, to: string): Scope => ({ mode: 'range', rangeOf: () => ({ from, to }), only: null })

const domains = ['a.com', 'b.com', 'c.com']

/** A report of each domain, one after the other in the days before, at these prices. */
const bought = async (source: Source, definition: Definition, prices: readonly number[]): Promise<void> => {
  await plan(db, { source, definition }, range('2025-01-01', '2025-02-01'))
  const pipelineId = await pipelineIdOf(db, definition)
  const { rows } = await sql<{ readonly id: number }>`
    select job_id::int as id from etl.jobs where pipeline_id = ${pipelineId} order by job_id`.execute(db.database.kysely)
  expect(rows).toHaveLength(prices.length)
  const last = await dayBefore()
  for (const [index, price] of prices.entries()) {
    const at = new Date(last - (prices.length - index) * 3_600_000).toISOString()
    const set = { used_quota: price, report_state: 'downloaded', state: 'done', created_at: at, asked_at: at } as const
    await submitted(db, rows[index]?.id ?? 0, set)
  }
}

test('reports cost what the newest bills say, not the mean of a former price and theirs', async () => {
  const source = sourceOf({ kind: 'report', mostPerRequest: 1 })
  const definition = definitionFor(
    source,
    { domains: [...domains, 'd.com', 'e.com'] },
    { lookBack: 1, publication: { publishedOn: 10, restatedOn: [], timeZone: 'UTC' } },
  )
  await bought(source, definition, [100, 100, 100, 10, 10])
  expect(await forecastOf(source, definition)).toMatchObject({ spent: 320, forecast: 320 + 5 * 10, range: null })
})

test('a price that nobody knows is no number, but the range that others paid', async () => {
  const source: Source = {
    ...sourceOf({ kind: 'walk' }),
    billing: {
      seen: [
        { basis: 'request', credits: 10 },
        { basis: 'row asked', credits: 0.08 },
      ],
    },
  }
  const publication = { publishedOn: 10, restatedOn: [15], timeZone: 'UTC' }
  const definition = definitionFor(source, { domains }, { lookBack: 0, publication })
  await plan(db, { source, definition }, range('2025-01-01', '2025-02-01'))
  expect(await forecastOf(source, definition)).toMatchObject({ forecast: null, range: { low: 30, high: 240 } })
  await sql`insert into etl.prices (account, dataset, said_in, rows_asked, rows, metrics, "values", credits)
    values (${definition.account}, ${source.name}, 'answer', 1000, 1000, 1, 1, 50)`.execute(db.database.kysely)
  expect(await forecastOf(source, definition)).toMatchObject({ forecast: 150 })
})

test('last month says what pages of this one cost, unless their price has changed since', async () => {
  const source: Source = { ...sourceOf({ kind: 'walk' }), billing: { seen: [] } }
  const definition = definitionFor(
    source,
    { domains },
    { lookBack: 0, publication: { publishedOn: 10, restatedOn: [], timeZone: 'UTC' } },
  )
  await plan(db, { source, definition }, range('2025-01-01', '2025-02-01'))
  const pipelineId = await pipelineIdOf(db, definition)
  const { kysely } = db.database
  await sql`insert into etl.request_credits (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
    select (date_trunc('month', clock_timestamp() at time zone 'UTC') - interval '1 month' + interval '27 days')::date, ${definition.account}, pipeline_id,
      tag_set_id, true, -1, 70, 700, 0, 0 from etl.pipelines where pipeline_id = ${pipelineId}`.execute(kysely)
  const bill = (credits: number) =>
    sql`insert into etl.prices (account, dataset, said_in, rows_asked, rows, metrics, "values", credits)
      values (${definition.account}, ${source.name}, 'answer', 1000, 1000, 1, 1, ${credits})`.execute(kysely)
  await bill(10)
  // Of days to come alone: from the 28th on nothing of the former month is.
  const isBefore = new Date().getUTCDate() <= 28
  expect((await forecastOf(source, definition))?.forecast).toBe(isBefore ? 700 : 0)
  await sql`update etl.prices set dropped_at = clock_timestamp()`.execute(kysely)
  await bill(50)
  expect((await forecastOf(source, definition))?.forecast).toBe(150)
})

test('the end of a month is one sum: a plan says what stands on record once it is planned, of all versions, and no more than the budget', async () => {
  const source = sourceOf({ kind: 'report', price: 7 })
  const publication = { publishedOn: 10, restatedOn: [], timeZone: 'UTC' }
  const first = definitionFor(source, { domains }, { lookBack: 0, publication })
  await bought(source, first, [21])
  const second: Definition = { ...first, version: 2, params: { ...first.params, other: 'question' } }
  const month = range('2025-03-01', '2025-04-01')
  const onRecord = async (definition: Definition) => {
    const runtime = runtimeFor(db, { source, definition }) as unknown as Parameters<typeof pricesOf>[0]
    return forecasts(db.database.kysely, await databaseMs(db.database.kysely), pricesOf(runtime, [definition]))
  }
  const planned = await previewAll(db, source, [first, second], month)
  const ends = planned.pipelines.map(({ forecast }) => forecast)
  for (const definition of [first, second]) await plan(db, { source, definition }, month)
  const [found] = await onRecord(second)
  expect(found?.forecast).toBeGreaterThanOrEqual(21 + 21 + 21)
  expect(ends).toEqual([found?.forecast, found?.forecast])
  const limited = { ...second, limits: { ...second.limits, quotaPerMonth: 40 } }
  const within = await preview(db, { source, definition: limited }, range('2025-05-01', '2025-06-01'))
  expect(within.pipelines[0]?.forecast).toBe(40)
})
