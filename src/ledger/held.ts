// Units that wait for a person, and units given back by a cancelled run.
import type { Kysely } from 'kysely'
import { sql } from 'kysely'
import type { Tables } from '../db/tables.ts'
import { mayBegin, unitTransitions } from './transitions.ts'

/** Lets held units go on; returns those that were held. A suspicious answer that is landed loads as it is. */
export const releaseHeld = async (db: Kysely<Tables>, unitIds: readonly number[]): Promise<number[]> => {
  const { rows } = await sql<{ unit_id: string }>`
    with locked as (
      select unit_id from etl.units where unit_id = any(${[...unitIds]}::bigint[]) order by unit_key for update
    )
    update etl.units set state = case when landing is null then 'planned' else 'landed' end, released = true, attempts = 0,
      updated_at = clock_timestamp()
    where unit_id in (select unit_id from locked) and ${mayBegin('state', unitTransitions.release)} returning unit_id`.execute(db)
  return rows.map((row) => Number(row.unit_id))
}

/** Units of a cancelled run that nobody holds go back to planned; returns how many. */
export const returnRunUnits = async (db: Kysely<Tables>, runId: number): Promise<number> => {
  const { rows } = await sql<{ unit_id: string }>`
    with locked as (
      select u.unit_id from etl.run_units r join etl.units u on u.unit_id = r.unit_id
      where r.run_id = ${runId}::bigint and r.outcome is null order by u.unit_key for update of u
    )
    update etl.units u set state = 'planned', updated_at = clock_timestamp()
    where u.unit_id in (select unit_id from locked) and ${mayBegin('u.state', unitTransitions['run cancelled'])}
    returning u.unit_id`.execute(db)
  return rows.length
}
