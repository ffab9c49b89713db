// Work that must not be within a transaction and that one process does at a time: a name, who has it and until when.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import type { OwnProcess } from './processes.ts'

const seconds = (count: number) => sql<string>`clock_timestamp() + ${count}::float8 * interval '1 second'`

/** Has the lease for so many seconds from now; false: another living process has it. Taking it again renews it. */
export const takeLease = async (db: Db, name: string, { processId }: OwnProcess, forSeconds: number): Promise<boolean> => {
  const { rows } = await sql`
    insert into etl.locks (name, held_by, held_until) values (${name}, ${processId}, ${seconds(forSeconds)})
    on conflict (name) do update set held_by = excluded.held_by, held_until = excluded.held_until
      where coalesce(etl.locks.held_until, '-infinity') <= clock_timestamp() or etl.locks.held_by = excluded.held_by
        or exists (select from etl.processes p where p.process_id = etl.locks.held_by and (p.ended_at is not null or p.lease_until < clock_timestamp()))
    returning name`.execute(db)
  return rows.length > 0
}

/** Lets go of it, where this process has it. */
export const endLease = async (db: Db, name: string, { processId }: OwnProcess): Promise<void> => {
  await db
    .updateTable('etl.locks')
    .set({ held_until: null, held_by: null })
    .where('name', '=', name)
    .where('held_by', '=', processId)
    .execute()
}

/** True once in so many seconds, for one of all processes: what is done at intervals, whoever does it. */
export const takeTurn = async (db: Db, name: string, { processId }: OwnProcess, everySeconds: number): Promise<boolean> => {
  const { rows } = await sql`
    insert into etl.locks (name, held_by, held_until) values (${name}, ${processId}, ${seconds(everySeconds)})
    on conflict (name) do update set held_by = excluded.held_by, held_until = excluded.held_until
      where coalesce(etl.locks.held_until, '-infinity') <= clock_timestamp()
    returning name`.execute(db)
  return rows.length > 0
}
