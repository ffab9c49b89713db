// A part of a transaction that may fail in a way that is foreseen, and then never was.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

/** What the work gave. Where it throws what `isForeseen` knows, it is taken back and the answer is null; all else is thrown. */
export const inSavepoint = async <T>(
  trx: Db,
  isForeseen: (error: unknown) => boolean,
  work: () => Promise<T>,
): Promise<{ readonly result: T } | null> => {
  await sql`savepoint publish_part`.execute(trx)
  try {
    const result = await work()
    await sql`release savepoint publish_part`.execute(trx)
    return { result }
  } catch (error) {
    await sql`rollback to savepoint publish_part`.execute(trx)
    if (isForeseen(error)) return null
    throw error
  }
}
