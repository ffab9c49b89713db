// Units in the ledger: planned, claimed under a fence, parked, held, failed, loaded. Every write after a claim names its fence.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { z } from 'zod'
import { EtlError } from '../core/errors.ts'
import type { Fingerprint, Slice, Unit, UnitState, Window } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'
import { executePrepared } from '../db/prepared.ts'
import { databaseNow } from './database-now.ts'
import { mayBegin, reportTransitions, unitTransitions } from './transitions.ts'

type Db = Kysely<Tables>

export const sliceSchema = z.record(z.string(), z.union([z.string(), z.array(z.string())]))

/** A unit held by this process until it is settled. */
export interface ClaimedUnit {
  readonly unitId: number
  readonly unit: Unit
  readonly edition: number
  /** Number of this try, from 1. */
  readonly attempts: number
  readonly fence: string
  readonly runId: number
  /** Whole landing of this edition that is not loaded yet, or null. */
  readonly landing: string | null
  /** A person let the held unit load as it is. */
  readonly released: boolean
  /** The unit is to be loaded again even if nothing changed. */
  readonly forced: boolean
  /** What is loaded now, or null where nothing is. */
  readonly loaded: { readonly sha256: string | null; readonly rows: number; readonly fingerprint: Fingerprint } | null
}

export interface ExistingUnit {
  readonly unitId: number
  readonly unit: Unit
  readonly state: UnitState
  readonly edition: number
  /** When the service gave the answer that is loaded, or said that it still stands, in milliseconds since the epoch; null: never. */
  readonly loadedAtMs: number | null
  readonly errorCode: string | null
  readonly landing: string | null
}

const milliseconds = (text: string | null): number | null => (text === null ? null : Date.parse(text))

/** Every unit of one version of a pipeline. */
export const existingUnits = async (db: Db, pipeline: string, version: number): Promise<ExistingUnit[]> => {
  const rows = await db
    .selectFrom('etl.units')
    .selectAll()
    .where('pipeline', '=', pipeline)
    .where('version', '=', version)
    .orderBy('window_from')
    .execute()
  return rows.map((row) => ({
    unitId: Number(row.unit_id),
    unit: unitOf(row),
    state: row.state,
    edition: row.edition,
    loadedAtMs: row.loaded_at === null ? null : milliseconds(row.checked_at ?? row.loaded_at),
    errorCode: row.error_code,
    landing: row.landing ?? row.loaded_landing,
  }))
}

interface UnitColumns {
  readonly unit_key: string
  readonly pipeline: string
  readonly version: number
  readonly window_from: string
  readonly window_to: string
  readonly slice: unknown
}

const unitOf = (row: UnitColumns): Unit => {
  const window: Window = { from: row.window_from, to: row.window_to }
  const slice: Slice = sliceSchema.parse(row.slice)
  return { key: row.unit_key, pipeline: row.pipeline, version: row.version, window, slice }
}

export interface ClaimOptions {
  readonly owner: string
  readonly leaseMs: number
  readonly runId: number
  /** Condition under which the caller may claim at all: that the unit's job is still its own. */
  readonly holds: RawBuilder<boolean>
}

/**
 * Takes the unit over with a new fence; null where it needs no work (loaded, held, failed for good, or its run is cancelled) or the caller
 * may not claim it.
 */
export const claimUnit = async (
  db: Db,
  unitId: number,
  { owner, leaseMs, runId, holds }: ClaimOptions,
): Promise<ClaimedUnit | null> => {
  const [row] = await executePrepared(
    db,
    sql<ClaimedRow>`
    update etl.units as u set state = 'running', fence = u.fence + 1, attempts = u.attempts + 1, lease_owner = ${owner},
      lease_until = clock_timestamp() + ${leaseMs} * interval '1 millisecond', updated_at = clock_timestamp(), run_id = ${runId}::bigint
    where u.unit_id = ${unitId}::bigint and ${mayBegin('u.state', unitTransitions.claim)} and ${holds}
      and not exists (select 1 from etl.runs r where r.run_id = ${runId}::bigint and r.cancel_requested_at is not null)
    returning u.unit_id, u.unit_key, u.pipeline, u.version, u.window_from, u.window_to, u.slice, u.edition, u.attempts, u.fence,
      u.landing, u.released, u.forced, u.loaded_at, u.loaded_sha256, u.loaded_rows, u.source_last_updated, u.source_count`,
  )
  if (row === undefined) return null
  return {
    unitId,
    unit: unitOf(row),
    edition: row.edition,
    attempts: row.attempts,
    fence: row.fence,
    runId,
    landing: row.landing,
    released: row.released,
    forced: row.forced,
    loaded: row.loaded_at === null ? null : loadedOf(row),
  }
}

interface ClaimedRow extends UnitColumns {
  readonly unit_id: string
  readonly edition: number
  readonly attempts: number
  readonly fence: string
  readonly landing: string | null
  readonly released: boolean
  readonly forced: boolean
  readonly loaded_at: string | null
  readonly loaded_sha256: string | null
  readonly loaded_rows: string | null
  readonly source_last_updated: string | null
  readonly source_count: string | null
}

const loadedOf = (row: ClaimedRow): NonNullable<ClaimedUnit['loaded']> => ({
  sha256: row.loaded_sha256,
  rows: Number(row.loaded_rows ?? 0),
  fingerprint: { lastUpdated: row.source_last_updated, count: row.source_count === null ? null : Number(row.source_count) },
})

const fenced = (claim: ClaimedUnit): EtlError =>
  new EtlError('FENCED', `${claim.unit.key} was taken over by another process; nothing was written by this one.`)

