// The order in which new rows go into a month that has others: side by side in its index, which takes a third less time.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { Staging } from './staging.ts'
import { stagedKey } from './table-columns.ts'
import type { Maybe, Numbers, Texts } from '../db/row.ts'

/** From here on rows lie side by side anyway, and sorting them would cost more than it brings. */
const inOrderFrom = 0.9

/** `order by` of the staged rows under `alias`; nothing where they come in that order, as far as the statistics of an analyzed table tell. */
export const keyOrder = async (
  session: Session,
  definition: Definition,
  { table, isAnalyzed }: { readonly table: Staging['table']; readonly isAnalyzed: boolean },
  alias: string,
): Promise<RawBuilder<unknown>> =>
  isAnalyzed && (await comesInOrder(session, definition, table)) ? sql`` : byKey(definition, alias)

/** By bytes, since that sorts quickly, and near enough to any other order. */
const byKey = (definition: Definition, alias: string): RawBuilder<unknown> => {
  const sorted = stagedKey(definition).map(
    ({ name, type }) => sql`${sql.ref(`${alias}.${name}`)} ${type === 'text' ? sql`collate "C"` : sql``}`,
  )
  return sorted.length === 0 ? sql`` : sql`order by ${sql.join(sorted)}`
}

/** The first column of the key that has more than one value says it: the others only order rows of the same page or two. */
const comesInOrder = async (session: Session, definition: Definition, table: string): Promise<boolean> => {
  const { rows } = await sql<Texts<'name'> & Maybe<Numbers<'correlation'>>>`
    select s.attname::text as name, s.correlation::float8 as correlation
    from pg_stats s join pg_class c on c.relname = s.tablename join pg_namespace n on n.oid = c.relnamespace and n.nspname = s.schemaname
    where c.oid = ${table}::regclass and s.n_distinct <> 1`.execute(session.kysely)
  const first = stagedKey(definition).flatMap(({ name }) => rows.filter((row) => row.name === name))[0]
  return first === undefined || (first.correlation ?? 0) > inOrderFrom
}
