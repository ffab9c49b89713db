// When a process that has not renewed its lease is taken for dead.
import { type RawBuilder, sql } from 'kysely'

/** After the database was away everyone's lease may be over: no process is thought dead before all had time to come back. */
const graceMs = 8_000

/** Of a row of etl.processes by its alias: it has not renewed its lease, and had the time to. */
export const isLeaseOver = (alias: string): RawBuilder<boolean> =>
  sql<boolean>`greatest(${sql.ref(`${alias}.lease_until`)}, pg_postmaster_start_time() + ${sql.lit(graceMs)} * interval '1 millisecond') < clock_timestamp()`
