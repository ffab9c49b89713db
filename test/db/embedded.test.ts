// The embedded server's traps: each one sprung on purpose, in a folder of its own.
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startEmbedded } from '../../src/db/embedded.ts'
import { hydrateLinks } from '../../src/db/embedded-binaries.ts'
import { readPostmaster, serverFiles } from '../../src/db/embedded-data.ts'
import { processIsAlive } from '../../src/db/process-alive.ts'

let home: string

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'millrace-embedded-'))
})
afterEach(() => {
  const left = readPostmaster(serverFiles(home))
  if (left !== null && processIsAlive(left.pid)) process.kill(left.pid, 'SIGKILL')
  rmSync(home, { recursive: true, force: true })
})

const ask = async (url: string, text: string): Promise<unknown[]> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

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
    await server.release()
    expect(existsSync(pidFile())).toBe(false)
  })

  test('is shared: the first to leave does not stop it under the second', async () => {
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
  })

  test('recovers every committed row after its postmaster is killed', async () => {
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
    const script = `import { startEmbedded } from '${resolve(import.meta.dirname, '../../src/db/embedded.ts')}'
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
    await (await startEmbedded(home)).release()
    writeFileSync(pidFile(), text())
    const server = await startEmbedded(home)
    expect(await ask(server.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    await server.release()
  })

  test('begins anew where a first set-up was cut short', async () => {
    mkdirSync(join(home, 'postgres', 'data', 'base'), { recursive: true })
    const server = await startEmbedded(home)
    expect(await ask(server.url.reveal(), 'select 1 as one')).toEqual([{ one: 1 }])
    await server.release()
  })

  test('says what the server said when it cannot start', async () => {
    await (await startEmbedded(home)).release()
    writeFileSync(join(serverFiles(home).data, 'PG_VERSION'), '3\n')
    await expect(startEmbedded(home)).rejects.toMatchObject({
      code: 'DATABASE_UNREACHABLE',
      message: expect.stringMatching(/PG_VERSION|version|incompatible/i),
    })
  })

  test('takes another port when the one it had is busy', async () => {
    const first = await startEmbedded(home)
    await first.release()
    const listener = createServer().listen(first.port, '127.0.0.1')
    const second = await startEmbedded(home)
    expect(second.port).not.toBe(first.port)
    listener.close()
    await second.release()
  })

  test.runIf(process.getuid?.() === 0)('runs for root in a folder that nobody else may enter', async () => {
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
    hydrateLinks(root)
    hydrateLinks(root)
    expect(readFileSync(join(root, 'native', 'lib', 'libx.so'), 'utf8')).toBe('library')
  })
})
