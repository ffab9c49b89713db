// Compares the notes beside the landings with the ledger: finds runs, purchases and epochs of this warehouse that another ledger has recorded.
import type { LandingStore, Note } from '../extract/landing-store.ts'
import {
  epochName,
  folderOf,
  purchaseDigest,
  type ReceiptName,
  receiptName,
  receiptsFrom,
  receiptsOf,
  runName,
  runsAfter,
} from '../extract/landing-files.ts'
import type { Db } from '../db/tables.ts'
import { asksWithoutId, countUnknownRuns, type Newest, newestKnown, purchasesOf } from '../ledger/receipts.ts'
import type { Identity } from '../ledger/warehouse.ts'

export type Evidence = Awaited<ReturnType<typeof readEvidence>>
type UnknownPurchase = Awaited<ReturnType<typeof notOnRecord>>[number]

/** What the listings need. */
interface Reading {
  readonly db: Db
  readonly identity: Identity
  readonly newest: Newest
  /** The notes of one kind, by what their names say. */
  named<T>(nameOf: (path: string) => T | null, folder: string, after?: string): AsyncIterable<T>
  read(path: string): Promise<string | null>
}

/** A few listings, however long the history is: only notes as new as the ledger's newest are read. */
export const readEvidence = async (db: Db, { notes }: Pick<LandingStore, 'notes'>, identity: Identity, signal?: AbortSignal) => {
  const newest = await newestKnown(db)
  const reading: Reading = {
    ...{ db, identity, newest },
    named: (nameOf, folder, after) => named(notes.list(folder, after, signal), nameOf),
    read: (path) => notes.read(path, signal),
  }
  const { highestEpoch, replacedBy } = await epochsOf(reading)
  const runs = await Array.fromAsync(reading.named(runName, folderOf(identity.id, 'runs'), runsAfter(identity.id, newest.runId)))
  // Of any epoch, in the order of their ask numbers.
  const unknown = await unknownPurchases(reading)
  const ofThis = runs.filter(({ epoch }) => epoch === identity.epoch).map(({ runId }) => runId)
  return {
    ...{ newest, replacedBy, unknown },
    /** The highest that is noted, or in which a run or purchase is noted: the epoch's own note is missing where the landings come from an older copy. */
    highestEpoch: [...runs, ...unknown].reduce((highest, { epoch }) => Math.max(highest, epoch), highestEpoch),
    /** Runs of this epoch that the ledger lacks. A run is on record before it is noted: one that began meanwhile is known by now. */
    unknownRuns: await countUnknownRuns(db, ofThis),
  }
}

async function* named<T>(notes: AsyncIterable<Note>, nameOf: (path: string) => T | null): AsyncGenerator<T> {
  for await (const { path } of notes) {
    const name = nameOf(path)
    if (name !== null) yield name
  }
}

/** Whether a ledger newer than this one has worked under its name. */
export const isNewerElsewhere = ({ unknownRuns, unknown }: Evidence, { epoch }: Identity): boolean =>
  unknownRuns > 0 || unknown.some((receipt) => receipt.onRecord === 'nothing' && receipt.epoch === epoch)

/** The highest epoch that is noted (0: none), and one that was declared the successor of this one (null: none). */
const epochsOf = async ({ named, identity }: Reading) => {
  let highestEpoch = 0
  let replacedBy: number | null = null
  for await (const found of named(epochName, folderOf(identity.id, 'epochs'))) {
    highestEpoch = Math.max(highestEpoch, found.epoch)
    if (found.kind === 'goes-on' && found.epoch > identity.epoch) replacedBy = found.epoch
  }
  return { highestEpoch, replacedBy }
}

const atOnce = 1_000

const unknownPurchases = async (reading: Reading): Promise<UnknownPurchase[]> => {
  const unknown: UnknownPurchase[] = []
  let listed: ReceiptName[] = []
  const sift = async (): Promise<void> => {
    unknown.push(...(await notOnRecord(reading.db, listed)))
    listed = []
  }
  for await (const receipt of receiptsToCompare(reading)) {
    listed.push(receipt)
    if (listed.length >= atOnce) await sift()
  }
  await sift()
  const bought = new Set(unknown.filter(({ digest }) => digest !== null).map(purchaseName))
  const kept: UnknownPurchase[] = []
  // An intent does not count beside the report's own receipt, or once it was withdrawn since it was listed.
  for (const one of unknown)
    if (one.digest !== null || (!bought.has(purchaseName(one)) && (await reading.read(one.path)) !== null)) kept.push(one)
  return kept
}

const purchaseName = ({ askNumber, epoch }: ReceiptName): string => `${askNumber}.${epoch}`

/** Receipts as new as the ledger's newest, then older ones of purchases that still wait for their id. */
async function* receiptsToCompare({ db, named, identity: { id }, newest }: Reading): AsyncGenerator<ReceiptName> {
  const from = receiptsFrom(id, newest.boughtAsk)
  yield* named(receiptName, folderOf(id, 'receipts'), from)
  const asks = new Set(await asksWithoutId(db))
  const folders = new Set([...asks].map((askNumber) => receiptsOf(id, askNumber)))
  for (const folder of folders) {
    if (`${folder}/` >= from) continue
    for await (const found of named(receiptName, folder)) if (asks.has(found.askNumber)) yield found
  }
}

/** `onRecord`: what the ledger has for that ask number: nothing, a purchase whose id could not be recorded, or one with another id, perhaps in place of this. */
const notOnRecord = async (db: Db, listed: readonly ReceiptName[]) => {
  const known = await purchasesOf(db, [...new Set(listed.map(({ askNumber }) => askNumber))])
  const withId = known.filter(({ reportId }) => reportId !== null)
  const digests = new Set(withId.map(({ account, reportId }) => purchaseDigest(account, reportId ?? '')))
  const asked = new Map(
    [...known, ...withId].map(({ askNumber, reportId }) => [askNumber, reportId === null ? 'no id' : 'another id'] as const),
  )
  return listed
    .filter(({ askNumber, digest }) => (digest === null ? !asked.has(askNumber) : !digests.has(digest)))
    .map((receipt) => ({ ...receipt, onRecord: asked.get(receipt.askNumber) ?? ('nothing' as const) }))
}
