// One merge of given rows into the traffic table, and what it left, for tests of the statements.
import type { KyselyPlugin } from 'kysely'
import type { Definition, Unit } from '../../src/core/types.ts'
import { type Session, withSession } from '../../src/db/session.ts'
import { mergeUnit } from '../../src/load/merge.ts'
import type { MergeResult } from '../../src/load/merge-context.ts'
import { ensurePartitions } from '../../src/load/partition.ts'
import { openStaging } from '../../src/load/staging.ts'
import type { TestDatabase } from './postgres.ts'

/** Staged columns: date, domain and six metrics, of which the first is given. */
export const trafficRow = (domain: string, visits: string, date = '2026-01-01'): string =>
  [date, domain, visits, '1', '2', '3', '4', '\\N'].join('\t')

export interface MergeOptions {
  readonly unitId?: number
  readonly runId?: number
  readonly rejectedKeys?: string[][]
  readonly mayEnd?: boolean
  readonly repeatsLoaded?: boolean
  /** Called once, inside the open transaction, when the merge has looked at what is loaded and has not yet compared it. */
  readonly afterLook?: () => Promise<unknown>
  /** Called inside the open transaction, after the merge. */
  readonly during?: (session: Session) => Promise<void>
}

const watching = (afterLook: () => Promise<unknown>): KyselyPlugin => {
  let seen = false
  return {
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      const isLook = result.rows.some((row) => 'has_history' in row)
      if (isLook && !seen) {
        seen = true
        await afterLook()
      }
      return result
    },
  }
}

export const mergeRows = (
  db: TestDatabase,
  definition: Definition,
  unit: Unit,
  rows: readonly string[],
  options: MergeOptions = {},
): Promise<MergeResult> =>
  withSession(db.database.pool, async (session) => {
    await ensurePartitions(session, definition, unit)
    const staging = openStaging(session, definition)
    if (rows.length > 0) await staging.write({ copy: Buffer.from(rows.map((one) => `${one}\n`).join('')), rows: rows.length })
    await staging.flush()
    const merged = await session.kysely.transaction().execute(async (trx) => {
      const within = { ...session, kysely: options.afterLook === undefined ? trx : trx.withPlugin(watching(options.afterLook)) }
      const result = await mergeUnit(within, {
        definition,
        unit,
        unitId: options.unitId ?? 1,
        runId: options.runId ?? 1,
        staging,
        rejectedKeys: options.rejectedKeys ?? [],
        mayEnd: options.mayEnd ?? true,
        repeatsLoaded: options.repeatsLoaded ?? false,
      })
      await options.during?.(within)
      return result
    })
    await staging.close()
    return merged
  })
