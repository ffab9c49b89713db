// A database of its own for a test file, cloned from the migrated template.
import pg from 'pg'
import { afterAll, beforeAll, inject } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'

export interface TestDatabase {
  readonly url: string
  readonly database: Database
  /** Closes and drops it; a database that a failed test leaves undropped stays, to be examined. */
  drop(): Promise<void>
}

let count = 0

const asAdmin = async (statement: string): Promise<void> => {
  const client = new pg.Client({ connectionString: inject('postgresUrl') })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}

const patience = 20

/** Roles are of the whole server: another test that drops its database at the same moment deletes rows of the same catalogs. */
export const dropRole = async (name: string): Promise<void> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await asAdmin(`drop role if exists ${name}`)
    } catch (error) {
      if (attempt >= patience || !/tuple concurrently/.test(String(error))) throw error
    }
  }
}

export interface TestDatabaseOptions {
  /** Without any migration applied. */
  readonly empty?: boolean
  /** As `millrace migrate` leaves it: with the views of the repository's pipelines. Only where the program is compiled (e2e, long). */
  readonly published?: boolean
}

const templateFor = ({ empty, published }: TestDatabaseOptions): string => {
  if (empty === true) return ''
  return ` template ${inject(published === true ? 'publishedName' : 'templateName')} strategy ${inject('copyStrategy')}`
}

export const createTestDatabase = async (options: TestDatabaseOptions = {}): Promise<TestDatabase> => {
  count += 1
  const name = `millrace_test_${process.pid}_${count}_${Math.random().toString(36).slice(2, 8)}`
  await asAdmin(`create database ${name}${templateFor(options)}`)
  const url = new URL(inject('postgresUrl'))
  url.pathname = `/${name}`
  const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  return {
    url: url.href,
    database,
    drop: async () => {
      await database.close()
      await asAdmin(`drop database ${name} with (force)`)
    },
  }
}

/** One for all tests of the file: there from its `beforeAll` on, dropped at its end. */
export const testDatabase = (options: TestDatabaseOptions = {}): TestDatabase => {
  const held = {} as TestDatabase
  beforeAll(async () => {
    Object.assign(held, await createTestDatabase(options))
  })
  afterAll(() => held.drop())
  return held
}
