// Answers of odd units, loaded, released, retried and replayed in every order, against rules worked out in memory; and whence each revision came.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { releaseByPerson } from '../../src/ledger/release.ts'
import { answersInQuarantine, registerReplay } from '../../src/ledger/replay.ts'
import type { JobWork } from '../../src/pipeline/job-work.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { waitFor } from '../support/ledger.ts'
import { jobRow } from '../support/ledger-answers.ts'
import { loadIntoOracle, newOracle, type Oracle, type OracleAnswer, type OracleRecord, shown } from '../support/load-oracle.ts'
import { claimed, type LoadKit, loadBody, openLoading, workOn } from '../support/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let plain: Definition
/** What could not be read is read from another field. */
let mended: Definition

beforeAll(async () => {
  db = await createTestDatabase()
  const shipped = await shippedDefinition('traffic_and_engagement')
  plain = {
    ...shipped,
    params: { ...shipped.params, granularity: 'daily' },
    period: { every: 'day', isInKey: true },
    limits: { ...shipped.limits, rejectShare: 1, shrink: 0.5 },
  }
  const columns = plain.columns.map((column) =>
    column.name === 'mobile_visits' ? { ...column, from: ['mobile_clean'] } : column,
  )
  mended = { ...plain, columns }
})
afterAll(() => db.drop())

/** `LOAD_ORACLE_RUNS=200` tries so many of each. */
const runs = (usual: number): number => Number(process.env['LOAD_ORACLE_RUNS'] ?? usual)
const limitMs = 300_000 + runs(0) * 10_000

const query = async <T extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<T[]> =>
  (await db.database.pool.query<T>(text, values)).rows

const domains = ['a.com', 'b.com', 'c.com']
const months = ['2026-01', '2026-02']
const units = months.flatMap((month) => domains.map((domain) => `${month} ${domain}`))
const days = [1, 2, 3, 4]

const bodyOf = ({ records }: OracleAnswer): string => {
  const header =
    'date,domain,country,all_traffic_visits,mobile_visits,mobile_clean,desktop_visits,desktop_unique_visitors,mobile_unique_visitors,all_page_views'
  const lines = records.map(
    ({ domain, month, day, visits, bad }) =>
      `${month}-0${day},${bad === 'stray' ? 'nobody.com' : domain},us,${visits},${bad === 'cell' ? 'oops' : '1'},1,2,3,4,5`,
  )
  return `${[header, ...lines].join('\n')}\n`
}

const boxOfUnits = (names: readonly string[]): Box => {
  const found = [...new Set(names.map((name) => name.split(' ')[1] ?? ''))]
  const span = [...new Set(names.map((name) => name.split(' ')[0] ?? ''))].sort()
  const [only, ...others] = found
  return boxOf(plain, span[0] ?? '', { domain: others.length === 0 ? (only ?? '') : found, country: 'us' }, span.at(-1) ?? '')
}

interface World {
  readonly kit: LoadKit
  readonly oracle: Oracle
  readonly answers: readonly OracleAnswer[]
  readonly jobs: ReadonlyMap<string, JobWork>
  /** Numbers in the ledger of what was loaded at least once. */
  readonly ids: Map<string, number>
}

const openWorld = async (answers: readonly OracleAnswer[]): Promise<World> => {
  await query('truncate data.traffic_and_engagement_v1, data.traffic_and_engagement_v1_history')
  await query('truncate etl.pipelines, etl.slices, etl.jobs, etl.units, etl.windows, etl.quarantine cascade')
  const kit = await openLoading(db, plain)
  const jobs = new Map<string, JobWork>()
  // Asked for in their order; loaded in any.
  for (const answer of answers) jobs.set(answer.name, await workOn(kit, boxOfUnits(answer.units)))
  return { kit, oracle: newOracle([...new Set(answers.flatMap((answer) => answer.units))]), answers, jobs, ids: new Map() }
}

type Step =
  | { readonly kind: 'load'; readonly answer: number }
  | { readonly kind: 'replay'; readonly answer: number; readonly part: boolean }
  | { readonly kind: 'release'; readonly unit: number }
  | { readonly kind: 'retry'; readonly isMended: boolean }

