// A packed answer, loaded window by window: unit by unit the newest wins, and what is odd about one unit stops no other.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import type { Db } from '../../src/db/tables.ts'
import { leaveRun, requestCancel } from '../../src/ledger/cancel-request.ts'
import { returnJob } from '../../src/ledger/claim-fence.ts'
import { dissolveUnsent } from '../../src/ledger/register-jobs.ts'
import { registerReplay } from '../../src/ledger/register-replay.ts'
import { runSummary } from '../../src/ledger/runs.ts'
import type { JobWork } from '../../src/run/job-work.ts'
import { settleJob } from '../../src/run/settle.ts'
import { boxOf } from '../support/definitions.ts'
import { jobRow, outcomeOf, unitRows } from '../support/ledger-answers.ts'
import {
  claimed,
  emptyTraffic,
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  workOn,
} from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit

beforeAll(async () => {
  definition = await lenientTraffic()
})
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
})

const now = async (): Promise<string[]> =>
  (
    await db.query<{
      text: string
    }>(`select to_char(date, 'YYYY-MM') || ' ' || domain || ' ' || country || ' ' || coalesce(all_traffic_visits::text, '-')
      || ' r' || _revision as text from data.traffic_and_engagement_v1 order by 1`)
  ).map(({ text }) => text)
const loads = () =>
  db.query(`select window_from, units, rows_read::int as read, rows_inserted::int as inserted, rows_updated::int as updated, rows_ended::int as ended,
    rows_unchanged::int as unchanged, rows_quarantined::int as quarantined, rows_duplicates::int as duplicates from etl.loads order by load_id`)
const quarantined = () =>
  db.query(`select coalesce(u.unit_key, '-') as unit, q.line::int as line, q.state from etl.quarantine q
    left join etl.unit_list u on u.unit_id = q.unit_id order by q.quarantine_id`)

const both = (): Box => boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' }, '2026-02')
const load = async (box: Box, ...lines: readonly string[]) => {
  const work = await workOn(kit, box)
  return { work, result: await loadBody(kit, work, { body: csv(...lines) }) }
}
const four = ['1', '2', '3', '4'].map((visits, place) =>
  line(place < 2 ? '2026-01' : '2026-02', place % 2 === 0 ? 'a.com' : 'b.com', visits),
)

/** A job that loads an answer again, or a part of it. */
const again = (work: JobWork, answerId: number, box: Box, set: Record<string, unknown> = {}) =>
  workOn(kit, box, { set: { answer_id: answerId, ask_number: work.claim.askNumber, forced: true, ...set } })
const answerOf = async (work: JobWork): Promise<number> => Number((await jobRow(db, work.claim.jobId)).answer_id)

