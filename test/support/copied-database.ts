// Databases that are copied as backups and clones are: the server makes a copy of the whole under another name.
import pg from 'pg'

export interface CopiedDatabase {
  readonly url: string
  readonly pool: pg.Pool
  /** The database as it is now, under another name. Sessions at work on it are ended: nobody may be connected meanwhile. */
  copy(): Promise<CopiedDatabase>
  drop(): Promise<void>
}

const asAdmin = async (adminUrl: string, ...statements: string[]): Promise<void> => {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

let count = 0

/** @param adminUrl of any other database of the server */
export const copyDatabase = async (adminUrl: string, template: string): Promise<CopiedDatabase> => {
  count += 1
  const name = `millrace_copy_${process.pid}_${count}_${Math.random().toString(36).slice(2, 8)}`
  await asAdmin(
    adminUrl,
    `select pg_terminate_backend(pid) from pg_stat_activity where datname = '${template}'`,
    `create database ${name} template ${template}`,
  )
  const url = new URL(adminUrl)
  url.pathname = `/${name}`
  const pool = new pg.Pool({ connectionString: url.href, max: 2 })
  pool.on('error', () => undefined)
  return {
    url: url.href,
    pool,
    copy: () => copyDatabase(adminUrl, name),
    drop: async () => {
      await pool.end()
      await asAdmin(adminUrl, `drop database ${name} with (force)`)
    },
  }
}
