// Adopts landed answers of walks that this ledger, restored from a backup, does not know: none of their pages is bought again.
import type { Definition, WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { askNumberOfAny, type Manifest, pipelineFolder, type Question } from '../extract/landing-files.ts'
import { unlessLost } from '../extract/landing-reader.ts'
import type { LandingStore } from '../extract/landing-store.ts'
import { type Adopted, adoptWork, type FoundAnswer, knownPipeline } from '../ledger/adopt-work.ts'
import { isLandingKnown } from '../ledger/answers.ts'
import { isPlanned, makePipeline, walkPipelines } from '../ledger/pipelines.ts'
import { walksUnderWay } from '../ledger/receipts.ts'
import { countRestored } from '../ledger/request-credits.ts'
import { isBegunOnly, paidFor } from './landed-pages.ts'
import { answerIn } from './open-answer.ts'

/** null: it is not whole. */
export const wholeManifest = (landing: LandingStore, locator: string, unless = unlessLost): Promise<Manifest | null> =>
  landing.open(locator).then(({ manifest }) => manifest, unless)

const unlessMissing = (error: unknown): null => {
  if (isEtlError(error) && error.code === 'LANDING_MISSING') return null
  throw error
}

export const foundAnswer = (
  locator: string,
  manifest: Manifest,
  { asks, metrics, top = null }: Omit<Question, 'parameters'>,
): FoundAnswer => ({ ...answerIn(locator, manifest), asks, metrics, top, usedQuota: manifest.completeness.usedQuota ?? null })

interface FoundWalk extends Readonly<Record<'locator' | 'askNumber' | 'account', string>> {
  readonly windowEvery: WindowSize
}

/** Landed answers of walks that are newer than all the ledger knows, or that it takes for under way. Lists the landings of all paged pipelines, which an ordinary start does not. */
export async function* walksFound(db: Db, landing: LandingStore, id: string, newestAsk: string): AsyncGenerator<FoundWalk> {
  const underWay = new Set(await walksUnderWay(db))
  for (const { pipeline, version, account, window_every: windowEvery } of await walkPipelines(db)) {
    for await (const locator of landing.below(pipelineFolder({ pipeline, version }))) {
      const askNumber = askNumberOfAny(locator, id)
      if (askNumber === null || (BigInt(askNumber) <= BigInt(newestAsk) && !underWay.has(askNumber))) continue
      yield { locator, askNumber, account, windowEvery }
    }
  }
}

/** What became of a walk, or why it cannot be adopted. */
type TakenUp = Adopted | { readonly message: string }

/** Turns an error that comes from the landing or note itself into a message, so that the others are still adopted. Throws any other error. */
export const damageOf = (place: string, error: unknown): { readonly message: string } => {
  if (isEtlError(error) && error.code === 'LANDING_CORRUPT') return { message: error.message }
  // Data that PostgreSQL does not take: no text, no number, out of range.
  if (!sqlStateOf(error).startsWith('22')) throw error
  return { message: `${place} cannot be adopted: ${messageOf(error)}. Restore it from a backup, or delete it.` }
}

const adoptWalk = (db: Db, landing: LandingStore, walk: FoundWalk): Promise<TakenUp> =>
  takeUp(db, landing, walk).catch((error: unknown) => damageOf(`${landing.place}: ${walk.locator}`, error))

const takeUp = async (
  db: Db,
  landing: LandingStore,
  { locator, askNumber, account, windowEvery }: FoundWalk,
): Promise<Adopted> => {
  const manifest = await wholeManifest(landing, locator, unlessMissing)
  // Pages of a walk that was stopped are no answer; the job that resumes it names them.
  if (manifest?.question === undefined || isBegunOnly(manifest.completeness)) return 'known'
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
    const paid = paidFor(manifest)
    if (adopted === 'taken up' && paid.length > 0)
      await countRestored(trx, { askedAt: manifest.landed_at, account, pipelineId: known.pipelineId, askNumber, paid })
    return adopted
  })
}

/** Returns how many walks were adopted, and which cannot be, and why. */
export const adoptEach = async (db: Db, landing: LandingStore, walks: AsyncIterable<FoundWalk>) => {
  let answers = 0
  const damaged: string[] = []
  for await (const walk of walks) {
    const taken = await adoptWalk(db, landing, walk)
    if (taken === 'taken up') answers += 1
    if (typeof taken === 'object') damaged.push(taken.message)
  }
  return { answers, damaged }
}

/**
 * Adopts answers of pipelines that this ledger has never planned: the original got them after the backup. Not called for a ledger that was never
 * restored.
 */
export const adoptUnplanned = (
  { db, landing }: { readonly db: Db; readonly landing: LandingStore },
  id: string,
  walks: readonly Definition[],
) => adoptEach(db, landing, walksUnplanned(db, landing, id, walks))

async function* walksUnplanned(
  db: Db,
  landing: LandingStore,
  id: string,
  walks: readonly Definition[],
): AsyncGenerator<FoundWalk> {
  for (const definition of walks) {
    if (await isPlanned(db, definition)) continue
    const { account, window } = definition
    for await (const locator of landing.below(pipelineFolder(definition))) {
      const askNumber = askNumberOfAny(locator, id)
      // A pipeline with other parameters may have millions that are on record: they are not opened.
      if (askNumber === null || (await isLandingKnown(db, { locator, askNumber }))) continue
      await makePipeline(db, definition)
      yield { locator, askNumber, account, windowEvery: window.every }
    }
  }
}
