// Answers of walks that landed and that this ledger, restored from a backup, does not know: they are taken up, and none of their pages is bought again.
import type { Definition, WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { askNumberOfAny, type Manifest, pipelineFolder } from '../extract/landing-files.ts'
import { unlessLost } from '../extract/landing-reader.ts'
import type { LandingStore } from '../extract/landing-store.ts'
import { type Adopted, adoptWork, type FoundAnswer, knownPipeline } from '../ledger/adopt-work.ts'
import { isLandingKnown } from '../ledger/answers.ts'
import { isPlanned, makePipeline, walkPipelines } from '../ledger/pipelines.ts'
import { walksUnderWay } from '../ledger/receipts.ts'
import { bookFound } from '../ledger/request-credits.ts'
import { isBegunOnly, paidFor } from './begun-walk.ts'
import { answerIn } from './open-answer.ts'

/** null: it is not whole. */
export const wholeManifest = (landing: LandingStore, locator: string): Promise<Manifest | null> =>
  landing.open(locator).then(({ manifest }) => manifest, unlessLost)

export const foundAnswer = (
  locator: string,
  manifest: Manifest,
  { asks, metrics }: { readonly asks: string; readonly metrics: readonly string[] },
): FoundAnswer => ({ ...answerIn(locator, manifest), asks, metrics, usedQuota: manifest.completeness.usedQuota ?? null })

interface FoundWalk extends Readonly<Record<'locator' | 'askNumber' | 'account', string>> {
  readonly windowEvery: WindowSize
}

/** Answers of walks that are newer than all the ledger knows, or of walks that are under way by it: the landings of its walking pipelines are listed, which an ordinary start does not do. */
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

export const adoptWalk = async (
  db: Db,
  landing: LandingStore,
  { locator, askNumber, account, windowEvery }: FoundWalk,
): Promise<Adopted> => {
  const manifest = await wholeManifest(landing, locator)
  // Pages of a walk that was stopped are no answer; the job that goes on with them names them.
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
      await bookFound(trx, { askedAt: manifest.landed_at, account, pipelineId: known.pipelineId, askNumber, paid })
    return adopted
  })
}

/**
 * How many were taken up of pipelines that this ledger has never planned: they came to the original after the backup. What is beside the landings of a ledger
 * that was never restored is not looked for.
 */
export const adoptUnplanned = async (
  { db, landing }: { readonly db: Db; readonly landing: LandingStore },
  id: string,
  walks: readonly Definition[],
): Promise<number> => {
  let answers = 0
  for (const definition of walks) {
    if (await isPlanned(db, definition)) continue
    const { account, window } = definition
    for await (const locator of landing.below(pipelineFolder(definition))) {
      const askNumber = askNumberOfAny(locator, id)
      // Another parameter of a pipeline of old has millions that are on record: they are not opened.
      if (askNumber === null || (await isLandingKnown(db, { locator, askNumber }))) continue
      await makePipeline(db, definition)
      const found = { locator, askNumber, account, windowEvery: window.every }
      if ((await adoptWalk(db, landing, found)) === 'taken up') answers += 1
    }
  }
  return answers
}
