// What a run does once its jobs are settled, none of which makes it fail: windows counted, attributes applied, statistics renewed.
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { databaseMs } from '../ledger/database-now.ts'
import { lockPipeline } from '../ledger/pipelines.ts'
import { closeWindows, windowsLoadedBy } from '../ledger/windows.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { lookBackStart } from '../plan/frames.ts'
import { publishAttributes } from './refresh-attributes.ts'
import type { Runtime } from './runtime.ts'

/**
 * Counts windows that the run has made whole once, so that status and page need not count their units. Older than the look-back alone: others are asked
 * about again. A window a commit; the next planning closes what is left.
 */
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

/**
 * Applies the folder attributes/ where it is there: files that changed, queries asked again, and names of values that this run brought. Only `migrate` ends
 * everything where there is no such folder, since not every machine that loads need have it. A run does not fail over them.
 */
export const refreshAttributes = async ({ database, attributes, progress, log }: Runtime, signal: AbortSignal): Promise<void> => {
  if (signal.aborted) return
  try {
    const folder = await attributes()
    if (folder === null) return
    const applied = await publishAttributes(database, folder.found, folder.definitions)
    if (applied.changed + applied.ended > 0) log.info({ attributes: applied }, 'attributes applied')
  } catch (error) {
    const code = isEtlError(error) ? error.code : 'ATTRIBUTES'
    progress.emit({ event: 'notice', code, message: `Attributes stay as they were: ${messageOf(error)}` })
  }
}

/** Questions of analysts are planned by them; a run does not fail over them. */
export const keepStatistics = async (
  { database, log }: Runtime,
  { definitions, signal }: { readonly definitions: readonly Definition[]; readonly signal: AbortSignal },
): Promise<void> => {
  if (signal.aborted) return
  const analyzed = await analyzeChanged(database, definitions).catch((error: unknown) => {
    log.warn({ error: messageOf(error) }, 'statistics were not renewed; questions may take longer until the next run')
    return []
  })
  if (analyzed.length > 0) log.debug({ tables: analyzed }, 'statistics renewed')
}
