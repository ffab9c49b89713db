// One merge of given rows into the traffic table, and what it left, for tests of the statements.
import { type KyselyPlugin, sql } from 'kysely'
import type { Box, Definition, Window } from '../../src/core/types.ts'
import { type Session, withSession } from '../../src/db/session.ts'
import { openAccepted } from '../../src/load/accepted-units.ts'
import { mergeAnswer } from '../../src/load/merge.ts'
import type { MergeRequest, MergeResult } from '../../src/load/merge-context.ts'
import { type MergeScope, manyUnits, oneUnit } from '../../src/load/merge-scope.ts'
import { ensurePartitions } from '../../src/load/partition.ts'
import { openStaging } from '../../src/load/staging.ts'
import { combinations } from './definitions.ts'
import type { TestDatabase } from './postgres.ts'

/** Staged columns: date, domain, country and six metrics, of which the first is given. */
export const trafficRow = (domain: string, visits: string, date = '2026-01-01', country = 'us'): string =>
  [date, domain, country, visits, '1', '2', '3', '4', '\\N'].join('\t')

/** The same rows as another country's. */
export const inCountry = (country: string, rows: readonly string[]): string[] =>
  rows.map((row) => row.replace('\tus\t', `\t${country}\t`))

export interface MergeOptions {
  /** Of the first unit of a box; the others' are 1,000 apart. */
  readonly unitId?: number
  readonly runId?: number
  readonly rejectedKeys?: string[][]
  readonly mayEnd?: boolean
  /** Default null: nothing is held. */
  readonly shrink?: number | null
  readonly repeated?: NonNullable<MergeRequest['repeated']>
  readonly repeatsLoaded?: boolean
  /** The month is filled before it is attached; its partition is not made before. */
  readonly emptyMonth?: Window | null
  /** Called once, inside the open transaction, when the merge has read what is loaded and has not yet compared it. */
  readonly afterLook?: () => Promise<unknown>
  /** Called inside the open transaction, after the merge. */
  readonly during?: (session: Session, scope: MergeScope) => Promise<void>
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

/** A box of one unit by its constants, one of several by a table of them, as in a load. */
const scopeOf = async (session: Session, definition: Definition, box: Box, unitId: number): Promise<MergeScope> => {
  if (Object.values(box.slice).every((value) => typeof value === 'string')) return oneUnit(box, unitId)
  const accepted = await openAccepted(session, definition, box)
  for (const [place, values] of combinations(accepted.columns.map(({ name }) => box.slice[name] ?? [])).entries())
    await sql`insert into ${accepted.name} values (${unitId + place * 1_000}, 'accepted', ${sql.join(values)})`.execute(
      session.kysely,
    )
  return manyUnits(box, box.window, accepted)
}

export const mergeRows = (
  db: TestDatabase,
  definition: Definition,
  box: Box,
  rows: readonly string[],
  options: MergeOptions = {},
): Promise<MergeResult> =>
  withSession(db.database.pool, async (session) => {
    if (options.emptyMonth === undefined || options.emptyMonth === null) await ensurePartitions(session, definition, box.window)
    await openAccepted(session, definition, box)
    const staging = openStaging(session, definition)
    if (rows.length > 0) await staging.write({ copy: Buffer.from(rows.map((one) => `${one}\n`).join('')), rows: rows.length })
    await staging.flush()
    const merged = await session.kysely.transaction().execute(async (trx) => {
      const within = { ...session, kysely: options.afterLook === undefined ? trx : trx.withPlugin(watching(options.afterLook)) }
      const rejectedKeys = options.rejectedKeys ?? []
      const scope = await scopeOf(within, definition, box, options.unitId ?? 1)
      const result = await mergeAnswer(within, {
        definition,
        scope,
        runId: options.runId ?? 1,
        staging,
        rows: rows.length,
        rejectedKeys,
        rejects: rejectedKeys.length,
        mayEnd: options.mayEnd ?? true,
        shrink: options.shrink ?? null,
        repeated: options.repeated ?? 'unknown',
        repeatsLoaded: options.repeatsLoaded ?? false,
        emptyMonth: options.emptyMonth ?? null,
      })
      await options.during?.(within, scope)
      return result
    })
    await staging.close()
    return merged
  })
