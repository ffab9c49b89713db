// A report is loaded only when its rows agree with the service's count, whatever that counts: learnt, settled, and held where it differs.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { metricsOf } from '../../src/core/request-digest.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { type JobWork, nothingPaid } from '../../src/run/job-work.ts'
import { isEtlError } from '../../src/core/errors.ts'
import { silentLog } from '../../src/core/log.ts'
import { dataPointReadings } from '../../src/web/reads/read-quota.ts'
import { judgeHeldAgain } from '../../src/ledger/data-points.ts'
import { settleJob } from '../../src/run/settle.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { jobRow } from '../support/ledger-answers.ts'
import {
  claimed,
  emptyTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine,
  workOn,
} from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let shipped: Definition
let kit: LoadKit

beforeAll(async () => {
  shipped = await shippedDefinition('traffic_and_engagement')
})
beforeEach(async () => {
  await open()
})

const open = async (report: Partial<Definition['report']> = {}): Promise<void> => {
  await emptyTraffic(db)
  const definition = { ...shipped, report: { ...shipped.report, ...report }, limits: { ...shipped.limits, rejectShare: 0.5 } }
  kit = await openLoading(db, definition)
}
/** Units of several rows, and no data tests, which would look for repeated keys where one fails. */
const openDaily = async (report: Partial<Definition['report']> = {}): Promise<void> => {
  await open(report)
  const params = { ...shipped.params, granularity: 'daily' }
  kit = await openLoading(db, { ...kit.definition, params, period: { every: 'day', isInKey: true }, tests: [] })
}

const domains = ['a.com', 'b.com', 'c.com', 'd.com']
const box = (month = '2026-01', last = month): Box => boxOf(kit.definition, month, { domain: domains, country: 'us' }, last)
/** Six metrics a row; `empty` of them have no value. */
const row = (domain: string, empty = 0, month = '2026-01'): string =>
  `${month}-01,${domain},us,${Array.from({ length: 6 }, (_, at) => (at < 6 - empty ? at + 1 : '')).join(',')}`
const whole = (month = '2026-01'): string[] => domains.map((domain, at) => row(domain, at === 0 ? 1 : 0, month))
const counts = { rows: 4, cells: 24, non_empty_cells: 23 }

const load = async (lines: readonly string[], dataPoints: number | null, asked = box()) => {
  const work = await workOn(kit, asked)
  return { work, result: loadBody(kit, work, { body: csv(...lines), dataPoints }) }
}
const loaded = async (lines: readonly string[], dataPoints: number | null, asked = box()) =>
  (await load(lines, dataPoints, asked)).result
const outcome = (result: Promise<unknown>): Promise<string> =>
  result.then(
    () => 'loaded',
    (error: unknown) => (isEtlError(error) ? `${error.code}: ${error.message}` : String(error)),
  )
const refused = async (lines: readonly string[], dataPoints: number | null, asked = box()): Promise<string> =>
  outcome((await load(lines, dataPoints, asked)).result)
const known = async (): Promise<string[]> =>
  (await dataPointReadings(db.database.kysely)).map(({ dataset, readings }) => `${dataset}: ${readings.join()}`)
const dataset = 'web-analytics.report/traffic_and_engagement'
const rowsLoaded = async (): Promise<number> => (await db.query('select from data.traffic_and_engagement_v1')).length