/** As `replay` does it: the answer into all its units, or into one. */
const again = async (world: World, answer: OracleAnswer, one: string | null, { isMended = false } = {}): Promise<void> => {
  const { kit, ids, oracle } = world
  const [month = '', domain = ''] = one?.split(' ') ?? []
  const scope = {
    pipelineId: kit.pipeline.pipelineId,
    range: one === null ? null : inclusiveRange(month, month, 'month'),
    only: one === null ? null : new Map([['domain', [domain]]]),
    reason: 'replay',
  }
  const part = { answerIds: [ids.get(answer.name) ?? 0], priority: 0, counts: 'all' as const }
  await db.database.kysely.transaction().execute((trx) => registerReplay(trx, kit.runId, scope, part))
  await loadWaiting(world, answer, isMended)
  loadIntoOracle(oracle, answer, { only: one === null ? answer.units : [one], mended: isMended })
}

/** The job that the run waits for now. */
const loadWaiting = async ({ kit }: World, answer: OracleAnswer, isMended: boolean): Promise<void> => {
  const waiting = await query<{ job_id: string }>('select job_id from etl.run_jobs where run_id = $1 and outcome is null', [
    kit.runId,
  ])
  expect(waiting).toHaveLength(1)
  const definition = isMended ? mended : plain
  const work = await claimed({ ...kit, definition }, Number(waiting[0]?.job_id))
  await loadBody({ ...kit, definition }, work, { body: bodyOf(answer) })
}

const take = async (world: World, step: Step): Promise<void> => {
  const { kit, oracle, answers, jobs, ids } = world
  if (step.kind === 'release') return release(world, units[step.unit % units.length] ?? '')
  if (step.kind === 'retry') {
    const names = new Map([...ids].map(([name, id]) => [id, name]))
    for (const { answerId } of await answersInQuarantine(db.database.kysely, [kit.pipeline.pipelineId])) {
      const answer = answers.find(({ name }) => name === names.get(answerId))
      if (answer !== undefined) await again(world, answer, null, { isMended: step.isMended })
    }
    return
  }
  const answer = answers[step.answer % answers.length]
  if (answer === undefined) return
  const isLoaded = ids.has(answer.name)
  if (step.kind === 'replay' && isLoaded) return again(world, answer, step.part ? (answer.units.at(-1) ?? null) : null)
  const job = jobs.get(answer.name)
  if (isLoaded || job === undefined) return
  await loadBody(kit, job, { body: bodyOf(answer) })
  ids.set(answer.name, Number((await jobRow(db, job.claim.jobId)).answer_id))
  loadIntoOracle(oracle, answer)
}

/** As a person does it: the held answer becomes a job of its own, which the next run takes up. */
const release = async (world: World, name: string): Promise<void> => {
  const { kit, oracle } = world
  const unit = oracle.units.get(name)
  if (unit === undefined || unit.held === null) return
  const { answer } = unit.held
  unit.held = null
  const [month, domain] = name.split(' ')
  const [row] = await query<{ unit_id: string }>(
    `select u.unit_id from etl.units u join etl.slices s using (slice_id) where u.window_from = $1 and s."values" @> array[$2]`,
    [`${month}-01`, domain],
  )
  expect(await releaseByPerson(db.database.kysely, Number(row?.unit_id), 'test')).toBe(true)
  const [job] = await query<{ job_id: string }>(`select max(job_id) as job_id from etl.jobs where reason = 'release'`)
  await waitFor(db, kit.runId, Number(job?.job_id), 1)
  await loadWaiting(world, answer, false)
  loadIntoOracle(oracle, answer, { only: [name], released: true })
}