describe('a packed answer', () => {
  test('goes to its units window by window, each row with its own unit; the job is done with the last', async () => {
    const { work, result } = await load(both(), ...four)
    expect(result).toMatchObject({ read: 4, inserted: 4, unitsLoaded: 4, unitsHeld: 0, unitsSkipped: 0 })
    expect(await now()).toEqual([
      '2026-01 a.com us 1 r1',
      '2026-01 b.com us 2 r1',
      '2026-02 a.com us 3 r1',
      '2026-02 b.com us 4 r1',
    ])
    const answerId = await answerOf(work)
    const units = await unitRows(db, kit.pipeline)
    expect(units.map((unit) => [unit.answer_id, unit.ask_number, unit.job_id])).toEqual(
      units.map(() => [String(answerId), work.claim.askNumber, null]),
    )
    expect(
      await db.query(`select count(*)::int as n from data.traffic_and_engagement_v1 t join etl.unit_list u on u.unit_id = t._unit_id
        and u.window_from = t.date and u.slice->>'domain' = t.domain and u.slice->>'country' = t.country`),
    ).toEqual([{ n: 4 }])
    const none = { updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 }
    expect(await loads()).toEqual(
      ['2026-01-01', '2026-02-01'].map((window_from) => ({ window_from, units: 2, read: 2, inserted: 2, ...none })),
    )
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'done', holder: null })
    expect(await outcomeOf(db, kit.runId, work.claim.jobId)).toBe('loaded')
    expect(work.requests).toEqual([])
    expect(await db.query('select verdict from etl.answers')).toEqual([{ verdict: 'good' }])
    expect((await db.query('select domain from bi.dim_domain order by 1')).map(({ domain }) => domain)).toEqual([
      'a.com',
      'b.com',
    ])
  })

  test('leaves a unit that shrank, or has no row any more, as it is until a person releases it', async () => {
    await load(both(), ...four)
    const { work, result } = await load(
      both(),
      line('2026-01', 'a.com', '5'),
      line('2026-02', 'a.com', '6'),
      line('2026-02', 'b.com', '4'),
    )
    expect(result).toMatchObject({ read: 3, updated: 2, unchanged: 1, ended: 0, unitsLoaded: 3, unitsHeld: 1 })
    expect(await now()).toEqual([
      '2026-01 a.com us 5 r2',
      '2026-01 b.com us 2 r1',
      '2026-02 a.com us 6 r2',
      '2026-02 b.com us 4 r1',
    ])
    const answerId = await answerOf(work)
    const held = (await unitRows(db, kit.pipeline)).filter((unit) => unit.held_answer_id !== null)
    expect(held).toMatchObject([{ held_answer_id: String(answerId), held_code: 'SHRUNK', job_id: null }])
    expect(await db.query('select held_units from etl.run_jobs where job_id = $1', [work.claim.jobId])).toEqual([
      { held_units: 1 },
    ])
    const [message] = await db.query<{ error_message: string }>(`select error_message from etl.unit_list where state = 'held'`)
    expect(message?.error_message).toContain('the new answer has 0 rows, 1 are loaded')
    const only = boxOf(definition, '2026-01', { domain: 'b.com', country: 'us' })
    const release = await again(work, answerId, only, { released: true })
    expect(await loadBody(kit, release, {})).toMatchObject({ read: 0, ended: 1, unitsLoaded: 1, unitsHeld: 0 })
    expect((await now()).filter((row) => row.includes('b.com'))).toEqual(['2026-02 b.com us 4 r1'])
    expect((await unitRows(db, kit.pipeline)).filter((unit) => unit.held_answer_id !== null)).toEqual([])
  })

  test('holds a unit that it has rows of other months alone for: that is not none', async () => {
    const { work, result } = await load(both(), line('2026-03', 'a.com', '7'), line('2026-01', 'b.com', '2'))
    // Nothing came for b.com in the second month, and nothing of another month either: the service has none.
    expect(result).toMatchObject({ read: 1, inserted: 1, unitsLoaded: 2, unitsHeld: 2 })
    expect((await unitRows(db, kit.pipeline)).map((unit) => unit.held_code)).toEqual(['SHRUNK', null, 'SHRUNK', null])
    const listed = `select unit_id, error_message from etl.unit_list where state = 'held'`
    const told = await db.query<{ unit_id: string; error_message: string }>(
      `${listed} union all select unit_id, error_message from etl.troubled_units`,
    )
    expect(told).toHaveLength(4)
    for (const { unit_id, error_message } of told)
      expect(error_message).toMatch(
        new RegExp(`the answer has rows of this unit for other periods only\\..*\`millrace release ${unit_id}\` confirms it`),
      )
    const only = boxOf(definition, '2026-01', { domain: 'a.com', country: 'us' })
    const release = await again(work, await answerOf(work), only, { released: true })
    expect(await loadBody(kit, release, {})).toMatchObject({ read: 0, inserted: 0, unitsLoaded: 1, unitsHeld: 0 })
  })

  test.each(['0.com', 'c.com'])(
    'that is not for all of a job loads what it is for, each row under its own unit; %s is asked for anew',
    async (domain) => {
      await load(boxOf(definition, '2026-01', { domain, country: 'us' }), line('2026-01', domain, '9'))
      const { work } = await load(both(), ...four)
      const wider = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com', domain], country: 'us' }, '2026-03')
      const before = await now()
      expect(await loadBody(kit, await again(work, await answerOf(work), wider), {})).toMatchObject({
        unchanged: 4,
        unitsLoaded: 4,
      })
      expect(await now()).toEqual(before)
      expect(await db.query('select job_id from etl.units where job_id is not null')).toEqual([])
    },
  )

  test('opens the window of a unit it holds', async () => {
    await load(both(), ...four)
    await db.query(`insert into etl.windows (pipeline_id, window_from, closed_generation, closed_units, closed_rows)
      select pipeline_id, w, 1, 2, 2 from etl.pipelines, unnest('{2026-01-01,2026-02-01}'::date[]) w`)
    await load(both(), ...four.slice(1))
    expect(await db.query('select closed_generation, closed_units from etl.windows order by window_from')).toEqual([
      { closed_generation: null, closed_units: null },
      { closed_generation: 1, closed_units: '2' },
    ])
  })

  test('counts the rows of a closed window anew', async () => {
    await db.query(`insert into etl.windows (pipeline_id, window_from, closed_generation, closed_units, closed_rows)
      select pipeline_id, '2026-01-01', 1, 2, 7 from etl.pipelines`)
    await load(both(), ...four)
    expect(await db.query('select closed_generation, closed_rows from etl.windows')).toEqual([
      { closed_generation: 1, closed_rows: '9' },
    ])
  })

  test('holds a unit whose records were rejected, keeps them with it, and loads the others', async () => {
    const { result } = await load(both(), line('2026-01', 'a.com', 'many'), ...four.slice(1))
    expect(result).toMatchObject({ read: 3, inserted: 3, quarantined: 0, unitsLoaded: 3, unitsHeld: 1 })
    expect((await unitRows(db, kit.pipeline)).map((unit) => unit.held_code)).toEqual(['TOO_MANY_REJECTS', null, null, null])
    expect(await quarantined()).toEqual([
      { unit: 'traffic_and_engagement/v1/2026-01/country=us;domain=a.com', line: 2, state: 'open' },
    ])
    // The summary counts what the held unit's record became.
    expect((await runSummary(db.database.kysely, kit.runId)).rows).toMatchObject({ read: 4, inserted: 3, quarantined: 1 })
  })

  test('of values that nobody asked for alone is the answer to another request, however many rejects are allowed', async () => {
    const other = async (kitOf: LoadKit) => {
      const lines = Array.from({ length: 2 }, (_, at) => line('2026-01', `other${at}.com`, '1'))
      return loadBody(kitOf, await workOn(kitOf, both()), { body: csv(...lines) })
    }
    const refusal = {
      code: 'WRONG_ECHO',
      message: expect.stringMatching(/all 2 rows.*domain 'other0.com' was not requested.*downloads it again/s),
    }
    await expect(other(kit)).rejects.toMatchObject(refusal)
    const lenient = { ...definition, limits: { ...definition.limits, rejectShare: 1 } }
    await expect(other(await openLoading(db, lenient))).rejects.toMatchObject(refusal)
    expect([await now(), await loads(), await quarantined()]).toEqual([[], [], []])
  })

  test('with a row that may be of a unit nothing came for is not taken to have none of it: that one waits for a person, those of other months do not', async () => {
    const lenient = { ...definition, limits: { ...definition.limits, rejectShare: 1 } }
    const open = await openLoading(db, lenient)
    const work = await workOn(open, both())
    const body = csv(line('2026-01', 'a.com', '1'), line('2026-02', 'a.com', '2'), line('2026-02', '"o\nther.com"', '3'))
    expect(await loadBody(open, work, { body })).toMatchObject({ inserted: 2, unitsLoaded: 3, unitsHeld: 1 })
    const listed = `select unit_id, error_code, error_message from etl.unit_list where state = 'held'`
    const held = await db.query<{ unit_id: string; error_code: string; error_message: string }>(listed)
    expect(held).toHaveLength(1)
    for (const { unit_id, error_code, error_message } of held) {
      expect(error_code).toBe('TOO_MANY_REJECTS')
      expect(error_message).toMatch(/line 4: domain 'o ther\.com' was not requested\)/)
      expect(error_message).toContain(`\`millrace release ${unit_id}\` confirms it`)
    }
    expect(await quarantined()).toHaveLength(1)
    const only = boxOf(definition, '2026-02', { domain: 'b.com', country: 'us' })
    const release = await again(work, await answerOf(work), only, { released: true })
    expect(await loadBody(open, release, {})).toMatchObject({ inserted: 0, unitsLoaded: 1, unitsHeld: 0 })
  })

  test('of one record without a date that can be read holds its own domain alone, in each month', async () => {
    const open = await openLoading(db, { ...definition, limits: { ...definition.limits, rejectShare: 1 } })
    const work = await workOn(open, both())
    const body = csv(line('2026-01', 'b.com', '1'), line('soon', 'a.com', '1'))
    expect(await loadBody(open, work, { body })).toMatchObject({ inserted: 1, unitsLoaded: 2, unitsHeld: 2 })
    expect((await unitRows(db, open.pipeline)).map((unit) => unit.held_code)).toEqual([
      'TOO_MANY_REJECTS',
      null,
      'TOO_MANY_REJECTS',
      null,
    ])
  })

  test('of one record that may be of any unit keeps it in quarantine, where a retry finds it, though all units wait', async () => {
    const open = await openLoading(db, { ...definition, limits: { ...definition.limits, rejectShare: 1 } })
    const work = await workOn(open, both())
    expect(await loadBody(open, work, { body: csv(line('soon', '', '1')) })).toMatchObject({ unitsLoaded: 0, unitsHeld: 4 })
    const only = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
    const set = { answer_id: await answerOf(work), ask_number: work.claim.askNumber, forced: true }
    await loadBody(open, await workOn(open, only, { set }), {})
    expect((await quarantined()).map(({ unit, line: at, state }) => [unit, at, state])).toEqual([
      ['-', 2, 'superseded'],
      ['-', 2, 'open'],
    ])
  })

  test('whose every record is good once the definition is corrected leaves none of them in quarantine; that another version can read them all changes nothing', async () => {
    const columns = definition.columns.map((column) => ({
      ...column,
      nullable: column.nullable && column.name !== 'all_traffic_visits',
    }))
    const strict = await openLoading(db, { ...definition, columns })
    const work = await workOn(strict, both())
    const body = csv(line('2026-01', 'a.com', ''), line('2026-02', 'b.com', ''))
    await expect(loadBody(strict, work, { body })).rejects.toMatchObject({ code: 'TOO_MANY_REJECTS' })
    expect((await quarantined()).map(({ unit, state }) => [unit, state])).toEqual([
      ['-', 'open'],
      ['-', 'open'],
    ])
    const set = { answer_id: await answerOf(work), ask_number: work.claim.askNumber, forced: true }
    const other = await openLoading(db, definition)
    expect(await loadBody(other, await workOn(other, both(), { set }), { body })).toMatchObject({ inserted: 2 })
    expect((await quarantined()).map(({ state }) => state)).toEqual(['open', 'open'])
    const corrected = { ...strict, definition }
    expect(await loadBody(corrected, await workOn(corrected, both(), { set }), {})).toMatchObject({
      unitsLoaded: 4,
      quarantined: 0,
    })
    expect((await quarantined()).map(({ state }) => state)).toEqual(['superseded', 'superseded'])
  })

  test('of too many rejects, or with rows nobody asked for, changes no data, and says so with the answer', async () => {
    await load(both(), ...four)
    const before = [await now(), await loads()]
    const bad = await workOn(kit, both())
    const lines = ['a.com', 'b.com', 'c.com'].map((domain) => line('2026-01', domain, 'x'))
    await expect(loadBody(kit, bad, { body: csv(...lines) })).rejects.toMatchObject({ code: 'TOO_MANY_REJECTS' })
    expect([await now(), await loads()]).toEqual(before)
    expect(await db.query('select verdict from etl.answers order by answer_id')).toEqual([
      { verdict: 'good' },
      { verdict: 'TOO_MANY_REJECTS' },
    ])
    expect(await quarantined()).toHaveLength(3)
    expect(bad.requests).toHaveLength(1)
    expect(await jobRow(db, bad.claim.jobId)).toMatchObject({ state: 'open' })
  })
})