describe('what a data point is', () => {
  test.each(Object.entries(counts))('is learnt from a report that agrees by its %s', async (reading, count) => {
    expect(await loaded(whole(), count)).toMatchObject({ inserted: 4 })
    expect(await known()).toEqual([`${dataset}: ${reading}`])
    for (const [other, wrong] of Object.entries(counts))
      if (other !== reading) expect(await refused(whole('2026-02'), wrong, box('2026-02'))).toMatch(/^INCOMPLETE/)
    expect(await rowsLoaded()).toBe(4)
  })

  test.each(Object.entries(counts))('is learnt from a first report counted by its %s in one go', async (reading, count) => {
    const over: unknown[] = []
    const log = { ...silentLog, debug: (...said: unknown[]) => over.push(said) }
    kit = { ...kit, runtime: { ...kit.runtime, log } }
    const full = domains.map((domain) => row(domain))
    const [lines, announced] = reading === 'non_empty_cells' ? [whole(), count] : [full, count]
    await loaded(lines, announced)
    await loaded(
      lines.map((line) => line.replace('2026-01', '2026-02')),
      announced,
      box('2026-02'),
    )
    expect(over).toEqual([])
    expect((await known())[0]).toContain(reading)
  })

  test('is learnt from distinct rows where the first report repeats some', async () => {
    // Beside loaded rows: what is repeated shows once all of it is there. Six times four rows are as many as four rows have cells.
    const full = domains.map((domain) => row(domain))
    await loaded(whole(), null)
    const repeated = Array.from({ length: 6 }, () => full).flat()
    expect(await loaded(repeated, 24)).toMatchObject({ updated: 1, duplicates: 20 })
    expect(await known()).toEqual([`${dataset}: cells,non_empty_cells`])
  })

  test('stays open while a report agrees in several ways, and what a good one rules out is not accepted again', async () => {
    const full = domains.map((domain) => row(domain))
    await loaded(full, 24)
    expect(await known()).toEqual([`${dataset}: cells,non_empty_cells`])
    expect(await refused(whole('2026-02'), 4, box('2026-02'))).toMatch(/counts cells or cells with a value/)
    await loaded(whole('2026-02'), 23, box('2026-02'))
    expect(await known()).toEqual([`${dataset}: non_empty_cells`])
    expect(await refused(whole('2026-03'), 24, box('2026-03'))).toMatch(/^INCOMPLETE/)
  })

  test('is not learnt from a report that says nothing, or is empty', async () => {
    await loaded(whole(), null)
    expect(await known()).toEqual([])
    await loaded([], 0, box('2026-02'))
    expect(await known()).toEqual([`${dataset}: rows,cells,non_empty_cells`])
  })

  test('can be said in the definition, which then teaches nothing', async () => {
    await open({ dataPoints: 'rows' })
    expect(await refused(whole(), 24)).toMatch(/^INCOMPLETE/)
    expect(await loaded(whole(), 4)).toMatchObject({ inserted: 4 })
    await open({ dataPoints: 'ignore' })
    expect(await loaded(whole('2026-02'), 17, box('2026-02'))).toMatchObject({ inserted: 4 })
    expect(await known()).toEqual([])
  })

  test('counts the values of metrics that only the one who bought the report takes', async () => {
    const metrics = metricsOf(shipped)
    const few = shipped.columns.filter(({ name }) => !['mobile_visits', 'desktop_visits', 'all_page_views'].includes(name))
    kit = await openLoading(db, { ...kit.definition, columns: few, tests: [] })
    const loads = async (lines: readonly string[], dataPoints: number, month: string): Promise<string> =>
      outcome(loadBody(kit, await workOn(kit, box(month)), { body: csv(...lines), dataPoints, metrics }))
    expect(await loads(whole(), 23, '2026-01')).toBe('loaded')
    expect(await known()).toEqual([`${dataset}: non_empty_cells`])
    // An unreadable record is left out with all its values.
    const bad = whole('2026-02').map((line) => line.replace(/^(.*d\.com,us),1/, '$1,x'))
    expect(await loads(bad, 23, '2026-02')).toBe('loaded')
    expect(await loads(whole('2026-03').slice(1), 23, '2026-03')).toMatch(/^INCOMPLETE.*3 rows .18 cells, 18 of them not empty/)
    expect(await loads([...whole('2026-04'), row('b.com', 0, '2026-04')], 23, '2026-04')).toBe('loaded')
  })

  test('is learnt for the account that bought the report, whoever loads it', async () => {
    const bought = await workOn(kit, box(), { set: { account: 'acme' } })
    expect(await loadBody(kit, bought, { body: csv(...whole()), dataPoints: 4 })).toMatchObject({ inserted: 4 })
    expect(await loaded(whole('2026-02'), 23, box('2026-02'))).toMatchObject({ inserted: 4 })
    expect(await db.query('select account, readings from etl.data_point_readings order by account')).toEqual([
      { account: 'acme', readings: ['rows'] },
      { account: 'default', readings: ['non_empty_cells'] },
    ])
  })

  test('two first reports judged at once narrow each other', async () => {
    const full = domains.map((domain) => row(domain))
    const [first, second] = [await workOn(kit, box()), await workOn(kit, box('2026-02'))]
    await Promise.all([
      loadBody(kit, first, { body: csv(...full), dataPoints: 24 }),
      loadBody(kit, second, { body: csv(...whole('2026-02')), dataPoints: 23 }),
    ])
    expect(await known()).toEqual([`${dataset}: non_empty_cells`])
  })
})

