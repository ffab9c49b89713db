// The commands that serve the status page: they say where it is, it answers while they work, and it goes with them.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { pipelinesOfRepository, type RunningCommand, runCommand, startCommand } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let folder: string
let db: TestDatabase

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-serving-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  db = await createTestDatabase()
})
afterEach(async () => {
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

const environment = (extra: Readonly<Record<string, string>> = {}) => ({
  WEB_ANALYTICS_BASE_URL: 'http://127.0.0.1:9',
  WEB_ANALYTICS_API_KEY: 'serving-key-0123456789',
  DATABASE_URL: db.url,
  MILLRACE_HOME: join(folder, 'home'),
  MILLRACE_WEB_PORT: '0',
  ...extra,
})

const pageOf = async (running: RunningCommand): Promise<string> => {
  for (let tries = 0; tries < 600; tries += 1) {
    const url = /"event":"status_page","url":"([^"]+)"/.exec(running.printed())?.[1]
    if (url !== undefined) return url
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`no page:\n${running.printed()}`)
}

describe('serving the status page', () => {
  test.each(['status --serve', 'worker', 'schedule'])('%s serves it and ends it with itself', async (command) => {
    const running = startCommand([...command.split(' '), '--json'], environment(), folder)
    const url = await pageOf(running)
    expect(await (await fetch(url)).text()).toContain('Nothing was planned yet')
    running.child.kill('SIGTERM')
    expect((await running.result).code).toBe(130)
    await expect(fetch(url)).rejects.toThrow()
  })

  test('a scheduler without a schedule says what to write into a definition', async () => {
    for (const name of readdirSync(join(folder, 'pipelines')).filter((one) => one.endsWith('.yaml'))) {
      const file = join(folder, 'pipelines', name)
      writeFileSync(file, readFileSync(file, 'utf8').replace(/^schedule:.*\n/m, ''))
    }
    const result = await runCommand(['schedule'], environment(), folder)
    expect([result.code, result.stderr]).toEqual([2, expect.stringContaining('`schedule: { cron:')])
  })

  test('a network address without a token is refused before anything starts, with the way out', async () => {
    const result = await runCommand(['status', '--serve'], environment({ MILLRACE_WEB_HOST: '0.0.0.0' }), folder)
    expect(result.code).toBe(2)
    expect(result.stderr).toContain('MILLRACE_WEB_TOKEN')
    const short = await runCommand(['status', '--serve'], environment({ MILLRACE_WEB_TOKEN: 'short' }), folder)
    expect([short.code, short.stderr.includes('16 characters')]).toEqual([2, true])
  })

  test('status --serve says how to query the embedded database, and the line opens it', async () => {
    const { DATABASE_URL: _, ...own } = environment()
    expect((await runCommand(['migrate'], own, folder)).code).toBe(0)
    const running = startCommand(['status', '--serve'], own, folder)
    try {
      const line = /PGPASSWORD=\$\(cat '(?<file>.+)'\) psql -h (?<host>\S+) -p (?<port>\d+) -U (?<user>\w+) (?<database>\w+)/
      await vi.waitUntil(() => line.test(running.printed()), { timeout: 30_000 })
      const { file = '', host = '', port = '', user = '', database = '' } = line.exec(running.printed())?.groups ?? {}
      const client = new pg.Client({
        host,
        port: Number(port),
        user,
        database,
        password: readFileSync(join(folder, file), 'utf8').trim(),
      })
      await client.connect()
      expect(
        (await client.query('select count(*)::integer as views from pg_views where schemaname = $1', ['bi'])).rows[0]?.views,
      ).toBeGreaterThan(20)
      await client.end()
    } finally {
      running.child.kill('SIGTERM')
      await running.result
    }
  })

  test('the embedded database shows every pipeline, also where the first command named one', async () => {
    const { DATABASE_URL: _, ...own } = environment()
    const named = await runCommand(['replay', 'keywords', '--from', '2026-01', '--to', '2026-01'], own, folder)
    expect(named.stderr).toContain('has been landed')
    const other = await runCommand(['export', 'traffic_and_engagement', '--format', 'csv'], own, folder)
    expect(other.code, other.stderr).toBe(0)
  })

  test('a chosen port that is taken ends the command; the default one gives way', async () => {
    const first = startCommand(['status', '--serve', '--json'], environment(), folder)
    const { port } = new URL(await pageOf(first))
    const second = await runCommand(['status', '--serve', '--port', port], environment(), folder)
    expect([second.code, second.stderr.includes(port)]).toEqual([2, true])
    first.child.kill('SIGTERM')
    await first.result
  })
})
