// Kysely over PostgreSQL, with one difference: a rollback that fails does not hide the error it was needed for.
import { type Dialect, type Driver, PostgresDialect, type PostgresPool } from 'kysely'

export const postgresDialect = (pool: PostgresPool): Dialect => {
  const dialect = new PostgresDialect({ pool })
  return {
    createDriver: () => keepFirstError(dialect.createDriver()),
    createAdapter: () => dialect.createAdapter(),
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
