// Two planners that meet between reading and writing: each cell gets one job, whatever lists, refreshes, force and deaths come in between.
import fc from 'fast-check'
import { sql } from 'kysely'
import type pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { registerPipeline } from '../../src/ledger/pipelines.ts'
import { countWindows } from '../../src/plan/count-windows.ts'
import { planContext } from '../../src/plan/plan-context.ts'
import { askForReports, reportSteps } from '../../src/plan/plan-reports.ts'
import { cellsOf, died, type JobBox, jobsOf, loaded, submitted } from '../support/plan-ledger.ts'
import { newRun } from '../support/ledger.ts'
import { setJob } from '../support/ledger-answers.ts'
import { definitionFor, plan, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const allDomains = ['a.com', 'b.com', 'c.com', 'd.com']
const allCountries = ['gb', 'us']
/** The look-back is longer: every window of a night may be refreshed. */
const window = { from: '2026-06-01', lookBack: 60 }
const barrier = 140_014

const db = testDatabase()
/** Holds the barrier down. */
let keeper: pg.PoolClient

beforeAll(async () => {
  keeper = await db.database.pool.connect()
  // Whoever has read what is needed and is about to write its first job stops here.
  await keeper.query(`
    create function public.meet() returns trigger language plpgsql as $$ begin
      perform pg_advisory_xact_lock_shared(${barrier}); return null; end $$;
    create trigger meet before insert on etl.jobs for each statement execute function public.meet()`)
})
afterAll(async () => {
  keeper.release()
})

const planner = fc.record({
  mode: fc.constantFrom('due' as const, 'range' as const, 'forced' as const),
  /** What the person who starts it has in the lists by then; null: nothing new. */
  edit: fc.option(
    fc.record({
      domains: fc.subarray(allDomains, { minLength: 1 }),
      countries: fc.subarray(allCountries, { minLength: 1 }),
    }),
  ),
  /** Its connections are cut while it stands at the barrier, and its run is closed. */
  dies: fc.constantFrom(false, false, false, true),
})
const meeting = fc.record({
  does: fc.constant('meet' as const),
  planners: fc.tuple(planner, planner),
})
const between = fc.record({
  does: fc.constantFrom('submit' as const, 'load' as const, 'load' as const, 'load stale' as const, 'fail' as const),
  which: fc.nat(),
})
const steps = fc.array(fc.oneof({ weight: 2, arbitrary: meeting }, { weight: 3, arbitrary: between }), {
  minLength: 4,
  maxLength: 10,
})
type Step = typeof steps extends fc.Arbitrary<(infer S)[]> ? S : never
type Planner = typeof planner extends fc.Arbitrary<infer P> ? P : never

interface Sequence {
  readonly source: ReturnType<typeof sourceOf>
  definition: ReturnType<typeof definitionFor>
}

const blocked = async (): Promise<number> =>
  (
    await keeper.query<{ n: number }>(
      `select count(distinct l.pid)::int as n from pg_locks l join pg_stat_activity a using (pid) where a.datname = current_database() and not l.granted`,
    )
  ).rows[0]?.n ?? 0

/** Until each of `ends` waits for the barrier or for another planner, or is over. */
const untilBlocked = async (ends: readonly Promise<unknown>[]): Promise<void> => {
  let left = ends.length
  for (const end of ends) void end.finally(() => (left -= 1))
  await new Promise((done) => setTimeout(done, 0))
  for (let tries = 0; (await blocked()) < left && tries < 200; tries += 1) await new Promise((done) => setTimeout(done, 10))
}

const scopeOf = ({ mode }: Planner) =>
  mode === 'due' ? ({ mode: 'due' } as const) : range('2026-06', '2026-10', { force: mode === 'forced' })

const meet = async (sequence: Sequence, planners: readonly Planner[]): Promise<void> => {
  const before = await jobsOf(db, sequence.definition).catch(() => [])
  const asked = new Set(
    before.filter(({ state, askNumber }) => state === 'open' && askNumber !== null).flatMap(({ cells }) => cells),
  )
  await keeper.query('select pg_advisory_lock($1)', [barrier])
  const ends: Promise<unknown>[] = []
  const runs: number[] = []
  try {
    for (const one of planners) {
      if (one.edit !== null) sequence.definition = withLists(sequence.definition, one.edit)
      const runId = await newRun(db)
      runs.push(runId)
      const { source, definition } = sequence
      ends.push(plan(db, { source, definition }, scopeOf(one), runId).catch((error: unknown) => error))
      await untilBlocked(ends)
      if (!one.dies) continue
      await keeper.query(
        `select pg_terminate_backend(a.pid) from pg_stat_activity a join pg_locks l on l.pid = a.pid
         where a.datname = current_database() and not l.granted and l.locktype = 'advisory'`,
      )
      await died(db, runId)
    }
  } finally {
    await keeper.query('select pg_advisory_unlock($1)', [barrier])
  }
  await Promise.all(ends)
  await expectBoughtOnce(sequence, before, { asked, isForced: planners.some(({ mode }) => mode === 'forced') })
}

/** Of the jobs that were made meanwhile none shares a cell with another; without force none with what is asked for. */
const expectBoughtOnce = async (
  { definition }: Sequence,
  before: readonly JobBox[],
  { asked, isForced }: { readonly asked: ReadonlySet<string>; readonly isForced: boolean },
): Promise<void> => {
  const known = new Set(before.map(({ jobId }) => jobId))
  const made = (await jobsOf(db, definition)).filter(({ jobId }) => !known.has(jobId))
  const cells = made.flatMap(({ cells }) => cells)
  expect(cells.length, `jobs ${made.map(({ jobId }) => jobId).join()} share no cell`).toBe(new Set(cells).size)
  if (!isForced) expect(cells.filter((cell) => asked.has(cell))).toEqual([])
}

/** A planner that comes afterwards finds no more to do than the full difference of what is wanted and what is held, asked for or loaded. */
const expectFullDifference = async ({ source, definition }: Sequence): Promise<void> => {
  const before = new Map((await cellsOf(db, definition)).map((cell) => [cell.cell, cell]))
  const { runId, ...counts } = await plan(db, { source, definition }, range('2026-06', '2026-10'))
  const jobs = await jobsOf(db, definition)
  const own = new Set(jobs.filter(({ waiting }) => waiting.includes(runId)).flatMap(({ cells }) => cells))
  const values = definition.dimensions.map((one) => one.values)
  const months = ['2026-06', '2026-07', '2026-08', '2026-09', '2026-10']
  const wanted = months.flatMap((month) => (values[0] ?? []).flatMap((d) => (values[1] ?? []).map((c) => `${month} ${d} ${c}`)))
  let done = 0
  for (const cell of wanted) {
    const then = before.get(cell)
    if (then?.answerId != null && then.jobId === null) done += 1
    else expect(own.has(cell), `${cell} is waited for`).toBe(true)
  }
  expect(counts.done).toBe(done)
  await died(db, runId)
}

const settled = async ({ jobId }: JobBox): Promise<void> => {
  await setJob(db, jobId, { state: 'failed', error_code: 'SERVICE_ERROR' })
  await sql`update etl.run_jobs set outcome = 'failed' where job_id = ${jobId} and outcome is null`.execute(db.database.kysely)
}

const take = async (sequence: Sequence, step: Step): Promise<void> => {
  if (step.does === 'meet') {
    await meet(sequence, step.planners)
    return expectFullDifference(sequence)
  }
  const open = (await jobsOf(db, sequence.definition).catch(() => [])).filter(({ state }) => state === 'open')
  const job = open[step.which % Math.max(1, open.length)]
  if (job === undefined) return
  if (step.does === 'submit' && job.askNumber === null) await submitted(db, job.jobId)
  if (step.does === 'load') await loaded(db, job.jobId)
  if (step.does === 'load stale') await loaded(db, job.jobId, { askedAt: '2026-01-01T00:00:00Z' })
  if (step.does === 'fail') await settled(job)
}

test('lists that another planner has changed since: what is asked for is packed by the values as they are wanted now', async () => {
  const source = sourceOf({ kind: 'report' })
  const wide = definitionFor(source, { domains: ['a.com', 'b.com'], countries: ['gb', 'us'] })
  const january = range('2025-01', '2025-01')
  for (const [domain, country] of [
    ['a.com', 'us'],
    ['b.com', 'gb'],
  ] as const) {
    const only = new Map([
      ['domain', [domain]],
      ['country', [country]],
    ])
    await plan(db, { source, definition: wide }, { ...january, only })
  }
  for (const { jobId } of await jobsOf(db, wide)) await loaded(db, jobId)
  // One planner has read its lists, of two combinations, when another registers those of four, of which two are loaded.
  const { kysely } = db.database
  const definition = withLists(wide, { domains: ['a.com'], countries: ['gb', 'us'] })
  const pipeline = await kysely.transaction().execute((trx) => registerPipeline(trx, definition, source))
  const context = await planContext(kysely, new Map(), {
    ...{ definition, source, pipeline, scope: january, nowMs: Date.now(), signal: new AbortController().signal },
    runtime: { consent: { resubmitUncertain: false, approvedBy: null } },
    runId: await newRun(db),
    step: (work) => kysely.transaction().execute(work),
  })
  await kysely.transaction().execute((trx) => registerPipeline(trx, wide, source))
  const { steps } = await reportSteps(kysely, context, countWindows(context))
  const all = { holds: () => false, rule: async () => ({ held: [], approvalId: null, allowed: [], credits: null }) }
  for (const tasks of steps) await askForReports(context, tasks, all, [])
  // One job of both would ask the service for every combination of their values, also for those that are loaded.
  const open = (await jobsOf(db, wide)).filter(({ state }) => state === 'open')
  expect(open.map(({ cells }) => cells).sort()).toEqual([['2025-01 a.com gb'], ['2025-01 b.com us']])
})

/** `npm run plan-barrier`: many more. */
const numRuns = Number(process.env['PLAN_BARRIER_RUNS'] ?? 6)

test.each(['report', 'walk'] as const)(
  '%ss: after each meeting the plan is the full difference, and each cell is asked for at most once',
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(steps, async (list) => {
        const source = sourceOf({ kind, mostPerRequest: kind === 'walk' ? 1 : 2 })
        const definition = definitionFor(source, { domains: ['a.com', 'b.com'], countries: ['us'] }, window)
        const sequence: Sequence = { source, definition }
        for (const step of list) await take(sequence, step)
      }),
      { numRuns, seed: 14 },
    )
  },
  numRuns * 20_000,
)

