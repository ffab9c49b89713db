// The ticker over a real ledger and a clock that is moved by hand.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { readSettings } from '../../src/config/env.ts'
import { silentLog } from '../../src/core/log.ts'
import { type OpenRuntime, openRuntime } from '../../src/pipeline/open-runtime.ts'
import { createProgress } from '../../src/pipeline/progress.ts'
import { createTicker } from '../../src/schedule/ticker.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { servePage } from '../support/status-page.ts'

let folder: string
let db: TestDatabase
let runtime: OpenRuntime
let nowMs = Date.parse('2026-06-01T10:00:00Z')
const minute = 60_000

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-ticker-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const file = join(folder, 'pipelines', 'keywords.yaml')
  // Nothing is due before the next century: a tick is a run of no units.
  const text = readFileSync(file, 'utf8').replace('from: 2024-01', 'from: 2100-01').replace('30 2 * * *', '30 * * * *')
  writeFileSync(file, text)
  db = await createTestDatabase()
  const settings = readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: join(folder, 'home') }, folder)
  runtime = await openRuntime({
    settings,
    pipelinesFolder: join(folder, 'pipelines'),
    pipelines: ['keywords'],
    callsService: false,
    usesLanding: true,
    progress: createProgress(),
    log: silentLog,
    clock: { ...systemClock, now: () => nowMs },
  })
})
afterEach(async () => {
  await runtime.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

test('a tick nobody took is overdue after five minutes, and not once it is taken; one from before this process began is another’s', async () => {
  const { signal } = new AbortController()
  const ticker = createTicker(runtime, signal)
  expect(await ticker.overdue()).toEqual([])
  nowMs += 32 * minute
  expect(await ticker.overdue()).toEqual([])
  nowMs += 4 * minute
  expect(await ticker.overdue()).toEqual(['keywords'])
  expect(await createTicker(runtime, signal).overdue()).toEqual([])
  ticker.sweep()
  await ticker.settled()
  expect(await ticker.overdue()).toEqual([])
})

test('the health endpoint is red while a tick is overdue, and says no more than that', async () => {
  let late: readonly string[] = ['keywords']
  const page = await servePage(db, { token: true, overdue: async () => late })
  try {
    const red = await fetch(`${page.url}/healthz`)
    expect(red.status).toBe(503)
    expect(await red.json()).toEqual({ healthy: false, database: 'reachable', schedule: 'a tick is overdue' })
    late = []
    expect((await fetch(`${page.url}/healthz`)).status).toBe(200)
  } finally {
    await page.close()
  }
})

test('a database that is away makes the process unhealthy, and not dead: a probe that restarts it would gain nothing', async () => {
  const away = await createTestDatabase()
  let late: readonly string[] = []
  const page = await servePage(away, { token: true, overdue: async () => late })
  try {
    expect((await fetch(`${page.url}/livez`)).status).toBe(200)
    late = ['keywords']
    expect((await fetch(`${page.url}/livez`)).status).toBe(503)
    await away.drop()
    expect((await fetch(`${page.url}/healthz`)).status).toBe(503)
    const alive = await fetch(`${page.url}/livez`)
    expect([alive.status, await alive.json()]).toEqual([200, { healthy: false, database: 'not reachable' }])
  } finally {
    await page.close()
  }
})
