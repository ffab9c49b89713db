// At the end of a run: windows it has made whole are counted once, so that status and page need not count their units.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { lockPipeline } from '../ledger/pipelines.ts'
import { closeWindows, windowsLoadedBy } from '../ledger/windows.ts'
import { lookBackStart } from '../plan/frames.ts'
import { databaseMs } from '../ledger/database-now.ts'
import type { Runtime } from './runtime.ts'

/** Older than the look-back alone: others are asked about again. A window a commit. Never throws: the next planning closes what is left. */
export const closeLoaded = async (
  { database, log }: Pick<Runtime, 'database' | 'log'>,
  runId: number,
  definitions: readonly Definition[],
): Promise<void> => {
  try {
    const { kysely } = database
    const nowMs = await databaseMs(kysely)
    for (const definition of definitions) {
      const before = lookBackStart(definition, nowMs)
      if (before === null) continue
      for (const { pipelineId, windowFrom, generation } of await windowsLoadedBy(kysely, runId, { ...definition, before }))
        await kysely.transaction().execute(async (trx) => {
          await lockPipeline(trx, pipelineId)
          await closeWindows(trx, pipelineId, [windowFrom], generation)
        })
    }
  } catch (error) {
    log.warn({ run_id: runId, error: messageOf(error) }, 'windows are left to the next planning to be counted')
  }
}
