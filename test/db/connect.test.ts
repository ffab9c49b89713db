// The connection: what an address may and may not change, and that the first error is the one people see.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createSecureContext, TLSSocket } from 'node:tls'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { migrate } from '../../src/db/migrate.ts'
import { withSession } from '../../src/db/session.ts'
import { createTestDatabase, testDatabase } from '../support/postgres.ts'

/** The server at `target` as one that speaks TLS, with the key and certificate in `folder`. */
const tlsInFrontOf = (target: URL, folder: string, sockets: Set<Socket>): Server => {
  const [key, cert] = ['key.pem', 'cert.pem'].map((name) => readFileSync(join(folder, name)))
  const secureContext = createSecureContext({ key, cert })
  return createServer((socket) => {
    sockets.add(socket.on('error', () => socket.destroy()))
    // PostgreSQL's request for TLS is 8 bytes; `S` accepts it.
    socket.once('data', () => {
      socket.write('S')
      const plain = new TLSSocket(socket, { isServer: true, secureContext })
      const behind = connect(Number(target.port), target.hostname)
      sockets.add(behind)
      plain.on('error', () => behind.destroy()).pipe(behind)
      behind.on('error', () => plain.destroy()).pipe(plain)
    })
  })
}

const db = testDatabase()
const opened: Database[] = []

afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

const open = async (parameters: Readonly<Record<string, string>>, url = db.url): Promise<Database> => {
  const address = new URL(url)
  for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value)
  const database = await openDatabase({
    databaseUrl: secret('test database', address.href),
    home: '/nowhere',
    applicationName: 'millrace here:1',
  })
  opened.push(database)
  return database
}

const setting = async (database: Database, name: string): Promise<string | undefined> =>
  (await database.pool.query<{ value: string }>('select current_setting($1) as value', [name])).rows[0]?.value

describe('the address of the warehouse', () => {
  test('cannot change the name by which processes see each other', async () => {
    const database = await open({ application_name: 'dashboard', fallback_application_name: 'other' })
    expect(await setting(database, 'application_name')).toBe('millrace here:1')
  })

  test('cannot change how values are written, and may set all else', async () => {
    const database = await open({ options: '-c timezone=Asia/Tokyo -c statement_timeout=54321' })
    expect(await setting(database, 'TimeZone')).toBe('UTC')
    expect(await setting(database, 'statement_timeout')).toBe('54321ms')
  })

  test('names a database that has reserved characters, written as an address writes them', async () => {
    const name = `bi@a/b:c&d ${process.pid}%`
    await db.database.pool.query(`create database "${name}"`)
    try {
      const address = new URL(db.url)
      address.pathname = `/${encodeURIComponent(name)}`
      for (const parameters of [{}, { application_name: 'x' }]) {
        const { rows } = await (await open(parameters, address.href)).pool.query('select current_database() as name')
        expect(rows).toEqual([{ name }])
      }
    } finally {
      for (const one of opened.splice(0)) await one.close()
      await db.database.pool.query(`drop database "${name}" with (force)`)
    }
  })
})

test('a session does not depend on settings of the database: isolation, commits, how SQL is read and types are named, and what a name means', async () => {
  const own = await createTestDatabase()
  const settings = ['default_transaction_isolation = serializable', 'synchronous_commit = off', `DateStyle = 'SQL, DMY'`]
  const readings = [
    'standard_conforming_strings = off',
    'quote_all_identifiers = on',
    'array_nulls = off',
    'transform_null_equals = on',
  ]
  for (const setting of [...settings, ...readings, 'bytea_output = escape', 'search_path = public', 'extra_float_digits = 0'])
    await own.database.pool.query(`alter database ${new URL(own.url).pathname.slice(1)} set ${setting}`)
  // As a database that came from PostgreSQL 14 lets anybody do.
  await own.database.pool.query(
    `create function public.concat_ws(text, text, text) returns text language sql as $$ select 'hostile' $$`,
  )
  const { kysely, pool } = await open({}, own.url)
  const { rows } =
    await pool.query(String.raw`select current_setting('transaction_isolation') as isolation, current_date::text ~ '^\d{4}-\d\d-\d\d$' as is_iso,
    current_setting('synchronous_commit') as commits, concat_ws('-'::text, 'a'::text, 'b'::text) as joined, (0.1::float8 + 0.2::float8)::text as sum,
    length('\d') as letters, format_type(25, null) as type, array_position('{null}'::text[], null) as nulls, (1 = null)::text as compared, '\x00ff'::bytea::text as bytes`)
  expect(rows).toEqual([
    {
      ...{ isolation: 'read committed', commits: 'on', is_iso: true, joined: 'a-b', sum: '0.30000000000000004' },
      ...{ letters: 2, type: 'text', nulls: 1, compared: null, bytes: String.raw`\x00ff` },
    },
  ])
  await sql`create table data.tally (n int)`.execute(kysely)
  // Each reads what the other writes: serializable would refuse one of the two.
  const add = (trx: typeof kysely) => sql`insert into data.tally select count(*) from data.tally`.execute(trx)
  await kysely.transaction().execute(async (first) => {
    await add(first)
    await kysely.transaction().execute((second) => add(second))
  })
  expect((await pool.query('select n from data.tally')).rows).toEqual([{ n: 0 }, { n: 0 }])
  for (const database of opened.splice(0)) await database.close()
  await own.drop()
})

