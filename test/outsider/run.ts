// `node test/outsider/run.ts --only pairs,lists --pairs 200 --seed 1`: the whole of what the samples beside it try, over a PostgreSQL of its own.
import { parseArgs } from 'node:util'
import { useCompiledProgram } from '../support/program.ts'
import { tryBeside } from './beside.ts'
import { startDatabases } from './databases.ts'
import { tryHeld } from './held.ts'
import { hasNamespaces, tryContainerAgain, tryDeadHost, tryNeighbours, tryWrongClock, wrongClocks } from './hosts.ts'
import { trySharedLanding } from './landings.ts'
import { trySequence } from './lists.ts'
import { tryPacked, trySplit } from './packed.ts'
import { describePair, drawPairs, tryPair } from './pairs.ts'
import { stops, tryPartlyRefreshed, tryStoppedNight } from './refreshes.ts'
import { type PartFigures, writeFigures } from './section.ts'
import { stopsOfLoads, trySlowMerge, tryStopped } from './slow-merge.ts'
import { tryKill, trySleep, tryMidLoad } from './takeover.ts'
import { tryTwins } from './twins.ts'

const all = [
  'pairs',
  'twins',
  'beside',
  'lists',
  'packed',
  'split',
  'kill',
  'sleep',
  'load',
  'slow',
  'hosts',
  'clocks',
  'landing',
  'held',
  'nights',
]
const { values } = parseArgs({
  options: {
    /** One more: `clone`, which is not promised by this design yet. */
    only: { type: 'string', default: all.join() },
    seed: { type: 'string', default: '1' },
    pairs: { type: 'string', default: '200' },
    sequences: { type: 'string', default: '500' },
    refreshes: { type: 'string', default: '2000' },
    times: { type: 'string', default: '20' },
    jobs: { type: 'string', default: '10000' },
    domains: { type: 'string', default: '1000' },
    /** How long the slow load takes: three leases and more. */
    seconds: { type: 'string', default: '62' },
    /** Of pairs and sequences, from this number on (the first is 1). */
    at: { type: 'string', default: '1' },
    /** Sequences tried beside each other, each on a warehouse of its own. */
    lanes: { type: 'string', default: '2' },
    /** After so many no further pair or sequence is begun; default: all are tried. */
    minutes: { type: 'string' },
    /** Into docs/internals/reliability.md. */
    write: { type: 'boolean', default: false },
    compiled: { type: 'boolean', default: true },
  },
  allowNegative: true,
})

const chosen = values.only.split(',')
const seed = Number(values.seed)
const begin = Number(values.at) - 1
const isTimeUp = (): boolean => values.minutes !== undefined && performance.now() > Number(values.minutes) * 60_000
const removeProgram = values.compiled ? await useCompiledProgram() : () => undefined
const databases = await startDatabases()
const note = (text: string): void => void process.stderr.write(`${text}\n`)
let [tried, failed] = [0, 0]
let figures: string[] = []

interface Outcome {
  readonly wrong: readonly string[]
  /** Figures or a story, told beside the outcome. */
  readonly told?: string
}

const attempt = async (name: string, work: () => Promise<Outcome>): Promise<void> => {
  const began = performance.now()
  const { wrong, told } = await work().catch((error: unknown): Outcome => {
    return { wrong: [error instanceof Error ? (error.stack ?? error.message) : String(error)] }
  })
  tried += 1
  if (wrong.length > 0) failed += 1
  note(`${wrong.length === 0 ? 'ok   ' : 'WRONG'} ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`)
  if (told !== undefined) note(`      ${told}`)
  if (told !== undefined && wrong.length === 0) figures.push(told)
  for (const line of wrong) note(`    - ${line.trimEnd().replaceAll('\n', '\n        ')}`)
}

