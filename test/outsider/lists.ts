// Lists and definitions that change under reports in every state: nothing is bought twice, nothing bought is left, and history tells the truth.

import type { Fault } from '../../src/sandbox/sandbox-server.ts'
import { randomFrom } from '../storm/fault-mix.ts'
import { complaint, run, type Started, start, until, wait } from './commands.ts'
import type { Databases } from './databases.ts'
import { homeless, restless, snapshot } from './ledger-state.ts'
import { type Bought, told, untruths } from './purchase-history.ts'
import { boughtTooOften, timesBought } from './purchases.ts'
import { wantedUnits } from './truth.ts'
import { age, shrunkUnits, unfinishedUnits } from './warehouse.ts'
import { createWorld, type Lists, names, type World } from './world.ts'

const pipeline = 'traffic_and_engagement'
const allDomains = names('site', 8)
const allCountries = ['us', 'gb', 'world']

interface Sequence {
  readonly world: World
  readonly random: () => number
  readonly story: string[]
  readonly wrong: string[]
  /** Months whose values were corrected, each a month after the last one: every unit may be asked for once more. */
  nights: number
  /** Times the whole was asked for by force. */
  forced: number
}

export interface SequenceFigures {
  readonly story: readonly string[]
  readonly reports: number
  readonly wrong: readonly string[]
}

export const trySequence = async (databases: Databases, seed: number): Promise<SequenceFigures> => {
  const random = randomFrom(seed)
  const world = await createWorld({
    database: await databases.create(),
    lists: { domains: allDomains.slice(0, 4), countries: ['us', 'gb'] },
    sandbox: { latencyMs: 5 },
  })
  const sequence: Sequence = { world, random, story: [], wrong: [], nights: 0, forced: 0 }
  try {
    world.set(pipeline, ['limits', 'deadline'], '2s')
    const steps = 3 + Math.floor(random() * 4)
    for (let step = 0; step < steps && sequence.wrong.length === 0; step += 1) await oneStep(sequence)
    await comeToRest(sequence)
    await judge(sequence)
    return { story: sequence.story, reports: world.sandbox.books().submissions.length, wrong: sequence.wrong }
  } finally {
    await world.remove()
  }
}

const pick = <T>({ random }: Sequence, list: readonly [T, ...T[]]): T => list[Math.floor(random() * list.length)] ?? list[0]

const oneStep = async (sequence: Sequence): Promise<void> => {
  for (let edits = 1 + Math.floor(sequence.random() * 2); edits > 0; edits -= 1) edit(sequence)
  await happen(sequence)
  await command(sequence)
}

const shuffled = <T>({ random }: Sequence, list: readonly T[]): T[] =>
  list
    .map((value) => ({ value, at: random() }))
    .sort((left, right) => left.at - right.at)
    .map(({ value }) => value)

/** One change a person makes to the lists or to the definition. */
const edit = (sequence: Sequence): void => {
  const { world, random, story } = sequence
  const { lists, months } = world
  const listed = (changed: Partial<Lists>): void => {
    world.setLists(changed)
    story.push(`lists: ${lists.domains.map((name) => name.slice(4, 5)).join('')} ${lists.countries.join(',')}`)
  }
  const said = (path: readonly string[], value: unknown): void => {
    world.set(pipeline, path, value)
    story.push(`${path.join('.')}: ${value ?? 'none'}`)
  }
  const kept = lists.domains.slice(0, 1 + Math.floor(random() * lists.domains.length))
  const edits: readonly [() => void, ...(() => void)[]] = [
    () => listed({ domains: shuffled(sequence, allDomains).slice(0, 2 + Math.floor(random() * 6)) }),
    () => listed({ domains: kept }),
    () => listed({ domains: [...new Set([...lists.domains, ...shuffled(sequence, allDomains).slice(0, 2)])] }),
    () => listed({ domains: shuffled(sequence, lists.domains), countries: shuffled(sequence, lists.countries) }),
    () => listed({ countries: shuffled(sequence, allCountries).slice(0, 1 + Math.floor(random() * 3)) }),
    () => said(['for_each', 'domain', 'bucket'], pick(sequence, [1, 2, 3, 5, undefined])),
    () => said(['window', 'from'], pick(sequence, [months[0] ?? '', months[0] ?? '', months[1] ?? '', months[2] ?? ''])),
    () => said(['window', 'look_back'], pick(sequence, [0, 1, 2, 3])),
    () => said(['limits', 'concurrency'], pick(sequence, [1, 2, 4])),
    () => said(['limits', 'attempts'], pick(sequence, [1, 2, 5])),
  ]
  pick(sequence, edits)()
}

const faults: readonly [readonly Fault[], ...(readonly Fault[])[]] = [
  [],
  [],
  [],
  [{ kind: 'report-failed', times: 1 }],
  [{ kind: 'report-failed', mends: false, times: 2 }],
  [{ kind: 'report-rejected', times: 1 }],
  [{ kind: 'drop-reply', on: 'submit', times: 1 }],
  [{ kind: 'status-500', on: 'download', times: 6 }],
  [{ kind: 'status-502', on: 'status', times: 8 }],
  [{ kind: 'empty-report', times: 1 }],
  [{ kind: 'truncate-body', on: 'download', mode: 'silent', times: 2 }],
]

/** What the service does meanwhile, and sometimes a month goes by. */
const happen = async (sequence: Sequence): Promise<void> => {
  const { world, random, story } = sequence
  const chosen = pick(sequence, faults)
  const reportDurationMs = pick(sequence, [50, 400, 3_000])
  world.sandbox.configure({ faults: [...chosen], reportDurationMs })
  story.push(`reports take ${reportDurationMs} ms${chosen.map(({ kind }) => `, ${kind}`).join('')}`)
  if (random() > 0.25) return
  await age(world.database.pool, 30)
  for (const month of world.months) world.sandbox.restate(month)
  sequence.nights += 1
  story.push('a month goes by, all is restated')
}

