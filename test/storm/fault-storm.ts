// The storm itself: the same command again and again over a service where everything goes wrong, judged after every single run.
import type { DatabasePool } from '../../src/db/connect.ts'
import type { Books } from '../../src/sandbox/sandbox-server.ts'
import type { FaultKind } from '../../src/sandbox/fault-kinds.ts'
import type { Sandbox } from '../../src/sandbox/sandbox-server.ts'
import { areAllShrunk } from '../crash-matrix/warehouse.ts'
import { homeless, restless } from '../outsider/ledger-state.ts'
import { type CommandResult, runCommand, summaryOf } from '../support/command.ts'
import { type FaultClass, faultMix, randomFrom } from './fault-mix.ts'
import { createStormWorld, type StormWorld, startStormSandbox } from './storm-world.ts'
import { digestWarehouse, type LedgerUnit, ledgerUnits, sameDigest, type UnitDigest } from './warehouse-digest.ts'

export interface StormDatabase {
  readonly url: string
  readonly pool: DatabasePool
}

export interface StormOptions {
  /** Walks and reports. */
  readonly jobs: number
  readonly seed: number
  /** Commands under faults, in each phase. */
  readonly rounds: number
  /** What may go wrong in the first load, and in each restatement after it. */
  readonly phases: readonly (readonly FaultClass[])[]
  readonly calm: StormDatabase
  readonly stormy: StormDatabase
  readonly note: (text: string) => void
}

export interface StormFigures {
  readonly seed: number
  readonly jobs: number
  readonly units: number
  readonly rows: number
  readonly revisions: number
  readonly commands: number
  readonly green: number
  readonly requests: number
  readonly faults: number
  readonly faultKinds: number
  readonly reports: number
  /** Reports bought again because the answer was lost or the report was bad, each with consent. */
  readonly again: number
  /** Units that end held or waiting with their former rows: stuck reports, and answers that came back empty. */
  readonly left: number
  /** What must not be; empty when every promise held. */
  readonly wrong: readonly string[]
  readonly seconds: number
}

type Digests = ReadonlyMap<string, UnitDigest>

interface Storm {
  readonly options: StormOptions
  readonly world: StormWorld
  readonly sandbox: Sandbox
  readonly random: () => number
  readonly wrong: string[]
  readonly acted: Map<FaultKind, number>
  commands: number
  green: number
  /** Commands of this phase that asked for everything anew; the first load counts as one. */
  asked: number
  /** The highest ask number before this phase. */
  askedBefore: string
}

/** First load, a restatement, and another one under which answers also go bad for good: the first two must end green. */
export const wholeStorm: StormOptions['phases'] = [['passing'], ['passing'], ['passing', 'bought', 'lie', 'stuck']]
/** Commands without new faults after which nothing may be open but what a person must decide. */
const calmCommands = 4

export const runStorm = async (options: StormOptions): Promise<StormFigures> => {
  const began = performance.now()
  const world = createStormWorld(options.jobs)
  const sandbox = await startStormSandbox()
  try {
    const truth = await calmTruth(world, options)
    const storm: Storm = {
      options,
      world,
      sandbox,
      random: randomFrom(options.seed),
      wrong: [],
      acted: new Map(),
      commands: 0,
      green: 0,
      asked: 0,
      askedBefore: '0',
    }
    for (const [index, classes] of options.phases.entries()) {
      if (index > 0) restate(sandbox, world)
      await phase(storm, classes, truth[index] ?? new Map(), truth[index - 1] ?? new Map(), index === 0 ? [] : ['--force'])
    }
    return { ...(await figures(storm, truth.at(-1) ?? new Map())), seconds: Math.round((performance.now() - began) / 1000) }
  } finally {
    await sandbox.close()
    world.remove()
  }
}

/** Each month but the first changes, also the second time. */
const restate = (sandbox: Sandbox, world: StormWorld): void => {
  for (const month of world.months.slice(1)) sandbox.restate(month)
}

/** What a run without any fault loads, phase by phase. */
const calmTruth = async (world: StormWorld, { calm, note, phases }: StormOptions): Promise<Digests[]> => {
  const sandbox = await startStormSandbox()
  const truth: Digests[] = []
  for (const index of phases.keys()) {
    if (index > 0) restate(sandbox, world)
    const environment = world.environment(sandbox, calm.url, 'calm')
    const result = await runCommand([...world.command, ...(index === 0 ? [] : ['--force'])], environment, world.folder)
    // A restatement that takes a unit's only row away waits for a person.
    const isGood = result.code === 0 || (result.code === 1 && (await areAllShrunk(calm.pool)))
    if (!isGood) throw new Error(`The calm run ended with ${result.code}:\n${result.stderr}`)
    note(`calm: ${summaryOf(result).units.loaded} units in ${summaryOf(result).seconds} s`)
    truth.push(await digestWarehouse(calm.pool))
  }
  await sandbox.close()
  return truth
}