describe('TLS', () => {
  let folder: string
  let proxy: Server
  let url: string
  const sockets = new Set<Socket>()

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-tls-'))
    const request = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=elsewhere']
    execFileSync('openssl', [...request, '-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')], {
      stdio: 'ignore',
    })
    proxy = tlsInFrontOf(new URL(db.url), folder, sockets)
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
    const address = new URL(db.url)
    const bound = proxy.address()
    address.hostname = '127.0.0.1'
    address.port = typeof bound === 'object' && bound !== null ? String(bound.port) : ''
    url = address.href
  })
  afterAll(async () => {
    for (const socket of sockets) socket.destroy()
    await new Promise((resolve) => proxy.close(resolve))
    rmSync(folder, { recursive: true, force: true })
  })

  test('sslmode=require encrypts and does not ask who signed, as everywhere with PostgreSQL', async () => {
    expect(await setting(await open({ sslmode: 'require' }, url), 'application_name')).toBe('millrace here:1')
  })

  test('sslmode=verify-full refuses a server that nobody vouches for, and says where to look', async () => {
    await expect(open({ sslmode: 'verify-full' }, url)).rejects.toMatchObject({
      code: 'CONFIGURATION',
      message: expect.stringContaining('Check sslmode and sslrootcert in DATABASE_URL.'),
    })
  })
})

describe('the first error', () => {
  const cut = async (database: Database['kysely']): Promise<void> => {
    await sql`select pg_terminate_backend(pg_backend_pid())`.execute(database).catch(() => undefined)
  }

  test('of a transaction is thrown, also where its connection is gone and cannot roll back', async () => {
    const database = await open({})
    const work = database.kysely.transaction().execute(async (trx) => {
      await cut(trx)
      throw new Error('the first')
    })
    await expect(work).rejects.toThrow('the first')
    expect(await setting(database, 'TimeZone')).toBe('UTC')
  })

  test('of a transaction in a session is thrown too', async () => {
    const database = await open({})
    const work = withSession(database.pool, (session) =>
      session.kysely.transaction().execute(async (trx) => {
        await cut(trx)
        throw new Error('the first')
      }),
    )
    await expect(work).rejects.toThrow('the first')
    expect(await setting(database, 'TimeZone')).toBe('UTC')
  })
})

describe('a migration that stops', () => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'millrace-migrations-'))
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  const migrateWith = async (statement: string): Promise<unknown> => {
    const name = `9${String(Math.floor(Math.random() * 1_000)).padStart(3, '0')}_broken`
    const file = join(folder, `${name}.mjs`)
    const text = `import { sql } from '${import.meta.resolve('kysely')}'
      export const up = async (db) => { await sql.raw(${JSON.stringify(statement)}).execute(db) }`
    writeFileSync(file, text)
    const error = await migrate(await open({}), { folders: [folder], patience: { waitMs: 100 } }).catch(
      (thrown: unknown) => thrown,
    )
    rmSync(file)
    return error
  }

  test.each([
    ['its own mistake', 'select 1 from nowhere', 'CONFIGURATION', 'correct it and migrate again'],
    ['a value that does not fit', `select 1 / (select 0)`, 'CONFIGURATION', 'correct it and migrate again'],
    ['a connection that was cut', 'select pg_terminate_backend(pg_backend_pid())', 'DATABASE_UNREACHABLE', 'was interrupted'],
    ['a deadlock', `do $$ begin raise exception 'x' using errcode = '40P01'; end $$`, 'DATABASE', 'was interrupted'],
    ['a full disk', `do $$ begin raise exception 'x' using errcode = '53100'; end $$`, 'DISK', 'was interrupted'],
    [
      'a missing right',
      `do $$ begin raise exception 'x' using errcode = '42501'; end $$`,
      'CONFIGURATION',
      'Grant the missing right',
    ],
    [
      'a login that may not create schemas',
      `do $$ begin raise exception 'permission denied for database shop' using errcode = '42501'; end $$`,
      'CONFIGURATION',
      '`grant create on database "shop" to …`',
    ],
  ])('by %s is reported as what it is, with its name', async (_, statement, code, advice) => {
    expect(await migrateWith(statement)).toMatchObject({
      code,
      message: expect.stringMatching(new RegExp(`^Migration 9\\d+_broken .*${advice}`)),
    })
  })
})
