// Summaries: tables in bi that hold what would otherwise be read from every row, refreshed for the units at hand in their own transaction.
import { type RawBuilder, sql } from 'kysely'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import type { Lists, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import type { MergeScope } from './merge-scope.ts'
import { dataTable, scopeOf } from './table-columns.ts'

/** The mart's query over `facts`, which must be a whole table expression. */
export const summaryQuery = (mart: Mart, facts: RawBuilder<unknown>): RawBuilder<unknown> => {
  const [first = '', ...rest] = mart.sql.split('{{facts}}')
  return sql.join([sql.raw(first), ...rest.flatMap((part) => [sql`${facts} as facts`, sql.raw(part)])], sql` `)
}

/** Those that are filled from the definition's rows. */
export const summariesOf = (definition: Definition, marts: readonly Mart[]): readonly Mart[] =>
  marts.filter(({ summaryOf }) => definition.publish && summaryOf === definition.pipeline)

/** Names of those that are published already, as text[]. */
export const publishedAmong = (marts: readonly Mart[]): RawBuilder<readonly string[]> =>
  sql`(select coalesce(array_agg(c.relname::text order by c.relname), '{}') from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'bi' and c.relkind = 'r' and c.relname = any(${marts.map(({ name }) => name)}::text[]))`

/**
 * Makes the scope's part of each summary anew. Call in the load's transaction, after the merge: a reader sees rows and sums change at once.
 * A summary that is not published yet is filled when it is.
 */
export const refreshSummaries = async (
  trx: Db,
  definition: Definition,
  scope: MergeScope,
  marts: readonly Mart[],
): Promise<void> => {
  const own = summariesOf(definition, marts)
  if (own.length === 0) return
  const { rows } = await sql<Lists<Texts<'names'>>>`select ${publishedAmong(own)} as names`.execute(trx)
  const there = new Set(rows[0]?.names)
  const facts = sql`(select * from ${dataTable(definition)} t where ${scopeOf(definition, scope, 't')})`
  for (const mart of own.filter(({ name }) => there.has(name))) {
    const table = sql.table(`bi.${mart.name}`)
    await sql`delete from ${table} t where ${scopeOf(definition, scope, 't')}`.execute(trx)
    await sql`insert into ${table} ${summaryQuery(mart, facts)}`.execute(trx)
  }
}
