// One answer into its table by the statements of a load, without ledger, landing and parser: what of a load is PostgreSQL's.
import type { Session } from '../src/db/session.ts'
import type { Definition } from '../src/core/types.ts'
import { copyRows, type RowsChunk } from '../src/load/copy-rows.ts'
import {
  beginLoad,
  closeStaging,
  loadedRows,
  momentOf,
  openStaging,
  prepareStaging,
  sumOf,
  writeDifference,
} from '../src/load/difference.ts'
import {
  attachMonths,
  ensurePartitions,
  ensureStatistics,
  type MadeMonths,
  makeMonths,
  monthsToMake,
} from '../src/load/partition.ts'
import { copiedColumns, tableName, type UnitScope } from '../src/load/table-columns.ts'

export interface Once {
  readonly definition: Definition
  readonly scope: UnitScope
  readonly runId: number
  readonly chunks: readonly RowsChunk[]
  /** Called in the transaction, when the rows are there. */
  readonly beside?: (session: Session, inserted: number) => Promise<void>
}

export interface Counts {
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  readonly unchanged: number
}

export const loadOnce = async (session: Session, once: Once): Promise<Counts> => {
  const { definition, scope, chunks } = once
  const bytes = chunks.reduce((sum, { copy }) => sum + copy.length, 0)
  const months = await monthsToMake(session, definition, scope.window, bytes)
  if (months === null) await ensurePartitions(session, definition, scope.window)
  if (bytes > 1_000_000) await ensureStatistics(session, definition, scope.window)
  return session.kysely.transaction().execute(async (trx) => {
    const inside = { ...session, kysely: trx }
    const isLoaded = await beginLoad(inside, definition, scope, { runId: once.runId, looks: true })
    const counts = isLoaded ? await again(inside, once, bytes) : await first(inside, once, months)
    await once.beside?.(inside, counts.inserted)
    return counts
  })
}

const columnsOf = (definition: Definition): string[] => [...copiedColumns(definition).map(({ name }) => name), '_unit_id']

async function* each(chunks: readonly RowsChunk[]): AsyncGenerator<RowsChunk> {
  yield* chunks
}

const first = async (session: Session, { definition, chunks }: Once, months: MadeMonths['months'] | null): Promise<Counts> => {
  const made = months === null ? null : await makeMonths(session, definition, months)
  const target = made?.target ?? `data."${tableName(definition)}"`
  const inserted = await copyRows(session, { target, columns: columnsOf(definition) }, each(chunks))
  if (made !== null) await attachMonths(session, definition, made)
  return { inserted, updated: 0, ended: 0, unchanged: 0 }
}

const again = async (session: Session, { definition, scope, runId, chunks }: Once, bytes: number): Promise<Counts> => {
  const staging = await openStaging(session, definition, { isTiny: bytes <= 256 * 1024, isNumbered: false })
  const came = await copyRows(session, { target: staging.name, columns: columnsOf(definition) }, each(chunks))
  await prepareStaging(session, staging, came)
  const loaded = await loadedRows(session, definition, scope)
  const moment = await momentOf(session, definition, scope, [loaded.newest])
  const written = await writeDifference({
    ...{ session, definition, scope, staging, runId, moment, came, loaded: loaded.rows },
    hasProtected: false,
    mayEnd: true,
  })
  if (written === null) throw new Error('the rows hold a key twice')
  await closeStaging(session, staging)
  const [inserted, updated, ended] = [sumOf(written.inserted), sumOf(written.updated), sumOf(written.ended)]
  return { inserted, updated, ended, unchanged: came - inserted - updated }
}
