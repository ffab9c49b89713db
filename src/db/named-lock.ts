// Locks by name for the length of a transaction: rows of etl.locks, which only those can lock who may write the ledger. An advisory lock anybody could take who reads.
import { query } from './typed-row.ts'
import type { Db } from './tables.ts'

/** Waits until no other session holds the lock; it is let go when the caller's transaction ends. */
export const lockByName = async (trx: Db, name: string): Promise<void> => {
  if (await lockRow(trx, name)) return
  // The process that makes the row holds it already; a twin that makes it at the same moment is waited for.
  await makeLock(trx, name)
  await lockRow(trx, name)
}

/** Whether no other session holds the lock, which the caller's transaction then does. The row must be there: see makeLock. */
export const tryLockByName = async (trx: Db, name: string): Promise<boolean> =>
  (await query(trx)`select name from etl.locks where name = ${name} for update skip locked`).length > 0

/** Idempotent. Ahead of a transaction that sees one moment: such a one does not see rows that others make. */
export const makeLock = async (db: Db, name: string): Promise<void> => {
  await query(db)`insert into etl.locks (name) values (${name}) on conflict do nothing`
}

const lockRow = async (trx: Db, name: string): Promise<boolean> => {
  const rows = await query(trx)`select name from etl.locks where name = ${name} for update`
  return rows.length > 0
}