const parts: Readonly<Record<string, () => Promise<void>>> = {
  pairs: async () => {
    for (const [index, pair] of drawPairs(begin + Number(values.pairs), seed).entries())
      if (index >= begin && !isTimeUp())
        await attempt(`pair ${index + 1}: ${describePair(pair)}`, async () => ({ wrong: await tryPair(databases, pair) }))
  },
  twins: () =>
    attempt('two nightly runs', async () => {
      const options = { refreshes: Number(values.refreshes), times: Number(values.times), seed }
      const { alone, together, wrong } = await tryTwins(databases, options)
      return {
        wrong,
        told: `alone ${alone.toFixed(1)} s, together ${together.map((seconds) => seconds.toFixed(1)).join(', ')} s`,
      }
    }),
  beside: () =>
    attempt('a report beside a backfill', async () => {
      const { alone, beside, wrong } = await tryBeside(databases, Number(values.jobs))
      return { wrong, told: `alone ${alone.toFixed(1)} s, beside ${beside.toFixed(1)} s` }
    }),
  lists: async () => {
    let next = begin
    const lane = async (): Promise<void> => {
      for (let index = next++; index < begin + Number(values.sequences) && !isTimeUp(); index = next++)
        await attempt(`sequence ${index + 1}`, async () => {
          const { story, reports, wrong } = await trySequence(databases, seed * 100_000 + index)
          return { wrong, told: wrong.length === 0 ? `${reports} reports` : story.join('\n        ') }
        })
    }
    await Promise.all(Array.from({ length: Number(values.lanes) }, lane))
  },
  packed: () =>
    attempt('36 months in few reports', async () => {
      const options = { domains: Number(values.domains), months: 36, reportSeconds: 30, mostReports: 12 }
      const { reports, credits, seconds, peakMb, wrong } = await tryPacked(databases, options)
      return { wrong, told: `${reports} reports, ${credits} credits, ${seconds.toFixed(0)} s, ${peakMb} MB` }
    }),
  split: () => attempt('refused reports are split', async () => ({ wrong: await trySplit(databases) })),
  kill: () => attempt('killed, and the same again', async () => ({ wrong: await tryKill(databases) })),
  sleep: () => attempt('asleep for longer than a lease', async () => ({ wrong: await trySleep(databases) })),
  load: () => attempt('killed in the middle of a load', async () => ({ wrong: await tryMidLoad(databases) })),
  slow: async () => {
    await attempt('a load of three leases', async () => ({
      wrong: await trySlowMerge(databases, { seconds: Number(values.seconds) }),
    }))
    for (const stop of stopsOfLoads)
      await attempt(`${stop.signal} ${stop.where === 'between' ? 'between two windows' : 'in a window'}`, async () => ({
        wrong: await tryStopped(databases, stop),
      }))
  },
  held: () => attempt('held, and asked for by force', async () => ({ wrong: await tryHeld(databases) })),
  nights: async () => {
    await attempt('a night after most was refreshed by hand', async () => ({ wrong: await tryPartlyRefreshed(databases) }))
    for (const stop of stops)
      for (const pipeline of ['keywords', 'traffic_and_engagement'] as const)
        await attempt(`a night of ${pipeline} stopped by ${stop}`, async () => ({
          wrong: await tryStoppedNight(databases, pipeline, stop),
        }))
  },
  clone: () => attempt('a clone on the same landing', async () => ({ wrong: await trySharedLanding(databases, true) })),
  landing: () => attempt('two warehouses, one landing', async () => ({ wrong: await trySharedLanding(databases) })),
  hosts: async () => {
    if (!hasNamespaces()) return note('no namespaces can be made here: hosts and containers are left out')
    await attempt('a host that dies', async () => ({ wrong: await tryDeadHost(databases) }))
    await attempt('a container that comes back', async () => ({ wrong: await tryContainerAgain(databases) }))
    await attempt('two containers of one name', async () => ({ wrong: await tryNeighbours(databases) }))
  },
  clocks: async () => {
    for (const hours of wrongClocks)
      await attempt(`a clock ${hours.toFixed(1)} hours off`, async () => ({ wrong: await tryWrongClock(databases, hours) }))
  },
}

const flagsOf: Readonly<Record<string, readonly (keyof typeof values)[]>> = {
  pairs: ['pairs', 'seed', 'at'],
  lists: ['sequences', 'seed', 'at'],
  twins: ['refreshes', 'times', 'seed'],
  beside: ['jobs'],
  packed: ['domains'],
  slow: ['seconds'],
}

const part = async (name: string): Promise<PartFigures> => {
  const work = parts[name]
  if (work === undefined) throw new Error(`--only: '${name}' is not one of ${Object.keys(parts).join(', ')}`)
  const began = performance.now()
  ;[tried, failed, figures] = [0, 0, []]
  await work()
  const flags = (flagsOf[name] ?? [])
    .filter((flag) => flag !== 'at' || begin > 0)
    .map((flag) => `--${flag} ${values[flag]}`)
    .join(' ')
  return {
    part: begin > 0 ? `${name} from ${begin + 1}` : name,
    tried,
    of: Math.max(tried, Number(name === 'pairs' ? values.pairs : name === 'lists' ? values.sequences : 0)),
    wrong: failed,
    told: figures,
    seconds: (performance.now() - began) / 1000,
    flags,
  }
}

try {
  const table: PartFigures[] = []
  for (const name of chosen) table.push(await part(name))
  note(`${table.reduce((sum, row) => sum + row.tried, 0)} tried, ${table.reduce((sum, row) => sum + row.wrong, 0)} wrong`)
  if (values.write) writeFigures(table)
  process.exitCode = table.every(({ wrong }) => wrong === 0) ? 0 : 1
} finally {
  removeProgram()
  await databases.remove()
}