describe('a process that has lost its job', () => {
  test('writes nothing any more', async () => {
    const work = await workOn(kit, both())
    await db.query('update etl.jobs set holder = null where job_id = $1', [work.claim.jobId])
    const other = await claimed(kit, work.claim.jobId)
    await loadBody(kit, other, { body: csv(...four) })
    const before = [await now(), await loads(), await db.query('select xmin::text from etl.units')]
    await expect(loadBody(kit, work, { body: csv(line('2026-01', 'a.com', '7')) })).rejects.toMatchObject({ code: 'FENCED' })
    expect([await now(), await loads(), await db.query('select xmin::text from etl.units')]).toEqual(before)
  })
})

describe('an answer loaded again', () => {
  test('gives rows a moment that names its load alone, however the clock goes', async () => {
    const { work } = await load(both(), ...four)
    await db.query(`update etl.load_rows set loaded_at = loaded_at + interval '1 day'`)
    await db.query(`update data.traffic_and_engagement_v1 set _loaded_at = _loaded_at + interval '1 day'`)
    await load(both(), ...four.map((row) => row.replace(/us,\d/, 'us,9')))
    const rows = await db.query<{ n: number }>(`select count(distinct l.answer_id)::int as n from data.traffic_and_engagement_v1 t
      join etl.units u on u.unit_id = t._unit_id join etl.loads l on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from
        and l.loaded_at = t._loaded_at group by t.date, t.domain`)
    expect(rows).toEqual([{ n: 1 }, { n: 1 }, { n: 1 }, { n: 1 }])
    expect(work.claim.cells).toBe(4)
  })
})

