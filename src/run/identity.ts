// Whether this database is the warehouse it says it is: found out when a command begins and when a run does, and decided by a person.
import { hostname } from 'node:os'
import { EtlError } from '../core/errors.ts'
import type { Database } from '../db/connect.ts'
import type { LandingStore } from '../extract/landing-store.ts'
import { type EpochClaim, type EpochKind, epochPath, receiptProblem, runPath } from '../extract/receipt-files.ts'
import {
  becomeClone,
  becomeCopy,
  becomeReplaced,
  goOn,
  howToDecide,
  type Identity,
  readIdentity,
  settleHere,
  type Standing,
  type Warehouse,
} from '../ledger/warehouse.ts'
import { databaseNowText } from '../ledger/database-now.ts'
import { type Evidence, isNewerElsewhere, readEvidence } from './evidence.ts'
import type { Progress } from './progress.ts'
import { adoptUnknown, adoptPurchases, type AdoptedCounts } from './adopt-unknown.ts'

/** What finding out needs. */
export interface Place {
  readonly database: Pick<Database, 'kysely' | 'display'>
  readonly landing: LandingStore
}

export interface Judged {
  readonly standing: Standing
  /** What was found, for people; null: nothing is wrong. */
  readonly reason: string | null
}

/** What a ledger is by its own words, by where it is, and by what lies beside the landings. Changes nothing. @param evidence null: not asked for */
export const standingOf = (identity: Identity, evidence: Evidence | null): Judged => {
  const name = `warehouse ${identity.id}, epoch ${identity.epoch}`
  if (identity.standing !== 'own') return { standing: identity.standing, reason: identity.reason }
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
  return { standing: 'copy', reason: `This database is older than what was done as ${name}: ${foundWords(evidence, identity)}.` }
}

/** A copy; of a ledger that was only migrated it is none until a run used its name. */
const isAway = ({ home, here }: Identity): boolean => home !== null && home !== here

const foundWords = ({ unknownRuns: runs, unknown }: Evidence, { epoch }: Identity): string => {
  const purchases = unknown.filter((receipt) => receipt.onRecord === 'nothing' && receipt.epoch === epoch).length
  return `${counted({ run: runs, purchase: purchases })} that its ledger does not know ${runs + purchases === 1 ? 'is' : 'are'} noted beside the landings`
}

/** Those there are, by their noun. */
const counted = (counts: Readonly<Record<string, number>>): string =>
  Object.entries(counts)
    .filter(([, count]) => count > 0)
    .map(([noun, count]) => `${count} ${noun}${count === 1 ? '' : 's'}`)
    .join(' and ')

/** Reason and remedy in one text; null: nothing is wrong. */
export const warningOf = ({ standing, reason }: Judged): string | null =>
  standing === 'own' ? null : `${reason ?? ''} It buys and deletes nothing until you decide. ${howToDecide}`

export interface Looking {
  /** Whether what lies beside the landings is read. */
  readonly remote: boolean
  readonly signal?: AbortSignal
}

/** What is wrong with this database's identity, and what to do; null: nothing. Changes nothing. */
export const identityWarning = async (place: Place, { remote, signal }: Looking): Promise<string | null> => {
  const identity = await readIdentity(place.database.kysely)
  const evidence = remote ? await readEvidence(place.database.kysely, place.landing, identity, signal) : null
  return warningOf(standingOf(identity, evidence))
}

/** Receipts of purchases this ledger does not know that cannot be taken in: which, and why. Changes nothing. */
export const damagedReceipts = async ({ database, landing }: Place, signal?: AbortSignal): Promise<string[]> => {
  const { unknown } = await readEvidence(database.kysely, landing, await readIdentity(database.kysely), signal)
  const damaged: string[] = []
  for (const { path } of unknown) {
    const text = await landing.notes.read(path)
    const problem = text === null ? null : receiptProblem(path, text)
    if (problem !== null) damaged.push(problem)
  }
  return damaged
}

export interface Settled {
  readonly identity: Identity
  readonly warning: string | null
  readonly adopted: AdoptedCounts
}

const nothing: AdoptedCounts = { purchases: 0, answers: 0, left: 0, damaged: [] }

/**
 * Finds out and writes down what this database is, and takes up what receipts and landings prove where it is a copy. An ordinary start makes three small
 * listings. Idempotent.
 */
export const settleIdentity = async (place: Place): Promise<Settled> => {
  const { kysely } = place.database
  const before = await settledHere(place)
  const evidence = await readEvidence(kysely, place.landing, before)
  const judged = standingOf(before, evidence)
  const found = { db: kysely, landing: place.landing, id: before.id, evidence }
  if (judged.standing === 'own') {
    if (isAway(before)) await settleHere(kysely, before.here)
    // Ids that were paid for while the database took nothing: their receipts have them.
    const unknown = evidence.unknown.filter(({ onRecord, epoch }) => onRecord === 'no id' && epoch === before.epoch)
    const adopted = await adoptPurchases({ ...found, evidence: { ...evidence, unknown } })
    return { identity: isAway(before) ? await readIdentity(kysely) : before, warning: null, adopted }
  }
  // A copy that was copied once more gets an epoch of its own again.
  if (before.standing === 'own' ? judged.standing === 'copy' : isAway(before)) {
    const epoch = await takeEpoch(place, before, evidence.highestEpoch, 'copy')
    await becomeCopy(kysely, { from: before, epoch, reason: judged.reason ?? '' })
  } else if (before.standing === 'own') await becomeReplaced(kysely, before, judged.reason ?? '')
  const adopted = await adoptUnknown(found)
  return { identity: await readIdentity(kysely), warning: warningOf(judged), adopted }
}

