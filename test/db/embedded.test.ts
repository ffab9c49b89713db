// The embedded server's traps: each one sprung on purpose, in a folder of its own.
import { spawn, spawnSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startEmbedded } from '../../src/db/embedded.ts'
import { readPostmaster, serverFiles } from '../../src/db/embedded-data.ts'
import { enteringPrivateFolders, hydrateLinks, serverUser } from '../../src/db/embedded-program.ts'
import { processIsAlive } from '../../src/db/process-mark.ts'
import { pipelinesOfRepository, runCommand } from '../support/command.ts'

let home: string
/** A home that was set up once. */
let made: string

beforeAll(async () => {
  made = mkdtempSync(join(tmpdir(), 'millrace-embedded-made-'))
  await (await startEmbedded(made)).release()
})
afterAll(() => rmSync(made, { recursive: true, force: true }))
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'millrace-embedded-'))
})
afterEach(() => {
  const left = readPostmaster(serverFiles(home))
  if (left !== null && processIsAlive(left.pid)) process.kill(left.pid, 'SIGKILL')
  rmSync(home, { recursive: true, force: true })
})

/** As a first start and its end leave the home, where neither is the subject. Files keep their owner, which Node.js does not copy. */
const setUp = (): void => {
  expect(spawnSync('cp', ['-a', join(made, 'postgres'), home]).status).toBe(0)
}

const ask = async <T extends pg.QueryResultRow>(url: string, text: string): Promise<T[]> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<T>(text)).rows
  } finally {
    await client.end()
  }
}

const source = (name: string): string => resolve(import.meta.dirname, '..', '..', 'src', 'db', `${name}.ts`)

/** Runs a module in a process of its own. */
const runScript = (
  script: string,
  options: { uid?: number; gid?: number } = {},
): Promise<{ code: number | null; said: string }> => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    ...options,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString()
    })
  }
  return new Promise((done) => child.once('close', (code) => done({ code, said })))
}

const isRoot = process.getuid?.() === 0

const pidOf = (): number => readPostmaster(serverFiles(home))?.pid ?? 0
const pidFile = (): string => serverFiles(home).pidFile
const untilDead = async (pid: number): Promise<void> => {
  while (processIsAlive(pid)) await new Promise((done) => setTimeout(done, 20))
}

