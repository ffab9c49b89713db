// The commands that serve the status page: they say where it is, it answers while they work, and it goes with them.
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
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

  test('a chosen port that is taken ends the command; the default one gives way', async () => {
    const first = startCommand(['status', '--serve', '--json'], environment(), folder)
    const { port } = new URL(await pageOf(first))
    const second = await runCommand(['status', '--serve', '--port', port], environment(), folder)
    expect([second.code, second.stderr.includes(port)]).toEqual([2, true])
    first.child.kill('SIGTERM')
    await first.result
  })
})