/** From here on a backup of the database bears its name. */
export const settledHere = async ({ database }: Pick<Place, 'database'>): Promise<Identity> => {
  const found = await readIdentity(database.kysely)
  if (found.home !== null) return found
  await settleHere(database.kysely, found.here)
  return readIdentity(database.kysely)
}

const mostTries = 1_000

/** An epoch that no other database has; where two databases ask for the same, one of them gets the next. */
const takeEpoch = async (place: Place, { id, epoch, here }: Identity, highest: number, kind: EpochKind): Promise<number> => {
  const first = Math.max(highest, epoch) + 1
  for (let next = first; next < first + mostTries; next += 1) {
    const own = { id, epoch: next }
    const text = JSON.stringify(await claimOf(place, own, here))
    const path = epochPath(own, kind)
    // A store without conditional writes has the last one's text.
    if ((await place.landing.notes.write(path, text)) && (await place.landing.notes.read(path)) === text) return next
  }
  throw new EtlError('INTERNAL', `No epoch from ${first} on is free beside the landings; please report this defect.`)
}

const claimOf = async ({ database }: Place, { id, epoch }: Warehouse, home: string): Promise<EpochClaim> => ({
  version: 1,
  warehouse: id,
  epoch,
  home,
  database: database.display,
  process: `${hostname()}:${process.pid}`,
  at: await databaseNowText(database.kysely),
})

/** Beside the landings, once the run is on record: a ledger that does not know it is older. */
const noteRun = async (place: Place, identity: Identity, runId: number): Promise<void> => {
  const path = runPath(identity, runId)
  await place.landing.notes.write(path, JSON.stringify(await claimOf(place, identity, identity.here)))
}

export interface OwnIdentity {
  current(): Warehouse
  /** Finds out anew, takes up what there is to take up, and notes the run. Before anything is planned or bought for it. */
  begin(runId: number): Promise<void>
}

/** @param usesLanding false: the command lands and buys nothing, and nothing is looked for beside the landings */
export const openIdentity = async (place: Place, usesLanding: boolean, progress: Progress): Promise<OwnIdentity> => {
  let own: Identity = await readIdentity(place.database.kysely)
  const settle = async (): Promise<void> => {
    const settled = await settleIdentity(place)
    own = settled.identity
    for (const message of [adoptedWords(settled.adopted), settled.warning])
      if (message !== null) progress.emit({ event: 'notice', code: 'WAREHOUSE_COPY', message })
  }
  if (usesLanding) await settle()
  return {
    current: () => own,
    begin: async (runId) => {
      if (!usesLanding) return
      await settle()
      await noteRun(place, own, runId)
    },
  }
}

/** null: there was nothing to take up. */
export const adoptedWords = ({ purchases, answers, left, damaged }: AdoptedCounts): string | null => {
  const words = [...damaged]
  if (left > 0)
    words.unshift(`${left} of other dimensions or windows than their pipelines have here ${left === 1 ? 'was' : 'were'} left.`)
  const taken = counted({ purchase: purchases, answer: answers })
  if (taken !== '')
    words.unshift(
      `${taken} that this ledger did not know ${purchases + answers === 1 ? 'was' : 'were'} taken up; nothing of it is bought again.`,
    )
  return words.length === 0 ? null : words.join(' ')
}

export type Declaration = 'restored' | 'moved' | 'clone'

/** A person's word on what this database is. Takes up what was bought meanwhile. */
export const declareIdentity = async (place: Place, as: Declaration): Promise<Settled> => {
  const { kysely } = place.database
  const { identity, adopted: before } = await settleIdentity(place)
  if (as === 'clone') {
    await becomeClone(kysely, identity.here)
    return { identity: await readIdentity(kysely), warning: null, adopted: nothing }
  }
  const evidence = await readEvidence(kysely, place.landing, identity)
  const { purchases, answers, ...others } = await adoptUnknown({ db: kysely, landing: place.landing, id: identity.id, evidence })
  const adopted = { purchases: before.purchases + purchases, answers: before.answers + answers, ...others }
  const epoch = await takeEpoch(place, identity, evidence.highestEpoch, 'copy')
  const claim = JSON.stringify(await claimOf(place, { id: identity.id, epoch }, identity.here))
  await place.landing.notes.write(epochPath({ id: identity.id, epoch }, 'goes-on'), claim)
  await goOn(kysely, identity, epoch)
  return { identity: await readIdentity(kysely), warning: null, adopted }
}
