// What lies beside the landings against what the ledger knows: runs, purchases and epochs of this warehouse that another ledger has recorded.
import type { LandingNotes, LandingStore } from '../extract/landing-store.ts'
import {
  epochName,
  epochsFolder,
  purchaseDigest,
  type ReceiptName,
  receiptName,
  receiptsFolder,
  receiptsFrom,
  receiptsOf,
  runName,
  runsAfter,
  runsFolder,
} from '../extract/receipt-files.ts'
import type { Db } from '../db/tables.ts'
import { asksWithoutId, knownRuns, type Newest, newestKnown, purchasesOf } from '../ledger/receipts.ts'
import type { Identity } from '../ledger/warehouse.ts'

export interface UnknownPurchase extends ReceiptName {
  /**
   * What the ledger has of that number: nothing, a purchase whose id could not be recorded, or one under another id, perhaps in the place of
   * this one.
   */
  readonly onRecord: 'nothing' | 'no id' | 'another id'
}

export interface Evidence {
  /** The highest epoch anybody has taken; 0: none. */
  readonly highestEpoch: number
  /** An epoch declared to go on in the place of this one; null: none. */
  readonly replacedBy: number | null
  /** Runs under this epoch that the ledger does not know. */
  readonly unknownRuns: number
  /** Purchases the ledger does not know, of any epoch, in the order of their ask numbers. */
  readonly unknown: readonly UnknownPurchase[]
  readonly newest: Newest
}

/** A few listings, however long the history is: only what is as new as the ledger's newest is read. */
export const readEvidence = async (
  db: Db,
  { notes }: Pick<LandingStore, 'notes'>,
  identity: Identity,
  signal?: AbortSignal,
): Promise<Evidence> => {
  const newest = await newestKnown(db)
  return {
    newest,
    ...(await epochsOf(notes, identity, signal)),
    unknownRuns: await unknownRuns(db, notes, identity, newest.runId, signal),
    unknown: await unknownPurchases(db, notes, identity, newest.boughtAsk, signal),
  }
}

/** Whether a ledger newer than this one has worked under its name. */
export const isNewerElsewhere = ({ unknownRuns, unknown }: Evidence, { epoch }: Identity): boolean =>
  unknownRuns > 0 || unknown.some((receipt) => receipt.onRecord === 'nothing' && receipt.epoch === epoch)

const epochsOf = async (
  notes: LandingNotes,
  { id, epoch }: Identity,
  signal: AbortSignal | undefined,
): Promise<Pick<Evidence, 'highestEpoch' | 'replacedBy'>> => {
  let highestEpoch = 0
  let replacedBy: number | null = null
  for await (const { path } of notes.list(epochsFolder(id), undefined, signal)) {
    const found = epochName(path)
    if (found === null) continue
    highestEpoch = Math.max(highestEpoch, found.epoch)
    if (found.kind === 'goes-on' && found.epoch > epoch) replacedBy = found.epoch
  }
  return { highestEpoch, replacedBy }
}

const unknownRuns = async (
  db: Db,
  notes: LandingNotes,
  { id, epoch }: Identity,
  newestRun: number,
  signal: AbortSignal | undefined,
): Promise<number> => {
  const listed: number[] = []
  for await (const { path } of notes.list(runsFolder(id), runsAfter(id, newestRun), signal)) {
    const found = runName(path)
    if (found !== null && found.epoch === epoch) listed.push(found.runId)
  }
  // A run is on record before it is noted: one that began meanwhile is known by now.
  const known = await knownRuns(db, listed)
  return listed.filter((runId) => !known.has(runId)).length
}

const atOnce = 1_000

const unknownPurchases = async (
  db: Db,
  notes: LandingNotes,
  { id }: Identity,
  boughtAsk: string,
  signal: AbortSignal | undefined,
): Promise<UnknownPurchase[]> => {
  const unknown: UnknownPurchase[] = []
  let listed: ReceiptName[] = []
  const sift = async (): Promise<void> => {
    unknown.push(...(await notOnRecord(db, listed)))
    listed = []
  }
  for await (const { path } of notes.list(receiptsFolder(id), receiptsFrom(id, boughtAsk), signal)) {
    const found = receiptName(path)
    if (found !== null) listed.push(found)
    if (listed.length >= atOnce) await sift()
  }
  for await (const receipt of olderWithoutId(db, notes, id, boughtAsk, signal)) listed.push(receipt)
  await sift()
  return withoutIntentsKept(unknown, await stillThere(notes, unknown))
}

/** Receipts of purchases that still wait for their id, and that so much was asked for behind that the list above begins after them. */
async function* olderWithoutId(
  db: Db,
  notes: LandingNotes,
  id: string,
  boughtAsk: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<ReceiptName> {
  const asks = new Set(await asksWithoutId(db))
  const folders = new Set([...asks].map((askNumber) => receiptsOf(id, askNumber)))
  for (const folder of folders) {
    if (`${folder}/` >= receiptsFrom(id, boughtAsk)) continue
    for await (const { path } of notes.list(folder, undefined, signal)) {
      const found = receiptName(path)
      if (found !== null && asks.has(found.askNumber)) yield found
    }
  }
}

const notOnRecord = async (db: Db, listed: readonly ReceiptName[]): Promise<UnknownPurchase[]> => {
  const known = await purchasesOf(db, [...new Set(listed.map(({ askNumber }) => askNumber))])
  const digests = new Set(
    known.flatMap(({ account, reportId }) => (reportId === null ? [] : [purchaseDigest(account, reportId)])),
  )
  const withId = new Set(known.filter(({ reportId }) => reportId !== null).map(({ askNumber }) => askNumber))
  const asked = new Set(known.map(({ askNumber }) => askNumber))
  return listed
    .filter(({ askNumber, digest }) => (digest === null ? !asked.has(askNumber) : !digests.has(digest)))
    .map((receipt) => {
      const { askNumber } = receipt
      return { ...receipt, onRecord: withId.has(askNumber) ? 'another id' : asked.has(askNumber) ? 'no id' : 'nothing' }
    })
}

/** An intent that was withdrawn since it was listed is gone. */
const stillThere = async (notes: LandingNotes, unknown: readonly UnknownPurchase[]): Promise<ReadonlySet<string>> => {
  const there = new Set<string>()
  for (const { path, digest } of unknown) if (digest !== null || (await notes.read(path)) !== null) there.add(path)
  return there
}

/** An intent says nothing more once the report's own receipt is there. */
const withoutIntentsKept = (unknown: readonly UnknownPurchase[], there: ReadonlySet<string>): UnknownPurchase[] => {
  const nameOf = ({ askNumber, epoch }: ReceiptName): string => `${askNumber}.${epoch}`
  const bought = new Set(unknown.filter(({ digest }) => digest !== null).map(nameOf))
  return unknown.filter((one) => there.has(one.path) && (one.digest !== null || !bought.has(nameOf(one))))
}
