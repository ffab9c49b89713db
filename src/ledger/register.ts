// Units put into the ledger for a run: planned anew, or reopened from their landing.
import { type Kysely, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Unit } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'
import { mayBegin, unitTransitions } from './transitions.ts'

type Db = Kysely<Tables>

export interface UnitToRegister {
  readonly unit: Unit
  /** Ask for the answer anew: a report of an earlier edition is not used for it. */
  readonly newEdition: boolean
  readonly forced: boolean
}

/**
 * Plans units for a run, in one statement for all of them; returned in their order, locked in that of their keys, so that overlapping
 * runs wait for each other and nothing worse. A unit at work elsewhere stays as it is and counts for
 * this run too. A new edition begins only where the last one was loaded, or by force where its report can never come; an unfinished one
 * goes on.
 */
export const registerUnits = async (db: Db, runId: number, units: readonly UnitToRegister[]): Promise<{ unitId: number }[]> => {
  if (units.length === 0) return []
  const records = units.map(({ unit, newEdition, forced }) => ({
    ...unit,
    from: unit.window.from,
    to: unit.window.to,
    newEdition,
    forced,
  }))
  const { rows } = await sql<{ unit_id: string; unit_key: string }>`
    with wanted as (
      select * from jsonb_to_recordset(${JSON.stringify(records)}::jsonb)
        as x("key" text, pipeline text, version integer, "from" date, "to" date, slice jsonb, "newEdition" boolean, forced boolean)
    ), kept as (
      insert into etl.units as u (unit_key, pipeline, version, window_from, window_to, slice, run_id)
      select "key", pipeline, version, "from", "to", slice, ${runId}::bigint from wanted order by "key"
      on conflict (unit_key) do update set
        state = case when ${mayBegin('u.state', unitTransitions.plan)} then 'planned' else u.state end,
        edition = u.edition + case
          when u.state = 'loaded' and u.unit_key in (select "key" from wanted where "newEdition") then 1
          when u.state in ('failed', 'held') and u.unit_key in (select "key" from wanted where forced) and exists (
            select 1 from etl.reports r where r.unit_id = u.unit_id and r.edition = u.edition
              and r.state in ('failed', 'rejected', 'expired')) then 1
          else 0 end,
        forced = u.unit_key in (select "key" from wanted where forced),
        attempts = case when u.state = 'running' then u.attempts else 0 end,
        not_before = null,
        landing = case when u.state = 'loaded' then null else u.landing end,
        run_id = excluded.run_id
      returning u.unit_id, u.unit_key, u.edition
    ), joined as (
      insert into etl.run_units (run_id, unit_id, edition) select ${runId}::bigint, unit_id, edition from kept
      on conflict (run_id, unit_id) do nothing returning unit_id
    )
    select unit_id, unit_key from kept`.execute(db)
  const ids = new Map(rows.map((row) => [row.unit_key, Number(row.unit_id)]))
  return units.map(({ unit }) => ({ unitId: ids.get(unit.key) ?? missing(unit.key) }))
}

const missing = (key: string): never => {
  throw new EtlError('INTERNAL', `Unit ${key} was not registered; please report this defect.`)
}

/**
 * Puts units that have a landing back to `landed`, so that they are parsed and loaded again without a call; not those at work, and not
 * those whose report of a newer edition is still to come.
 */
export const reopenLanded = async (db: Db, runId: number, unitIds: readonly number[]): Promise<{ unitId: number }[]> => {
  const { rows } = await sql<{ unit_id: string }>`
    with locked as (
      select u.unit_id from etl.units u where u.unit_id = any(${[...unitIds]}::bigint[])
        -- An answer that is paid for and not here yet must not be forgotten over an older one.
        and (u.state = 'loaded' or u.landing is not null
          or not exists (select 1 from etl.reports r where r.unit_id = u.unit_id and r.edition = u.edition))
      order by u.unit_key for update
    ), reopened as (
      update etl.units set state = 'landed', attempts = 0, not_before = null, forced = true, run_id = ${runId}::bigint,
        landing = coalesce(landing, loaded_landing)
      where unit_id in (select unit_id from locked) and ${mayBegin('state', unitTransitions.replay)} and coalesce(landing, loaded_landing) is not null
      returning unit_id, edition
    ), joined as (
      insert into etl.run_units (run_id, unit_id, edition) select ${runId}::bigint, unit_id, edition from reopened
      on conflict (run_id, unit_id) do nothing returning unit_id
    )
    select unit_id from reopened order by unit_id`.execute(db)
  return rows.map((row) => ({ unitId: Number(row.unit_id) }))
}