describe('a report that is not whole', () => {
  test.each([
    ['half of it', whole().slice(0, 2)],
    ['a row less', whole().slice(1)],
    ['nothing', []],
  ])('%s is not loaded, be it the first or a later one', async (_, lines) => {
    for (const count of Object.values(counts)) {
      await db.query('truncate etl.data_point_readings')
      expect(await refused(lines, count)).toMatch(/^INCOMPLETE.*announces/)
      await loaded(whole('2026-02'), count, box('2026-02'))
      expect(await refused(lines, count)).toMatch(/^INCOMPLETE/)
      await db.query('truncate data.traffic_and_engagement_v1')
    }
  })

  test('a row more is not loaded', async () => {
    for (const count of [3, 18, 17]) expect(await refused(whole(), count)).toMatch(/^INCOMPLETE/)
  })

  test('half a report counted by rows is no whole one counted by the cells of two metrics', async () => {
    const two = { ...shipped, columns: shipped.columns.filter(({ name }) => !/mobile|unique|all_page/.test(name)), tests: [] }
    await db.query('truncate etl.pipelines cascade')
    kit = await openLoading(db, two)
    const small = (...names: string[]): string =>
      `date,domain,country,all_traffic_visits,desktop_visits\n${names.map((name) => `2026-01-01,${name},us,1,2\n`).join('')}`
    const half = await workOn(kit, box())
    await expect(loadBody(kit, half, { body: small('a.com', 'b.com'), dataPoints: 4 })).rejects.toThrow(
      /as many rows may have been meant/,
    )
    const all = await workOn(kit, box())
    expect(await loadBody(kit, all, { body: small(...domains), dataPoints: 8 })).toMatchObject({ inserted: 4 })
  })

  test('identical rows count once, rejected ones count', async () => {
    await loaded(whole(), 24)
    const again = whole('2026-02')
    expect(await loaded([...again, again[1] ?? ''], 24, box('2026-02'))).toMatchObject({ inserted: 4, duplicates: 1 })
    const lacking = [...again.slice(0, 3), again[1] ?? '']
    expect(await refused(lacking, 24, box('2026-02'))).toMatch(/INCOMPLETE.* 3 rows/)
    const bad = whole('2026-03').map((line, at) => (at === 3 ? line.replace(/6$/, 'x') : line))
    expect(await loaded(bad, 24, box('2026-03'))).toMatchObject({ inserted: 3, unitsHeld: 1 })
  })
})

