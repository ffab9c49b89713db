// The commands that serve the status page: they say where it is, it answers while they work, and it goes with them.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { describe, expect, test, vi } from 'vitest'
import { type RunningCommand, runCommand, startCommand } from '../support/command.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const { folder, environment } = testWorld({ each: true, settings: { MILLRACE_WEB_PORT: '0' } })

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

  test('a wrong poll interval ends a scheduler before anything starts', async () => {
    const result = await runCommand(['schedule'], environment({ MILLRACE_RELEASE_POLL: 'often' }), folder)
    expect([result.code, result.stderr]).toEqual([2, expect.stringContaining('MILLRACE_RELEASE_POLL')])
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
    await succeeded(runCommand(['migrate'], own, folder))
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
    await succeeded(runCommand(['export', 'traffic_and_engagement', '--format', 'csv'], own, folder))
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
