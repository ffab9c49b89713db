// Histories of nights, ranges, --force, failures, words and lists over two pipelines of an account, judged by what docs/every-night.md says of the guard,
// worked out in memory from what was bought: never more than it allows without a person's word, never less than a quiet night needs.
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { windowsBetween } from '../../src/core/window.ts'
import type { Source } from '../../src/extract/source.ts'
import { approve, withdraw } from '../../src/ledger/approvals.ts'
import { allLoaded, cellsOf, jobsOf, pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, range, sourceOf, withLists } from '../support/planning.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

/** `GUARD_ORACLE_RUNS=500` plays so many histories. */
const runs = Number(process.env['GUARD_ORACLE_RUNS'] ?? 12)
const seed = Number(process.env['GUARD_ORACLE_SEED'] ?? 30)

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const hourMs = 3_600_000
const dayMs = 24 * hourMs
const factor = 2
const pool = Array.from({ length: 14 }, (_, index) => `d${String(index).padStart(2, '0')}.com`)

// The newest published months at whatever moment the test runs, oldest first.
const months = ((): readonly string[] => {
  const today = new Date()
  const first = today.getTime() - 5 * hourMs >= Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), 10) ? 1 : 2
  return [3, 2, 1, 0].map((back) =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - first - back, 15)).toISOString().slice(0, 7),
  )
})()
const recent = new Set(months.slice(-2))

const pricedAt = (credits: number): Source => ({
  ...sourceOf({ kind: 'report' }),
  estimate: async ({ box }) => {
    const values = Object.values(box.slice).reduce((total, one) => total * [one].flat().length, 1)
    const units = values * windowsBetween(box.window.from, box.window.to, 'month').length
    return { requests: null, rows: null, quota: credits * units }
  },
})

type Wish = 'usual' | 'beyond' | 'person'

interface Purchase {
  readonly wish: Wish
  readonly credits: number
  readonly report: number
  atMs: number
}

interface Pipe {
  planning: Planning
  list: readonly string[]
  readonly price: number
  /** What has been in the list since the pipeline was planned first; null: it was not yet. */
  firstList: readonly string[] | null
  /** `month value`: loaded. */
  readonly loaded: Set<string>
  /** Who first wanted what is not loaded yet. */
  readonly wishes: Map<string, Wish>
  /** Oldest month that a night has bought of the value. */
  readonly nightFrom: Map<string, string>
  readonly bought: Purchase[]
}

const of = (cell: string): readonly [month: string, value: string] => [cell.slice(0, 7), cell.slice(8)]

/** Loaded in one of the three newest months that hold anything, or in the list from the beginning. */
const isKnown = ({ loaded, firstList }: Pipe, value: string): boolean => {
  const holding = [...new Set([...loaded].map((cell) => of(cell)[0]))].sort().slice(-3)
  return firstList === null || firstList.includes(value) || holding.some((month) => loaded.has(`${month} ${value}`))
}

/** Of a cell that nobody has asked for before. */
const usualNow = (pipe: Pipe, cell: string): boolean => {
  const [month, value] = of(cell)
  return isKnown(pipe, value) && (recent.has(month) || (pipe.nightFrom.get(value) ?? '9') <= month)
}

const sum = (purchases: readonly Purchase[], pick: (one: Purchase) => boolean): number =>
  purchases.reduce((total, one) => total + (pick(one) ? one.credits : 0), 0)

/** The most expensive day (UTC) of the last 35, as usual. */
const dearest = (purchases: readonly Purchase[], nowMs: number): number => {
  const days = new Map<number, number>()
  for (const { wish, atMs, credits } of purchases)
    if (wish === 'usual' && nowMs - atMs < 35 * dayMs) {
      const day = Math.floor(atMs / dayMs)
      days.set(day, (days.get(day) ?? 0) + credits)
    }
  return Math.max(0, ...days.values())
}

