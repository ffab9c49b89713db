// Whether this database is the warehouse that it claims to be, or a copy: checked when a command and when a run begins, and decided by a person.
import type { Definition } from '../core/types.ts'
import { hostname } from 'node:os'
import { counted } from '../core/counted.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import type { Database } from '../db/connect.ts'
import type { LandingStore } from '../extract/landing-store.ts'
import {
  askNumberOfAny,
  boxFolder,
  epochPath,
  parseReceipt,
  type Receipt,
  type ReceiptName,
  runPath,
} from '../extract/landing-files.ts'
import {
  becomeClone,
  becomeCopy,
  becomeReplaced,
  goOn,
  howToDecide,
  type Identity,
  readIdentity,
  settleHere,
  type Warehouse,
} from '../ledger/warehouse.ts'
import { databaseNowText } from '../db/database-clock.ts'
import { type Evidence, isNewerElsewhere, readEvidence } from './evidence.ts'
import { adoptEach, adoptUnplanned, damageOf, foundAnswer, walksFound, wholeManifest } from './landed-walks.ts'
import type { Progress } from './progress.ts'
import type { Db } from '../db/tables.ts'
import { boxOf } from '../core/unit-key.ts'
import { raiseAskNumbers } from '../ledger/receipts.ts'
import { type Adopted, adoptWork, type FoundAnswer, pipelineOf } from '../ledger/adopt-work.ts'

/** What the check needs. */
export interface Place {
  readonly database: Pick<Database, 'kysely' | 'display'>
  readonly landing: LandingStore
}

/** What was found, for people; null: nothing is wrong. */
type Judged = Pick<Identity, 'standing' | 'reason'>

/** Judges by what the ledger records, where it is, and the notes beside the landings. Changes nothing. @param evidence null: the notes were not read */
const standingOf = (identity: Identity, evidence: Evidence | null): Judged => {
  const name = `warehouse ${identity.id}, epoch ${identity.epoch}`
  if (identity.standing !== 'own') return identity
  if (isAway(identity) && !(identity.isUnused && (evidence === null || !isNewerElsewhere(evidence, identity))))
    return {
      standing: 'copy',
      reason: `This database is a copy of ${name}: it was made in another database or on another server.`,
    }
  if (evidence === null) return { standing: 'own', reason: null }
  if (evidence.replacedBy !== null)
    return {
      standing: 'replaced',
      reason: `Another database was declared the successor of this one (${name}) as epoch ${evidence.replacedBy}.`,
    }
  if (!isNewerElsewhere(evidence, identity)) return { standing: 'own', reason: null }
  return { standing: 'copy', reason: `This database is older than the last work of ${name}: ${foundWords(evidence, identity)}.` }
}

/** The ledger is not in the database that it recorded as its home. Whether that makes it a copy is decided in `standingOf`. */
const isAway = ({ home, here }: Identity): boolean => home !== null && home !== here

const foundWords = ({ unknownRuns: runs, unknown }: Evidence, { epoch }: Identity): string => {
  const purchases = unknown.filter((receipt) => receipt.onRecord === 'nothing' && receipt.epoch === epoch).length
  return `${thoseOf({ run: runs, purchase: purchases })} missing in its ledger ${runs + purchases === 1 ? 'is' : 'are'} recorded beside the landings`
}

/** The counts above zero with their nouns, such as `2 runs and 1 purchase`. */
const thoseOf = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .flatMap(([noun, count]) => (count > 0 ? [counted(count, noun)] : []))
    .join(' and ')

/** Reason and remedy in one text; null: nothing is wrong. */
const warningOf = ({ standing, reason }: Judged): string | null =>
  standing === 'own' ? null : `${reason ?? ''} It buys and deletes nothing until you decide. ${howToDecide}`

/**
 * What is wrong with this database's identity, and what to do (null: nothing is wrong); and which receipts of purchases that the ledger does not know cannot
 * be read, and why. Changes nothing. @param remote whether the notes beside the landings are read
 */
export const identityFindings = async ({ database, landing }: Place, remote: boolean, signal?: AbortSignal) => {
  const identity = await readIdentity(database.kysely)
  const evidence = remote ? await readEvidence(database.kysely, landing, identity, signal) : null
  const damaged: string[] = []
  for (const { path } of evidence?.unknown ?? []) {
    const text = await landing.notes.read(path, signal)
    try {
      if (text !== null) parseReceipt(path, text)
    } catch (error) {
      damaged.push(messageOf(error))
    }
  }
  return { warning: warningOf(standingOf(identity, evidence)), damaged }
}

export type Settled = Awaited<ReturnType<typeof settleIdentity>>

/**
 * Finds out and records what this database is; a copy adopts the purchases and answers that receipts and landings prove. An ordinary start makes three small
 * listings. Idempotent. @param goesOn a person declared that it replaces its original: it keeps the name, even if nothing has run in it yet
 */
