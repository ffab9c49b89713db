// A migrated database on a server that the caller started.
import pg from 'pg'
import { secret } from '../../src/core/redact.ts'
import { type DatabasePool, openDatabase } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'

export interface OwnDatabase {
  readonly url: string
  readonly pool: DatabasePool
  close(): Promise<void>
}

export const createOwnDatabase = async (serverUrl: string, name: string): Promise<OwnDatabase> => {
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  await admin.query(`create database ${name}`)
  await admin.end()
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  const database = await openDatabase({ databaseUrl: secret(`database ${name}`, url.href), home: '/nowhere' })
  await migrate(database, { folders: [] })
  return { url: url.href, pool: database.pool, close: () => database.close() }
}
