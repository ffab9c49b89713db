// Removes by age: landings that no unit needs any more, and the ledger's finished jobs, wait lists and requests.
import { isEtlError } from '../core/errors.ts'
import { type Environment, readNumber } from '../core/read-setting.ts'
import { askNumberIn, folderOf, receiptName, runName } from '../extract/landing-files.ts'
import type { NamedLanding } from '../ledger/answers.ts'
import { landingsNeeded, pruneLedger } from '../ledger/prune.ts'
import { ownNames, type Warehouse } from '../ledger/warehouse.ts'
import type { Runtime } from './runtime.ts'

/** An upload as old as this is not in progress any more; one that broke off stays as long as landings do, if that is longer. */
const unfinishedDays = 2
/** A backup that is older than this is restored without the receipts of what came after it. */
const receiptDays = 400
const dayMs = 24 * 3_600_000

const daysOf = (raw: Environment, name: string, least: number): number =>
  readNumber(raw, name, { otherwise: 400, least, isWhole: true, expected: `a whole number of days from ${least}` })

/** Days a superseded landing is kept. Throws CONFIGURATION. */
export const landingDays = (raw: Environment): number => daysOf(raw, 'MILLRACE_LANDING_DAYS', 0)

/** Days a finished job, a finished run's wait list and a request stay in the ledger. Throws CONFIGURATION. */
export const ledgerDays = (raw: Environment): number => daysOf(raw, 'MILLRACE_LEDGER_DAYS', 1)

/** What sweeping needs of a runtime. */
export type SweepingRuntime = Pick<Runtime, 'settings' | 'landing' | 'clock' | 'database' | 'progress'>

/** Sweeps landings and ledger after a night's work. Answers, loads, purchases and runs stay. */
export const sweep = async (runtime: SweepingRuntime): Promise<void> => {
  await sweepLandings(runtime)
  await pruneLedger(runtime.database.kysely, ledgerDays(runtime.settings.raw))
}

/**
 * Removes landings of this warehouse and returns how many. What is loaded, held back, or still to be loaded stays, whatever its age. A store
 * that refuses is reported and fails nothing: the night's work is done, and the next night sweeps again.
 */
export const sweepLandings = async (runtime: SweepingRuntime): Promise<number> => {
  const days = landingDays(runtime.settings.raw)
  try {
    const owners = await ownNames(runtime.database.kysely, 'to sweep')
    if (owners.length === 0) return 0
    const before = (age: number): number => runtime.clock.now() - age * dayMs
    const removed = await removeOlder(runtime, owners, before(days))
    await removeNotes(runtime, owners, before(Math.max(days, receiptDays)))
    await runtime.landing.dropUnfinished(before(Math.max(days, unfinishedDays)))
    return removed
  } catch (error) {
    if (!isEtlError(error) || !error.code.startsWith('LANDING_')) throw error
    runtime.progress.emit({ event: 'notice', code: error.code, message: `Old landings were not removed: ${error.message}` })
    return 0
  }
}

const atOnce = 200

/**
 * Another warehouse's landings may lie in the same place, and those of a restored copy of this one: names tell them apart. A copy about which no person
 * has decided removes nothing.
 */
const removeOlder = async (runtime: SweepingRuntime, owners: readonly Warehouse[], olderThanMs: number): Promise<number> => {
  let removed = 0
  let batch: NamedLanding[] = []
  const removeBatch = async (): Promise<void> => {
    const needed = await landingsNeeded(runtime.database.kysely, batch)
    for (const { locator } of batch) {
      if (needed.has(locator)) continue
      await runtime.landing.remove(locator)
      removed += 1
    }
    batch = []
  }
  for await (const locator of runtime.landing.older(olderThanMs)) {
    const askNumber = askNumberIn(locator, owners)
    if (askNumber === null) continue
    batch.push({ locator, askNumber })
    if (batch.length === atOnce) await removeBatch()
  }
  await removeBatch()
  return removed
}

/** Removes receipts and notes of runs that only an even older backup would need; the newest run's note stays. */
const removeNotes = async ({ landing }: SweepingRuntime, owners: readonly Warehouse[], olderThanMs: number): Promise<void> => {
  const epochsOf = Map.groupBy(owners, ({ id }) => id)
  for (const [id, names] of epochsOf) {
    const epochs = new Set(names.map(({ epoch }) => epoch))
    for (const folder of [folderOf(id, 'receipts'), folderOf(id, 'runs')])
      for await (const note of landing.notes.list(folder)) {
        const epoch = receiptName(note.path)?.epoch ?? runName(note.path)?.epoch
        if (epoch === undefined || !epochs.has(epoch)) continue
        // In the order of their numbers: what comes later is younger.
        if ((await note.writtenMs()) >= olderThanMs) break
        await landing.notes.remove(note.path)
      }
  }
}