test.each([
  ['report', true],
  ['report', false],
  ['walk', true],
  ['walk', false],
] as const)(
  'of %ss: two pipelines that ask the same and are planned at once buy it once (known before: %s)',
  async (kind, isKnown) => {
    const source = sourceOf({ kind })
    const one = definitionFor(source, { domains: ['a.com', 'b.com'] })
    const two = { ...one, pipeline: `${one.pipeline}_twin` }
    for (const definition of isKnown ? [one, two] : []) await plan(db, { source, definition }, range('2025-12', '2025-12'))
    await keeper.query('select pg_advisory_lock($1)', [barrier])
    const ends: Promise<unknown>[] = []
    try {
      for (const definition of [one, two]) {
        ends.push(plan(db, { source, definition }, range('2026-06', '2026-08')))
        await untilBlocked(ends)
      }
    } finally {
      await keeper.query('select pg_advisory_unlock($1)', [barrier])
    }
    await Promise.all(ends)
    const bought = await db.query<{ cells: string }>(
      `select count(*) as cells from etl.units u join etl.jobs j using (job_id) join etl.pipelines p on p.pipeline_id = u.pipeline_id
      where p.pipeline in ($1, $2) and u.window_from >= '2026-01-01' and j.answer_id is null and j.served_by is null`,
      [one.pipeline, two.pipeline],
    )
    expect(bought).toEqual([{ cells: '6' }])
  },
)
