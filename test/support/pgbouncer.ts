// PgBouncer before the tests' PostgreSQL, where the machine has it.
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '../../src/db/embedded.ts'

/** Debian's place, or wherever the machine keeps it; null: it has none, and its tests are left out by name. */
export const pgbouncer: string | null =
  ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer'].find((file) => existsSync(file)) ?? null

export interface Pooler {
  /** The address of the same database behind the pooler. */
  readonly url: string
  stop(): Promise<void>
}

export type PoolMode = 'session' | 'transaction' | 'statement'

/** It refuses to run as root. */
const otherUser = (): { uid?: number; gid?: number } => {
  if (process.getuid?.() !== 0) return {}
  const id = (flag: string): number => Number(spawnSync('id', [flag, 'nobody']).stdout.toString())
  return { uid: id('-u'), gid: id('-g') }
}

/** @param url of the database itself; @param lines more of the configuration. */
export const startPooler = async (url: string, mode: PoolMode, lines: readonly string[] = []): Promise<Pooler> => {
  if (pgbouncer === null) throw new Error('PgBouncer is not installed')
  const server = new URL(url)
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'millrace-pgbouncer-'))
  const user = otherUser()
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  const users = file('users.txt', `"${decodeURIComponent(server.username)}" "${decodeURIComponent(server.password)}"\n`)
  const settings = file(
    'pgbouncer.ini',
    `[databases]\n* = host=${server.hostname} port=${server.port || '5432'}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = ${port}\nunix_socket_dir =\n` +
      `auth_type = trust\nauth_file = ${users}\npool_mode = ${mode}\ndefault_pool_size = 60\nmax_client_conn = 300\nlogfile = ${join(folder, 'log')}\n${lines.join('\n')}\n`,
  )
  chmodSync(folder, 0o755)
  if (user.uid !== undefined && user.gid !== undefined) chownSync(folder, user.uid, user.gid)
  const child = spawn(pgbouncer, ['-q', settings], { ...user, stdio: 'ignore' })
  const pooled = new URL(url)
  pooled.hostname = '127.0.0.1'
  pooled.port = String(port)
  await answering(pooled.href, child)
  return {
    url: pooled.href,
    stop: async () => {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      if (child.exitCode === null) child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const answering = async (url: string, child: ChildProcess): Promise<void> => {
  for (let tries = 0; ; tries += 1) {
    const client = new pg.Client({ connectionString: url })
    try {
      await client.connect()
      await client.end()
      return
    } catch (error) {
      if (tries > 50 || child.exitCode !== null) throw error
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
}
