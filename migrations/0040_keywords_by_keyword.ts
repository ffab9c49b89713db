// Share of voice from an index alone, and months that are cleaned soon after each load, without which no index is enough. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  // Readers go on; loads wait until every month is done.
  `set local maintenance_work_mem = '256MB'`,
  `create index on data.keywords_v1 ("keyword", "country", "month", "traffic_source", "web_source", "branded_type", "domain") include ("clicks")`,
  // Months made later get these from the load that makes them.
  `do $$ declare one record; begin
    for one in select c.oid::regclass as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where n.nspname = 'data' and c.relispartition and c.relkind = 'r' order by c.relname
    loop execute format('alter table %s set (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_scale_factor = 0.002,
      autovacuum_vacuum_threshold = 1000)', one.name); end loop; end $$`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
