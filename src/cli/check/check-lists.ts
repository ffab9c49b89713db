// Lists from SQL: each query is read once, as planning reads it, and nothing of it is obeyed.
import type { Settings } from '../../core/env.ts'
import type { Database } from '../../db/connect.ts'
import { migrationState } from '../../db/migrate.ts'
import { readerSetting, triedLists } from '../../plan/query-lists.ts'
import { migrationFolders } from '../../run/open-runtime.ts'
import type { Checking } from './check-warehouse.ts'
import { counted, note } from './notes.ts'

/** @param isOffline a list that another database gives is not read then */
export const checkLists = async (
  database: Database,
  { definitions, folders, notes, pipelinesFolder }: Checking,
  settings: Settings,
  isOffline: boolean,
): Promise<void> => {
  const asking = definitions.filter(({ dimensions }) => dimensions.some(({ query }) => query !== undefined))
  if (asking.length === 0 || folders === null) return
  const state = await migrationState(database, { folders: migrationFolders(pipelinesFolder) })
  const reason =
    state.pending.length > 0
      ? 'they need the migrated warehouse'
      : isOffline && settings.raw[readerSetting]
        ? `--offline was given, and ${readerSetting} may name another database`
        : null
  if (reason !== null) return note(notes, 'definition', 'not asked', `lists from SQL: ${reason}.`)
  for (const definition of asking)
    for (const { dimension, outcome, count, message } of await triedLists({ database, settings, ...folders }, definition)) {
      const about = `${definition.file}: the list of ${dimension}`
      if (outcome === 'failed') note(notes, 'definition', 'error', `${about}: ${message}`)
      else if (message !== null) note(notes, 'definition', 'warning', `${about}: ${message}`)
      else note(notes, 'definition', 'proved', `${about}: its query gives ${counted(count, 'value')}.`)
    }
}
