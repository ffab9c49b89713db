// Which warehouse this is: landings and receipts bear it, so that none takes another's for its own.
import type { Db } from '../db/tables.ts'

export interface Warehouse {
  /** A UUID, made with the ledger. */
  readonly id: string
  /** Grows when a restored ledger goes on. */
  readonly epoch: number
}

export const readWarehouse = async (db: Db): Promise<Warehouse> => {
  const row = await db.selectFrom('etl.warehouse').select(['warehouse_id', 'epoch']).executeTakeFirstOrThrow()
  return { id: row.warehouse_id, epoch: row.epoch }
}
