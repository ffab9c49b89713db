// Named locks for the length of a transaction: rows of etl.locks, which only a login with write rights can lock. An advisory lock could be taken by any reader.
import { query } from './typed-row.ts'
import type { Db } from './tables.ts'

/** Waits for the lock and holds it until the caller's transaction ends. */
export const lockByName = async (trx: Db, name: string): Promise<void> => {
  if (await lockRow(trx, name)) return
  // An inserted row is locked already; the insert waits for a process that inserts the same row at the same time.
  await makeLock(trx, name)
  await lockRow(trx, name)
}

/** Takes the lock unless another session holds it; returns whether it did. The row must exist: see makeLock. */
export const tryLockByName = async (trx: Db, name: string): Promise<boolean> =>
  (await query(trx)`select name from etl.locks where name = ${name} for update skip locked`).length > 0

/** Idempotent. Call before a REPEATABLE READ transaction begins: its snapshot would not show a row that another session inserts. */
export const makeLock = async (db: Db, name: string): Promise<void> => {
  await query(db)`insert into etl.locks (name) values (${name}) on conflict do nothing`
}

const lockRow = async (trx: Db, name: string): Promise<boolean> => {
  const rows = await query(trx)`select name from etl.locks where name = ${name} for update`
  return rows.length > 0
}
