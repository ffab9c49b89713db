// Told to stop while the database hangs, the service never answers, or the disk does not come back: a command ends within the time that docs/deploy.md names, and
// the same command goes on.

import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { until } from '../outsider/commands.ts'
import { createWorld, type World } from '../outsider/world.ts'
import { type HostileServer, startHostileServer } from '../soak/hostile-server.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { type RunningCommand, startCommand } from '../support/command.ts'

/** As docs/deploy.md says, and what a busy machine adds. */
const withinMs = 15_000 + 5_000

let server: HostileServer
let world: World
let databases = 0

beforeAll(async () => {
  server = await startHostileServer()
})
afterAll(() => server.remove())
beforeEach(async () => {
  databases += 1
  const own = await createOwnDatabase(server.url, `stop_${databases}`)
  own.pool.on('error', () => undefined)
  world = await createWorld({ database: { url: own.url, pool: own.pool, drop: () => own.close() }, months: 2 })
})
afterEach(() => world.remove())

const all = (): string[] => [
  ...['backfill', 'keywords', 'traffic_and_engagement', 'shopper_category_performance'],
  ...['--from', world.months[0] ?? '', '--to', world.months[1] ?? '', '--json'],
]
const start = (more: Readonly<Record<string, string>> = {}): RunningCommand =>
  startCommand(all(), { ...world.environment('stopped'), ...more }, world.folder)

const stopped = async (running: RunningCommand): Promise<void> => {
  const began = performance.now()
  running.child.kill('SIGINT')
  const late = setTimeout(() => running.child.kill('SIGKILL'), 90_000)
  const ended = await running.result
  clearTimeout(late)
  const ms = performance.now() - began
  expect(ms, ended.stderr).toBeLessThan(withinMs)
  // 130 for a shell, either way.
  expect(ended.signal ?? ended.code, ended.stderr).toBe(ended.signal === null ? 130 : 'SIGINT')
}

const goesOn = async (): Promise<void> => {
  world.sandbox.configure({ faults: [] })
  const again = await startCommand([...all(), '--resubmit-uncertain'], world.environment('again'), world.folder).result
  expect(again.code, again.stderr).toBe(0)
  const bodies = world.sandbox.books().submissions.map(({ body }) => JSON.stringify(body))
  expect(new Set(bodies).size).toBe(bodies.length)
}

const requests = (): number => world.sandbox.books().requests.length

test.runIf(process.platform === 'linux')('the database hangs', async () => {
  const running = start()
  await until(() => requests() > 5, 60)
  server.hold()
  try {
    await stopped(running)
  } finally {
    server.letGo()
  }
  await goesOn()
})

test.each(['keywords', 'submit', 'status', 'download'] as const)('the service never answers: %s', async (on) => {
  for (const pipeline of ['keywords', 'traffic_and_engagement', 'shopper_category_performance'] as const)
    world.set(pipeline, ['limits', 'timeout'], '60s')
  world.sandbox.configure({ faults: [{ kind: 'stall', on }] })
  const running = start()
  await until(() => requests() > 5, 60)
  await stopped(running)
  await goesOn()
})

test.runIf(process.platform === 'linux')('the disk does not come back: a thread of the process is stuck in a sync', async () => {
  const pipe = join(world.folder, 'never')
  execFileSync('mkfifo', [pipe])
  const preload = join(world.folder, 'stuck.mjs')
  writeFileSync(
    preload,
    `import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const open = fs.open
fs.fsync = (_, done) => open(${JSON.stringify(pipe)}, 'r', done)
syncBuiltinESMExports()`,
  )
  const running = start({ NODE_OPTIONS: `--import=${preload}` })
  await until(() => requests() > 5, 60)
  await stopped(running)
  await goesOn()
})
