// An answer for one unit: proved complete before anything is written, held where it would rob the unit, skipped where a newer one is loaded.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { dropAnswer, insertAnswer, isLandingKnown } from '../../src/ledger/answers.ts'
import { markUnchanged } from '../../src/ledger/loads.ts'
import { recordRefusal } from '../../src/run/judge.ts'
import { createParseReport } from '../../src/parse/parse-report.ts'
import type { JobWork } from '../../src/run/job-work.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { jobRow, setJob, unitRows } from '../support/ledger-answers.ts'
import { claimed, type LoadKit, loadBody, openLoading, trafficCsv as csv, trafficLine, workOn } from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit
let box: Box

beforeAll(async () => {
  const shipped = await shippedDefinition('traffic_and_engagement')
  const params = { ...shipped.params, granularity: 'daily' }
  definition = {
    ...shipped,
    params,
    period: { every: 'day', isInKey: true },
    limits: { ...shipped.limits, rejectShare: 0.4, shrink: 0.5 },
  }
  box = boxOf(definition, '2026-01', { domain: 'a.com', country: 'us' })
})
beforeEach(async () => {
  await db.query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history')
  await db.query('truncate etl.pipelines, etl.slices, etl.jobs, etl.units, etl.windows, etl.quarantine, etl.requests cascade')
  kit = await openLoading(db, definition)
})

const day = (at: number, visits: string, domain = 'a.com'): string => trafficLine(`2026-01-0${at}`, domain, visits)
const days = (...visits: readonly string[]): string[] => visits.map((one, at) => day(at + 1, one))
const load = async (lines: readonly string[], choice: { expectedRows?: number; sha256?: string } = {}) => {
  const work = await workOn(kit, box)
  return { work, result: await loadBody(kit, work, { body: csv(...lines), ...choice }) }
}
const now = async (): Promise<string[]> =>
  (
    await db.query<{ text: string }>(
      `select extract(day from date) || ': ' || all_traffic_visits || ' r' || _revision as text from data.traffic_and_engagement_v1 order by date`,
    )
  ).map(({ text }) => text)
const verdicts = async () =>
  (await db.query<{ verdict: string | null }>('select verdict from etl.answers order by answer_id')).map(({ verdict }) => verdict)

describe('an announced number of rows', () => {
  test('is met by distinct rows, copies aside', async () => {
    expect((await load([...days('1', '2'), day(2, '2')], { expectedRows: 2 })).result).toMatchObject({
      read: 3,
      inserted: 2,
      duplicates: 1,
    })
    expect((await load(days('1', '2'), { expectedRows: 2 })).result).toMatchObject({ unchanged: 2 })
  })

  test.each([
    ['too few rows', days('5'), 2],
    ['too many', days('5', '6', '7'), 2],
    ['as many, one of them twice', [...days('5'), day(1, '5')], 2],
  ])(
    'that is not met, with %s, changes no data: the verdict is kept, the job goes on, its requests are not lost',
    async (_, lines, expectedRows) => {
      await load(days('1', '2'))
      const before = [
        await now(),
        await db.query('select * from etl.loads'),
        await db.query('select * from etl.units where job_id is null'),
      ]
      const work = await workOn(kit, box)
      await expect(loadBody(kit, work, { body: csv(...lines), expectedRows })).rejects.toMatchObject({ code: 'INCOMPLETE' })
      expect(await now()).toEqual(before[0])
      expect(await db.query('select * from etl.loads')).toEqual(before[1])
      expect(await verdicts()).toEqual(['good', 'INCOMPLETE'])
      expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'open', answer_id: expect.any(String) })
      expect(work.requests).toHaveLength(1)
      // A good one says nothing of another.
      await load(days('1', '2'))
      expect(await verdicts()).toEqual(['good', 'INCOMPLETE', 'good'])
    },
  )
})

