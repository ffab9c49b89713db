// Errors that only a real server makes: deadlock, serialization failure. Each is reported as what it is, and settled rightly.
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { asEtlError, settle } from '../../src/run/settle.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let one: pg.Client
let two: pg.Client

beforeAll(async () => {
  one = new pg.Client({ connectionString: db.url })
  two = new pg.Client({ connectionString: db.url })
  await Promise.all([one.connect(), two.connect()])
  await one.query('create table tug (id integer primary key, n integer not null default 0)')
  await one.query('insert into tug values (1), (2)')
})
afterAll(async () => {
  await Promise.all([one.end(), two.end()])
})

const failureOf = async (work: Promise<unknown>): Promise<unknown> => work.then(() => null).catch((error: unknown) => error)

const expectTriedAgain = async (error: unknown, sqlState: string): Promise<void> => {
  expect(error).toMatchObject({ code: sqlState })
  const known = asEtlError(error)
  expect(known).toMatchObject({ code: 'DATABASE', message: expect.stringContaining('Run the command again') })
  const [definition] = await shippedDefinitions()
  if (definition === undefined) throw new Error('no definition')
  expect(settle(known, { attempts: 1, cells: 1, kind: 'walk' }, definition.limits, systemClock)).toMatchObject({
    kind: 'park',
    final: false,
  })
}

const raise = (client: pg.Client, id: number): Promise<unknown> => client.query('update tug set n = n + 1 where id = $1', [id])

describe('made for real', () => {
  test('a deadlock costs its loser a try, no more', async () => {
    await Promise.all([one.query('begin'), two.query('begin')])
    await raise(one, 1)
    await raise(two, 2)
    const both = await Promise.all(
      [failureOf(raise(one, 2)), failureOf(raise(two, 1))].map((work, index) =>
        work.finally(async () => (index === 0 ? one : two).query('rollback')),
      ),
    )
    await expectTriedAgain(
      both.find((error) => error !== null),
      '40P01',
    )
  })

  test('a serialization failure costs a try', async () => {
    for (const client of [one, two]) await client.query('begin isolation level repeatable read; select * from tug')
    await raise(one, 1)
    await one.query('commit')
    await expectTriedAgain(await failureOf(raise(two, 1)), '40001')
    await two.query('rollback')
  })

  test('a time limit of the server or the role is named, with what lifts it', async () => {
    await one.query("set statement_timeout = '20ms'")
    const error = asEtlError(await failureOf(one.query('select pg_sleep(10)')))
    await one.query('reset statement_timeout')
    expect(error).toMatchObject({ code: 'DATABASE', message: expect.stringContaining('set statement_timeout = 0') })
    // Only PostgreSQL 17 and newer has this one.
    const ended = Object.assign(new Error('terminating connection due to transaction timeout'), { code: '25P04' })
    expect(asEtlError(ended).message).toContain('set transaction_timeout = 0')
  })

  test('a function of somebody else that names no schema is named, with what mends it', async () => {
    await one.query(`create table public.ddl_log (at timestamptz);
      create function public.note_ddl() returns event_trigger language plpgsql as $$ begin insert into ddl_log values (now()); end $$;
      create event trigger note on ddl_command_end execute function public.note_ddl()`)
    // As a load makes a month.
    const error = asEtlError(await failureOf(db.database.pool.query('create table data.some_month (n integer)')))
    expect(error.message).toMatch(/"ddl_log" does not exist.*public\.note_ddl\(\).*`alter function … set search_path = public`/)
    await one.query('drop event trigger note')
  })
})