/** The command under ever new faults, then without, then with the consent its messages ask for. */
const phase = async (
  storm: Storm,
  classes: readonly FaultClass[],
  truth: Digests,
  before: Digests,
  first: readonly string[],
): Promise<void> => {
  const { random, sandbox, options } = storm
  storm.asked = 1
  storm.askedBefore = await lastAsk(storm)
  for (let round = 0; round < options.rounds; round += 1) {
    sandbox.configure({ faults: faultMix({ random, classes, jobs: options.jobs }) })
    await command(storm, truth, before, round === 0 ? first : [])
    countActed(storm)
  }
  sandbox.configure({ faults: [] })
  let openBefore = Number.POSITIVE_INFINITY
  for (let calm = 0; calm < calmCommands; calm += 1) {
    const count = (await open(storm)).length
    if (calm > 0 && (count === 0 || count >= openBefore)) break
    openBefore = count
    await command(storm, truth, before, [])
  }
  await boughtOnce(storm)
  if ((await open(storm)).length === 0) return
  await command(storm, truth, before, ['--resubmit-uncertain'])
  // An expired report, and an answer that was of no use, are bought again by force, which asks for everything anew.
  if ((await open(storm)).some(({ errorCode }) => errorCode === 'REPORT_EXPIRED' || errorCode === 'UNUSABLE')) {
    storm.asked += 1
    await command(storm, truth, before, ['--resubmit-uncertain', '--force'])
  }
  await boughtOnce(storm)
}

const lastAsk = async ({ options }: Storm): Promise<string> => {
  const { rows } = await options.stormy.pool.query<{ ask: string }>(
    `select coalesce(max(ask_number), 0)::text as ask from etl.jobs`,
  )
  return rows[0]?.ask ?? '0'
}

const open = async ({ options }: Storm): Promise<LedgerUnit[]> =>
  (await ledgerUnits(options.stormy.pool)).filter(({ state }) => state !== 'loaded')

const command = async (storm: Storm, truth: Digests, before: Digests, more: readonly string[]): Promise<number | null> => {
  const { world, sandbox, options } = storm
  await hoursLater(options)
  const environment = world.environment(sandbox, options.stormy.url, 'stormy')
  const result = await runCommand([...world.command, ...more], environment, world.folder)
  storm.commands += 1
  await judge(storm, result, truth, before)
  return result.code
}

/** Nights are a day apart: what refusals of the last one taught about the rate is not believed any more. */
const hoursLater = async ({ stormy }: StormOptions): Promise<void> => {
  await stormy.pool.query(
    `update etl.pace set changed_at = changed_at - interval '1 day', refused_at = refused_at - interval '1 day'`,
  )
}

/** Every unit holds the rows it had or the rows it should have, never anything between; green means that all hold the latter. */
const judge = async (storm: Storm, result: CommandResult, truth: Digests, before: Digests): Promise<void> => {
  const { wrong, options } = storm
  const at = `command ${storm.commands}`
  if (result.code !== 0 && result.code !== 1) wrong.push(`${at}: exit ${result.code}\n${result.stderr.slice(-2_000)}`)
  if (/\[INTERNAL\]|defect/.test(result.stderr + result.stdout)) wrong.push(`${at}: INTERNAL\n${internalOf(result)}`)
  const held = await digestWarehouse(options.stormy.pool)
  const ledger = await ledgerUnits(options.stormy.pool)
  const states = new Map(ledger.map((unit) => [unit.key, unit]))
  for (const [key, digest] of held) {
    if (!sameDigest(digest, truth.get(key)) && !sameDigest(digest, before.get(key)))
      wrong.push(`${at}: ${key} (${states.get(key)?.state}) holds ${digest.rows} rows that no answer has as a whole`)
  }
  for (const [key] of before) if (!held.has(key)) wrong.push(`${at}: ${key} lost its rows`)
  const notYet = [...truth.keys()].filter((key) => !sameDigest(held.get(key), truth.get(key)))
  if (result.code === 0) storm.green += 1
  if (result.code === 0 && notYet.length > 0) wrong.push(`${at}: green, but wrong: ${notYet.slice(0, 5).join(', ')}`)
  for (const key of notYet) {
    const unit = states.get(key)
    if (unit?.state === 'loaded' && Number(unit.askNumber) > Number(storm.askedBefore))
      wrong.push(`${at}: ${key} is marked loaded and holds other rows`)
  }
  const { loaded, unchanged, waiting, held: kept, failed } = summaryOf(result).units
  options.note(
    `${at}: exit ${result.code}; ${loaded} loaded, ${unchanged} unchanged, ${waiting} waiting, ${kept} held, ${failed} failed; ${wrong.length} wrong`,
  )
}