/** What a run bought that began more than 22 hours ago is yesterday's (docs/internals/decisions/0008). */
const isNew = ({ atMs }: Purchase, nowMs: number): boolean => nowMs - atMs < 22 * hourMs

/** What 24 hours may cost without a word: of the pipeline, and of its account. */
const allowed = (
  own: readonly Purchase[],
  all: readonly Purchase[],
  report: number,
  nowMs: number,
): readonly [number, number] => {
  const bound = (purchases: readonly Purchase[]): number => {
    const usual = sum(purchases, (one) => one.wish === 'usual' && isNew(one, nowMs))
    return Math.max(factor * Math.max(dearest(purchases, nowMs), usual), report)
  }
  return [bound(own), bound(all)]
}

const action = fc.oneof(
  { weight: 6, arbitrary: fc.record({ does: fc.constant('night' as const), fails: fc.boolean() }) },
  {
    weight: 2,
    arbitrary: fc.record({
      does: fc.constant('range' as const),
      from: fc.nat(3),
      count: fc.nat(3),
      force: fc.boolean(),
      fails: fc.boolean(),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ does: fc.constant('list' as const), first: fc.nat(6), count: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 4, arbitrary: fc.record({ does: fc.constant('grow' as const), by: fc.integer({ min: 1, max: 2 }) }) },
  {
    weight: 3,
    arbitrary: fc.record({ does: fc.constant('later' as const), hours: fc.constantFrom(1, 5, 23, 25, 24 * 7, 24 * 40) }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constantFrom('approve' as const, 'withdraw' as const) }) },
)
type Action = typeof action extends fc.Arbitrary<infer A> ? A : never
type Step = readonly [which: number, action: Action]
const tonight: Action = { does: 'night', fails: false }
const nextDay: Action = { does: 'later', hours: 25 }
const grown = fc.integer({ min: 1, max: 3 }).map((by): Action => ({ does: 'grow', by }))
/** One thing after another; and, what chance alone seldom brings: usual nights on days of their own, and both pipelines grown within one day. */
const episode = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.nat(1), action).map((step): Step[] => [step]) },
  {
    weight: 1,
    arbitrary: fc.constant(
      [0, 1].flatMap((which): Step[] => [
        [which, tonight],
        [which, nextDay],
      ]),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.tuple(grown, grown).map((both): Step[] =>
      both.flatMap((one, which) => [
        [which, one],
        [which, tonight],
      ]),
    ),
  },
)
const history = fc.array(episode, { minLength: 4, maxLength: 12 }).map((episodes) => episodes.flat())

/** What former histories left makes the guard's questions slow. */
const historiesADatabase = 20
let histories = 0

const play = async (steps: readonly Step[], both: boolean): Promise<void> => {
  histories += 1
  if (histories % historiesADatabase === 0) {
    await db.drop()
    db = await createTestDatabase()
  }
  const pipes = [3, 5].map((price): Pipe => {
    const source = pricedAt(price)
    const firstList = pool.slice(0, 3)
    const definition = definitionFor(source, { domains: firstList }, { from: `${months[0]}-01`, lookBack: 2 })
    const guard = { creditsPerNight: null, factor }
    return {
      ...{ planning: { source, definition: { ...definition, guard } }, list: firstList, price, firstList: null },
      ...{ loaded: new Set(), wishes: new Map(), nightFrom: new Map(), bought: [] },
    }
  })
  const account = pipes[0]?.planning.definition.pipeline ?? ''
  for (const pipe of pipes) pipe.planning = { ...pipe.planning, definition: { ...pipe.planning.definition, account } }
  for (const [which, one] of steps) {
    const pipe = pipes[both ? which : 0] as Pipe
    await take(pipes, pipe, one)
  }
}

