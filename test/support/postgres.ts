// A database of its own for a test file, cloned from the migrated template.
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, inject } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'

export interface TestDatabase {
  readonly url: string
  readonly database: Database
  /** The rows of one statement. */
  query<Row extends object = Record<string, unknown>>(statement: string, values?: readonly unknown[]): Promise<Row[]>
  /** The only row, or the first. */
  one<Row extends object = Record<string, unknown>>(statement: string, values?: readonly unknown[]): Promise<Row>
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
  const drop = async (): Promise<void> => {
    await database.close()
    await asAdmin(`drop database ${name} with (force)`)
  }
  return asTestDatabase({ url: url.href, database, drop })
}

/** A database that came from elsewhere. */
export const asTestDatabase = (opened: Omit<TestDatabase, 'query' | 'one'>): TestDatabase => {
  const query = async <Row extends object>(statement: string, values: readonly unknown[] = []): Promise<Row[]> =>
    (await opened.database.pool.query<Row>(statement, [...values])).rows
  const one = async <Row extends object>(statement: string, values?: readonly unknown[]): Promise<Row> => {
    const [row] = await query<Row>(statement, values)
    if (row === undefined) throw new Error(`no row: ${statement}`)
    return row
  }
  return { ...opened, query, one }
}

/** One for all tests of the file, or another one for each of them: there before the test, dropped after it. */
export const testDatabase = ({ each = false, ...options }: TestDatabaseOptions & { each?: boolean } = {}): TestDatabase => {
  const held = {} as TestDatabase
  const create = async (): Promise<void> => void Object.assign(held, await createTestDatabase(options))
  const drop = (): Promise<void> => held.drop()
  if (each) {
    beforeEach(create)
    afterEach(drop)
  } else {
    beforeAll(create)
    afterAll(drop)
  }
  return held
}
