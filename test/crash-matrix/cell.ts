// One cell of the matrix: kill the command at a boundary, give the same command again, and judge what then stands.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { type CommandResult, runCommand } from '../support/command.ts'
import { killAtName, recordName } from './boundary.ts'
import { homeless, restless } from '../outsider/ledger-state.ts'
import { areAllShrunk, contentsOf, uncertainReports, unitsOf } from './warehouse.ts'
import type { Load, Place, Subject, World } from './world.ts'

const preload = pathToFileURL(join(import.meta.dirname, 'preload.ts')).href

/** A run that nothing disturbed, and every boundary it passed. */
export interface Calm {
  readonly subject: Subject
  readonly load: Load
  /** 1 where a restatement takes a unit's only row away, which waits for a person. */
  readonly code: 0 | 1
  readonly boundaries: readonly string[]
  readonly contents: Readonly<Record<string, string>>
  /** State of each unit, and how often it took an answer. */
  readonly units: string
  /** Request bodies of the reports it bought. */
  readonly bought: readonly string[]
}

export interface Outcome {
  /** The first kill happened; a boundary that comes and goes with timing may not be reached. */
  readonly reached: boolean
  /** The second kill, during recovery, happened. */
  readonly reachedAgain: boolean
  /** Held because the submission's answer was lost: not bought again without consent. */
  readonly held: boolean
  /** Boundaries that the run passed which went on after the kill. */
  readonly recovery: readonly string[]
  /** What is wrong; empty: every promise held. */
  readonly wrong: readonly string[]
}

const commandOf = ({ pipeline }: Subject): string[] => ['run', pipeline, '--json']

const watched = (place: Place, extra: Readonly<Record<string, string>>): Readonly<Record<string, string>> => ({
  ...place.environment,
  NODE_OPTIONS: `--import=${preload} --disable-warning=ExperimentalWarning`,
  ...extra,
})

const bought = ({ sandbox }: Place): string[] =>
  sandbox
    .books()
    .submissions.map(({ body }) => JSON.stringify(body))
    .sort()

export const runCalm = async (world: World, subject: Subject, load: Load): Promise<Calm> => {
  const place = await world.place(subject, load)
  const record = join(place.home, 'boundaries.txt')
  try {
    const { code, stderr } = await runCommand(commandOf(subject), watched(place, { [recordName]: record }), place.folder)
    const { pool } = place
    const isGood = code === 0 || (code === 1 && (await areAllShrunk(pool)))
    if (!isGood) throw new Error(`the undisturbed run ended with ${code}:\n${stderr}`)
    return {
      subject,
      load,
      code,
      boundaries: boundariesOf(record),
      contents: await contentsOf(pool),
      units: await unitsOf(pool),
      bought: bought(place),
    }
  } finally {
    await place.close()
  }
}

/** @param second where the run is killed that goes on after the first kill. */
export const runCell = async (world: World, calm: Calm, first: string, second?: string | undefined): Promise<Outcome> => {
  const place = await world.place(calm.subject, calm.load)
  const record = join(place.home, 'recovery.txt')
  const command = commandOf(calm.subject)
  const killedAt = async (boundary: string): Promise<boolean> => {
    const { signal } = await runCommand(command, watched(place, { [killAtName]: boundary }), place.folder)
    return signal === 'SIGKILL'
  }
  try {
    const reached = await killedAt(first)
    const reachedAgain = second !== undefined && (await killedAt(second))
    const last = await runCommand(command, watched(place, { [recordName]: record }), place.folder)
    const withConsent = () => runCommand([...command, '--resubmit-uncertain'], place.environment, place.folder)
    const verdict = await judge(place, calm, last, withConsent)
    return { reached, reachedAgain, recovery: boundariesOf(record), ...verdict }
  } finally {
    await place.close()
  }
}

const boundariesOf = (record: string): string[] => [...new Set(readFileSync(record, 'utf8').trimEnd().split('\n'))]

const judge = async (
  place: Place,
  calm: Calm,
  last: CommandResult,
  withConsent: () => Promise<CommandResult>,
): Promise<Pick<Outcome, 'held' | 'wrong'>> => {
  const wrong: string[] = []
  const expect = (holds: boolean, words: string): void => {
    if (!holds) wrong.push(words)
  }
  const uncertain = await uncertainReports(place.pool)
  const before = bought(place)
  expect(before.length <= calm.bought.length, `${before.length} reports bought without consent, expected ${calm.bought.length}`)
  expect(new Set(before).size === before.length, 'a report was bought twice without consent')
  if (uncertain > 0) {
    expect(last.code === 1, `a lost answer: exit code ${last.code}, expected 1\n${last.stderr}`)
    const consented = await withConsent()
    expect(consented.code === calm.code, `with consent: exit code ${consented.code}, expected ${calm.code}\n${consented.stderr}`)
    expect(bought(place).length <= before.length + uncertain, 'more was bought than was consented to')
  } else {
    expect(last.code === calm.code, `exit code ${last.code}, expected ${calm.code}\n${last.stderr}`)
    expect(before.join() === calm.bought.join(), `bought ${before.join() || 'nothing'}, expected ${calm.bought.join()}`)
  }
  const contents = await contentsOf(place.pool)
  for (const table of new Set([...Object.keys(contents), ...Object.keys(calm.contents)]))
    expect(contents[table] === calm.contents[table], `${table}: ${contents[table]}, expected ${calm.contents[table]}`)
  const units = await unitsOf(place.pool)
  expect(units === calm.units, `units\n${units}\nexpected\n${calm.units}`)
  wrong.push(...(await restless(place.pool)), ...(await homeless(place.pool)))
  expect(place.sandbox.books().keysAstray === 0, 'the key went where it does not belong')
  return { held: uncertain > 0, wrong }
}