const commandOf = (sequence: Sequence): string[] => {
  const { world, random } = sequence
  const [from = '', ...later] = world.months.slice(Math.floor(random() * 3))
  const range = ['--from', from, '--to', later.at(-1) ?? from, '--json']
  const [domain = ''] = shuffled(sequence, world.lists.domains)
  const drawn = random()
  if (drawn < 0.4) return ['run', pipeline, '--json']
  if (drawn < 0.75) return ['backfill', pipeline, ...range]
  if (drawn < 0.85) return ['backfill', pipeline, ...range, '--only', `domain=${domain}`]
  if (drawn < 0.92) return ['replay', pipeline, ...range]
  sequence.forced += 1
  return ['backfill', pipeline, ...range, '--force']
}

/** A command that may be killed, told to stop, cancelled, joined by another, or find the lists changed under it. */
const command = async (sequence: Sequence): Promise<void> => {
  const { world, random, story, wrong } = sequence
  const args = commandOf(sequence)
  const first = start(world, args, { bound: 60 })
  const fate = pick(sequence, ['ends', 'ends', 'ends', 'kill -9', 'SIGINT', 'cancel', 'another', 'edited'])
  const afterMs = 200 + Math.round(random() * 1_800)
  story.push(`${args.filter((word) => word !== '--json').join(' ')}${fate === 'ends' ? '' : `; after ${afterMs} ms ${fate}`}`)
  if (fate !== 'ends') await wait(afterMs)
  const others: Started[] = []
  if (fate === 'kill -9') first.signal('SIGKILL')
  if (fate === 'SIGINT') first.signal('SIGINT')
  if (fate === 'cancel') others.push(start(world, ['cancel', String(await newestRun(world))], { bound: 60 }))
  if (fate === 'edited') edit(sequence)
  if (fate === 'another') others.push(start(world, ['run', pipeline, '--json'], { bound: 60 }))
  for (const { name, code, signal, hung, stderr } of await Promise.all([first, ...others].map(({ ended }) => ended))) {
    if (hung) wrong.push(`${name} did not end: ${await snapshot(world.database.pool)}`)
    // Before it listens to signals a process just ends.
    const isExpected = [0, 1, 130].includes(code ?? -1) || signal === 'SIGKILL' || (fate === 'SIGINT' && signal === 'SIGINT')
    // The value may have left the list before the command has read it.
    const isUnlisted = fate === 'edited' && code === 2 && /^millrace: --only .* is not in the list of .*\[USAGE\]$/m.test(stderr)
    if (!(isExpected || isUnlisted) || /\[INTERNAL\]|deadlock detected/.test(stderr))
      wrong.push(`${name} ended with ${code ?? signal}\n${complaint({ stderr })}`)
  }
}

/** On a busy machine the command that is to be cancelled may not have begun its run yet. */
const newestRun = async ({ database }: World): Promise<number> => {
  let id: number | null = null
  await until(async () => {
    const { rows } = await database.pool.query<{ id: number | null }>('select max(run_id)::int as id from etl.runs')
    id = rows[0]?.id ?? null
    return id !== null
  }, 30)
  return id ?? 1
}

/** The service is well again; a person gives the consent that is asked for, and lets go what is held. */
const comeToRest = async ({ world, wrong, story }: Sequence): Promise<void> => {
  const { sandbox, database, months } = world
  sandbox.configure({ faults: [], reportDurationMs: 50 })
  world.set(pipeline, ['limits', 'deadline'], '20s')
  world.set(pipeline, ['limits', 'attempts'], 3)
  world.set(pipeline, ['window', 'from'], months[0])
  world.set(pipeline, ['report'], { resubmit_failed: true })
  for (let round = 0; round < 4; round += 1) {
    const calm = await run(world, ['run', pipeline, '--json', ...(round > 0 ? ['--resubmit-uncertain'] : [])], { bound: 60 })
    if (calm.hung) wrong.push(`the calm run did not end: ${await snapshot(database.pool)}`)
    if (calm.hung || ![0, 1].includes(calm.code ?? -1)) wrong.push(`the calm run ended with ${calm.code}\n${complaint(calm)}`)
    const held = (await unfinishedUnits(database.pool)).filter(({ state }) => state === 'held')
    if (round === 0) story.push(`then calm: exit ${calm.code}, ${held.length} held`)
    const shrunk = await shrunkUnits(database.pool)
    if (calm.code === 0 && held.length + shrunk.length === 0 && round > 0) return
    if (shrunk.length > 0) await run(world, ['release', ...shrunk])
  }
}

const judge = async (sequence: Sequence): Promise<void> => {
  const { world, wrong, nights, forced } = sequence
  const { pool } = world.database
  for (const { unit, state, code } of await unfinishedUnits(pool)) wrong.push(`in the end ${unit} is ${state} (${code})`)
  const bought: Bought = await told(world, pipeline)
  wrong.push(...bought.abandoned)
  const reasons = (cell: string): number => 1 + nights + forced + (bought.lost.get(cell) ?? 0)
  const times = timesBought(world.sandbox.books().submissions)
  wrong.push(...boughtTooOften(times, reasons).slice(0, 6))
  const never = wantedUnits(world, pipeline).filter((cell) => !times.has(cell))
  wrong.push(...never.slice(0, 4).map((cell) => `${cell} is wanted and was never bought`))
  wrong.push(...(await untruths(pool, pipeline, bought)).slice(0, 8))
  wrong.push(...(await restless(pool)), ...(await homeless(pool)))
}