export const settleIdentity = async (place: Place, goesOn = false) => {
  const { kysely } = place.database
  const before = await settledHere(place)
  const evidence = await readEvidence(kysely, place.landing, before)
  const judged = standingOf(before, evidence)
  const found = { db: kysely, landing: place.landing, id: before.id, evidence }
  if (judged.standing === 'own') {
    if (isAway(before) && !goesOn) await settleHere(kysely, before.here)
    // Reports that were bought while the database could not be written: their receipts have the ids.
    const unknown = evidence.unknown.filter(({ onRecord, epoch }) => onRecord === 'no id' && epoch === before.epoch)
    const adopted = await adoptPurchases({ ...found, evidence: { ...evidence, unknown } })
    return { identity: isAway(before) ? await readIdentity(kysely) : before, warning: null, adopted }
  }
  // A copy that was copied once more gets an epoch of its own again.
  if (before.standing === 'own' ? judged.standing === 'copy' : isAway(before)) {
    const epoch = await takeEpoch(place, before, evidence.highestEpoch)
    await becomeCopy(kysely, before, epoch, judged.reason ?? '')
  } else if (before.standing === 'own') await becomeReplaced(kysely, before, judged.reason ?? '')
  const adopted = await adoptUnknown(found)
  return { identity: await readIdentity(kysely), warning: warningOf(judged), adopted }
}

/** A new ledger records where it is, so that a later copy of it is recognised. Idempotent. */
export const settledHere = async ({ database }: Pick<Place, 'database'>): Promise<Identity> => {
  const found = await readIdentity(database.kysely)
  if (found.home !== null) return found
  await settleHere(database.kysely, found.here)
  return readIdentity(database.kysely)
}

const mostTries = 1_000

/** An epoch that no other database has; where two databases ask for the same, one of them gets the next. */
const takeEpoch = async (place: Place, { id, epoch, here }: Identity, highest: number): Promise<number> => {
  const first = Math.max(highest, epoch) + 1
  for (let next = first; next < first + mostTries; next += 1) {
    const own = { id, epoch: next }
    const text = await claimOf(place, own, here)
    const path = epochPath(own, 'copy')
    // Without conditional writes the last writer wins, so the text is read back.
    if ((await place.landing.notes.write(path, text)) && (await place.landing.notes.read(path)) === text) return next
  }
  throw new EtlError('INTERNAL', `Every epoch from ${first} on is taken beside the landings; please report this defect.`)
}

/** The text of a note about a run or an epoch, for people. @param home server and database of the ledger */
const claimOf = async ({ database }: Place, { id, epoch }: Warehouse, home: string): Promise<string> => {
  const at = await databaseNowText(database.kysely)
  const by = { database: database.display, process: `${hostname()}:${process.pid}` }
  return JSON.stringify({ version: 1, warehouse: id, epoch, home, ...by, at })
}

/**
 * @param usesLanding false: the command lands and buys nothing, so the notes beside the landings are not read
 * @param walks definitions of the command that are answered in pages
 */
export const openIdentity = async (place: Place, usesLanding: boolean, walks: readonly Definition[], progress: Progress) => {
  let own: Identity = await readIdentity(place.database.kysely)
  // The run repeats the check of its command: each message is told once.
  const told = new Set<string>()
  const tell = (...messages: readonly (string | null)[]): void => {
    for (const message of messages)
      if (message !== null && !told.has(message)) {
        told.add(message)
        progress.emit({ event: 'notice', code: 'WAREHOUSE_COPY', message })
      }
  }
  const settle = async (): Promise<void> => {
    const settled = await settleIdentity(place)
    own = settled.identity
    tell(adoptedWords(settled.adopted), settled.warning)
  }
  if (usesLanding) await settle()
  return {
    current: (): Warehouse => own,
    /** Call before the run plans or buys anything. Checks the identity again, adopts what it finds, and leaves a note of the run. */
    begin: async (runId: number): Promise<void> => {
      if (!usesLanding) return
      await settle()
      const found = { db: place.database.kysely, landing: place.landing }
      if (own.epoch > 1) tell(adoptedWords({ ...nothing, ...(await adoptUnplanned(found, own.id, walks)) }))
      // Written once the run is on record: a ledger that lacks a noted run is an older copy.
      await place.landing.notes.write(runPath(own, runId), await claimOf(place, own, own.here))
    },
  }
}

/** null: nothing was adopted. */
export const adoptedWords = ({ purchases, answers, left, damaged }: AdoptedCounts): string | null => {
  const words = [...damaged]
  if (left > 0)
    words.unshift(
      `${counted(left, 'receipt')} ${left === 1 ? 'was' : 'were'} not adopted: ${left === 1 ? 'its pipeline has' : 'their pipelines have'} other dimensions or windows here.`,
    )
  const taken = thoseOf({ purchase: purchases, answer: answers })
  if (taken !== '')
    words.unshift(
      `${taken} missing in this ledger ${purchases + answers === 1 ? 'was' : 'were'} restored; nothing of it is bought again.`,
    )
  return words.length === 0 ? null : words.join(' ')
}