const take = async (pipes: readonly Pipe[], pipe: Pipe, one: Action): Promise<void> => {
  const { kysely } = db.database
  switch (one.does) {
    case 'grow':
    case 'list':
      if (one.does === 'list') pipe.list = pool.slice(one.first, one.first + one.count)
      else pipe.list = pool.filter((value, place) => pipe.list.includes(value) || place < pipe.list.length + one.by)
      pipe.planning = { ...pipe.planning, definition: withLists(pipe.planning.definition, { domains: pipe.list }) }
      return
    case 'later':
      return later(pipes, one.hours)
    case 'approve':
    case 'withdraw': {
      if (pipe.firstList === null) return
      const { pipeline } = pipe.planning.definition
      const held = await heldCells(pipe)
      if (one.does === 'approve') {
        await approve(kysely, [pipeline], 'ada')
        for (const cell of held) pipe.wishes.set(cell, 'person')
      } else {
        await withdraw(kysely, [pipeline], 'ada')
        for (const [cell, wish] of pipe.wishes) if (wish === 'person') pipe.wishes.delete(cell)
      }
      return
    }
    case 'range':
      return named(pipe, one)
    case 'night':
      return night(pipes, pipe, one.fails)
  }
}

/** Planning reads the list: a value that has left it comes back as a new one. */
const beginWith = (pipe: Pipe): void => {
  pipe.firstList = (pipe.firstList ?? pipe.list).filter((value) => pipe.list.includes(value))
}

const later = async (pipes: readonly Pipe[], hours: number): Promise<void> => {
  for (const { bought } of pipes) for (const purchase of bought) purchase.atMs -= hours * hourMs
  await db.database.pool.query(
    `with moved as (update etl.jobs j set asked_at = asked_at - $2 * interval '1 hour' from etl.pipelines p
       where p.pipeline_id = j.pipeline_id and p.account = $1 and asked_at is not null returning run_id)
     update etl.runs set started_at = started_at - $2 * interval '1 hour' where run_id in (select run_id from moved)`,
    [pipes[0]?.planning.definition.account, hours],
  )
}

const named = async (pipe: Pipe, { from, count, force, fails }: Extract<Action, { does: 'range' }>): Promise<void> => {
  beginWith(pipe)
  const span = months.slice(from, from + count + 1)
  const { runId } = await plan(db, pipe.planning, range(span[0] ?? '', span.at(-1) ?? '', { force }))
  await db.database.pool.query(`update etl.runs set command = 'backfill' where run_id = $1`, [runId])
  const open = await openCells(pipe)
  const wanted = span.flatMap((month) => pipe.list.map((value) => `${month} ${value}`))
  for (const cell of wanted) {
    if (!force && pipe.loaded.has(cell)) continue
    expect(open.has(cell), `${cell} was named by a person`).toBe(true)
    pipe.wishes.set(cell, 'person')
  }
  await end(pipe, runId, fails)
}

/** Cells of jobs that may be bought now, with their job. */
const openCells = async ({ planning }: Pipe): Promise<Map<string, number>> =>
  new Map(
    (await jobsOf(db, planning.definition))
      .filter(({ state, askNumber }) => state === 'open' && askNumber === null)
      .flatMap(({ jobId, cells }) => cells.map((cell) => [cell, jobId] as const)),
  )

const heldCells = async ({ planning, firstList }: Pipe): Promise<ReadonlySet<string>> => {
  const jobs = firstList === null ? [] : await jobsOf(db, planning.definition)
  return new Set(jobs.flatMap(({ state, askNumber, cells }) => (state === 'held' && askNumber === null ? cells : [])))
}

