// The `loaded` mark: written in the transaction that changes the rows, or alone when nothing had changed.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Fingerprint, RowCounts } from '../../core/types.ts'
import type { Tables } from '../tables.ts'
import { type ClaimedUnit, fenced, isHeldBy } from './units.ts'

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
const settled = (claim: ClaimedUnit, outcome: 'loaded' | 'unchanged'): RawBuilder<unknown> =>
  sql`update etl.run_units set outcome = ${outcome}, finished_at = clock_timestamp()
      where unit_id = ${claim.unitId}::bigint and outcome is null and exists (select 1 from load)`

/** Call inside the data transaction, after `lockUnit`. Throws FENCED when the unit was taken over. */
export const markLoaded = async (db: Db, claim: ClaimedUnit, mark: LoadedMark): Promise<void> => {
  const { counts, fingerprint } = mark
  const rowsNow = counts.inserted + counts.updated + counts.unchanged
  const { rows } = await sql`
    with report as (
      select max(report_key) as report_key from etl.reports where unit_id = ${claim.unitId}::bigint and edition = ${claim.edition}
    ), load as (
      insert into etl.loads (unit_id, edition, run_id, report_key, outcome, landing, landing_sha256, landing_bytes,
        source_last_updated, source_count, rows_read, rows_inserted, rows_updated, rows_ended, rows_unchanged,
        rows_quarantined, rows_duplicates, drift, milliseconds)
      select ${claim.unitId}::bigint, ${claim.edition}, ${mark.runId}::bigint, report_key, 'loaded', ${mark.landing},
        ${mark.landingSha256}, ${mark.landingBytes}::bigint, ${fingerprint.lastUpdated}, ${fingerprint.count}::bigint,
        ${counts.read}::bigint, ${counts.inserted}::bigint, ${counts.updated}::bigint, ${counts.ended}::bigint,
        ${counts.unchanged}::bigint, ${counts.quarantined}::bigint, ${counts.duplicates}::bigint,
        ${mark.drift === null ? null : JSON.stringify(mark.drift)}::jsonb, ${mark.milliseconds}::float8
      from report where exists (select 1 from etl.units where ${isHeldBy(claim)}) returning load_id
    ), settled as (${settled(claim, 'loaded')})
    update etl.units set state = 'loaded', loaded_at = transaction_timestamp(),
      loaded_edition = edition, loaded_load_id = (select load_id from load), loaded_rows = ${rowsNow}::bigint,
      loaded_sha256 = ${mark.landingSha256}, loaded_landing = ${mark.landing}, landing = null,
      source_last_updated = ${fingerprint.lastUpdated}, source_count = ${fingerprint.count}::bigint,
      error_code = null, error_message = null, not_before = null, lease_owner = null, lease_until = null,
      released = false, forced = false, updated_at = clock_timestamp()
    where ${isHeldBy(claim)} returning unit_id`.execute(db)
  if (rows.length === 0) throw fenced(claim)
}

/** The service's answer is what is loaded already: no row is touched. */
export const markUnchanged = async (
  db: Db,
  claim: ClaimedUnit,
  mark: { runId: number; fingerprint: Fingerprint },
): Promise<void> => {
  const { rows } = await sql`
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
    where ${isHeldBy(claim)} returning unit_id`.execute(db)
  if (rows.length === 0) throw fenced(claim)
}
