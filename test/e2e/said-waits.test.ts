// A command that waits says for what and how long, within seconds: a pause of the account, an answer, a report, somebody's lock, a database that hangs.
import { beforeEach, describe, expect, test } from 'vitest'
import type { RunningCommand } from '../support/command.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'
import { sandboxWorld } from '../support/test-world.ts'

const { db, sandbox, start } = sandboxWorld({
  lists: { domains: ['example.com'], countries: ['us'] },
  database: { published: true },
  sandbox: { keywordsPerDomain: 20 },
})

beforeEach(() => sandbox.configure({ latencyMs: 0, faults: [], reportDurationMs: 0 }))

const begin = (args: readonly string[], databaseUrl = db.url): RunningCommand => start(args, { DATABASE_URL: databaseUrl })

/** So long a wait may last without a word, and what a command needs until it waits. */
const soonMs = 25_000

/** What it says of its waiting, while it still waits. */
const saidBy = async (running: RunningCommand, words: RegExp): Promise<string> => {
  const until = Date.now() + soonMs
  while (!words.test(running.printed()) && running.child.exitCode === null && Date.now() < until)
    await new Promise((done) => setTimeout(done, 50))
  const said = running.printed()
  expect(running.child.exitCode, said).toBeNull()
  return said
}

const end = async (running: RunningCommand): Promise<void> => {
  running.child.kill('SIGKILL')
  await running.result
}

const oneMonth = ['--from', '2026-08', '--to', '2026-08', '--yes']

describe('a command that waits', () => {
  test.each([['capabilities'], ['check'], ['backfill', 'keywords', ...oneMonth]])(
    'for the pause that another one met says how long: %s',
    async (...args) => {
      await db.database.pool.query(`insert into etl.pace (account, next_at, noted_at)
      values ('web-analytics/default', clock_timestamp() + interval '55 s', clock_timestamp())
      on conflict (account) do update set next_at = excluded.next_at, noted_at = excluded.noted_at`)
      const running = begin(args)
      try {
        const words = /web-analytics\/default: requests wait (\d+) s: /
        expect(Number(words.exec(await saidBy(running, words))?.[1])).toBeGreaterThan(20)
      } finally {
        await db.database.pool.query('delete from etl.pace')
        await end(running)
      }
    },
  )

  test('for a service that takes its time says which answer', async () => {
    sandbox.configure({ latencyMs: 60_000 })
    const running = begin(['backfill', 'keywords', ...oneMonth])
    try {
      const words = /still waiting for the whole answer to GET \/\S+ after \d+ s/
      expect(await saidBy(running, words)).toMatch(words)
    } finally {
      await end(running)
    }
  })

  test('for a report says that it is being made, and when it is polled', async () => {
    sandbox.configure({ reportDurationMs: 1_000_000 })
    const running = begin(['backfill', 'shopper_category_performance', ...oneMonth, '--json'])
    try {
      const words = /Waiting for 1 report that is being made; the next poll in \d+ s/
      expect(await saidBy(running, words)).toMatch(words)
    } finally {
      await end(running)
    }
  })

  test('for what another command works on says so', async () => {
    sandbox.configure({ latencyMs: 8_000 })
    const first = begin(['backfill', 'keywords', ...oneMonth, '--force'])
    while (first.child.exitCode === null && !first.printed().includes('to do')) await new Promise((done) => setTimeout(done, 50))
    sandbox.configure({ latencyMs: 60_000 })
    const second = begin(['backfill', 'keywords', ...oneMonth])
    try {
      const words = /Waiting for 2 jobs that another command works on/
      expect(await saidBy(second, words)).toMatch(words)
    } finally {
      await end(first)
      await end(second)
    }
  })

  test("for somebody's lock says so", async () => {
    const lock = await db.database.pool.connect()
    await lock.query('begin')
    await lock.query('select from etl.pipelines for update')
    const running = begin(['backfill', 'keywords', ...oneMonth])
    try {
      const words = /The database .* has not answered for \d+ s: .*waits for a lock/
      expect(await saidBy(running, words)).toMatch(words)
    } finally {
      await lock.query('rollback')
      lock.release()
      await end(running)
    }
  })

  test('for a database that hangs says so', async () => {
    const proxy = await startTcpProxy(db.url)
    sandbox.configure({ latencyMs: 2_000 })
    const running = begin(['backfill', 'keywords', ...oneMonth, '--force'], proxy.url)
    try {
      while (running.child.exitCode === null && !running.printed().includes('to do'))
        await new Promise((done) => setTimeout(done, 50))
      proxy.fallSilent()
      const words = /The database .* has not answered for \d+ s/
      expect(await saidBy(running, words)).toMatch(words)
    } finally {
      await end(running)
      await proxy.close()
    }
  })
})