const night = async (pipes: readonly Pipe[], pipe: Pipe, fails: boolean): Promise<void> => {
  // What waits for a word goes on waiting for it.
  const waiting = await heldCells(pipe)
  beginWith(pipe)
  const wanted = months.flatMap((month) => pipe.list.map((value) => `${month} ${value}`)).filter((cell) => !pipe.loaded.has(cell))
  const usual = wanted.filter(
    (cell) => !waiting.has(cell) && (pipe.wishes.get(cell) ?? (usualNow(pipe, cell) ? 'usual' : 'beyond')) === 'usual',
  )
  const { runId } = await plan(db, pipe.planning, { mode: 'due' })
  const open = await openCells(pipe)
  for (const cell of usual) expect(open.has(cell), `${cell} is what a quiet night needs`).toBe(true)
  for (const cell of open.keys()) {
    const wish = pipe.wishes.get(cell)
    if (wish === undefined) pipe.wishes.set(cell, usualNow(pipe, cell) ? 'usual' : 'beyond')
  }
  const before = new Set(pipe.bought.map(({ report }) => report))
  const usualReports = new Set(pipe.bought.flatMap(({ wish, report }) => (wish === 'usual' ? [report] : [])))
  const mean = sum(pipe.bought, ({ wish }) => wish === 'usual') / Math.max(1, usualReports.size)
  const bought = await end(pipe, runId, fails)
  const nowMs = Date.now()
  const all = pipes.flatMap((one) => one.bought)
  const beyond = sum(bought, ({ wish }) => wish === 'beyond')
  if (beyond === 0) return
  const first = Math.min(100, pipe.list.length) * pipe.price
  const [own, together] = allowed(pipe.bought, all, before.size === 0 ? first : mean, nowMs)
  const unasked = (purchases: readonly Purchase[]): number => sum(purchases, (one) => one.wish !== 'person' && isNew(one, nowMs))
  expect(unasked(pipe.bought), `${beyond} beyond the usual: of the pipeline`).toBeLessThanOrEqual(own)
  expect(unasked(all), `${beyond} beyond the usual: of the account`).toBeLessThanOrEqual(together)
}

/** What may be bought is bought and loaded, or fails before anything is. */
const end = async (pipe: Pipe, run: number, fails: boolean): Promise<readonly Purchase[]> => {
  const { definition } = pipe.planning
  const id = await pipelineIdOf(db, definition)
  const open = await openCells(pipe)
  await db.database.pool.query(`update etl.runs set state = $2 where run_id = $1`, [run, fails ? 'failed' : 'done'])
  if (fails) {
    await db.database.pool.query(
      `update etl.jobs set state = 'failed', error_code = 'SERVICE_ERROR' where pipeline_id = $1 and state = 'open' and ask_number is null`,
      [id],
    )
    await db.database.pool.query(`update etl.run_jobs set outcome = 'failed' where run_id = $1 and outcome is null`, [run])
    return []
  }
  await db.database.pool.query(
    `update etl.jobs set state = 'open', ask_number = nextval('etl.ask_numbers'), asked_at = clock_timestamp(), run_id = $2, report_state = 'downloaded',
       report_id = 'r' || job_id, used_quota = $3::int * cells where pipeline_id = $1 and state = 'open' and ask_number is null`,
    [id, run, pipe.price],
  )
  await allLoaded(db, definition)
  const nowMs = Date.now()
  const bought = [...open].map(
    ([cell, report]): Purchase => ({
      ...{ wish: pipe.wishes.get(cell) ?? 'beyond', credits: pipe.price, report, atMs: nowMs },
    }),
  )
  pipe.bought.push(...bought)
  for (const cell of open.keys()) {
    const [month, value] = of(cell)
    if (pipe.wishes.get(cell) !== 'person' && (pipe.nightFrom.get(value) ?? '9') > month) pipe.nightFrom.set(value, month)
    pipe.wishes.delete(cell)
    pipe.loaded.add(cell)
  }
  const loaded = (await cellsOf(db, definition)).filter(({ answerId }) => answerId !== null).map(({ cell }) => cell)
  expect([...pipe.loaded].sort()).toEqual(loaded.sort())
  return bought
}

test(
  'nights buy no more than is allowed without a word, and never less than a quiet night needs',
  async () => {
    await fc.assert(fc.asyncProperty(history, fc.boolean(), play), {
      numRuns: runs,
      seed,
    })
  },
  120_000 + runs * 20_000,
)
