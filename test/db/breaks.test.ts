// A new method of the service in a real ledger: noticed at the end of the night that loads it, marked wherever figures are compared, followed back as months are asked for anew.
import { beforeAll, describe, expect, test } from 'vitest'
import { loadMarts } from '../../src/definition/marts.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { breakLines } from '../../src/ledger/breaks.ts'
import { offerOlder } from '../../src/plan/older-months.ts'
import { publish } from '../../src/publish/publish.ts'
import { noticeBreaks } from '../../src/run/run-jobs.ts'
import { breakCauses } from '../../src/schedule/notify/alarm-causes.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import { readStatus } from '../../src/web/reads/read-status.ts'
import { boxOf, shippedDefinition, shippedDefinitions } from '../support/definitions.ts'
import { newRun } from '../support/ledger.ts'
import { type LoadKit, loadBody, openLoading, trafficCsv, trafficLine, workOn } from '../support/loading.ts'
import { readerOf } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let kit: LoadKit

const domains = Array.from({ length: 40 }, (_, at) => `d${at}.com`)
const months = ['2026-07', '2026-08', '2026-09', '2026-10'] as const

beforeAll(async () => {
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
  kit = await openLoading(db, await shippedDefinition('traffic_and_engagement'))
})

/** What the service has of each month: how often a domain was restated by 2 %, and the factor of its method. */
const restated = new Map<string, number>()
const method = new Map<string, number>()

const visitsOf = (month: string, domain: string): string => {
  const at = domains.indexOf(domain)
  return String((1_000 + 37 * at) * 1.02 ** (restated.get(`${month} ${domain}`) ?? 0) * (method.get(month) ?? 1))
}

/** A run that asks for these months, all domains unless others are named; what it loaded is so many days old afterwards. */
const night = async (
  asked: readonly string[],
  { of = domains, command = 'run', daysAgo = 0 }: { of?: readonly string[]; command?: string; daysAgo?: number } = {},
): Promise<number> => {
  const runId = await newRun(db, kit.process.processId, command)
  for (const month of asked) {
    const work = await workOn({ ...kit, runId }, boxOf(kit.definition, month, { domain: [...of], country: 'us' }))
    await loadBody(kit, work, {
      body: trafficCsv(...of.map((domain) => trafficLine(month, domain, visitsOf(month, domain)))),
      sha256: `${runId} ${month}`,
    })
  }
  await db.query(`update etl.runs set state = 'done', command = '${command}' where run_id = ${runId}`)
  await noticeBreaks(
    {
      ...kit.runtime,
      log: Object.assign(Object.create(kit.runtime.log), { warn: (about: { error: string }) => expect.unreachable(about.error) }),
    },
    runId,
  )
  await db.query(`update etl.load_rows set loaded_at = loaded_at - interval '${daysAgo} days' where run_id = ${runId};
    update etl.pipelines set known_since = least(known_since, clock_timestamp() - interval '${daysAgo} days');
    update etl.restated set seen_at = seen_at - interval '${daysAgo} days' where run_id = ${runId}`)
  return runId
}

/** The service corrects a third of the domains. */
const correct = (month: string, turn: number): void => {
  for (const [at, domain] of domains.entries())
    if ((at + turn) % 3 === 0) restated.set(`${month} ${domain}`, (restated.get(`${month} ${domain}`) ?? 0) + 1)
}

const breaks = () =>
  db.query(
    `select starts_on::text, seen_back_to::text, kind, columns, change::float8 as change, share_changed::float8 as share from bi.breaks order by break_id`,
  )

