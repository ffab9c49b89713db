// A connection that is open and dead: noticed by name and time, while long statements and slow sources are left alone.
import { once } from 'node:events'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { copyInto, copyOutOf, type Database, openDatabase } from '../../src/db/connect.ts'
import { databaseError } from '../../src/db/database-error.ts'
import { testDatabase } from '../support/postgres.ts'
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts'

const db = testDatabase()
let proxy: TcpProxy
let database: Database

beforeAll(async () => {
  proxy = await startTcpProxy(db.url)
  database = await openDatabase({ databaseUrl: secret('test database', proxy.url), home: '/nowhere', silenceMs: 1_500 })
})
beforeEach(() => proxy.speak())
afterAll(async () => {
  proxy.cut()
  await database.close()
  await proxy.close()
})

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))
const failureOf = async (work: Promise<unknown>): Promise<unknown> =>
  databaseError(await work.then(() => new Error('it was answered')).catch((error: unknown) => error), 'here')

describe('a statement', () => {
  test('that takes long is left alone while the server works on it', async () => {
    await database.pool.query('select pg_sleep(4)')
  })

  test('whose connection fell silent fails, named and advised, and the next one works', async () => {
    const asked = database.pool.query('select pg_sleep(1.2)')
    await wait(100)
    proxy.silenceOpen()
    expect(await failureOf(asked)).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringMatching(
        /no answer for \d+ seconds \(MILLRACE_DATABASE_SILENCE\), and the server waits for Millrace/,
      ),
    })
    expect((await database.pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })

  test('fails also where new connections are not answered, and the database is used again once they are', async () => {
    const asked = database.pool.query('select pg_sleep(1.2)')
    await wait(100)
    proxy.fallSilent()
    expect(await failureOf(asked)).toMatchObject({ message: expect.stringContaining('a new connection is not answered either') })
    proxy.speak()
    expect((await database.pool.query('select 1 as one')).rows).toEqual([{ one: 1 }])
  })

  test('whose session is gone behind a silent line fails', async () => {
    const asked = database.pool.query(`select pg_sleep(60) as "to be ended"`)
    await wait(100)
    proxy.silenceOpen()
    const ended = `select pg_terminate_backend(pid) from pg_stat_activity where query like '%to be ended%' and pid <> pg_backend_pid()`
    await db.database.pool.query(ended)
    expect(await failureOf(asked)).toMatchObject({ message: expect.stringContaining('its session is gone') })
  })
})

test.each(['ends', 'has much to send'])(
  'a COPY whose connection falls silent while it %s fails, and its session is ended',
  async (when) => {
    const table = `lost_${when.replaceAll(' ', '_')}`
    await db.database.pool.query(`create table public.${table} (a text)`)
    const sessions = async (): Promise<number> =>
      (await db.query('select from pg_stat_activity where query ilike $1', [`copy public.${table} %`])).length
    const client = await database.pool.connect()
    client.on('error', () => undefined)
    await client.query('begin')
    const copy = copyInto(client, `copy public.${table} from stdin`)
    const failure = once(copy, 'error').then(([error]) => error)
    await new Promise((resolve) => copy.write('one\n', resolve))
    expect(await sessions()).toBe(1)
    proxy.silenceOpen()
    if (when === 'ends') copy.end('two\n')
    else for (let more = 0; more < 64; more += 1) copy.write(`${'x'.repeat(1_000_000)}\n`)
    expect(databaseError(await failure, 'here')).toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringContaining('the server waits for Millrace'),
    })
    client.release(true)
    // The server would not notice for hours that nobody is there, and keep every lock.
    await expect.poll(sessions, { timeout: 10_000 }).toBe(0)
  },
)

test('a COPY whose source is slow is left alone', async () => {
  const client = await database.pool.connect()
  await client.query('create temp table slow (a text)')
  const copy = copyInto(client, 'copy slow from stdin')
  copy.write('one\n')
  await wait(4_000)
  copy.end('two\n')
  await once(copy, 'finish')
  expect((await client.query('select count(*)::int as n from slow')).rows).toEqual([{ n: 2 }])
  client.release()
})

test('a COPY whose reader is slow is left alone, also when the server has sent everything', async () => {
  const client = await database.pool.connect()
  const copy = copyOutOf(client, `copy (select repeat('x', 1000) from generate_series(1, 300)) to stdout`)
  let bytes = 0
  for await (const chunk of copy) {
    if (bytes === 0) await wait(5_000)
    bytes += (chunk as Buffer).length
  }
  expect(bytes).toBe(300 * 1_001)
  client.release()
})

test('a COPY over a narrow line is left alone: the server waits, and rows still come', async () => {
  const client = await database.pool.connect()
  await client.query('create temp table narrow (a text)')
  const copy = copyInto(client, 'copy narrow from stdin')
  proxy.narrow(40)
  for (let row = 0; row < 400; row += 1) copy.write(`${'x'.repeat(60_000)}\n`)
  copy.end()
  await once(copy, 'finish').finally(() => proxy.narrow(0))
  expect((await client.query('select count(*)::int as n from narrow')).rows).toEqual([{ n: 400 }])
  client.release()
})

test('the server is asked to notice within a minute that a machine or network is gone', async () => {
  const { rows } = await database.pool.query(
    `select current_setting('tcp_keepalives_idle')::int + current_setting('tcp_keepalives_interval')::int * current_setting('tcp_keepalives_count')::int as seconds`,
  )
  expect(rows).toEqual([{ seconds: 60 }])
})
