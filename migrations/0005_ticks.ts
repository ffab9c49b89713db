// Scheduler ticks: each happens once however many schedulers run. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

export const up = async (database: Kysely<unknown>): Promise<void> => {
  await sql`create table etl.ticks (
    pipeline text not null,
    due_at timestamptz not null,
    claimed_by text not null,
    claimed_at timestamptz not null default now(),
    kind text not null check (kind in ('on time', 'caught up', 'skipped')),
    run_id bigint references etl.runs,
    finished_at timestamptz,
    primary key (pipeline, due_at)
  )`.execute(database)
}