export type Declaration = 'restored' | 'moved' | 'clone'

/** A person declares what this database is. A restored or moved one adopts what was bought meanwhile. */
export const declareIdentity = async (place: Place, as: Declaration): Promise<Settled> => {
  const { kysely } = place.database
  const { identity, adopted: before } = await settleIdentity(place, as !== 'clone')
  if (as === 'clone') {
    await becomeClone(kysely, identity.here)
    return { identity: await readIdentity(kysely), warning: null, adopted: nothing }
  }
  const evidence = await readEvidence(kysely, place.landing, identity)
  const { purchases, answers, ...others } = await adoptUnknown({ db: kysely, landing: place.landing, id: identity.id, evidence })
  const adopted = { purchases: before.purchases + purchases, answers: before.answers + answers, ...others }
  const epoch = await takeEpoch(place, identity, evidence.highestEpoch)
  const own = { id: identity.id, epoch }
  await place.landing.notes.write(epochPath(own, 'goes-on'), await claimOf(place, own, identity.here))
  await goOn(kysely, identity, epoch)
  return { identity: await readIdentity(kysely), warning: null, adopted }
}

type AdoptedCounts = Awaited<ReturnType<typeof adoptPurchases>>

const nothing: AdoptedCounts = { purchases: 0, answers: 0, left: 0, damaged: [] }

interface AdoptRequest {
  readonly db: Db
  readonly landing: LandingStore
  readonly id: string
  readonly evidence: Evidence
}

/** Idempotent; each purchase and each answer is its own commit. Later ask numbers are above all that were found. */
const adoptUnknown = async (request: AdoptRequest): Promise<AdoptedCounts> => {
  const { db, landing, id, evidence } = request
  let highest = BigInt(evidence.newest.ask)
  const see = (askNumber: string): void => {
    if (BigInt(askNumber) > highest) highest = BigInt(askNumber)
  }
  for (const { askNumber } of evidence.unknown) see(askNumber)
  // Includes landings of pipelines that this ledger does not know yet: see adoptUnplanned.
  for await (const locator of landing.older(Number.POSITIVE_INFINITY)) see(askNumberOfAny(locator, id) ?? '0')
  await raiseAskNumbers(db, String(highest))
  const counts = await adoptPurchases(request)
  const { answers, damaged } = await adoptEach(db, landing, walksFound(db, landing, id, evidence.newest.ask))
  return { ...counts, answers, damaged: [...counts.damaged, ...damaged] }
}

/** Adopts by receipts alone. `left`: receipts of pipelines that have another shape here; `damaged`: which receipts were skipped, and why. */
const adoptPurchases = async ({ db, landing, id, evidence }: AdoptRequest) => {
  let [purchases, left] = [0, 0]
  const damaged: string[] = []
  for (const name of evidence.unknown) {
    const taken = await adoptPurchase(db, landing, id, name).catch((error: unknown) =>
      damageOf(`${name.path} beside the landings`, error),
    )
    if (taken === 'taken up') purchases += 1
    if (taken === 'other shape') left += 1
    if (typeof taken === 'object') damaged.push(taken.message)
  }
  return { purchases, answers: 0, left, damaged }
}

const adoptPurchase = async (db: Db, landing: LandingStore, id: string, { path }: ReceiptName): Promise<Adopted> => {
  const text = await landing.notes.read(path)
  if (text === null) return 'known'
  const receipt = parseReceipt(path, text)
  const answer = receipt.report_id === null ? null : await answerOf(landing, id, receipt)
  return db.transaction().execute(async (trx) => {
    const pipeline = await pipelineOf(trx, { ...receipt, parameters: receipt.question.parameters })
    return adoptWork(trx, pipeline, receipt.window_every, { ...receipt, kind: 'report', answer })
  })
}

/** The newest whole landing of the purchase; null: there is none. */
const answerOf = async (landing: LandingStore, id: string, receipt: Receipt): Promise<FoundAnswer | null> => {
  const { pipeline, pipeline_version: version, window, slice, dimensions, ask_number, question } = receipt
  const box = boxOf({ pipeline, version, window, dimensions, slices: combinations(dimensions, slice) })
  let found: FoundAnswer | null = null
  for await (const locator of landing.below(boxFolder(box))) {
    if (askNumberOfAny(locator, id) !== ask_number) continue
    const manifest = await wholeManifest(landing, locator)
    if (manifest !== null && manifest.epoch === receipt.epoch) found = foundAnswer(locator, manifest, question)
  }
  return found
}

/** Every combination of the values, in the order of the dimensions. */
const combinations = (dimensions: readonly string[], slice: Receipt['slice']): string[][] =>
  dimensions.reduce<string[][]>(
    (before, name) => before.flatMap((values) => [slice[name] ?? ''].flat().map((value) => [...values, value])),
    [[]],
  )
