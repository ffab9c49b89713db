// Makes the stored dump of a small warehouse that a released version leaves behind: rows, history, a held unit with its row in quarantine, open reports.
// Kept in test/dumps, so that every later version is tried on it. Never made anew for a version that is out.
import { execFileSync, spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import pg from 'pg'
import { startSandbox } from '../src/sandbox/sandbox-server.ts'

const usage = `usage: node scripts/make-dump.ts --database URL --out test/dumps/VERSION-NNNN.sql.gz [--program FOLDER]

  --database  an empty database; PostgreSQL 15 makes a dump that every newer server takes
  --out       NNNN is the number of the newest migration
  --program   the version's own folder, with its node_modules (this repository)
pg_dump must be as new as the server.
`
const { values } = parseArgs({
  options: {
    database: { type: 'string' },
    out: { type: 'string' },
    program: { type: 'string', default: resolve(import.meta.dirname, '..') },
  },
})
if (values.database === undefined || values.out === undefined) {
  process.stderr.write(usage)
  process.exit(2)
}
const { database, out, program } = { ...values, database: values.database, out: values.out }
const folder = mkdtempSync(join(tmpdir(), 'millrace-dump-'))
const sandbox = await startSandbox({ requestsPerSecond: null, now: '2026-11-20', keywordsPerDomain: 20 })
const environment = {
  PATH: process.env['PATH'] ?? '',
  HOME: folder,
  DATABASE_URL: database,
  MILLRACE_HOME: join(folder, 'home'),
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
}

interface Ending {
  readonly code?: number
  /** Ends the command, as a deploy does, once this is so. */
  readonly until?: () => Promise<boolean>
}

const millrace = async (args: readonly string[], { code: must = 0, until }: Ending = {}): Promise<void> => {
  const child = spawn(process.execPath, [join(program, 'bin', 'millrace.js'), ...args], {
    cwd: folder,
    env: environment,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const ended = new Promise<number | null>((done) => child.on('close', (code) => done(code)))
  if (until !== undefined) {
    while (child.exitCode === null && !(await until())) await sleep(100)
    child.kill('SIGTERM')
  }
  const code = await ended
  if (until === undefined && code !== must) throw new Error(`millrace ${args.join(' ')} ended with ${code}`)
}

const pipelines = join(folder, 'pipelines')

const edit = (from: string, to: string): void => {
  const file = join(pipelines, 'traffic_and_engagement.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace(from, to))
}

const writePipelines = (): void => {
  cpSync(join(program, 'pipelines'), pipelines, { recursive: true })
  writeFileSync(join(pipelines, 'domains.txt'), 'example.com\nexample.net\nexample.org\n')
  edit('rejects: 0.1%', 'rejects: 50%')
}

const openReports = async (): Promise<number> => {
  const client = new pg.Client({ connectionString: database })
  await client.connect()
  try {
    const { rows } = await client.query<{ open: number }>(
      `select count(*)::int as open from etl.jobs where report_state = 'submitted' and polls > 0`,
    )
    return rows[0]?.open ?? 0
  } finally {
    await client.end()
  }
}

const months = (from: string, to = from): string[] => ['--from', from, '--to', to]

const both = ['keywords', 'traffic_and_engagement']

const fill = async (): Promise<void> => {
  await millrace(['migrate'])
  await millrace(['backfill', ...both, ...months('2026-08')])
  sandbox.restate('2026-08')
  await millrace(['backfill', ...both, ...months('2026-08'), '--force'])
  sandbox.configure({ faults: [{ kind: 'bad-number', nth: 1 }] })
  // The unit of the bad number waits for a person.
  await millrace(['backfill', ...both, ...months('2026-09')], { code: 1 })
  sandbox.configure({ reportDurationMs: 1_000_000_000 })
  edit('domain: { file: domains.txt }', 'domain: { file: domains.txt, bucket: 1 }')
  await millrace(['backfill', 'traffic_and_engagement', ...months('2026-10')], { until: async () => (await openReports()) === 3 })
}

/** Plain statements, so that any driver can restore them; \restrict is a word of psql alone. */
const dump = (): string =>
  execFileSync('pg_dump', ['--inserts', '--rows-per-insert=500', '--no-owner', '--no-privileges', database], {
    encoding: 'utf8',
    maxBuffer: 1 << 28,
  })
    .split('\n')
    .filter((line) => !/^\\(un)?restrict /.test(line))
    .join('\n')

try {
  writePipelines()
  await fill()
  const packed = gzipSync(dump(), { level: 9 })
  mkdirSync(dirname(resolve(out)), { recursive: true })
  writeFileSync(out, packed)
  process.stdout.write(`${out}: ${packed.length} bytes\n`)
} finally {
  await sandbox.close()
  rmSync(folder, { recursive: true, force: true })
}
