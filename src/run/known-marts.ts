// The marts a process knows: their files as they were when it began, read again where somebody published others meanwhile.
import { join } from 'node:path'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { loadMarts } from '../definition/marts.ts'
import { differingSummaries, type KnownMarts, summaryDiffers } from '../load/summaries.ts'

/** Folder of the user's own marts; those shipped always count. */
export const martFolders = (pipelinesFolder: string): string[] => [join(pipelinesFolder, '..', 'marts')]

/** Throws DEFINITION where a file has mistakes. */
export const openMarts = async (pipelinesFolder: string): Promise<KnownMarts> => {
  let marts: readonly Mart[] = await loadMarts(martFolders(pipelinesFolder))
  return {
    current: () => marts,
    reread: async () => {
      marts = await loadMarts(martFolders(pipelinesFolder))
      return marts
    },
  }
}

/** Before anything is asked for: throws SCHEMA_BEHIND where a summary's file was changed and not migrated, since no load could fill it. */
export const assertSummariesMade = async (
  { kysely }: Database,
  definitions: readonly Definition[],
  marts: readonly Mart[],
): Promise<void> => {
  for (const definition of definitions) {
    const [other] = await differingSummaries(kysely, definition, marts)
    if (other !== undefined) throw summaryDiffers(other)
  }
}
