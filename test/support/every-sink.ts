// Everything that Millrace keeps or shows, as one text, for tests that look for what must not be there.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import type { TestDatabase } from './postgres.ts'
import { servePage } from './status-page.ts'

/** Names and bytes of all files, gzip ones inflated, too. */
export const filesBelow = (root: string): string =>
  !existsSync(root)
    ? ''
    : readdirSync(root, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => {
          const bytes = readFileSync(join(entry.parentPath, entry.name))
          return `${entry.name} ${bytes.toString('latin1')} ${entry.name.endsWith('.gz') ? unzipped(bytes) : ''}`
        })
        .join('\n')

/** A landing holds several members; what cannot be read as gzip is looked at as it is. */
const unzipped = (bytes: Buffer): string => {
  try {
    return gunzipSync(bytes).toString('utf8')
  } catch {
    return ''
  }
}

/** Every row of every table and view. */
export const everyTable = async (db: Pick<TestDatabase, 'database'>): Promise<string> => {
  const { rows } = await db.database.pool.query<{ name: string }>(`select format('%I.%I', table_schema, table_name) as name
    from information_schema.tables where table_schema not in ('pg_catalog', 'information_schema')`)
  let text = ''
  for (const { name } of rows) {
    const found = await db.database.pool.query<{ line: string }>(`select t::text as line from ${name} t`)
    text += `${name} ${found.rows.map(({ line }) => line).join('\n')}\n`
  }
  return text
}

/** Every page of the status page. */
export const everyPage = async (db: Pick<TestDatabase, 'database'>): Promise<string> => {
  const served = await servePage(db)
  try {
    const { rows } = await db.database.pool.query<{ unit_id: string }>('select unit_id from etl.units')
    const places = [
      '/',
      '/coverage',
      '/coverage/keywords',
      '/runs',
      '/runs/1',
      '/units',
      '/reports',
      '/quota',
      '/quarantine',
      '/tests',
      '/schedule',
      '/metrics',
    ]
    const all = [...places, ...rows.map(({ unit_id }) => `/units/${unit_id}`)]
    return (await Promise.all(all.map(async (place) => (await fetch(served.url + place)).text()))).join('\n')
  } finally {
    await served.close()
  }
}

/** Arguments of every process, as any login of the machine may read them. */
export const processList = (): string =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((id) => {
      try {
        return readFileSync(`/proc/${id}/cmdline`, 'utf8')
      } catch {
        return ''
      }
    })
    .join('\n')
