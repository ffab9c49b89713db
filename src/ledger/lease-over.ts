// When a process that has not renewed its lease is taken for dead.
import { sql } from 'kysely'

/** After the database was away everyone's lease may be over: no process is thought dead before all had time to come back. */
const graceMs = 8_000

/** Of row `h` of etl.processes: it has not renewed its lease, and had the time to. */
export const isLeaseOver = sql<boolean>`greatest(h.lease_until, pg_postmaster_start_time() + ${sql.lit(graceMs)} * interval '1 millisecond') < clock_timestamp()`
