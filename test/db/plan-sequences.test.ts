// Any sequence of list edits, loads, failures, force and dead runs: the incremental plan equals the full set difference, and nothing is bought twice.
import fc from 'fast-check'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { windowsBetween } from '../../src/core/window.ts'
import { firstPriority } from '../../src/ledger/wait-list.ts'
import { cellsOf, closedWindows, died, type JobBox, jobsOf, loaded, submitted } from '../support/plan-ledger.ts'
import { newRun } from '../support/ledger.ts'
import { setJob } from '../support/ledger-answers.ts'
import { definitionFor, type Planning, plan, preview, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const allDomains = ['a.com', 'b.com', 'c.com', 'd.com']
const allCountries = ['gb', 'us', 'world']
const allMonths = ['2025-01', '2025-02', '2025-03', '2025-04']

const someOf = (values: string[]) => fc.subarray(values, { minLength: 1 })
const action = fc.oneof(
  { weight: 3, arbitrary: fc.record({ does: fc.constant('plan' as const), months: someOf(allMonths), force: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({ does: fc.constant('edit' as const), domains: someOf(allDomains), countries: someOf(allCountries) }),
  },
  { weight: 2, arbitrary: fc.record({ does: fc.constantFrom('submit' as const, 'load' as const), which: fc.nat() }) },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constantFrom('fail' as const, 'hold' as const, 'die' as const), which: fc.nat() }),
  },
)

const key = (month: string, domain: string, country: string): string => `${month} ${domain} ${country}`

const overlap = (left: JobBox, right: JobBox): boolean => left.cells.some((cell) => right.cells.includes(cell))

const sequence = async (
  kind: 'walk' | 'report',
  actions: readonly (typeof action extends fc.Arbitrary<infer A> ? A : never)[],
): Promise<void> => {
  const source = sourceOf({ kind, mostPerRequest: kind === 'walk' ? 1 : 2 })
  let definition = definitionFor(source, { domains: ['a.com'], countries: ['us'] })
  let lists = { domains: ['a.com'], countries: ['us'] }
  const runs: number[] = []
  for (const step of actions) {
    if (step.does === 'plan') {
      const [first = '', last = ''] = [step.months[0], step.months.at(-1)]
      const planning: Planning = { source, definition }
      const before = runs.length === 0 ? [] : await cellsOf(db, definition)
      const jobsBefore = runs.length === 0 ? [] : await jobsOf(db, definition)
      const scope = range(first, last, { force: step.force })
      const foreseen = await preview(db, planning, scope)
      if (runs.length > 0) expect(await cellsOf(db, definition), 'a preview leaves nothing').toEqual(before)
      const { runId, ...counts } = await plan(db, planning, scope)
      runs.push(runId)
      // The preview is the planner: what it foresees the run then waits for, but for what was bought outside its scope.
      const rows = await db.query<{ units: number; made: number }>(
        `select coalesce(sum(w.units), 0)::int as units, count(*) filter (where j.run_id = $1)::int as made
         from etl.run_jobs w join etl.jobs j using (job_id) where w.run_id = $1 and w.priority <> $2`,
        [runId, firstPriority],
      )
      const [{ done, held }] = foreseen.pipelines as [(typeof foreseen.pipelines)[0]]
      expect({ units: foreseen.jobs.reduce((total, { units }) => total + units, 0), done, held }, 'as foreseen').toEqual({
        units: rows[0]?.units,
        done: counts.done,
        held: counts.held,
      })
      if (kind === 'report')
        expect(foreseen.jobs.filter(({ reports }) => reports === 1).length).toBeGreaterThanOrEqual(rows[0]?.made ?? 0)
      const jobs = await jobsOf(db, definition)
      const cells = new Map((await cellsOf(db, definition)).map((cell) => [cell.cell, cell]))
      const was = new Map(before.map((cell) => [cell.cell, cell]))
      const wanted = windowsBetween(`${first}-01`, `${last}-02`, 'month').flatMap(({ from }) =>
        lists.domains.flatMap((domain) => lists.countries.map((country) => key(from.slice(0, 7), domain, country))),
      )
      const own = new Set(jobs.filter(({ waiting }) => waiting.includes(runId)).map(({ jobId }) => jobId))
      let waits = 0
      const kept = { done: 0, held: 0 }
      for (const cell of wanted) {
        const now = cells.get(cell)
        const then = was.get(cell)
        const job = jobsBefore.find(({ jobId }) => jobId === then?.jobId)
        if (then?.jobState === 'held' && now?.jobId === then.jobId) kept.held += 1
        else if (then?.answerId != null && then.jobId === null && !step.force) kept.done += 1
        else {
          waits += 1
          expect(now?.jobId !== null && own.has(now?.jobId ?? 0), `${cell} is waited for`).toBe(true)
          if (job?.state === 'open' && job.askNumber !== null && !step.force)
            expect(now?.jobId, `${cell} was asked for`).toBe(job.jobId)
        }
      }
      expect({ done: counts.done, held: counts.held }).toEqual(kept)
      expect(counts.units).toBeGreaterThanOrEqual(waits)
      // No cell is in two jobs that are still to be asked, and none that was asked for is asked for again without force.
      const open = jobs.filter(({ state }) => state === 'open')
      for (const [index, one] of open.entries())
        for (const other of open.slice(index + 1))
          if (overlap(one, other)) expect(one.askNumber !== null && other.forced, `${one.jobId} and ${other.jobId}`).toBe(true)
      const closed = await closedWindows(db, definition)
      for (const cell of cells.values())
        if (closed[cell.cell.slice(0, 7)] !== undefined) expect(cell).toMatchObject({ jobId: null, held: false })
    } else if (step.does === 'edit') {
      lists = { domains: step.domains, countries: step.countries }
      definition = withLists(definition, lists)
    } else if (runs.length > 0) {
      if (step.does === 'die') await died(db, runs[step.which % runs.length] ?? 0)
      const open = (await jobsOf(db, definition)).filter(({ state }) => state === 'open')
      const job = open[step.which % Math.max(1, open.length)]
      if (job === undefined) continue
      if (step.does === 'submit' && kind === 'report' && job.askNumber === null) await submitted(db, job.jobId)
      if (step.does === 'load') await loaded(db, job.jobId)
      if (step.does === 'fail') await settle(job, { state: 'failed', error_code: 'SERVICE_ERROR' })
      if (step.does === 'hold') await settle(job, { state: 'held', error_code: 'SHRUNK' })
    }
  }
}

