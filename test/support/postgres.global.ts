// One PostgreSQL for all tests of a run: TEST_DATABASE_URL, else a container where Docker answers, else the embedded one. One migrated template.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { secret } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { startEmbedded } from '../../src/db/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'

declare module 'vitest' {
  export interface ProvidedContext {
    postgresUrl: string
    templateName: string
    /** How the server copies a database with least work: files where it need not wait until they are on disk. */
    copyStrategy: 'file_copy' | 'wal_log'
  }
}

interface Server {
  readonly url: string
  stop(): Promise<void>
}

const fromEnvironment = (): Server | null => {
  const url = process.env['TEST_DATABASE_URL']
  return url ? { url, stop: async () => undefined } : null
}

const fromContainer = async (): Promise<Server | null> => {
  const { getContainerRuntimeClient } = await import('testcontainers')
  try {
    await getContainerRuntimeClient()
  } catch {
    return null
  }
  const { PostgreSqlContainer } = await import('@testcontainers/postgresql')
  const container = await new PostgreSqlContainer(process.env['TEST_POSTGRES_IMAGE'] ?? 'postgres:18-alpine').start()
  return { url: container.getConnectionUri(), stop: async () => void (await container.stop()) }
}

/** No test cuts the power of this server, so it need not wait for the disk: those that do (power-cut, backup, embedded) start their own. */
const forgetful = async (url: string): Promise<void> => {
  const admin = new pg.Client({ connectionString: url })
  await admin.connect()
  for (const setting of ['fsync', 'full_page_writes', 'synchronous_commit'])
    await admin.query(`alter system set ${setting} = off`)
  await admin.query('select pg_reload_conf()')
  await admin.end()
}

const embedded = async (): Promise<Server> => {
  const home = mkdtempSync(join(tmpdir(), 'millrace-test-'))
  const server = await startEmbedded(home)
  await forgetful(server.url.reveal())
  return {
    url: server.url.reveal(),
    stop: async () => {
      await server.release()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

let server: Server | null = null

export const setup = async (project: TestProject): Promise<void> => {
  server = fromEnvironment() ?? (await fromContainer()) ?? (await embedded())
  const templateName = `millrace_template_${process.pid}`
  const admin = new pg.Client({ connectionString: server.url })
  await admin.connect()
  await admin.query(`drop database if exists ${templateName}`)
  await admin.query(`create database ${templateName}`)
  const { rows } = await admin.query<{ fsync: string }>('show fsync')
  await admin.end()
  const url = new URL(server.url)
  url.pathname = `/${templateName}`
  const database = await openDatabase({ databaseUrl: secret('test database', url.href), home: '/nowhere' })
  await migrate(database, { folders: [] })
  await database.close()
  project.provide('postgresUrl', server.url)
  project.provide('templateName', templateName)
  project.provide('copyStrategy', rows[0]?.fsync === 'off' ? 'file_copy' : 'wal_log')
}

export const teardown = async (): Promise<void> => {
  await server?.stop()
}