describe('a row that comes twice in a unit that is left out hides none that another unit lacks', () => {
  const both = ['a.com', 'b.com']
  const days = (domain: string, many: number): string[] =>
    Array.from({ length: many }, (_, day) => trafficLine(`2026-01-0${day + 1}`, domain, '1'))
  const pair = (domain = both): Box => boxOf(kit.definition, '2026-01', { domain, country: 'us' })

  test.each(['learn', 'rows'] as const)('where it is held, data_points: %s', async (rule) => {
    await openDaily({ dataPoints: rule })
    await loaded([...days('a.com', 6), ...days('b.com', 4)], 10, pair())
    const lacking = [...days('a.com', 1), ...days('a.com', 1), ...days('b.com', 3)]
    expect(await refused(lacking, 5, pair())).toMatch(/INCOMPLETE.* 4 rows .*announces 5/)
    expect(await rowsLoaded()).toBe(10)
    const whole = [...days('a.com', 1), ...days('a.com', 1), ...days('b.com', 4)]
    expect(await loaded(whole, 5, pair())).toMatchObject({ unitsHeld: 1, unitsLoaded: 1, unchanged: 4 })
  })

  test('where it holds a newer answer', async () => {
    await openDaily()
    await loaded(whole('2026-02'), 4, box('2026-02'))
    const older = await workOn(kit, pair())
    await loaded(days('a.com', 4), 4, pair(['a.com']))
    const lacking = csv(...days('a.com', 4), ...days('a.com', 1), ...days('b.com', 3))
    expect(await outcome(loadBody(kit, older, { body: lacking, dataPoints: 8 }))).toMatch(/INCOMPLETE.* 7 rows .*announces 8/)
    expect(await rowsLoaded()).toBe(8)
  })

  test('where it is no unit of the job, which takes a part of the report', async () => {
    await openDaily()
    await loaded(whole('2026-02'), 4, box('2026-02'))
    const bought = await workOn(kit, pair())
    const lacking = csv(...days('a.com', 3), ...days('b.com', 4), ...days('b.com', 1))
    const asPart = async (dataPoints: number): Promise<string> => {
      const part = await workOn(kit, pair(['a.com']), { set: { answer_id: String(bought.claim.askNumber) } })
      return outcome(loadBody(kit, part, { body: lacking, dataPoints }))
    }
    expect(await outcome(loadBody(kit, bought, { body: lacking, dataPoints: 8 }))).toMatch(/INCOMPLETE/)
    expect(await asPart(8)).toMatch(/INCOMPLETE.* 7 rows .*announces 8/)
    expect(await rowsLoaded()).toBe(4)
    expect(await asPart(7)).toBe('loaded')
    expect(await rowsLoaded()).toBe(7)
  })
})