/** What a write names of a claim. */
export interface Hold {
  readonly unitId: number | string
  readonly fence: string
}

/** The unit is held under this claim and no other, and has not been settled: the condition of every write that follows a claim. */
export const isHeldBy = ({ unitId, fence }: Hold): RawBuilder<boolean> =>
  sql<boolean>`unit_id = ${unitId}::bigint and fence = ${fence}::bigint and state = 'running'`

/** Locks the unit's row for the rest of the transaction; throws FENCED where another process has claimed it since, or it is settled. */
export const lockUnit = async (db: Db, claim: ClaimedUnit): Promise<void> => {
  const rows = await executePrepared(db, sql`select unit_id from etl.units where ${isHeldBy(claim)} for update`)
  if (rows.length === 0) throw fenced(claim)
}

interface UnitChange {
  readonly state: UnitState
  readonly code: string | null
  readonly message: string | null
  readonly notBefore?: number | null
  readonly countsAttempt?: boolean
}

const change = async (db: Db, claim: ClaimedUnit, to: UnitChange): Promise<void> => {
  const changed = await db
    .updateTable('etl.units')
    .set((eb) => ({
      state: to.state,
      error_code: to.code,
      error_message: to.message,
      not_before: to.notBefore === undefined || to.notBefore === null ? null : new Date(to.notBefore).toISOString(),
      lease_owner: null,
      lease_until: null,
      attempts: to.countsAttempt === false ? eb('attempts', '-', 1) : eb.ref('attempts'),
      updated_at: databaseNow,
    }))
    .where(isHeldBy(claim))
    .returning('unit_id')
    .execute()
  if (changed.length === 0) throw fenced(claim)
}

const settleRuns = async (
  db: Db,
  claim: ClaimedUnit,
  outcome: 'loaded' | 'unchanged' | 'waiting' | 'held' | 'failed',
): Promise<void> => {
  await db
    .updateTable('etl.run_units')
    .set({ outcome, finished_at: databaseNow })
    .where('unit_id', '=', String(claim.unitId))
    .where('outcome', 'is', null)
    .execute()
}

export interface Reason {
  readonly code: string
  readonly message: string
}

export interface ParkOptions extends Reason {
  readonly state: 'planned' | 'waiting'
  readonly notBefore: number | null
  readonly countsAttempt: boolean
  /** The unit is left to a later run; the runs that wait for it need not. */
  readonly final: boolean
}

/** Not yet. `planned` gives it back as if it had never been claimed. */
export const parkUnit = async (db: Db, claim: ClaimedUnit, options: ParkOptions): Promise<void> => {
  const { state, notBefore, countsAttempt, code, message } = options
  // A unit whose landing is whole is parsed from it next time, whatever else is written here.
  await change(db, claim, {
    state,
    notBefore,
    countsAttempt,
    code: state === 'planned' ? null : code,
    message: state === 'planned' ? null : message,
  })
  if (options.final && state === 'waiting') await settleRuns(db, claim, 'waiting')
}

export const holdUnit = async (db: Db, claim: ClaimedUnit, { code, message }: Reason): Promise<void> => {
  await change(db, claim, { state: 'held', code, message })
  await settleRuns(db, claim, 'held')
}

export const failUnit = async (db: Db, claim: ClaimedUnit, { code, message }: Reason): Promise<void> => {
  await change(db, claim, { state: 'failed', code, message })
  await settleRuns(db, claim, 'failed')
}

/** What a unit keeps of the answer at hand: its checksum and size, and when the service gave it. */
export const landedColumns = (
  { unitId, edition }: { readonly unitId: number | string; readonly edition: number | string },
  { sha256, bytes }: { readonly sha256: string; readonly bytes: number | string },
): RawBuilder<unknown> =>
  sql`landing_sha256 = ${sha256}, landing_bytes = ${bytes}::bigint, checked_at = coalesce((select max(submitted_at) from etl.reports r
        where r.unit_id = ${unitId}::bigint and r.edition = ${edition}), clock_timestamp())`

/** The answer is whole on disk: from here on nothing is asked for again in this edition. */
export const markLanded = async (
  db: Db,
  claim: ClaimedUnit,
  landing: { landing: string; sha256: string; bytes: number },
): Promise<void> => {
  const rows = await executePrepared(
    db,
    sql`
    with marked as (
      update etl.units set landing = ${landing.landing}, updated_at = clock_timestamp(), ${landedColumns(claim, landing)}
      where ${isHeldBy(claim)} returning unit_id
    ), reports as (
      update etl.reports set state = 'downloaded', updated_at = clock_timestamp()
      where unit_id in (select unit_id from marked) and edition = ${claim.edition}
        and ${mayBegin('state', reportTransitions['bytes landed'])} returning report_key
    )
    select unit_id from marked`,
  )
  if (rows.length === 0) throw fenced(claim)
}

/** The landed bytes turned out unusable: the next try downloads again (free), or walks again; it never buys again. */
export const dropLanding = async (db: Db, claim: ClaimedUnit): Promise<void> => {
  await sql`
    with dropped as (
      update etl.units set landing = null, landing_sha256 = null, landing_bytes = null
      where ${isHeldBy(claim)} returning unit_id
    )
    update etl.reports set state = 'ready', updated_at = clock_timestamp()
    where unit_id in (select unit_id from dropped) and edition = ${claim.edition}
      and ${mayBegin('state', reportTransitions['bytes unusable'])}`.execute(db)
}

export { fenced, settleRuns }
