import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { readSettings } from '../../src/core/env.ts'
import { redact } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { testDatabase } from '../support/postgres.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase()
const folder = testFolder()
afterAll(async () => {
  await db.database.pool.query('drop role if exists rotated')
})

test('a password that was rotated in its file is read again by a process that lives, and never printed', async () => {
  const file = join(folder, 'database-url')
  const rotate = async (password: string): Promise<void> => {
    await db.database.pool.query(`alter role rotated password '${password}'`)
    writeFileSync(file, `${Object.assign(new URL(db.url), { username: 'rotated', password }).href}\n`)
  }
  await db.database.pool.query('create role rotated login')
  await rotate('first-password')
  const { databaseUrl, home } = readSettings({ DATABASE_URL_FILE: file }, folder)
  const database = await openDatabase({ databaseUrl, home })
  try {
    await rotate('second-password')
    await db.database.pool.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'rotated'`)
    await expect
      .poll(() => database.pool.query('select current_user as name').then(({ rows }) => rows, String))
      .toEqual([{ name: 'rotated' }])
    expect(redact('said second-password')).toBe('said [secret]')
    // Another warehouse is for the next start; while the file is being replaced the former text stays, too.
    writeFileSync(file, Object.assign(new URL(db.url), { pathname: '/postgres' }).href)
    await db.database.pool.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'rotated'`)
    const where = () => database.pool.query('select current_database() as name').then(({ rows }) => rows, String)
    await expect.poll(where).toEqual([{ name: new URL(db.url).pathname.slice(1) }])
    rmSync(file)
    await db.database.pool.query(`select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'rotated'`)
    await expect
      .poll(() => database.pool.query('select current_user as name').then(({ rows }) => rows, String))
      .toEqual([{ name: 'rotated' }])
  } finally {
    await database.close()
  }
})
