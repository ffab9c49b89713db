// The identity of the warehouse, and whether this database continues it: landings and receipts carry its name, so that no warehouse takes another's for its own.
// Also the service that each account buys from: recorded with the first purchase, so that rows of two services are not mixed.
import { type Selectable, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { UnknownSpan } from '../core/report-shape.ts'
import type { Db, WarehouseTable } from '../db/tables.ts'
import { type Flags, type Numbers, query, type Row, type Texts } from '../db/typed-row.ts'
import type { ClaimedJob } from './claim.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { isRegistered, databaseReplaced, type OwnProcess } from './processes.ts'

/** A name that landings bear: identity and epoch. */
export interface Warehouse {
  /** A UUID, drawn when the ledger is first used. */
  readonly id: string
  /** Grows when a restored ledger is found or continues. */
  readonly epoch: number
}

/** `own`: this database is the warehouse. `copy`: no person has said yet whether it or another one continues. `replaced`: another one continues. */
type Standing = Selectable<WarehouseTable>['standing']

/** What the warehouse knows of itself. */
export interface Identity extends Warehouse {
  readonly standing: Standing
  readonly reason: string | null
  /** Where the ledger was last known to be; null: it was never used. */
  readonly home: string | null
  readonly here: string
  readonly isUnused: boolean
}

/** Throws where the ledger was never set up. */
export const readIdentity = async (db: Db): Promise<Identity> => {
  const row = await db
    .selectFrom('etl.warehouse')
    .select(['warehouse_id as id', 'epoch', 'home', 'standing', 'standing_reason as reason', isUnused.as('isUnused')])
    .executeTakeFirstOrThrow()
  return { ...row, here: await whereItIs(db) }
}

const isUnused = sql<boolean>`not exists (select from etl.runs) and not exists (select from etl.answers)`

/**
 * Tells a dump restored elsewhere, or a database made from a template, from the original: the server's system identifier and the database's number there. Copies
 * of a whole data directory share both.
 */
const whereItIs = async (db: Db): Promise<string> => {
  const [row] = await query<Texts<'oid'> & Flags<'may_ask'>>(db)`
    select oid::text as oid, has_function_privilege('pg_control_system()', 'execute') as may_ask
    from pg_database where datname = current_database()`
  if (row === undefined || !row.may_ask) return `unknown/${row?.oid ?? 'unknown'}`
  const server = await sql<Texts<'id'>>`select system_identifier::text as id from pg_control_system()`.execute(db)
  return `${server.rows[0]?.id ?? 'unknown'}/${row.oid}`
}

/** All names that its landings may carry, the present one first. @param which `to sweep`: only names whose landings no other database uses, so that they may be deleted here */
export const ownNames = (db: Db, which: 'all' | 'to sweep' = 'all'): Promise<readonly Warehouse[]> => {
  const all = which === 'all'
  return query<Texts<'id'> & Row<'etl.warehouse', 'epoch'>>(db)`
    select warehouse_id::text as id, epoch from etl.warehouse where ${all} or standing = 'own'
    union all
    select f.warehouse_id::text, f.epoch from etl.former_names f, etl.warehouse w
    where ${all} or f.is_ours and w.standing = 'own'`
}

/**
 * For `migrate`, or the first use of a ledger: records where it is. An unused ledger draws a new id, also where it was last known to be elsewhere: it may be
 * a copy of a template.
 */
export const settleHere = async (db: Db, here: string): Promise<void> => {
  await query(db)`
    update etl.warehouse set home = ${here}, warehouse_id = case when ${isUnused} then gen_random_uuid() else warehouse_id end
    where home is null or home <> ${here} and ${isUnused}`
}

/**
 * Marks the ledger as a copy. From here on it has an epoch of its own, and buys and deletes nothing until a person says what it is. False: another process
 * was faster.
 */
export const becomeCopy = (db: Db, from: Identity, epoch: number, reason: string): Promise<boolean> =>
  db.transaction().execute(async (trx) => {
    const rows = await trx
      .updateTable('etl.warehouse')
      .set({ epoch, home: from.here, standing: 'copy', standing_reason: reason, standing_since: databaseNow })
      .where((eb) => eb.and({ warehouse_id: from.id, epoch: from.epoch }))
      .where('home', 'is not distinct from', from.home)
      .returning('epoch')
      .execute()
    if (rows.length === 0) return false
    await contest(trx, from)
    await note(trx, { kind: 'copy', message: reason })
    return true
  })

/** From here on its present name, and all former ones, may be another database's. */
const contest = async (trx: Db, { id, epoch }: Warehouse): Promise<void> => {
  await trx.updateTable('etl.former_names').set({ is_ours: false }).execute()
  await trx
    .insertInto('etl.former_names')
    .values({ warehouse_id: id, epoch })
    .onConflict((on) => on.columns(['warehouse_id', 'epoch']).doUpdateSet({ is_ours: false, until: databaseNow }))
    .execute()
}

/** Another database was declared the successor of this one. */
export const becomeReplaced = async (db: Db, { id, epoch }: Warehouse, reason: string): Promise<void> => {
  await db
    .updateTable('etl.warehouse')
    .set({ standing: 'replaced', standing_reason: reason, standing_since: databaseNow })
    .where((eb) => eb.and({ warehouse_id: id, epoch, standing: 'own' }))
    .execute()
}

const goesOn = { standing: 'own', standing_reason: null, standing_since: null } as const

/** A person says that this ledger continues: landings of all its epochs are its own again. */
export const goOn = (db: Db, { id, here }: Identity, epoch: number): Promise<void> =>
  db.transaction().execute(async (trx) => {
    const former = await trx.selectFrom('etl.warehouse').select(['warehouse_id', 'epoch']).forUpdate().executeTakeFirstOrThrow()
    if (former.epoch !== epoch)
      await trx
        .insertInto('etl.former_names')
        .values({ warehouse_id: former.warehouse_id, epoch: former.epoch })
        .onConflict((on) => on.columns(['warehouse_id', 'epoch']).doNothing())
        .execute()
    await trx.updateTable('etl.former_names').set({ is_ours: true }).where('warehouse_id', '=', id).execute()
    await trx
      .updateTable('etl.warehouse')
      .set({ ...goesOn, epoch, home: here })
      .execute()
    await note(trx, { kind: 'continues', message: `Declared to continue as warehouse ${id}, epoch ${epoch}.` })
  })

/** A person says that this ledger is a clone: a warehouse of its own from here on. Landings from its time as a copy are its own; earlier ones are not. */
export const becomeClone = (db: Db, here: string): Promise<void> =>
  db.transaction().execute(async (trx) => {
    const former = await trx
      .selectFrom('etl.warehouse')
      .select(['warehouse_id as id', 'epoch', 'standing'])
      .forUpdate()
      .executeTakeFirstOrThrow()
    await contest(trx, former)
    // No other database has ever had the epoch of a copy.
    if (former.standing === 'copy')
      await trx
        .updateTable('etl.former_names')
        .set({ is_ours: true })
        .where((eb) => eb.and({ warehouse_id: former.id, epoch: former.epoch }))
        .execute()
    const row = await trx
      .updateTable('etl.warehouse')
      .set({ ...goesOn, warehouse_id: sql<string>`gen_random_uuid()`, epoch: 1, home: here })
      .returning('warehouse_id')
      .executeTakeFirstOrThrow()
    const message = `Declared a clone: warehouse ${former.id}, epoch ${former.epoch}, continues as ${row.warehouse_id}.`
    await note(trx, { kind: 'clone', message })
  })

/** Call in the transaction of a report's purchase: locks the standing until it ends. Throws WAREHOUSE_COPY where this database may be a copy of one in use, or was replaced by another. */
export const assertMayBuy = async (trx: Db, own: OwnProcess, unitKey: string): Promise<void> => {
  const { standing, standing_reason } = await trx
    .selectFrom('etl.warehouse')
    .select(['standing', 'standing_reason'])
    .forShare()
    .executeTakeFirstOrThrow()
  if (standing !== 'own') throw buysNothing(unitKey, standing_reason ?? '')
  if (!(await isRegistered(trx, own))) throw buysNothing(unitKey, databaseReplaced)
}

/** WAREHOUSE_COPY. @param reason why this database may be a copy of one in use */
export const buysNothing = (unitKey: string, reason: string): EtlError =>
  new EtlError('WAREHOUSE_COPY', `${unitKey}: nothing is bought. ${reason} ${howToDecide}`)

/** What a person does about it. */
export const howToDecide =
  'If this database replaces the other (restored, or moved here) and the other is gone for good: `millrace migrate --as restored`. ' +
  'If the other stays in use and this one is to be used beside it: `millrace migrate --as clone`.'

/** For so long after a person declared it restored, the service is asked for reports made before; the service keeps reports for days. */
const searchedFor = sql`interval '30 days'`

/**
 * What a restored ledger has forgotten: from the last run in the backup until a person declared that this database continues. null: never declared, or long ago; or the
 * job is forced, or its units were loaded before, so that it asks for something newer.
 */
export const forgottenSpan = async (db: Db, { jobId, forced }: ClaimedJob): Promise<UnknownSpan | null> => {
  if (forced) return null
  const lastEvent = (kind: string) =>
    sql`max(e.at) from etl.events e where e.kind = ${kind} and e.at > clock_timestamp() - ${searchedFor}`
  const rows = await query<Numbers<'sinceMsAgo' | 'untilMsAgo'>>(db)`
    with until as (select ${lastEvent('continues')}), copied as (
      select coalesce((select ${lastEvent('copy')} and e.at <= until.max), until.max) as at from until
    )
    select extract(epoch from clock_timestamp() - coalesce((select max(started_at) from etl.runs where started_at < copied.at),
        copied.at - ${searchedFor}))::float8 * 1000 as "sinceMsAgo", extract(epoch from clock_timestamp() - until.max)::float8 * 1000 as "untilMsAgo"
    from until, copied where until.max is not null
      and not exists (select from etl.units u where u.job_id = ${jobId}::bigint and u.ask_number is not null)`
  return rows[0] ?? null
}

/** Where an account buys; `keySha256`: the beginning of the digest of its key. */
export type Origin = Texts<'api' | 'account' | 'address' | 'keySha256'>

/** The recorded origin; null: nothing was bought for the account, or its origin was not recorded. */
export const knownOrigin = async (db: Db, { api, account }: Pick<Origin, 'api' | 'account'>): Promise<Origin | null> => {
  const [row] = await query<Row<'etl.origins', 'address' | 'key_sha256'>>(db)`
    select o.address, o.key_sha256 from etl.origins o where o.api = ${api} and o.account = ${account} and exists (
      select from etl.pipelines p where p.account = o.account and split_part(p.source, '.', 1) = o.api
        and (exists (select from etl.answers a where a.pipeline_id = p.pipeline_id) or exists (
          select from etl.jobs j where j.pipeline_id = p.pipeline_id and j.account = o.account and j.report_state is not null)))`
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

/** A person says that the service has moved: the next command records the origin that it finds. */
export const forgetOrigins = (db: Db): Promise<void> =>
  db.transaction().execute(async (trx) => {
    await trx.deleteFrom('etl.origins').execute()
    const message = 'Declared that the service has moved: the next command records its address.'
    await note(trx, { kind: 'moved service', message })
  })
