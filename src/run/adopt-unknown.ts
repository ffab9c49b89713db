// A restored ledger takes up what lies beside the landings and in them: purchases by their receipts, answers of walks by their manifests.
import { isEtlError, messageOf } from '../core/errors.ts'
import { sqlStateOf } from '../db/database-error.ts'
import type { Db } from '../db/tables.ts'
import { askNumberOfAny, boxFolder, type Manifest, pipelineFolder } from '../extract/landing-files.ts'
import type { LandingStore } from '../extract/landing.ts'
import { parseReceipt, type Receipt, type ReceiptName } from '../extract/receipt-files.ts'
import { boxOf } from '../core/unit-key.ts'
import { walkPipelines } from '../ledger/pipelines.ts'
import { bookFound } from '../ledger/requests.ts'
import { drawAbove } from '../ledger/receipts.ts'
import { type Adopted, knownPipeline, pipelineOf, adoptWork } from '../ledger/adopt-work.ts'
import type { FoundAnswer } from '../ledger/adopted-job.ts'
import type { Evidence } from './evidence.ts'

export interface AdoptedCounts {
  readonly purchases: number
  readonly answers: number
  /** Receipts of pipelines that have another shape here. */
  readonly left: number
  /** Receipts that cannot be taken in: which, and why. They are passed over. */
  readonly damaged: readonly string[]
}

export interface AdoptRequest {
  readonly db: Db
  readonly landing: LandingStore
  readonly id: string
  readonly evidence: Evidence
}

/** Idempotent, each piece a commit. New asks are newer than all that was found. */
export const adoptUnknown = async (request: AdoptRequest): Promise<AdoptedCounts> => {
  const { db, landing, id, evidence } = request
  let highest = BigInt(evidence.newest.ask)
  const see = (askNumber: string): void => {
    if (BigInt(askNumber) > highest) highest = BigInt(askNumber)
  }
  for (const { askNumber } of evidence.unknown) see(askNumber)
  for await (const { askNumber } of walksFound(db, landing, id, evidence.newest.ask)) see(askNumber)
  await drawAbove(db, String(highest))
  const counts = await adoptPurchases(request)
  let answers = 0
  for await (const walk of walksFound(db, landing, id, evidence.newest.ask))
    if ((await adoptWalk(db, landing, walk)) === 'taken up') answers += 1
  return { ...counts, answers }
}

/** Those of the receipts alone. */
export const adoptPurchases = async ({ db, landing, id, evidence }: AdoptRequest): Promise<AdoptedCounts> => {
  let [purchases, left] = [0, 0]
  const damaged: string[] = []
  for (const name of evidence.unknown) {
    const taken = await adoptPurchase(db, landing, id, name).catch((error: unknown) => damageOf(name, error))
    if (taken === 'taken up') purchases += 1
    if (taken === 'other shape') left += 1
    if (typeof taken === 'object') damaged.push(taken.message)
  }
  return { purchases, answers: 0, left, damaged }
}

/** One that no ledger can take in keeps none of the others away. Throws what is not its own fault. */
const damageOf = ({ path }: ReceiptName, error: unknown): { readonly message: string } => {
  if (isEtlError(error) && error.code === 'LANDING_CORRUPT') return { message: error.message }
  // Data that PostgreSQL does not take: no text, no number, out of range.
  if (!sqlStateOf(error).startsWith('22')) throw error
  return {
    message: `${path} beside the landings cannot be taken in: ${messageOf(error)}. Restore it from a backup, or delete it.`,
  }
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

/** What landed of the purchase, the newest whole one; null: nothing did. */
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

const wholeManifest = async (landing: LandingStore, locator: string): Promise<Manifest | null> => {
  try {
    return (await landing.open(locator)).manifest
  } catch (error) {
    if (isEtlError(error) && (error.code === 'LANDING_MISSING' || error.code === 'LANDING_CORRUPT')) return null
    throw error
  }
}

const foundAnswer = (
  locator: string,
  { sha256, bytes, completeness }: Manifest,
  { asks, metrics }: { readonly asks: string; readonly metrics: readonly string[] },
): FoundAnswer => ({
  ...{ locator, sha256, bytes, asks, metrics },
  fingerprint: completeness.fingerprint,
  dataPoints: completeness.dataPoints,
  usedQuota: completeness.usedQuota ?? null,
  order: completeness.order ?? null,
  dialect: completeness.dialect ?? null,
})

interface FoundWalk {
  readonly locator: string
  readonly askNumber: string
  readonly account: string
  readonly windowEvery: 'day' | 'week' | 'month'
}

/** Answers of walks that are newer than all the ledger knows: the landings of its walking pipelines are listed, which an ordinary start does not do. */
async function* walksFound(db: Db, landing: LandingStore, id: string, newestAsk: string): AsyncGenerator<FoundWalk> {
  for (const { pipeline, version, account, windowEvery } of await walkPipelines(db)) {
    for await (const locator of landing.below(pipelineFolder({ pipeline, version }))) {
      const askNumber = askNumberOfAny(locator, id)
      if (askNumber === null || BigInt(askNumber) <= BigInt(newestAsk)) continue
      yield { locator, askNumber, account, windowEvery }
    }
  }
}

const adoptWalk = async (
  db: Db,
  landing: LandingStore,
  { locator, askNumber, account, windowEvery }: FoundWalk,
): Promise<Adopted> => {
  const manifest = await wholeManifest(landing, locator)
  if (manifest?.question === undefined) return 'known'
  const { question } = manifest
  return db.transaction().execute(async (trx) => {
    const known = await knownPipeline(trx, { ...manifest, parameters: question.parameters })
    if (known === null) return 'other shape'
    const adopted = await adoptWork(trx, known, windowEvery, {
      ...{ kind: 'walk', ask_number: askNumber, asked_at: manifest.landed_at, account },
      ...{ window: manifest.window, slice: manifest.slice },
      ...{ report_id: null, endpoint: null, request: null, request_hash: null, estimated_quota: null },
      answer: foundAnswer(locator, manifest, question),
    })
    const [credits, pages] = [manifest.completeness.usedQuota ?? null, manifest.parts.length]
    if (adopted === 'taken up' && credits !== null && pages > 0)
      await bookFound(trx, { askedAt: manifest.landed_at, account, pipelineId: known.pipelineId, pages, credits })
    return adopted
  })
}
