// Which service the rows of an account came from: on record with its first purchase, so that no other one's are taken for them.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import { databaseNow } from './database-now.ts'
import { note } from './events.ts'

/** Where an account buys. */
export interface Origin {
  readonly api: string
  readonly account: string
  /** Host and port. */
  readonly address: string
  /** Beginning of the digest of its key. */
  readonly keySha256: string
}

/** What is on record; null: nothing was bought for the account, or it was not written down. */
export const knownOrigin = async (db: Db, { api, account }: Pick<Origin, 'api' | 'account'>): Promise<Origin | null> => {
  const row = await db
    .selectFrom('etl.origins')
    .select(['address', 'key_sha256'])
    .where('api', '=', api)
    .where('account', '=', account)
    .where(({ exists, or, selectFrom }) => {
      const ours = selectFrom('etl.pipelines as p')
        .select('p.pipeline_id')
        .where('p.account', '=', account)
        .where(sql<boolean>`split_part(p.source, '.', 1) = ${api}`)
      const answered = selectFrom('etl.answers as a').select('a.answer_id').where('a.pipeline_id', 'in', ours)
      const bought = selectFrom('etl.jobs as j')
        .select('j.job_id')
        .where('j.account', '=', account)
        .where('j.report_state', 'is not', null)
        .where('j.pipeline_id', 'in', ours)
      return or([exists(answered), exists(bought)])
    })
    .executeTakeFirst()
  return row === undefined ? null : { api, account, address: row.address, keySha256: row.key_sha256 }
}

/** Idempotent. */
export const keepOrigin = async (db: Db, { api, account, address, keySha256 }: Origin): Promise<void> => {
  const values = { address, key_sha256: keySha256, noted_at: databaseNow }
  await db
    .insertInto('etl.origins')
    .values({ api, account, ...values })
    .onConflict((on) => on.columns(['api', 'account']).doUpdateSet(values))
    .execute()
}

/** A person says that the service has moved: what the next command finds is on record from then on. */
export const forgetOrigins = (db: Db): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await trx.deleteFrom('etl.origins').execute()
    await note(trx, {
      kind: 'moved service',
      message: 'Declared that the service has moved: the next command writes down where it is.',
    })
  })
