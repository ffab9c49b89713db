// Statements sent under a name: planned once a connection, again as they are sent more often, and not tied to how a table once looked.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type Session, withSession } from '../../src/db/session.ts'
import { testDatabase } from '../support/postgres.ts'
import { executePrepared, planNumber } from '../../src/db/typed-row.ts'

const db = testDatabase()

const within = <T>(work: (session: Session) => Promise<T>): Promise<T> => withSession(db.database.pool, work)

const preparedOn = async ({ client }: Session, like: string): Promise<string[]> => {
  const { rows } = await client.query<{ name: string }>(
    'select name from pg_prepared_statements where statement like $1 order by name',
    [like],
  )
  return rows.map(({ name }) => name)
}

test('a statement sent twice is prepared once; one that is only sent is not', () =>
  within(async (session) => {
    const add = (one: number, other: number) =>
      executePrepared(session.kysely, sql<{ sum: number }>`select ${one}::int + ${other}::int as sum`)
    expect(await add(1, 2)).toEqual([{ sum: 3 }])
    expect(await add(3, 4)).toEqual([{ sum: 7 }])
    await sql`select ${1}::int as other_sum`.execute(session.kysely)
    expect(await preparedOn(session, '%as sum')).toHaveLength(1)
    expect(await preparedOn(session, '%as other_sum')).toEqual([])
  }))

test('each connection prepares for itself, a lost one is no loss', async () => {
  const ask = () => executePrepared(db.database.kysely, sql<{ pid: number }>`select pg_backend_pid() as pid, ${1}::int as one`)
  const [first] = await ask()
  await within(({ client }) => client.query('select pg_terminate_backend($1)', [first?.pid])).catch(() => undefined)
  await expect.poll(async () => (await ask().catch(() => []))[0]?.pid).not.toBe(first?.pid)
})

test('outlives a table that gets another column, is emptied, or is made anew', () =>
  within(async (session) => {
    const read = () =>
      executePrepared(session.kysely, sql<{ n: number }>`select n from public.prepared_probe where n > ${0}::int`)
    await session.client.query('create table public.prepared_probe (n int)')
    await read()
    await session.client.query('alter table public.prepared_probe add column more text')
    await session.client.query('insert into public.prepared_probe values (1)')
    expect(await read()).toEqual([{ n: 1 }])
    await session.client.query('drop table public.prepared_probe; create table public.prepared_probe (more text, n int)')
    expect(await read()).toEqual([])
  }))

test('a plan made for an empty table is not kept while the table grows', () =>
  within(async (session) => {
    const send = () =>
      executePrepared(session.kysely, sql<{ n: number }>`select count(*)::int as n from etl.runs where run_id = ${1}`)
    for (let time = 0; time < 70; time += 1) await send()
    expect(await preparedOn(session, '%from etl.runs where run_id%')).toHaveLength(2)
    expect([0, 63, 64, 255, 256, 1_023, 1_024, 1_000_000].map(planNumber)).toEqual([0, 0, 1, 1, 2, 2, 3, 7])
  }))
