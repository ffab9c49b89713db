// Backups as people take them, by pg_dump and by a copy of the server's data directory: what was bought since is taken up when they are restored, and not bought again.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createOwnDatabase } from '../storm/own-database.ts'
import { createWorld, names, type World } from '../outsider/world.ts'
import { type CommandResult, runCommand, summaryOf } from '../support/command.ts'
import { installed, installedVersions, startInstalled } from '../support/installed-server.ts'
import { startOwnServer } from '../support/own-server.ts'

const reports = ['traffic_and_engagement', 'shopper_category_performance'] as const

let world: World
let folder: string

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-backup-'))
  const nowhere = { url: 'postgres://nobody@127.0.0.1:9/none', pool: new pg.Pool(), drop: async () => undefined }
  world = await createWorld({ database: nowhere, lists: { shops: names('shop', 4) }, months: 2 })
  // A report for each domain and each shop: eight.
  for (const pipeline of reports) world.set(pipeline, ['for_each', 'domain', 'bucket'], 1)
})
afterEach(async () => {
  await world.remove()
  rmSync(folder, { recursive: true, force: true })
})

type Millrace = (...args: string[]) => Promise<CommandResult>

/** @param url null: the embedded server below that home. The landing is one for all. */
const on = (url: string | null, home: string): Millrace => {
  const { DATABASE_URL: _, ...environment } = world.environment('somebody')
  const own = { ...environment, MILLRACE_HOME: join(folder, home), MILLRACE_LANDING: join(folder, 'landing') }
  return (...args) => runCommand([...args, '--json'], url === null ? own : { ...own, DATABASE_URL: url }, world.folder)
}

const range = (): string[] => ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
const bought = (): number => world.sandbox.books().submissions.length

const expectDone = ({ code, stdout, stderr }: CommandResult): void => expect(code, stdout + stderr).toBe(0)

/** The same backfill on what was restored: it says what it is, everywhere, and buys nothing. */
const expectAdopted = async (restored: Millrace): Promise<void> => {
  const check = await restored('check', '--offline')
  expect(check.code, check.stdout).toBe(2)
  expect(check.stdout).toContain('millrace migrate --as restored')
  expect((await restored('status')).events.at(-1)).toMatchObject({ warehouse_warning: expect.stringContaining('migrate --as') })
  const again = await restored('backfill', ...reports, ...range())
  expectDone(again)
  expect(again.stdout).toContain('8 purchases missing in this ledger were restored')
  expect(summaryOf(again)).toMatchObject({ reports_submitted: 0, units: { failed: 0, held: 0, waiting: 0 } })
  expect(bought()).toBe(8)
  const quota: Readonly<Record<string, unknown>> = (await restored('quota')).events.at(-1) ?? {}
  const { quotaUsed } = world.sandbox.books()
  expect(quota).toMatchObject({ reserved: 0, used: quotaUsed - Number(quota['not_on_record']), not_on_record: 0 })
  expectDone(await restored('migrate', '--as', 'restored'))
  expectDone(await restored('check', '--offline'))
  expectDone(await restored('backfill', ...reports, ...range()))
  expect(bought()).toBe(8)
}

test.runIf(installedVersions().length > 0).each(installedVersions())(
  'a dump by pg_dump of PostgreSQL %s, restored into another database',
  async (version) => {
    const server = await startInstalled(version)
    try {
      const original = await createOwnDatabase(server.url, 'original')
      await original.close()
      const millrace = on(original.url, 'original')
      expectDone(await millrace('backfill', 'keywords', ...range()))
      const dump = join(server.folder, 'dump')
      server.run('pg_dump', '-Fc', '-f', dump, 'original')
      expectDone(await millrace('backfill', ...reports, ...range()))
      expect(bought()).toBe(8)
      server.run('createdb', 'restored')
      server.run('pg_restore', '-d', 'restored', '--exit-on-error', dump)
      await expectAdopted(on(original.url.replace(/original$/, 'restored'), 'restored'))
    } finally {
      server.remove()
    }
  },
)

/** Of the database at that address: those that PostgreSQL does not make. */
const schemasOf = async (url: string): Promise<string[]> => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  const { rows } = await client.query<{ name: string }>(
    `select nspname::text as name from pg_namespace where nspname !~ '^pg_' and nspname not in ('information_schema', 'public') order by 1`,
  )
  await client.end()
  return rows.map(({ name }) => name)
}

/** Loads what is not there yet, and all of it again: by force from answers that are bought anew, and from the landing. */
const expectLoads = async (millrace: Millrace): Promise<void> => {
  for (const pipeline of ['keywords', ...reports]) {
    const again = await millrace('backfill', pipeline, ...range(), '--force')
    expectDone(again)
    expect(summaryOf(again)).toMatchObject({ units: { failed: 0, held: 0, waiting: 0 } })
    const { rows } = summaryOf(await millrace('replay', pipeline, ...range())) as { rows: Record<string, number> }
    expect([pipeline, rows['unchanged'], rows['inserted'], rows['ended']]).toEqual([pipeline, rows['read'], 0, 0])
    expect(rows['read']).toBeGreaterThan(0)
  }
  expectDone(await millrace('check', '--offline'))
}

