// What a migration would send, without a database: the statements of its `up`, written down instead of run.
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'

/** Statements in order. A migration that asks the database before it decides sees an empty answer here. */
export const statementsOf = async (up: (database: Kysely<unknown>) => Promise<unknown>): Promise<string[]> => {
  const statements: string[] = []
  const database = new Kysely<unknown>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new DummyDriver(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
    log: ({ level, query }) => {
      if (level === 'query') statements.push(withValues(query.sql, query.parameters))
    },
  })
  await up(database)
  return statements
}

const withValues = (text: string, values: readonly unknown[]): string =>
  values.length === 0 ? text : `${text} -- with ${JSON.stringify(values)}`