const found = async ({ ids, kit }: World) => {
  const names = new Map([...ids].map(([name, id]) => [String(id), name]))
  const of = async (text: string): Promise<string[]> => (await query<{ text: string }>(text)).map((row) => row.text).sort()
  const row = `date || ' ' || domain || ' ' || all_traffic_visits || ' r' || _revision as text`
  const named = `to_char(u.window_from, 'YYYY-MM') || ' ' || s."values"[array_position($2::text[], 'domain')]`
  const state = await query<{ name: string; answer_id: string | null; held_answer_id: string | null; held_code: string | null }>(
    `select ${named} as name, u.answer_id, u.held_answer_id, u.held_code from etl.units u join etl.slices s using (slice_id)
      where u.pipeline_id = $1`,
    [kit.pipeline.pipelineId, kit.pipeline.dimensions],
  )
  const open = await query<{ name: string | null; answer_id: string; line: string }>(
    `select q.answer_id, q.line, ${named} as name from etl.quarantine q left join etl.units u on u.unit_id = q.unit_id
      left join etl.slices s on s.slice_id = u.slice_id where q.state = 'open' and $1::integer is not null`,
    [kit.pipeline.pipelineId, kit.pipeline.dimensions],
  )
  const nameOf = (id: string | null): string => (id === null ? '-' : (names.get(id) ?? `unknown ${id}`))
  return {
    rows: await of(`select ${row} from data.traffic_and_engagement_v1`),
    past: await of(`select ${row} from data.traffic_and_engagement_v1_history`),
    units: state
      .map(
        ({ name, answer_id, held_answer_id, held_code }) =>
          `${name}: ${nameOf(answer_id)}${held_answer_id === null ? '' : ` held ${nameOf(held_answer_id)} ${held_code}`}`,
      )
      .sort(),
    quarantine: open.map(({ name, answer_id, line }) => `${nameOf(answer_id)} ${name ?? '-'} ${line}`).sort(),
  }
}

/** Every revision leads, by its unit and its moment, to one answer, whose bytes hold it. */
const expectLineage = async ({ answers, ids }: World): Promise<void> => {
  const revisions = await query<{ date: string; domain: string; visits: string; answers: string[] }>(`
    select r.date::text as date, r.domain, r.visits::text as visits, array(
      select l.answer_id from etl.units u join etl.loads l on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from
        join etl.answers a on a.answer_id = l.answer_id and u.slice_id = any(a.slice_ids)
      where u.unit_id = r._unit_id and l.loaded_at = r._loaded_at and l.outcome = 'loaded') as answers
    from (select date, domain, all_traffic_visits as visits, _unit_id, _loaded_at from data.traffic_and_engagement_v1
      union all select date, domain, all_traffic_visits, _unit_id, _loaded_at from data.traffic_and_engagement_v1_history) r`)
  for (const { date, domain, visits, answers: led } of revisions) {
    expect(led, `${date} ${domain} ${visits}`).toHaveLength(1)
    const answer = answers.find(({ name }) => ids.get(name) === Number(led[0]))
    expect(bodyOf(answer ?? { name: '', ask: 0, units: [], records: [] })).toContain(`${date},${domain},us,${visits},`)
  }
}

const expectCounted = async (): Promise<void> => {
  const off = await query(`select * from etl.loads
    where rows_read <> rows_inserted + rows_updated + rows_unchanged + rows_quarantined + rows_duplicates or units < 1`)
  expect(off).toEqual([])
}

const play = async (answers: readonly OracleAnswer[], steps: readonly Step[]): Promise<void> => {
  const world = await openWorld(answers)
  for (const [place, step] of steps.entries()) {
    await take(world, step)
    expect(await found(world), `after step ${place}: ${JSON.stringify(step)}`).toEqual(shown(world.oracle))
  }
  await expectLineage(world)
  await expectCounted()
}

const whole = (visits: number, unit: string): OracleRecord[] => {
  const [month = '', domain = ''] = unit.split(' ')
  return days.map((day) => ({ month, domain, day, visits, bad: null }))
}

