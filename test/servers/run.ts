// `npm run test:servers`: a sample of the db tests over every PostgreSQL the machine has installed, beside the embedded one. All of them with --all.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../../src/db/embedded-process.ts'
import { serverUser } from '../../src/db/embedded-user.ts'

const installed = '/usr/lib/postgresql'

/** What a server could do in its own way: migrations, publishing, partitions, merges, locks, roles, claims. */
const sample = ['load', 'fill-month', 'publish', 'locks', 'claim', 'roles', 'comments', 'plan-run'].map(
  (name) => `test/db/${name}.test.ts`,
)

const user = serverUser()
const as = user === null ? {} : { uid: user.uid, gid: user.gid }

const run = (program: string, args: readonly string[]): boolean =>
  spawnSync(program, args, { ...as, stdio: ['ignore', 'ignore', 'inherit'] }).status === 0

const testOn = async (version: string): Promise<boolean> => {
  const bin = join(installed, version, 'bin')
  const data = mkdtempSync(join(tmpdir(), `millrace-postgresql-${version}-`))
  if (user !== null) spawnSync('chown', [`${user.uid}:${user.gid}`, data])
  const port = await freePort()
  try {
    if (!run(join(bin, 'initdb'), ['-D', data, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C', '-N']))
      return false
    const options = `-p ${port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off -c max_connections=200`
    if (!run(join(bin, 'pg_ctl'), ['-D', data, '-w', '-l', join(data, 'log'), '-o', options, 'start'])) return false
    process.stdout.write(`\n== PostgreSQL ${version} (${bin})\n`)
    const files = process.argv.includes('--all') ? [] : sample
    const tested = spawnSync('npx', ['vitest', 'run', '--project', 'db', ...files], {
      stdio: 'inherit',
      env: { ...process.env, TEST_DATABASE_URL: `postgres://postgres@127.0.0.1:${port}/postgres` },
    })
    return tested.status === 0
  } finally {
    run(join(bin, 'pg_ctl'), ['-D', data, '-m', 'immediate', 'stop'])
    rmSync(data, { recursive: true, force: true })
  }
}

const versions = existsSync(installed)
  ? readdirSync(installed).filter((version) => existsSync(join(installed, version, 'bin', 'initdb')))
  : []
if (versions.length === 0) process.stdout.write(`No PostgreSQL under ${installed}: its tests are left out\n`)
for (const version of versions) if (!(await testOn(version))) process.exitCode = 1