test.runIf(installedVersions().length > 0).each(installedVersions())(
  'a dump of PostgreSQL %s without the schema staging, which an earlier warehouse had, restores to a warehouse that loads',
  async (version) => {
    const server = await startInstalled(version)
    try {
      const original = await createOwnDatabase(server.url, 'original')
      const millrace = on(original.url, 'original')
      expectDone(await millrace('migrate'))
      await original.pool.query('create schema staging; create unlogged table staging.left_behind (n integer)')
      await original.close()
      expectDone(await millrace('backfill', 'keywords', ...range()))
      const dump = join(server.folder, 'dump')
      server.run('pg_dump', '-Fc', '-f', dump, '--exclude-schema=staging', 'original')
      server.run('createdb', 'restored')
      server.run('pg_restore', '-d', 'restored', '--exit-on-error', dump)
      const url = original.url.replace(/original$/, 'restored')
      expect(await schemasOf(url)).toEqual(['bi', 'data', 'etl'])
      const restored = on(url, 'restored')
      expectDone(await restored('migrate', '--as', 'restored'))
      expectDone(await restored('check', '--offline'))
      await expectLoads(restored)
    } finally {
      server.remove()
    }
  },
)

test('a warehouse on the server that comes along is three schemas before loads and after them: a dump has no other to leave out', async () => {
  const server = await startOwnServer()
  try {
    const own = await createOwnDatabase(server.url, 'own')
    await own.close()
    const millrace = on(own.url, 'own')
    expectDone(await millrace('migrate'))
    expect(await schemasOf(own.url)).toEqual(['bi', 'data', 'etl'])
    await expectLoads(millrace)
    expect(await schemasOf(own.url)).toEqual(['bi', 'data', 'etl'])
  } finally {
    await server.remove()
  }
})

/** The page's commands that begin so, for a shell. */
const ofPage = (program: string): string[] =>
  readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'restore.md'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith(program))
    .map((line) => line.replace(/ #.*$/, ''))

test
  .runIf(installedVersions().length > 0)
  .each(installedVersions().flatMap((version) => [version, 'newer'].map((on) => [version, on])))(
  'a dump of PostgreSQL %s on a new server (%s), by the commands of the page: nothing is bought, and readers read',
  async (version, target) => {
    const server = await startInstalled(version)
    const other = target === 'newer' ? await startOwnServer() : await startInstalled(version)
    const shell = (command: string, url: string): void => {
      const { status, stderr } = spawnSync('sh', ['-ec', command], {
        cwd: folder,
        env: { PATH: `${installed}/${version}/bin:${process.env['PATH']}`, DATABASE_URL: url },
        encoding: 'utf8',
      })
      expect([command, status, stderr]).toEqual([command, 0, ''])
    }
    try {
      const original = await createOwnDatabase(server.url, 'original')
      await original.close()
      const millrace = on(original.url, 'original')
      expectDone(await millrace('migrate'))
      expectDone(await millrace('backfill', 'keywords', ...range()))
      for (const command of ofPage('pg_dump')) shell(command, original.url)
      expectDone(await millrace('backfill', ...reports, ...range()))
      const url = other.url.replace(/\/[^/]*$/, '/restored')
      shell(`psql -q -c 'create database restored' '${other.url}'`, url)
      for (const command of ofPage('pg_restore')) shell(command, url)
      const restored = on(url, 'restored')
      for (const command of ofPage('npx millrace')) {
        const [, , ...args] = command.trim().split(/ +/)
        if (args[0] === 'migrate' && args[2] !== 'restored') continue
        expectDone(await restored(...args))
      }
      expectDone(await restored('backfill', ...reports, ...range()))
      expect(bought()).toBe(8)
      shell(`psql -q -c 'set role bi_reader' -c 'select count(*) from bi.keywords' '${url}' > count`, url)
      expect(readFileSync(join(folder, 'count'), 'utf8')).toMatch(/[1-9]\d*/)
    } finally {
      server.remove()
      await other.remove()
    }
  },
)

test('a copy of the embedded server’s data directory, put in a home of its own', async () => {
  const millrace = on(null, 'original')
  expectDone(await millrace('backfill', 'keywords', ...range()))
  // With its owner: the server's files belong to the user it runs as.
  expect(spawnSync('cp', ['-a', join(folder, 'original'), join(folder, 'restored')]).status).toBe(0)
  expectDone(await millrace('backfill', ...reports, ...range()))
  expect(bought()).toBe(8)
  await expectAdopted(on(null, 'restored'))
})
