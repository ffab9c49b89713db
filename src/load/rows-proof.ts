// By what the rows of a load are known again without reading their values: the transactions that wrote them. PostgreSQL writes a changed row
// anew, under the number of the transaction that changed it, so rows that bear the old numbers are the old rows.
import { type RawBuilder, sql } from 'kysely'
import { z } from 'zod'
import type { Definition, Window } from '../core/types.ts'
import type { Counts, Flags, Lists, Maybe, Texts } from '../db/row.ts'
import type { Session } from '../db/session.ts'
import type { MergeScope } from './merge-scope.ts'
import { partitionName } from './partition.ts'
import { scopeOf, tableName } from './table-columns.ts'

const proofSchema = z.object({
  /** The server and its database: elsewhere the numbers of transactions mean nothing. */
  server: z.string(),
  database: z.string(),
  /** The month's table and its columns, as they were. */
  table: z.string(),
  shape: z.string(),
  /** Distinct `xmin` of its rows: numbers of 32 bits, which come again after 4 billion transactions. */
  transactions: z.array(z.string()),
  /** Number of the load's own transaction, of 64 bits, which never comes again. */
  at: z.string(),
  rows: z.number().int(),
  /** See core/makes-rows.ts. */
  maker: z.string(),
})

/** Noted with a load. */
export type RowsProof = z.infer<typeof proofSchema>

/** Null where there is none, or none that this version can read. */
export const readProof = (value: unknown): RowsProof | null => proofSchema.safeParse(value).data ?? null

/** Rows that are copied while they are downloaded come in a transaction every two seconds. */
const mostTransactions = 1_000

/** Half of the numbers there are: the other half is for rows that were copied before the load's own transaction began. */
const mostApart = 2n ** 31n

type Place = Omit<RowsProof, 'transactions' | 'rows' | 'maker'>

/**
 * Call in the transaction of a load that filled the month, at its end. null: the month holds other rows too, or the server does not show what
 * it takes.
 */
export const proveRows = async (
  session: Session,
  definition: Definition,
  month: Window,
  { rows, maker }: Pick<RowsProof, 'rows' | 'maker'>,
): Promise<RowsProof | null> => {
  const place = await placeOf(session, definition, month)
  if (place === null) return null
  const wrote = await sql<Counts<'n' | 'kinds'> & Lists<Texts<'transactions'>>>`
    with wrote as materialized (select t.xmin::text as transaction, count(*) as n from ${partition(definition, month)} t group by t.xmin)
    select coalesce(sum(n), 0) as n, count(*) as kinds, array(select transaction from wrote limit ${mostTransactions}) as transactions
    from wrote`.execute(session.kysely)
  const [found] = wrote.rows
  if (found === undefined || Number(found.n) !== rows || Number(found.kinds) > mostTransactions) return null
  return { ...place, rows, maker, transactions: [...found.transactions] }
}

const partition = (definition: Definition, { from }: Window): RawBuilder<unknown> =>
  sql.table(`data.${partitionName(definition, from)}`)

/** Where numbers of transactions mean what they meant. null: no such table in its place, one of another kind, or a server that does not say which it is. */
const placeOf = async ({ kysely }: Session, definition: Definition, { from }: Window): Promise<Place | null> => {
  const allowed = await sql<Flags<'allowed'>>`
    select has_function_privilege('pg_catalog.pg_control_system()', 'execute') as allowed`.execute(kysely)
  if (allowed.rows[0]?.allowed !== true) return null
  // Which columns there are tells of one that was dropped and made again: that changes values and writes no row.
  const { rows } = await sql<Texts<'server' | 'database' | 'table' | 'at'> & Maybe<Texts<'shape'>>>`
    select s.system_identifier::text as server, d.oid::text as database, c.oid::text as table, pg_current_xact_id()::text as at, (
        select encode(sha256(convert_to(string_agg(concat_ws(' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped), ',' order by a.attnum),
          'UTF8')), 'hex') from pg_attribute a where a.attrelid = c.oid and a.attnum > 0) as shape
    from pg_control_system() s, pg_database d, pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_am m on m.oid = c.relam
      join pg_inherits i on i.inhrelid = c.oid and not i.inhdetachpending join pg_class whole on whole.oid = i.inhparent
    where d.datname = current_database() and n.nspname = 'data' and c.relname = ${partitionName(definition, from)}
      and c.relkind = 'r' and m.amname = 'heap' and whole.relnamespace = n.oid and whole.relname = ${tableName(definition)}`.execute(
    kysely,
  )
  const [row] = rows
  return row === undefined || row.shape === null ? null : { ...row, shape: row.shape }
}

/** Whether the numbers of a proof still mean the same rows. Exported for tests. */
export const isSamePlace = (proof: RowsProof, now: Place): boolean => {
  const apart = BigInt(now.at) - BigInt(proof.at)
  return (
    proof.server === now.server &&
    proof.database === now.database &&
    proof.table === now.table &&
    proof.shape === now.shape &&
    apart >= 0n &&
    apart < mostApart
  )
}

/**
 * Whether the rows of the scope are exactly those of the proof, none changed, none more, none less. Reads the month's rows, not their values;
 * rows of other units may stand beside them. Call with the scope's units locked.
 */
export const areUntouched = async (
  session: Session,
  definition: Definition,
  scope: MergeScope,
  proof: RowsProof,
): Promise<boolean> => {
  const place = await placeOf(session, definition, scope.window)
  if (place === null || !isSamePlace(proof, place)) return false
  const isTheirs = sql`t.xmin = any(${[...proof.transactions]}::xid[])`
  const { rows } = await sql<Counts<'same' | 'others'>>`
    select count(*) filter (where ${isTheirs}) as same,
      count(*) filter (where not ${isTheirs} and ${scopeOf(definition, scope, 't')}) as others
    from ${partition(definition, scope.window)} t`.execute(session.kysely)
  return Number(rows[0]?.same) === proof.rows && Number(rows[0]?.others) === 0
}