test('what an answer was refused for is over once it is loaded, and is not said of a unit that is held with it', async () => {
  const messages = async () => (await db.query('select verdict, verdict_message from etl.answers order by answer_id')) as unknown
  const work = await workOn(kit, box)
  await expect(loadBody(kit, work, { body: csv(...days('1')), expectedRows: 2 })).rejects.toMatchObject({ code: 'INCOMPLETE' })
  const again = async (refused: typeof work) => {
    const answer_id = String((await jobRow(db, refused.claim.jobId)).answer_id)
    return loadBody(kit, await workOn(kit, box, { set: { answer_id, ask_number: refused.claim.askNumber, forced: true } }), {
      expectedRows: 1,
    })
  }
  await again(work)
  expect(await messages()).toEqual([{ verdict: 'good', verdict_message: null }])
  await load(days('1', '2', '3', '4'))
  const other = await workOn(kit, box)
  await expect(loadBody(kit, other, { body: csv(...days('1')), expectedRows: 3 })).rejects.toMatchObject({ code: 'INCOMPLETE' })
  const shrunk = await workOn(kit, box)
  await expect(loadBody(kit, shrunk, { body: csv(...days('1')), expectedRows: 2 })).rejects.toMatchObject({ code: 'INCOMPLETE' })
  await again(shrunk)
  expect(await messages()).toContainEqual({ verdict: 'good', verdict_message: expect.stringMatching(/^SHRUNK: [^\n]*$/) })
  // The other answer is as bad as before.
  expect(await messages()).toContainEqual({ verdict: 'INCOMPLETE', verdict_message: expect.any(String) })
})

describe('rows that conflict', () => {
  test('are rejects: within their limit they are kept out, beyond it the answer is refused and some are kept for a look', async () => {
    const lines = days('1', '2', '3', '4')
    expect((await load([...lines, day(4, '9')])).result).toMatchObject({ read: 5, inserted: 3, quarantined: 2 })
    const bad = load([day(1, '1'), day(1, '2'), day(2, '1')])
    await expect(bad).rejects.toMatchObject({ code: 'TOO_MANY_REJECTS', message: expect.stringContaining('2 of 3 rows') })
    expect(await now()).toEqual(['1: 1 r1', '2: 2 r1', '3: 3 r1'])
    const kept = await db.query(
      `select q.line::int, q.unit_id = u.unit_id as own, q.state from etl.quarantine q, etl.units u order by quarantine_id`,
    )
    expect(kept).toEqual([
      { line: 5, own: true, state: 'open' },
      { line: 6, own: true, state: 'open' },
      { line: 2, own: true, state: 'open' },
      { line: 3, own: true, state: 'open' },
    ])
    await load(lines)
    expect(await db.query(`select 1 from etl.quarantine where state = 'open'`)).toEqual([])
  })
})

describe('an older answer', () => {
  test('asked for again by a unit that a newer job waits for leaves that job asking', async () => {
    const first = await workOn(kit, box)
    const second = await workOn(kit, box)
    await loadBody(kit, first, { body: csv(...days('1')) })
    expect(await unitRows(db, kit.pipeline)).toMatchObject([{ job_id: String(second.claim.jobId) }])
  })
})

describe('an answer that still stands', () => {
  test('is recorded as such: no row is touched, the job is done, and older answers asked for in between come too late', async () => {
    const { work } = await load(days('1'), { expectedRows: 1 })
    const between = await workOn(kit, box)
    const probe = await workOn(kit, box)
    expect(probe.claim.loaded).toMatchObject({ fingerprint: { lastUpdated: '2026-02-03', count: 1 } })
    await db.database.kysely
      .transaction()
      .execute((trx) => markUnchanged(trx, probe.claim, { lastUpdated: '2026-03-03', count: 1 }))
    expect(await db.query('select outcome, rows_read from etl.loads order by load_id desc limit 1')).toEqual([
      { outcome: 'unchanged', rows_read: '0' },
    ])
    expect(await db.query('select source_last_updated, stood_at is not null as stood from etl.answers')).toEqual([
      { source_last_updated: '2026-03-03', stood: true },
    ])
    expect(await jobRow(db, probe.claim.jobId)).toMatchObject({ state: 'done' })
    expect(await loadBody(kit, between, { body: csv(...days('2')) })).toMatchObject({ unitsSkipped: 1 })
    const answerId = (await jobRow(db, work.claim.jobId)).answer_id
    expect(await unitRows(db, kit.pipeline)).toMatchObject([{ answer_id: answerId, job_id: null }])
  })

  test('stands in the window that was asked about alone: the others of the same answer take what was asked for in between', async () => {
    const all = { domain: ['a.com', 'b.com'], country: 'us' }
    const months = (first: string, last: string, slice: Parameters<typeof boxOf>[2]) => boxOf(definition, first, slice, last)
    const line = ({ window }: Box, domain: string) => trafficLine(window.from, domain, '9')
    const whole = months('2026-01', '2026-03', all)
    const lines = ['01', '02', '03'].flatMap((month) =>
      ['a.com', 'b.com'].map((one) => trafficLine(`2026-${month}-01`, one, month)),
    )
    await loadBody(kit, await workOn(kit, whole), { body: csv(...lines) })
    const others = [
      ['2026-01', 'a.com'],
      ['2026-03', 'a.com'],
      ['2026-02', 'b.com'],
    ] as const
    const between: [JobWork, string][] = []
    for (const [month, domain] of others)
      between.push([await workOn(kit, months(month, month, { domain, country: 'us' })), domain])
    const probe = await workOn(kit, months('2026-02', '2026-02', { domain: 'a.com', country: 'us' }))
    await db.database.kysely.transaction().execute((trx) => markUnchanged(trx, probe.claim, { lastUpdated: null, count: 6 }))
    for (const [work, domain] of between)
      expect(await loadBody(kit, work, { body: csv(line(work.claim.box, domain)) })).toMatchObject({ unitsLoaded: 1 })
  })
})