const internalOf = ({ stdout, stderr }: CommandResult): string =>
  `${stdout}\n${stderr}`
    .split('\n')
    .filter((line) => /INTERNAL|defect/.test(line))
    .slice(0, 3)
    .join('\n')

const countActed = ({ sandbox, acted }: Storm): void => {
  for (const { fault } of sandbox.books().requests) if (fault !== null) acted.set(fault as FaultKind, 1)
}

/** The sandbox's books against the ledger: each submission that took effect has a record of its own, and no unit was bought more often than it was asked for. */
const boughtOnce = async ({ sandbox, options, wrong, asked, askedBefore }: Storm): Promise<void> => {
  const { pool } = options.stormy
  const { rows } = await pool.query<{ request: unknown }>(
    `select request from etl.jobs where report_state is not null and request is not null order by job_id`,
  )
  const onRecord = counted(rows.map(({ request }) => request))
  for (const [body, count] of counted(sandbox.books().submissions.map((submission) => submission.body)))
    if (count > (onRecord.get(body) ?? 0))
      wrong.push(`bought ${count} times, on record ${onRecord.get(body) ?? 0} times: ${body}`)
  // Purchases that are uncertain, failed, rejected or expired may be made again; the others stand.
  const twice = await pool.query<{ line: string }>(
    `select u.unit_key || ': ' || string_agg(j.job_id || ' ' || j.report_state, ', ' order by j.job_id) as line
     from etl.jobs j join etl.unit_list u on u.pipeline_id = j.pipeline_id and u.slice_id = any (j.slice_ids)
       and u.window_from >= j.window_from and u.window_from < j.window_to
     where j.report_state in ('submitted', 'ready', 'downloaded') and j.ask_number > $1 group by u.unit_key having count(*) > $2`,
    [askedBefore, asked],
  )
  for (const { line } of twice.rows) wrong.push(`bought twice: ${line}`)
}

const counted = (bodies: readonly unknown[]): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const body of bodies) {
    const text = JSON.stringify(sorted(body))
    counts.set(text, (counts.get(text) ?? 0) + 1)
  }
  return counts
}

/** jsonb keeps its own order of keys. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .sort(([left], [right]) => (left < right ? -1 : 1))
      .map(([name, inner]) => [name, sorted(inner)]),
  )
}

/** A report never finished, an answer that lost its rows, a report that was bought and is bad: each needs a person. */
const mayBeLeft = new Set(['REPORT_PENDING', 'SHRUNK', 'TOO_MANY_REJECTS', 'BAD_RESPONSE', 'TRUNCATED', 'INCOMPLETE'])

const figures = async (storm: Storm, truth: Digests): Promise<Omit<StormFigures, 'seconds'>> => {
  const { options, sandbox, wrong, acted } = storm
  const { pool } = options.stormy
  const held = await digestWarehouse(pool)
  const left = await open(storm)
  // A report that is never finished is still open.
  const leftovers = (await restless(pool)).filter((line) => left.length === 0 || !line.startsWith('a job is still open'))
  wrong.push(...leftovers, ...(await homeless(pool)))
  const leftKeys = new Set(left.map(({ key }) => key))
  for (const [key, digest] of truth)
    if (!leftKeys.has(key) && !sameDigest(digest, held.get(key))) wrong.push(`at the end: ${key} differs from the calm run`)
  for (const { key, state, errorCode } of left)
    if (!mayBeLeft.has(errorCode ?? '')) wrong.push(`at the end: ${key} is ${state} (${errorCode})`)
  const books: Books = sandbox.books()
  const { rows } = await pool.query<{ revisions: number; again: number }>(
    `select (select count(*)::int from data.keywords_v1_history) + (select count(*)::int from data.traffic_and_engagement_v1_history) +
       (select count(*)::int from data.shopper_category_performance_v1_history) as revisions,
       (select count(*)::int from etl.jobs j join etl.jobs f on f.job_id = j.former_job_id
         where j.submitted_at is not null and f.report_state in ('uncertain', 'failed', 'rejected', 'expired')) as again`,
  )
  return {
    seed: options.seed,
    jobs: options.jobs,
    units: (await ledgerUnits(pool)).length,
    rows: [...held.values()].reduce((sum, { rows: count }) => sum + count, 0),
    revisions: rows[0]?.revisions ?? 0,
    commands: storm.commands,
    green: storm.green,
    requests: Object.values(books.counts).reduce((sum, count) => sum + count, 0),
    faults: books.requests.filter(({ fault }) => fault !== null).length,
    faultKinds: acted.size,
    reports: books.submissions.length,
    again: rows[0]?.again ?? 0,
    left: left.length,
    wrong,
  }
}
