// At the end of a run: what it restated is summed up, judged against what is usual, and where it is a new method, on record. Asks the service nothing.
import { messageOf } from '../core/errors.ts'
import type { Db } from '../db/tables.ts'
import {
  breaksOf,
  type KnownBreak,
  moveBack,
  reachBack,
  recordBreak,
  recordVersions,
  restatedBefore,
  sumRestated,
} from '../ledger/breaks.ts'
import { lockPipeline } from '../ledger/pipelines.ts'
import { isOfBreak, judgeRestated, type Restated } from '../plan/method-break.ts'
import type { Runtime } from './runtime.ts'

/** A run does not fail over it: what it leaves is judged with a later one's. */
export const noticeBreaks = async ({ database, log }: Pick<Runtime, 'database' | 'log'>, runId: number): Promise<void> => {
  try {
    await database.kysely.transaction().execute(async (trx) => {
      await recordVersions(trx, runId)
      for (const { pipeline_id, run_id, nightly } of await sumRestated(trx, runId)) {
        await lockPipeline(trx, pipeline_id)
        await noticeOne(trx, pipeline_id, run_id, nightly)
      }
    })
  } catch (error) {
    log.warn({ run_id: runId, error: messageOf(error) }, 'what was restated is left to the next run to be judged')
  }
}

const noticeOne = async (trx: Db, pipelineId: number, runId: number, isNightly: boolean): Promise<void> => {
  const known = await breaksOf(trx, pipelineId)
  const before = await restatedBefore(trx, pipelineId)
  if (before === null) return
  await extend(trx, known, before.filter((one) => one.runId === runId)) // biome-ignore format: one look
  const fresh = before.filter((one) => !known.some((found) => isPartOf(one, found)))
  const usual = fresh.filter((one) => one.runId < runId)
  const found = isNightly ? judgeRestated(fresh.filter((one) => one.runId === runId), usual) : null // biome-ignore format: one look
  if (found !== null) await recordBreak(trx, pipelineId, runId, found)
}

/** A break may take some nights to reach all of a table. Milliseconds. */
const reachesWithin = 31 * 86_400_000

const isPartOf = (one: Restated & { readonly runId: number; readonly seenMs: number }, found: KnownBreak): boolean =>
  one.runId >= found.runId && one.seenMs < found.noticedMs + reachesWithin && isOfBreak(one, found)

/** Older windows that were asked for since show how far back the change goes, and are of the new method once they are asked for whole. */
const extend = async (trx: Db, known: readonly KnownBreak[], run: readonly Restated[]): Promise<void> => {
  for (const found of known) {
    const older = run.filter((one) => one.windowFrom < found.startsOn && isOfBreak(one, found))
    for (const { windowFrom } of older) await reachBack(trx, found.breakId, windowFrom)
    if (older.length > 0) await moveBack(trx, found.breakId)
  }
}
