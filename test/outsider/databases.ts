// Where a world gets its warehouse: an empty, migrated database of its own, beside others on one server.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbedded } from '../../src/db/embedded.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { publishViews } from '../support/publish-views.ts'

export interface WorldDatabase {
  readonly url: string
  readonly pool: Pick<pg.Pool, 'query'>
  drop(): Promise<void>
}

export interface Databases {
  create(): Promise<WorldDatabase>
  remove(): Promise<void>
}

/** A PostgreSQL for this process alone; databases are copies of one that was migrated once. */
export const startDatabases = async (): Promise<Databases> => {
  const home = mkdtempSync(join(tmpdir(), 'millrace-outsider-db-'))
  const server = await startEmbedded(home)
  const url = server.url.reveal()
  const template = await createOwnDatabase(url, 'outsider_template')
  await publishViews(template.url)
  await template.close()
  let count = 0
  return {
    create: async () => {
      count += 1
      const name = `outsider_${count}`
      await asAdmin(url, `create database ${name} template outsider_template`)
      const own = new URL(url)
      own.pathname = `/${name}`
      const pool = new pg.Pool({ connectionString: own.href, max: 3 })
      pool.on('error', () => undefined)
      await becomeOwn(pool)
      const drop = async (): Promise<void> => {
        await pool.end()
        await asAdmin(url, `drop database ${name} with (force)`)
      }
      return { url: own.href, pool, drop }
    },
    remove: async () => {
      await server.release()
      rmSync(home, { recursive: true, force: true })
    },
  }
}

/** A copy of the template is no clone of a warehouse: it gets a name of its own, as one that was migrated by itself has. */
export const becomeOwn = async (pool: WorldDatabase['pool']): Promise<void> => {
  await pool.query('update etl.warehouse set warehouse_id = gen_random_uuid(), home = null')
}

const asAdmin = async (url: string, statement: string): Promise<void> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