const settle = async ({ jobId }: JobBox, set: Parameters<typeof setJob>[2]): Promise<void> => {
  await setJob(db, jobId, set)
  await sql`update etl.run_jobs set outcome = 'failed' where job_id = ${jobId} and outcome is null`.execute(db.database.kysely)
}

test.each(['report', 'walk'] as const)(
  '%ss',
  async (kind) => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 4, maxLength: 14 }), (actions) => sequence(kind, actions)),
      { numRuns: Number(process.env['PLAN_SEQUENCES'] ?? 20) },
    )
  },
  240_000,
)

test('two planners at once over 1,000 stale units make each job once, and both wait for all of them', async () => {
  const source = sourceOf({ kind: 'report', mostPerRequest: 10 })
  const domains = Array.from({ length: 250 }, (_, index) => `d${String(index).padStart(3, '0')}.com`)
  const definition = definitionFor(source, { domains }, { from: '2026-01-01', lookBack: 60 })
  const planning = { source, definition }
  const scope = { ...range('2026-01', '2026-04'), force: false }
  await plan(db, planning, scope)
  for (const { jobId } of await jobsOf(db, definition)) await loaded(db, jobId, { askedAt: '2026-01-01T00:00:00Z' })
  for (const [round, jobs] of [
    [1, 25],
    [2, 25],
  ] as const) {
    const runs = [await newRun(db), await newRun(db)]
    const counts = await Promise.all(runs.map((runId) => plan(db, planning, { mode: 'due' }, runId)))
    const open = (await jobsOf(db, definition)).filter(({ state }) => state === 'open')
    const cells = open.flatMap((job) => job.cells)
    expect(new Set(cells).size, `round ${round}`).toBe(cells.length)
    expect(open.length, `round ${round}`).toBeGreaterThanOrEqual(jobs)
    for (const { units } of counts) expect(units).toBe(cells.length)
    for (const { waiting } of open) expect(waiting).toEqual(expect.arrayContaining(runs))
    for (const { jobId } of open) await loaded(db, jobId, { askedAt: '2026-01-01T00:00:00Z' })
  }
})