describe('the embedded PostgreSQL', () => {
  test('sets itself up, listens on this machine alone, and keeps its password to its owner', async () => {
    const server = await startEmbedded(home)
    expect(
      await ask(
        server.url.reveal(),
        `select current_setting('listen_addresses') as a, current_setting('server_encoding') as e, current_setting('fsync') as f`,
      ),
    ).toEqual([{ a: '127.0.0.1', e: 'UTF8', f: 'on' }])
    expect(statSync(join(home, 'postgres', 'password')).mode & 0o777).toBe(0o600)
    expect(statSync(join(home, 'postgres')).mode & 0o066).toBe(0)
    await server.release()
    expect(existsSync(pidFile())).toBe(false)
  })

  test('does not begin in a folder that is a link or belongs to somebody else', async () => {
    mkdirSync(join(home, 'elsewhere'))
    symlinkSync(join(home, 'elsewhere'), join(home, 'postgres'))
    await expect(startEmbedded(home)).rejects.toMatchObject({ code: 'DISK', message: /cannot be a private folder/ })
    if (isRoot) {
      mkdirSync(join(home, 'own', 'postgres'), { recursive: true })
      chownSync(join(home, 'own', 'postgres'), 65_534, 65_534)
      await expect(startEmbedded(join(home, 'own'))).rejects.toMatchObject({ message: /belongs to another user/ })
    }
    expect(readdirSync(join(home, 'elsewhere'))).toEqual([])
  })

  test('is shared: the first to leave does not stop it under the second', async () => {
    setUp()
    const first = await startEmbedded(home)
    const second = await startEmbedded(home)
    expect([first.adopted, second.adopted]).toEqual([false, true])
    const client = new pg.Client({ connectionString: second.url.reveal() })
    await client.connect()
    await first.release()
    expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }])
    await client.end()
    await second.release()
    expect(existsSync(pidFile())).toBe(false)
  })

  test('two that start at once end up with one server', async () => {
    const servers = await Promise.all([startEmbedded(home), startEmbedded(home)])
    expect(servers[0]?.port).toBe(servers[1]?.port)
    await servers[0]?.release()
    expect(existsSync(pidFile())).toBe(true)
    await servers[1]?.release()
    expect(existsSync(pidFile())).toBe(false)
  })

  test('four commands that set it up at once, then come and go, share one warehouse and lose nothing', async () => {
    const visits = 3
    const script = `import { openDatabase } from '${source('connect')}'
      for (let visit = 0; visit < ${visits}; visit += 1) {
        const database = await openDatabase({ databaseUrl: null, home: '${home}' })
        await database.pool.query('create table if not exists public.seen (pid int)').catch((error) => {
          if (!/already exists|duplicate key/.test(error.message)) throw error
        })
        await database.pool.query('insert into public.seen values ($1)', [process.pid])
        await new Promise((done) => setTimeout(done, Math.random() * 100))
        await database.close()
      }`
    const ended = await Promise.all([1, 2, 3, 4].map(() => runScript(script)))
    expect(ended.map(({ code, said }) => [code, said])).toEqual([1, 2, 3, 4].map(() => [0, '']))
    expect(existsSync(pidFile())).toBe(false)
    const server = await startEmbedded(home)
    expect(
      await ask(server.url.reveal(), 'select count(*)::int as n, count(distinct pid)::int as pids from public.seen'),
    ).toEqual([{ n: 4 * visits, pids: 4 }])
    await server.release()
  })

  test('is not locked for good by a command that was killed while it held the lock', async () => {
    const script = `import { withServerLock } from '${source('embedded-data')}'
      import { mkdirSync } from 'node:fs'
      mkdirSync('${home}/postgres')
      await withServerLock('${home}/postgres', async () => { console.log('held'); await new Promise((done) => setTimeout(done, 60_000)) })`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    await new Promise((done) => child.stdout.once('data', done))
    child.kill('SIGKILL')
    await new Promise((done) => child.once('exit', done))
    setUp()
  })

  test('recovers what was acknowledged when its postmaster is killed in the middle of a load', async () => {
    setUp()
    const server = await startEmbedded(home)
    await ask(server.url.reveal(), 'create table loaded (batch int, n int)')
    let acknowledged = 0
    const loaders = Promise.allSettled(
      [1, 2, 3, 4].map(async () => {
        const client = new pg.Client({ connectionString: server.url.reveal() })
        client.on('error', () => undefined)
        await client.connect()
        for (;;) {
          await client.query('insert into loaded select $1, n from generate_series(1, 20000) n', [acknowledged])
          acknowledged += 1
        }
      }),
    )
    while (acknowledged < 12) await new Promise((done) => setTimeout(done, 10))
    process.kill(pidOf(), 'SIGKILL')
    const again = await startEmbedded(home)
    expect((await loaders).map((end) => end.status)).toEqual(['rejected', 'rejected', 'rejected', 'rejected'])
    const [found] = await ask<{ n: number; batches: number }>(
      again.url.reveal(),
      'select count(*)::int as n, (count(*) / 20000)::int as batches from loaded',
    )
    // A commit whose answer was lost may be there as well; half a batch never is.
    expect((found?.n ?? -1) % 20_000).toBe(0)
    expect(found?.batches).toBeGreaterThanOrEqual(acknowledged)
    expect(found?.batches).toBeLessThanOrEqual(acknowledged + 4)
    await again.release()
  })

  test('recovers every committed row after its postmaster is killed', async () => {
    setUp()
    const server = await startEmbedded(home)
    await ask(server.url.reveal(), 'create table kept as select generate_series(1, 1000) as n')
    const pid = pidOf()
    process.kill(pid, 'SIGKILL')
    await untilDead(pid)
    const again = await startEmbedded(home)
    expect(await ask(again.url.reveal(), 'select count(*)::int as n from kept')).toEqual([{ n: 1000 }])
    await again.release()
  })

  test('adopts a server whose starter was killed', async () => {
    setUp()
    const script = `import { startEmbedded } from '${source('embedded')}'
      await startEmbedded('${home}'); console.log('up'); setInterval(() => undefined, 1000)`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    await new Promise((done) => child.stdout.once('data', done))
    child.kill('SIGKILL')
    await new Promise((done) => child.once('exit', done))
    const server = await startEmbedded(home)
    expect(server.adopted).toBe(true)
    await server.release()
  })

  test.each([
    ['names a process that is gone', () => `${spawnSync('true').pid}\n${serverFiles(home).data}\n1\n5432\n\n127.0.0.1\n`],
    ['names a living process that is no PostgreSQL', () => `${process.pid}\n${serverFiles(home).data}\n1\n5432\n\n127.0.0.1\n`],
    ['is empty', () => ''],
  ])('starts although a left-over pid file %s', async (_what, text) => {
    setUp()
    writeFileSync(pidFile(), text())
    const server = await startEmbedded(home)
    expect(await ask(server.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    await server.release()
  })

  test('starts although a left-over pid file names the living server of another home', async () => {
    const otherHome = mkdtempSync(join(tmpdir(), 'millrace-other-'))
    const other = await startEmbedded(otherHome)
    setUp()
    const otherPid = readPostmaster(serverFiles(otherHome))?.pid
    writeFileSync(pidFile(), `${otherPid}\n${serverFiles(home).data}\n1\n${other.port}\n\n127.0.0.1\n`)
    const server = await startEmbedded(home)
    expect([server.adopted, server.port === other.port]).toEqual([false, false])
    await server.release()
    expect(await ask(other.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    await other.release()
    rmSync(otherHome, { recursive: true, force: true })
  })

  test('begins anew where a first set-up was cut short, and clears what it left', async () => {
    mkdirSync(join(home, 'postgres', 'data', 'base'), { recursive: true })
    mkdirSync(join(home, 'postgres', 'data.4711.0badcafe', 'base'), { recursive: true })
    const server = await startEmbedded(home)
    expect(await ask(server.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    expect(readdirSync(join(home, 'postgres')).sort()).toEqual(['data', 'lock', 'password', 'server.log'])
    await server.release()
  })

  test('deletes nothing where data lies without its PG_VERSION', async () => {
    setUp()
    rmSync(join(serverFiles(home).data, 'PG_VERSION'))
    await expect(startEmbedded(home)).rejects.toMatchObject({ code: 'DATABASE_UNREACHABLE', message: /PG_VERSION.*backup/ })
    expect(existsSync(join(serverFiles(home).data, 'global', 'pg_control'))).toBe(true)
  })

  test('says whose password it is that does not fit', async () => {
    setUp()
    const server = await startEmbedded(home)
    const file = join(home, 'postgres', 'password')
    const right = readFileSync(file)
    writeFileSync(file, 'another')
    const refusal = await startEmbedded(home).catch((error: unknown) => error)
    expect(refusal).toMatchObject({ code: 'CONFIGURATION', message: /does not accept the password in .*password/ })
    writeFileSync(file, right)
    await server.release()
  })

  test('says what the server said when it cannot start', async () => {
    setUp()
    writeFileSync(join(serverFiles(home).data, 'PG_VERSION'), '3\n')
    await expect(startEmbedded(home)).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringMatching(/PG_VERSION|version|incompatible/i),
    })
  })

  test('takes another port when the one it had is busy', async () => {
    setUp()
    const first = await startEmbedded(home)
    await first.release()
    const listener = createServer().listen(first.port, '127.0.0.1')
    const second = await startEmbedded(home)
    expect(second.port).not.toBe(first.port)
    listener.close()
    await second.release()
  })

  test.runIf(isRoot)('runs for a user who is not root', async () => {
    chownSync(home, 65_534, 65_534)
    const script = `import { startEmbedded } from '${source('embedded')}'
      import { readPostmaster, serverFiles } from '${source('embedded-data')}'
      import { statSync } from 'node:fs'
      const server = await startEmbedded('${home}')
      console.log(statSync('/proc/' + readPostmaster(serverFiles('${home}')).pid).uid)
      await server.release()`
    expect(await runScript(script, { uid: 65_534, gid: 65_534 })).toEqual({ code: 0, said: '65534\n' })
  })

  test.runIf(isRoot)('names the folder that bars the way where nothing can open it', () => {
    const hidden = join(home, 'private')
    mkdirSync(hidden, { mode: 0o700 })
    chmodSync(home, 0o755)
    const user = serverUser() ?? { uid: 1, gid: 1, name: 'nobody' }
    expect(() => enteringPrivateFolders(user, hidden, ['/nowhere'])).toThrow(
      new RegExp(`${user.name}, who may not enter ${hidden}\\. Set MILLRACE_HOME`),
    )
  })

  test.runIf(isRoot)('finds its programs where nobody else may enter, as initdb looks for them: by access(2)', () => {
    const hidden = join(home, 'private')
    mkdirSync(hidden, { mode: 0o700 })
    writeFileSync(join(hidden, 'program'), '', { mode: 0o755 })
    const [command = '', ...args] = enteringPrivateFolders(serverUser() ?? { uid: 1, gid: 1, name: 'nobody' }, hidden)
    const look = `require('node:fs').accessSync('${join(hidden, 'program')}', 1)`
    const { status, stderr } = spawnSync(command, [...args, process.execPath, '-e', look], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([0, ''])
  })

  test.runIf(isRoot)('runs for root in a folder that nobody else may enter', async () => {
    const hidden = join(home, 'private')
    mkdirSync(hidden, { mode: 0o700 })
    const server = await startEmbedded(hidden)
    expect(await ask(server.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    await server.release()
  })

  test('makes library links again where install scripts did not run', () => {
    const root = join(home, 'package')
    mkdirSync(join(root, 'native', 'lib'), { recursive: true })
    writeFileSync(join(root, 'native', 'lib', 'libx.so.1.2'), 'library')
    writeFileSync(
      join(root, 'native', 'pg-symlinks.json'),
      JSON.stringify([{ source: 'native/lib/libx.so.1.2', target: 'native/lib/libx.so' }]),
    )
    const link = join(root, 'native', 'lib', 'libx.so')
    // A copy made by another Node.js kept a link to the package it came from, which is gone.
    symlinkSync(join(root, 'gone', 'libx.so.1.2'), link)
    hydrateLinks(join(root, 'native'))
    hydrateLinks(join(root, 'native'))
    expect([readFileSync(link, 'utf8'), readlinkSync(link)]).toEqual(['library', 'libx.so.1.2'])
  })
})

test('a mart that a run published, and not migrate, is removed with its file', async () => {
  setUp()
  cpSync(pipelinesOfRepository, join(home, 'pipelines'), { recursive: true })
  mkdirSync(join(home, 'marts'))
  const own = join(home, 'marts', 'own_mart.sql')
  writeFileSync(own, '-- purpose: p\n-- grain: g\n-- question: q?\n-- reads: keywords\nselect domain from bi.keywords')
  const environment = { MILLRACE_HOME: home }
  const command = (...args: string[]) => runCommand([...args, '--json'], environment, home)
  const replayed = await command('replay', 'keywords', '--from', '2026-01', '--to', '2026-01')
  expect(replayed.stderr).toContain('has been landed')
  rmSync(own)
  expect((await command('migrate')).events.at(-1)).toMatchObject({ removed: ['own_mart'] })
})
