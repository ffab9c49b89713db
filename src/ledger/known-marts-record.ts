// Which marts stand in bi because a file said so.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** Published once, and not among those there are files for now. */
export const martsWithoutFile = async (db: Db, names: readonly string[]): Promise<string[]> => {
  const rows = await db
    .selectFrom('etl.marts')
    .select('name')
    .where(sql<boolean>`not name = any(${[...names]}::text[])`)
    .orderBy('name')
    .execute()
  return rows.map(({ name }) => name)
}

/** Idempotent. */
export const recordMarts = async (db: Db, names: readonly string[]): Promise<void> => {
  if (names.length === 0) return
  await db
    .insertInto('etl.marts')
    .values(names.map((name) => ({ name })))
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Marts that were dropped. */
export const forgetMarts = async (db: Db, names: readonly string[]): Promise<void> => {
  if (names.length > 0)
    await db
      .deleteFrom('etl.marts')
      .where('name', 'in', [...names])
      .execute()
}
