// Keys that the answer holds but that could not be loaded: their rows are not missing and must not end.
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import { names, stagedKey } from './table-columns.ts'

/** Keys whose rows must not end, because the answer has a record of them that could not be read. Of the session. */
export const protectedTable = sql.raw('pg_temp."protected"')

/** Fills the table of protected keys; false when there is none. @param keys staged key columns, in key order */
export const protectKeys = async (
  session: Session,
  definition: Definition,
  keys: readonly (readonly (string | null)[])[],
): Promise<boolean> => {
  const staged = stagedKey(definition)
  if (keys.length === 0 || staged.length === 0) return false
  const list = sql.join(staged.map((column) => sql`${sql.ref(column.name)} ${sql.raw(column.type)}`))
  await sql`create temporary table "protected" (${list}) on commit drop`.execute(session.kysely)
  const records = keys.map((key) => Object.fromEntries(staged.map((column, index) => [column.name, key[index] ?? null])))
  await sql`insert into ${protectedTable} select ${names(staged)}
    from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as x(${list})`.execute(session.kysely)
  return true
}