describe('an answer on record', () => {
  const landed = {
    locator: 'here',
    sha256: 'ab',
    bytes: 1,
    fingerprint: { lastUpdated: null, count: null },
    dataPoints: 7,
    asks: 'a',
    metrics: ['m'],
  }

  test('keeps its number when its bytes turn out unusable and are downloaded once more', async () => {
    const work = await workOn(kit, box, { set: { report_state: 'ready', report_id: 'r1' } })
    const answerId = await insertAnswer(db.database.kysely, work.claim, landed)
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ answer_id: String(answerId), report_state: 'downloaded' })
    await dropAnswer(db.database.kysely, work.claim)
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ answer_id: null, report_state: 'ready' })
    expect(await insertAnswer(db.database.kysely, work.claim, { ...landed, locator: 'over/there' })).toBe(answerId)
    expect(await db.query('select landing, data_points_count, metrics, verdict from etl.answers')).toEqual([
      { landing: 'over/there', data_points_count: '7', metrics: ['m'], verdict: null },
    ])
  })

  test('takes the place of the pages that were kept for it', async () => {
    const work = await workOn(kit, box, { set: { begun_landing: 'half/of/it' } })
    await insertAnswer(db.database.kysely, work.claim, landed)
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ begun_landing: null })
  })

  test('is known by its number and its landing, and by a whole landing name alone', async () => {
    const work = await workOn(kit, box)
    const answerId = String(await insertAnswer(db.database.kysely, work.claim, { ...landed, locator: 'over/there-1' }))
    const other = await workOn(kit, box)
    const short = String(await insertAnswer(db.database.kysely, other.claim, landed))
    const [own] = await db.query<{ landing: string }>('select landing from etl.answers where answer_id = $1', [short])
    const known = (locator: string, askNumber: string | null) => isLandingKnown(db.database.kysely, { locator, askNumber })
    expect([await known('over/there-1', answerId), await known('over/there-1', null)]).toEqual([true, true])
    expect([await known(own?.landing ?? '', short), await known(own?.landing ?? '', null)]).toEqual([true, false])
    expect([await known('over/there-2', answerId), await known('here', null)]).toEqual([false, false])
  })

  test('is written by its holder alone', async () => {
    const work = await workOn(kit, box)
    await setJob(db, work.claim.jobId, { holder: null })
    await claimed(kit, work.claim.jobId)
    await expect(insertAnswer(db.database.kysely, work.claim, landed)).rejects.toMatchObject({ code: 'FENCED' })
    expect(await db.query('select 1 from etl.answers')).toEqual([])
  })

  test('that was nothing but rejects keeps some of them, once however often it fails', async () => {
    const work = await workOn(kit, box)
    const answerId = await insertAnswer(db.database.kysely, work.claim, landed)
    const parsed = createParseReport()
    for (let at = 1; at <= 1_005; at += 1)
      parsed.rejected.push({
        ...{ part: 1, line: at, column: null, reason: 'r', raw: 'x', key: null },
        ...{ unit: 0, window: 0, slice: 0, isUnasked: false },
      })
    const refusal = { code: 'TOO_MANY_REJECTS', message: null } as const
    for (let time = 1; time <= 2; time += 1) await recordRefusal(work, answerId, refusal, parsed.rejected)
    expect(
      await db.query(
        `select state, count(*)::int as n, count(unit_id)::int as known from etl.quarantine group by state order by state`,
      ),
    ).toEqual([
      { state: 'open', n: 1_000, known: 1_000 },
      { state: 'superseded', n: 1_000, known: 1_000 },
    ])
    expect(await verdicts()).toEqual(['TOO_MANY_REJECTS'])
  })
})