const three = ['a.com', 'b.com', 'c.com']
const bothOf = (domain = three): Box => boxOf(definition, '2026-01', { domain, country: 'us' }, '2026-02')

describe('the newest month, of which no row came beside older ones', () => {
  const early = three.map((domain) => line('2026-01', domain, '1'))
  const states = () =>
    db.query(
      `select to_char(window_from, 'YYYY-MM') as month, state, error_code as code, count(*)::int as units from etl.unit_list group by 1, 2, 3 order by 1`,
    )
  const waiting = { month: '2026-02', state: 'waiting', code: 'NOT_PUBLISHED', units: 3 }
  const loaded = (month: string, units = 3) => ({ month, state: 'loaded', code: null, units })
  const cut = async (work: JobWork): Promise<JobWork> => {
    const refused = loadBody(kit, work, { body: csv(...early) })
    await expect(refused).rejects.toMatchObject({ code: 'NOT_PUBLISHED', message: expect.stringContaining('none of 2026-02') })
    await refused.catch((error: unknown) => settleJob(kit.runtime, work.claim, work, error))
    const [rest] = await db.query<{ job_id: string }>(
      `select job_id from etl.jobs where state = 'open' and answer_id is not null`,
    )
    return claimed(kit, Number(rest?.job_id))
  }

  test('waits as not published; the others are loaded from the same answer', async () => {
    const rest = await cut(await workOn(kit, bothOf()))
    expect(await loadBody(kit, rest, {})).toMatchObject({ inserted: 3, unitsLoaded: 3, unitsHeld: 0 })
    expect(await states()).toEqual([loaded('2026-01'), waiting])
    expect(await runSummary(db.database.kysely, kit.runId)).toMatchObject({ units: { loaded: 3, waiting: 3, failed: 0 } })
    // Asked for alone, no row is what the service has.
    expect((await load(boxOf(definition, '2026-02', { domain: three, country: 'us' }))).result).toMatchObject({
      read: 0,
      unitsLoaded: 3,
    })
    expect(await states()).toEqual([loaded('2026-01'), loaded('2026-02')])
  })

  test('waits, and of the others those are loaded that there are: a replay may be for units that were not all asked for', async () => {
    const work = await workOn(kit, bothOf([...three, 'd.com']))
    await db.query(
      `delete from etl.units u using etl.slices s where s.slice_id = u.slice_id and s."values"[1] = 'd.com' and u.window_from = '2026-01-01'`,
    )
    await db.query(`update etl.jobs set cells = 7 where job_id = ${work.claim.jobId}`)
    await db.query(`update etl.run_jobs set units = 7 where job_id = ${work.claim.jobId}`)
    const rest = await cut({ ...work, claim: { ...work.claim, cells: 7 } })
    expect(await loadBody(kit, rest, {})).toMatchObject({ inserted: 3, unitsLoaded: 3 })
    expect(await runSummary(db.database.kysely, kit.runId)).toMatchObject({ units: { planned: 7, loaded: 3, waiting: 4 } })
  })

  test('may be taken back while the answer is loaded again: the others are', async () => {
    const rest = await cut(await workOn(kit, bothOf()))
    await loadBody(kit, rest, {})
    const { pipelineId } = kit.pipeline
    const scope = { pipelineId, range: null, only: null, reason: 'replay' }
    const part = { answerIds: [rest.claim.answer?.answerId ?? 0], priority: 0, counts: 'holding' } as const
    const inTurn = <T>(work: (trx: Db) => Promise<T>): Promise<T> => db.database.kysely.transaction().execute(work)
    expect(await inTurn((trx) => registerReplay(trx, kit.runId, scope, part))).toEqual({ jobs: 1, units: 3 })
    expect(await inTurn((trx) => dissolveUnsent(trx, { pipelineId, kind: 'report' }))).toBe(1)
    const [job] = await db.query<{ job_id: string }>(`select job_id from etl.jobs where reason = 'replay'`)
    expect(await loadBody(kit, await claimed(kit, Number(job?.job_id)), {})).toMatchObject({ unchanged: 3, unitsLoaded: 3 })
    expect(await states()).toEqual([loaded('2026-01')])
  })

  test('of a run that is cancelled before the others are loaded leaves these with their answer: they are paid for', async () => {
    const rest = await cut(await workOn(kit, bothOf()))
    await returnJob(db.database.kysely, rest.claim)
    await requestCancel(db.database.kysely, kit.runId)
    await leaveRun(db.database.kysely, kit.runId)
    expect(await jobRow(db, rest.claim.jobId)).toMatchObject({ state: 'open', answer_id: String(rest.claim.answer?.answerId) })
    expect(await states()).toEqual([{ month: '2026-01', state: 'landed', code: null, units: 3 }, waiting])
  })

  test('is not bought at once where a person allowed all of it, but a day later or by the next night', async () => {
    const [word] = await db.query<{
      id: string
    }>(`insert into etl.approvals (pipeline_id, kind, state, run_id, reasons, window_from, window_to, units, reports, credits)
      values (${kit.pipeline.pipelineId}, 'backfill', 'approved', ${kit.runId}, '{}', '2026-01-01', '2026-03-01', 6, 1, 6) returning approval_id as id`)
    await cut(await workOn(kit, bothOf(), { set: { approval_id: word?.id ?? null } }))
    const [later] = await db.query(
      `select approval_id is not null as allowed, not_before > clock_timestamp() + interval '23 hours' as waits from etl.jobs where error_code = 'NOT_PUBLISHED'`,
    )
    expect(later).toEqual({ allowed: true, waits: true })
  })

  test.each([
    ['it was released', async () => workOn(kit, bothOf(), { set: { released: true } })],
    [
      'a later month was published when it was asked for',
      async () => workOn(kit, bothOf(), { set: { asked_at: '2026-04-20T00:00:00Z' } }),
    ],
    [
      'another value of it is loaded',
      async () => {
        await load(boxOf(definition, '2026-02', { domain: 'd.com', country: 'us' }), line('2026-02', 'd.com', '1'))
        return workOn(kit, bothOf())
      },
    ],
  ])('is loaded as none where %s', async (_, open) => {
    expect(await loadBody(kit, await open(), { body: csv(...early) })).toMatchObject({ unitsLoaded: 6 })
  })

  test('is loaded as none where the table ended with it, and a later month would have been published when it was asked for', async () => {
    const publication = { ...definition.window.publication, until: '2026-03-01' }
    const ended = await openLoading(db, { ...definition, window: { ...definition.window, publication } })
    const work = await workOn(ended, bothOf(), { set: { asked_at: '2026-04-20T00:00:00Z' } })
    expect(await loadBody(ended, work, { body: csv(...early) })).toMatchObject({ unitsLoaded: 6 })
  })

  test('is loaded as none where fewer values show it: one may have come to its end', async () => {
    const work = await workOn(kit, bothOf(['a.com', 'b.com']))
    expect(await loadBody(kit, work, { body: csv(...early.slice(0, 2)) })).toMatchObject({ unitsLoaded: 4 })
  })
})