describe('a service that changes its method', () => {
  test('is no break while it restates as usual, and what it restates is summed up by window and column', async () => {
    const noticedFrom = async () =>
      (await readStatus(db.database.kysely, [])).pipelines.map(({ breaks_noticed_from }) => breaks_noticed_from)
    await night(months)
    expect(await noticedFrom()).toEqual([expect.stringMatching(/^\d{4}-\d\d-\d\d$/)])
    await night(months, { daysAgo: 80 })
    expect(await noticedFrom()).toEqual([null])
    for (let turn = 0; turn < 4; turn += 1) {
      for (const month of months.slice(2)) correct(month, turn)
      await night(months.slice(2), { daysAgo: 60 - turn * 10 })
    }
    expect(await breaks()).toEqual([])
    expect(
      await db.query(`select distinct column_name, age, rows_compared::integer as rows, round(share::numeric, 2)::float8 as share, round(size::numeric, 3)::float8 as size
        from etl.restated order by age, share`),
    ).toEqual([
      { column_name: 'all_traffic_visits', age: 0, rows: 40, share: 0.33, size: 0.02 },
      { column_name: 'all_traffic_visits', age: 0, rows: 40, share: 0.35, size: 0.02 },
      { column_name: 'all_traffic_visits', age: 1, rows: 40, share: 0.33, size: 0.02 },
      { column_name: 'all_traffic_visits', age: 1, rows: 40, share: 0.35, size: 0.02 },
    ])
  })

  test('is no break either where a person asks for a few domains, or where one domain alone is other than before', async () => {
    for (const domain of domains.slice(0, 13)) restated.set(`2026-10 ${domain}`, 20)
    await night(['2026-10'], { of: domains.slice(0, 13) })
    expect(await breaks()).toEqual([])
  })

  test('is noticed in the first night that loads it, once, with month, size and what is usual', async () => {
    for (const month of months) method.set(month, 1.12)
    await night(['2026-09', '2026-10'])
    await night(['2026-09', '2026-10'])
    expect(await breaks()).toEqual([
      {
        ...{ starts_on: '2026-09-01', seen_back_to: '2026-09-01', kind: 'method', columns: ['all_traffic_visits'] },
        ...{ change: expect.closeTo(0.12, 2), share: 1 },
      },
    ])
    expect(await breakCauses(kit.runtime)).toMatchObject([
      {
        kind: 'break',
        message: expect.stringContaining(
          'from 2026-09-01 on the service counts by another method: 100 % of all_traffic_visits changed, by 12.0 %',
        ),
      },
    ])
  })

  test('marks what is compared across it, and answers say it', async () => {
    const marks = await db.query(`select distinct month::text, months_back, method_changed from bi.traffic_comparison
      where (month = '2026-10-01' and months_back in (1, 2)) or (month = '2026-08-01' and months_back = 1) order by 1, 2`)
    expect(marks).toEqual([
      { month: '2026-08-01', months_back: 1, method_changed: false },
      { month: '2026-10-01', months_back: 1, method_changed: false },
      { month: '2026-10-01', months_back: 2, method_changed: true },
    ])
    expect(
      await db.query(
        `select distinct month::text, method::integer from bi.coverage_months where pipeline = 'traffic_and_engagement' order by 1`,
      ),
    ).toEqual(months.map((month, at) => ({ month: `${month}-01`, method: at < 2 ? 1 : 2 })))
    expect(await db.query(`select distinct cause from bi.restatements order by 1`)).toEqual([
      { cause: 'method' },
      { cause: 'service' },
    ])
    const reader = await readerOf(db)
    const model = await loadSemantics([])
    const ask = (from: string, to: string) => answerQuery(reader, model, { metrics: ['visits'], period: { from, to }, where: [{ dimension: 'country', is: 'us' }] }) // biome-ignore format: one look
    const [across, after] = [await ask('2026-08', '2026-10'), await ask('2026-09', '2026-10')]
    await reader.close()
    expect(across.method_breaks).toEqual([
      { starts_on: '2026-09-01', columns: ['all_traffic_visits'], change: expect.closeTo(0.12, 2) },
    ])
    expect(across.notes.join(' ')).toContain(
      'From 2026-09-01 on the service counts by another method (all_traffic_visits +12 % on average)',
    )
    expect(after.method_breaks).toEqual([])
  })

  test('offers the older months with their price, and a hundredth of their cells first', async () => {
    const [line] = await breakLines(db.database.kysely, '1 day')
    const offer =
      line === undefined
        ? null
        : offerOlder(
            {
              ...kit.definition,
              dimensions: kit.definition.dimensions.map((one) => ({ ...one, values: one.name === 'domain' ? domains : ['us'] })),
            },
            line,
            2,
          )
    expect(offer).toMatchObject({
      ...{ from: '2026-07', to: '2026-08' },
      sample: {
        command: "millrace backfill traffic_and_engagement --from 2026-07 --to 2026-08 --force --only 'domain=d0.com;country=us'",
        units: 2,
        credits: 4,
      },
      all: { command: 'millrace backfill traffic_and_engagement --from 2026-07 --to 2026-08 --force', units: 80, credits: 160 },
    })
  })

  test('a sample shows how far back it goes; months that are asked for whole follow the new method from then on', async () => {
    await night(['2026-07', '2026-08'], { of: domains.slice(0, 1), command: 'backfill' })
    expect(await breaks()).toMatchObject([{ starts_on: '2026-09-01', seen_back_to: '2026-07-01' }])
    // Whole months are what the offered command buys, the sampled units with them.
    expect(await breakLines(db.database.kysely, '1 day')).toMatchObject([{ olderUnits: '80', olderWindows: '2' }])
    await night(['2026-08'], { command: 'backfill' })
    expect(await breaks()).toMatchObject([{ starts_on: '2026-08-01', seen_back_to: '2026-07-01' }])
    await night(['2026-07'], { command: 'backfill' })
    expect(await breaks()).toMatchObject([{ starts_on: '2026-07-01' }])
    expect(await breakLines(db.database.kysely, '1 day')).toMatchObject([{ oldest: null, olderUnits: '0' }])
  })

  test('is worked out of a part of the rows where there are many', async () => {
    const rows = (factor: number) =>
      Array.from({ length: 30_000 }, (_, at) => trafficLine('2026-06', `many${at}.com`, String((at + 1) * factor)))
    for (const factor of [1, 1.25]) {
      const work = await workOn({ ...kit, runId: await newRun(db, kit.process.processId) }, boxOf(kit.definition, '2026-06', { domain: rows(1).map((line) => line.split(',')[1] ?? ''), country: 'us' })) // biome-ignore format: one look
      await loadBody(kit, work, { body: trafficCsv(...rows(factor)), sha256: `many ${factor}` })
    }
    const [found] = await db.query<{
      rows: number
      shift: number
    }>(`select (changes #>> '{all_traffic_visits,rows}')::float8 as rows,
      (changes #>> '{all_traffic_visits,shift}')::float8 / (changes #>> '{all_traffic_visits,rows}')::float8 as shift from etl.loads where changes is not null order by load_id desc limit 1`)
    expect(found?.shift).toBeCloseTo(0.2, 3)
    expect(Math.abs((found?.rows ?? 0) - 30_000)).toBeLessThan(1_000)
    expect(found?.rows).not.toBe(30_000)
  })

  test('is not noticed from what is loaded again from the landing', async () => {
    for (const month of months) method.set(month, 2)
    await night(['2026-09', '2026-10'], { command: 'replay' })
    expect(await breaks()).toHaveLength(1)
  })
})