describe('a report that disagrees', () => {
  test('is downloaded once more, then held as it came; a person’s word loads it', async () => {
    await loaded(whole('2026-02'), 24, box('2026-02'))
    const work = await workOn(kit, box(), { set: { report_state: 'ready', report_id: 'r-1' } })
    const half = { body: csv(...whole().slice(0, 2)), dataPoints: 24 }
    const fail = (one: typeof work) =>
      loadBody(kit, one, half).then(
        () => 'loaded',
        (error: unknown) => settleJob(kit.runtime, one.claim, nothingPaid(), error),
      )
    await fail(work)
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({
      state: 'open',
      report_state: 'ready',
      answer_id: null,
      error_code: 'INCOMPLETE',
    })
    await db.query('update etl.jobs set not_before = null where job_id = $1', [work.claim.jobId])
    await fail(await claimed(kit, work.claim.jobId))
    const held = await jobRow(db, work.claim.jobId)
    expect(held).toMatchObject({ state: 'held', report_state: 'downloaded', error_code: 'INCOMPLETE' })
    expect(held.answer_id).not.toBeNull()
    expect(held.error_message).toMatch(/2 rows \(12 cells\) arrived, the service announces 24 data points.*release/)
    expect(await rowsLoaded()).toBe(4)
    await db.query(`update etl.jobs set state = 'open', released = true, attempts = 0 where job_id = $1`, [work.claim.jobId])
    await db.query(
      `insert into etl.run_jobs (run_id, job_id, priority, units) values ($1, $2, 0, 4) on conflict (run_id, job_id) do update set outcome = null`,
      [kit.runId, work.claim.jobId],
    )
    expect(await loadBody(kit, await claimed(kit, work.claim.jobId), { dataPoints: 24 })).toMatchObject({ inserted: 2 })
  })

  describe('to a job that did not buy it', () => {
    const set = { report_state: 'ready', report_id: 'r-1' } as const
    const settled = async (work: JobWork, lines: readonly string[], dataPoints: number): Promise<string> => {
      await loadBody(kit, work, { body: csv(...lines), dataPoints }).catch((error: unknown) =>
        settleJob(kit.runtime, work.claim, nothingPaid(), error),
      )
      return stateOf(work)
    }
    const stateOf = async ({ claim }: JobWork): Promise<string> => String((await jobRow(db, claim.jobId)).state)
    const judgedAgain = async (work: JobWork): Promise<string> => {
      const [whose, span] = [{ account: 'default', dataset }, box().window]
      await db.database.kysely.transaction().execute((trx) => judgeHeldAgain(trx, kit.pipeline.pipelineId, whose, span))
      return stateOf(work)
    }
    const half = whole().slice(0, 2)

    test('is loaded once the report has become whole', async () => {
      await loaded(whole('2026-02'), 23, box('2026-02'))
      const buyer = await workOn(kit, box(), { set })
      const failure = await loadBody(kit, buyer, { body: csv(...half), dataPoints: 23 }).catch((error: unknown) => error)
      const served = await workOn(kit, box(), { set: { answer_id: String(buyer.claim.askNumber) } })
      expect(await settled(served, half, 23)).toBe('held')
      await settleJob(kit.runtime, buyer.claim, nothingPaid(), failure)
      expect(await judgedAgain(served)).toBe('held')
      await db.query('update etl.jobs set not_before = null where job_id = $1', [buyer.claim.jobId])
      expect(await settled(await claimed(kit, buyer.claim.jobId), whole(), 23)).toBe('done')
      expect(await judgedAgain(served)).toBe('open')
    })
  })
})

test('units that the answer has no row for are on record with the load', async () => {
  const lines = [row('a.com'), row('c.com'), row('b.com', 0, '2026-02')]
  await loaded(lines, 18, box('2026-01', '2026-02'))
  const rows = await db.query<{ window_from: string; names: string[] }>(`select window_from::text,
    (select array_agg(s."values"[array_position(p.dimensions, 'domain')] order by s."values") from etl.slices s join etl.pipelines p using (pipeline_id)
      where s.slice_id = any(l.slices_without_rows)) as names
    from etl.loads l order by window_from`)
  expect(rows).toEqual([
    { window_from: '2026-01-01', names: ['b.com', 'd.com'] },
    { window_from: '2026-02-01', names: ['a.com', 'c.com', 'd.com'] },
  ])
})

test.each([
  ['what it holds', 'asked', ['visits'], true],
  ['a metric that it lacks', 'asked', ['pages'], false],
  ['anything where it was asked for with other parameters', 'other', ['visits'], false],
])('a report serves a job that asks for %s', async (_, asks, metrics, serves) => {
  const buyer = await workOn(kit, box(), { set: { report_state: 'ready', report_id: 'r-1' } })
  await loadBody(kit, buyer, { body: csv(...whole()), dataPoints: 24 })
  await db.query(
    `update etl.answer_rows set shape_id = etl.shape_of($1, '{visits}', null, null, null, null, '{}', '{}') where job_id = $2`,
    [asks, buyer.claim.jobId],
  )
  await db.query(`update etl.pipelines set definition = jsonb_build_object('metrics', $1::text[]) where pipeline_id = $2`, [
    metrics,
    kit.pipeline.pipelineId,
  ])
  const served = workOn(kit, box('2026-02'), { set: { served_by: String(buyer.claim.jobId), ask_number: null } })
  if (serves) expect((await served).claim.askNumber).toBe(buyer.claim.askNumber)
  else await expect(served).rejects.toThrow('cannot be claimed')
})
