// `node test/servers/run.ts`: a sample of the db tests over every PostgreSQL the machine has installed, beside the embedded one. All of them with --all.
import { spawnSync } from 'node:child_process'
import { installedVersions, startInstalled } from '../support/installed-server.ts'

/** What a server could do in its own way: migrations, publishing, partitions, merges, locks, roles, claims. */
const sample = ['load', 'load-nasty', 'load-beside', 'publish', 'locks', 'claim', 'roles', 'comments', 'plan-run'].map(
  (name) => `test/db/${name}.test.ts`,
)

const testOn = async (version: string): Promise<boolean> => {
  const server = await startInstalled(version)
  try {
    process.stdout.write(`\n== PostgreSQL ${version}\n`)
    const files = process.argv.includes('--all') ? ['test/db/'] : sample
    // Beside other work a test may take longer than it does alone.
    const tested = spawnSync('npx', ['vitest', 'run', '--testTimeout', '300000', ...files], {
      stdio: 'inherit',
      env: { ...process.env, TEST_DATABASE_URL: server.url },
    })
    return tested.status === 0
  } finally {
    server.remove()
  }
}

const versions = installedVersions()
if (versions.length === 0) process.stdout.write('No PostgreSQL under /usr/lib/postgresql: its tests are left out\n')
for (const version of versions) if (!(await testOn(version))) process.exitCode = 1
