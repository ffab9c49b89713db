// Kysely over PostgreSQL, with two differences: a rollback that fails does not hide the error it was needed for, and migrations lock a row of the ledger.
import { type Dialect, type DialectAdapter, type Driver, PostgresDialect, type PostgresPool, sql } from 'kysely'

export const postgresDialect = (pool: PostgresPool): Dialect => {
  const dialect = new PostgresDialect({ pool })
  return {
    createDriver: () => keepFirstError(dialect.createDriver()),
    createAdapter: () => lockRow(dialect.createAdapter()),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createQueryCompiler: () => dialect.createQueryCompiler(),
  }
}

/** Kysely asks for a rollback only with an error in hand; the driver has marked the connection, so it is not used again. */
const keepFirstError = (driver: Driver): Driver => {
  const rollback = driver.rollbackTransaction.bind(driver)
  return Object.assign(driver, {
    rollbackTransaction: (...asked: Parameters<Driver['rollbackTransaction']>) => rollback(...asked).catch(() => undefined),
  })
}

/** Kysely takes an advisory lock, which anybody who may connect could hold. The row needs the right to write it; the lock ends with the transaction. */
const lockRow = (adapter: DialectAdapter): DialectAdapter =>
  Object.assign(adapter, {
    acquireMigrationLock: async (
      ...[db, { lockTable, lockTableSchema = 'public' }]: Parameters<DialectAdapter['acquireMigrationLock']>
    ) => {
      await sql`select id from ${sql.table(`${lockTableSchema}.${lockTable}`)} for update`.execute(db)
    },
    releaseMigrationLock: async () => undefined,
  })
