// The `loaded` mark: written in the transaction that changes the rows, or alone when nothing had changed.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Fingerprint, RowCounts } from '../core/types.ts'
import { executePrepared } from '../db/prepared.ts'
import type { Tables } from '../db/tables.ts'
import { type ClaimedUnit, fenced, type Hold, isHeldBy } from './units.ts'

type Db = Kysely<Tables>

export interface LoadedMark {
  readonly runId: number
  readonly counts: RowCounts
  readonly landing: string
  readonly landingSha256: string
  readonly landingBytes: number
  readonly fingerprint: Fingerprint
  readonly drift: unknown
  readonly milliseconds: number
}

/** Every run that waits for the unit hears of it, in the statement that records the load. */
const settled = ({ unitId }: Hold, outcome: 'loaded' | 'unchanged'): RawBuilder<unknown> =>
  sql`update etl.run_units set outcome = ${outcome}, finished_at = clock_timestamp()
      where unit_id = ${unitId}::bigint and outcome is null and exists (select 1 from load)`

type Value = string | number | null | RawBuilder<unknown>

/** The columns of a load, as values, slots or expressions. */
export type LoadedValues = Readonly<
  Record<
    keyof RowCounts | 'rowsNow' | 'runId' | 'landing' | 'sha256' | 'bytes' | 'lastUpdated' | 'count' | 'drift' | 'milliseconds',
    Value
  >
>

export interface LoadedOptions {
  /** A further condition: nothing is written where it does not hold. */
  readonly when: RawBuilder<unknown>
  /** What else is set of the unit; begins with a comma. */
  readonly set: RawBuilder<unknown>
}

export interface LoadedStatement {
  readonly tables: RawBuilder<unknown>
  /** Returns the unit's id, or no row where nothing was written. */
  readonly mark: RawBuilder<{ unit_id: string }>
}

/** `with <tables> <mark>`: the load, the runs that wait for it, and the unit. */
export const loadedStatement = (
  claim: Hold & { readonly edition: number | string },
  values: LoadedValues,
  { when, set }: LoadedOptions = { when: sql`true`, set: sql`` },
): LoadedStatement => ({
  tables: sql`report as (
      select max(report_key) as report_key from etl.reports where unit_id = ${claim.unitId}::bigint and edition = ${claim.edition}
    ), load as (
      insert into etl.loads (unit_id, edition, run_id, report_key, outcome, landing, landing_sha256, landing_bytes,
        source_last_updated, source_count, rows_read, rows_inserted, rows_updated, rows_ended, rows_unchanged,
        rows_quarantined, rows_duplicates, drift, milliseconds)
      select ${claim.unitId}::bigint, ${claim.edition}, ${values.runId}::bigint, report_key, 'loaded', ${values.landing},
        ${values.sha256}, ${values.bytes}::bigint, ${values.lastUpdated}, ${values.count}::bigint,
        ${values.read}::bigint, ${values.inserted}::bigint, ${values.updated}::bigint, ${values.ended}::bigint,
        ${values.unchanged}::bigint, ${values.quarantined}::bigint, ${values.duplicates}::bigint,
        ${values.drift}::jsonb, ${values.milliseconds}::float8
      from report where exists (select 1 from etl.units where ${isHeldBy(claim)}) and ${when} returning load_id
    ), settled as (${settled(claim, 'loaded')})`,
  mark: sql`update etl.units set state = 'loaded', loaded_at = transaction_timestamp(),
      loaded_edition = edition, loaded_load_id = (select load_id from load), loaded_rows = ${values.rowsNow}::bigint,
      loaded_sha256 = ${values.sha256}, loaded_landing = ${values.landing}, landing = null,
      source_last_updated = ${values.lastUpdated}, source_count = ${values.count}::bigint,
      error_code = null, error_message = null, not_before = null, lease_owner = null, lease_until = null,
      released = false, forced = false, updated_at = clock_timestamp() ${set}
    where ${isHeldBy(claim)} and ${when} returning unit_id`,
})

/** Call inside the data transaction, after `lockUnit`. Throws FENCED when the unit was taken over. */
export const markLoaded = async (db: Db, claim: ClaimedUnit, mark: LoadedMark): Promise<void> => {
  const { counts, fingerprint } = mark
  const statement = loadedStatement(claim, {
    ...counts,
    rowsNow: counts.inserted + counts.updated + counts.unchanged,
    runId: mark.runId,
    landing: mark.landing,
    sha256: mark.landingSha256,
    bytes: mark.landingBytes,
    lastUpdated: fingerprint.lastUpdated,
    count: fingerprint.count,
    drift: mark.drift === null ? null : JSON.stringify(mark.drift),
    milliseconds: mark.milliseconds,
  })
  const rows = await executePrepared(db, sql`with ${statement.tables} ${statement.mark}`)
  if (rows.length === 0) throw fenced(claim)
}

/** The service's answer is what is loaded already: no row is touched. */
export const markUnchanged = async (
  db: Db,
  claim: ClaimedUnit,
  mark: { runId: number; fingerprint: Fingerprint },
): Promise<void> => {
  const rows = await executePrepared(
    db,
    sql`
    with load as (
      insert into etl.loads (unit_id, edition, run_id, outcome, source_last_updated, source_count)
      select unit_id, ${claim.edition}, ${mark.runId}::bigint, 'unchanged', ${mark.fingerprint.lastUpdated},
        ${mark.fingerprint.count}::bigint
      from etl.units where ${isHeldBy(claim)} returning load_id
    ), settled as (${settled(claim, 'unchanged')})
    update etl.units set state = 'loaded', checked_at = transaction_timestamp(), loaded_edition = edition, landing = null,
      source_last_updated = ${mark.fingerprint.lastUpdated}, source_count = ${mark.fingerprint.count}::bigint,
      error_code = null, error_message = null, not_before = null, lease_owner = null, lease_until = null,
      released = false, forced = false, updated_at = clock_timestamp()
    where ${isHeldBy(claim)} returning unit_id`,
  )
  if (rows.length === 0) throw fenced(claim)
}
