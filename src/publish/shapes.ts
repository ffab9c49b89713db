// What bi holds and how each part of it is made: compared before and after, it says what a migration changed for readers.
import { sql } from 'kysely'
import type { Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'

/** By name of a view or table: a digest of its query and columns. Empty before the first migration. */
export const shapesOf = async (db: Db): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await sql<Texts<'name' | 'digest'>>`
    select c.relname as name, md5(coalesce(case when c.relkind = 'v' then pg_get_viewdef(c.oid) end, '') || coalesce((
      select string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ',' order by a.attnum) from pg_attribute a
      where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped), '')) as digest
    from pg_class c where c.relnamespace = to_regnamespace('bi') and c.relkind in ('r', 'v', 'p') order by 1`.execute(db)
  return new Map(rows.map(({ name, digest }) => [name, digest]))
}

/** Names that came, and names that are made in another way. */
export const changedShapes = (
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): { readonly made: readonly string[]; readonly changed: readonly string[] } => ({
  made: [...after.keys()].filter((name) => !before.has(name)),
  changed: [...after].filter(([name, digest]) => before.has(name) && before.get(name) !== digest).map(([name]) => name),
})
