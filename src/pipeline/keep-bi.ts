// What a run leaves behind in bi beside its rows: attributes as their files are now, and statistics for the questions of analysts.
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { analyzeChanged } from '../load/analyze.ts'
import { publishAttributes } from './attributes.ts'
import type { Runtime } from './runtime.ts'

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
