// When a process that has not renewed its lease counts as dead.
import { sql } from 'kysely'

/** After an outage of the database every lease may have expired: no process counts as dead before all had time to renew. */
const graceMs = 8_000

/** Process `h`, a row of etl.processes, has not renewed its lease, although it had time to. */
export const isLeaseOver = sql<boolean>`greatest(h.lease_until, pg_postmaster_start_time() + ${sql.lit(graceMs)} * interval '1 millisecond') < clock_timestamp()`