describe('one packed answer with a shrunk, an emptied, a rejected, an already newer and an unattributable record', () => {
  const [shrunk = '', emptied = '', rejected = '', newer = '', fine = '', last = ''] = units
  const base: OracleAnswer = { name: 'base', ask: 1, units, records: units.flatMap((unit) => whole(1, unit)) }
  const odd: OracleAnswer = {
    name: 'odd',
    ask: 2,
    units,
    records: [
      ...whole(2, shrunk).slice(0, 1),
      ...whole(2, rejected).map((record) => ({ ...record, bad: 'cell' as const })),
      ...whole(2, newer),
      ...whole(2, fine).slice(0, 3),
      ...whole(2, last),
    ],
  }
  const withStray: OracleAnswer = {
    ...odd,
    records: [...odd.records, { month: '2026-01', domain: 'x', day: 4, visits: 2, bad: 'stray' }],
  }
  const late: OracleAnswer = { name: 'late', ask: 3, units: [newer], records: whole(3, newer) }
  const steps: readonly Step[] = [
    { kind: 'release', unit: units.indexOf(shrunk) },
    { kind: 'release', unit: units.indexOf(emptied) },
    { kind: 'retry', isMended: false },
    { kind: 'retry', isMended: true },
    { kind: 'replay', answer: 1, part: false },
    { kind: 'replay', answer: 0, part: false },
  ]

  test.each([
    ['with', withStray],
    ['without', odd],
  ])(
    '%s the latter: each unit has its due, then release, retry and replay come in any order',
    async (_, answer) => {
      await fc.assert(
        fc.asyncProperty(
          fc.shuffledSubarray([...steps], { minLength: steps.length }),
          fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
          async (order, loads) => {
            const loading = loads.map((place): Step => ({ kind: 'load', answer: place }))
            await play([base, answer, late], [...loading, ...order])
          },
        ),
        { numRuns: runs(12), seed: 14 },
      )
    },
    limitMs,
  )
})

describe('answers of any kind', () => {
  const oneUnit = (unit: string): fc.Arbitrary<readonly OracleRecord[]> => {
    const [month = '', domain = ''] = unit.split(' ')
    const record = fc.record({
      month: fc.constant(month),
      domain: fc.constant(domain),
      day: fc.constantFrom(...days),
      visits: fc.constantFrom(1, 2),
      bad: fc.constantFrom(null, null, null, null, 'cell' as const),
    })
    return fc.oneof(
      { arbitrary: fc.constant(whole(1, unit)), weight: 2 },
      { arbitrary: fc.constant([]), weight: 1 },
      { arbitrary: fc.array(record, { maxLength: 6 }), weight: 4 },
    )
  }
  const answer = (place: number): fc.Arbitrary<OracleAnswer> =>
    fc
      .record({
        covered: fc.constantFrom(units, units.slice(0, 3), units.slice(3), [units[1] ?? ''], [units[0] ?? '', units[3] ?? '']),
        hasStray: fc.constantFrom(false, false, true),
      })
      .chain(({ covered, hasStray }) =>
        fc.tuple(...covered.map(oneUnit)).map((records) => ({
          name: `n${place}`,
          ask: place,
          units: covered,
          records: [
            ...records.flat(),
            ...(hasStray
              ? [{ month: covered[0]?.split(' ')[0] ?? '', domain: 'x', day: 1, visits: 1, bad: 'stray' as const }]
              : []),
          ],
        })),
      )
  const step: fc.Arbitrary<Step> = fc.oneof(
    fc.record({ kind: fc.constant('load' as const), answer: fc.nat(3) }),
    fc.record({ kind: fc.constant('replay' as const), answer: fc.nat(3), part: fc.boolean() }),
    fc.record({ kind: fc.constant('release' as const), unit: fc.nat(5) }),
    fc.record({ kind: fc.constant('retry' as const), isMended: fc.boolean() }),
  )

  test(
    'loaded, released, retried and replayed in any order leave what the rules say',
    async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.tuple(answer(1), answer(2), answer(3), answer(4)),
          fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
          fc.array(step, { minLength: 1, maxLength: 8 }),
          (answers, loads, steps) => play(answers, [...loads.map((place): Step => ({ kind: 'load', answer: place })), ...steps]),
        ),
        { numRuns: runs(25), seed: 41 },
      )
    },
    limitMs,
  )
})
