// A dashboard's questions against a large warehouse: median, 95th percentile and pages read, with no load, right after one and beside one.
// Run: node bench/bi.ts --rows 50000000
// Options: --rounds, --home (kept, and measured as it is where it is filled), --database URL (a server of one's own, emptied by nobody),
// --question (a part of the questions' names), --as-it-is (nothing is filled), --page FILE (takes the figures in).
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Mart } from '../src/core/mart.ts'
import { unregisteredSecret } from '../src/core/redact.ts'
import type { Definition } from '../src/core/types.ts'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { migrate } from '../src/db/migrate.ts'
import { loadMarts } from '../src/definition/marts.ts'
import { analyzeChanged } from '../src/load/analyze.ts'
import { openDefinitions } from '../src/run/open-runtime.ts'
import { publish } from '../src/publish/publish.ts'
import { fillKeywords, months } from './bi-data.ts'
import { restateUnit } from './bi-load.ts'
import { type Answered, sectionOf, type Timed, writeSection } from './bi-page.ts'
import { domainOf, monthOf, questionsOver } from './bi-questions.ts'

const { values: options } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000000' },
    rounds: { type: 'string', default: '20' },
    home: { type: 'string' },
    database: { type: 'string' },
    question: { type: 'string', default: '' },
    page: { type: 'string' },
    'as-it-is': { type: 'boolean', default: false },
    // What the child does that loads beside the questions.
    loading: { type: 'boolean', default: false },
  },
})
const rounds = Number(options.rounds)
/** Given: the warehouse stays there and is used again. */
const keptHome = options.home
const goalMs = 300

const log = (text: string): void => void process.stderr.write(`${text}\n`)

interface Filled {
  readonly definition: Definition
  readonly marts: readonly Mart[]
  readonly rows: number
  /** First days, in order. */
  readonly loaded: readonly string[]
}

const prepare = async (database: Database): Promise<Filled> => {
  await migrate(database, { folders: [] })
  const { definitions, sources } = await openDefinitions(join(dirname(import.meta.dirname), 'pipelines'), [])
  const definition = definitions.find(({ pipeline }) => pipeline === 'keywords')
  const source = sources.get(definition?.source ?? '')
  if (definition === undefined || source === undefined) throw new Error('pipelines/ has no keywords')
  if (!options['as-it-is'] && !options.loading) await fillKeywords(database, { definition, source }, Number(options.rows), log)
  const marts = await loadMarts([])
  if (!options.loading) {
    const started = performance.now()
    await publish(database, definitions, marts)
    await analyzeChanged(database, definitions)
    log(`published in ${((performance.now() - started) / 1000).toFixed(1)} s`)
  }
  const { rows: found } = await database.pool.query<{ name: string; rows: string }>(
    `select c.relname as name, c.reltuples::bigint as rows from pg_class c join pg_inherits i on i.inhrelid = c.oid
      where i.inhparent = 'data.keywords_v1'::regclass and c.reltuples > 0`,
  )
  const loaded = months.filter((month) => found.some(({ name }) => name.endsWith(month.slice(0, 7).replace('-', ''))))
  return { definition, marts, loaded, rows: found.reduce((sum, { rows }) => sum + Number(rows), 0) }
}

interface Explained {
  readonly 'QUERY PLAN': readonly [
    { readonly Plan: { readonly 'Shared Hit Blocks': number; readonly 'Shared Read Blocks': number } },
  ]
}

/** Pages of 8 KiB the server looked at, in memory or not: what does not depend on what else the machine does. */
const pagesOf = async (database: Database, question: string): Promise<number> => {
  const { rows } = await database.pool.query<Explained>(`explain (analyze, buffers, format json) ${question}`)
  const plan = rows[0]?.['QUERY PLAN'][0].Plan
  return plan === undefined ? 0 : plan['Shared Hit Blocks'] + plan['Shared Read Blocks']
}

const busy: number[] = []

/** The slowest views at `select * … limit 100`, as people try a view out: each once, since the second time it is in memory. */
const limited = async ({ pool }: Database): Promise<string> => {
  const { rows: views } = await pool.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'bi'::regnamespace and relkind in ('v', 'm', 'r', 'p') order by 1`,
  )
  const times: { name: string; ms: number }[] = []
  for (const { name } of views) {
    const started = performance.now()
    await pool.query(`select * from bi.${name} limit 100`)
    times.push({ name, ms: performance.now() - started })
  }
  const slowest = times.sort((a, b) => b.ms - a.ms).slice(0, 3)
  return `\`select * from bi.X limit 100\`, each of ${views.length} views once: slowest ${slowest.map(({ name, ms }) => `${name} ${ms.toFixed(0)} ms`).join(', ')} (goal: 2 s).`
}

const time = async (database: Database, question: (round: number) => string): Promise<Timed & { readonly rows: number }> => {
  const times: number[] = []
  let rows = 0
  for (let round = 0; round < rounds; round += 1) {
    const started = performance.now()
    rows = (await database.pool.query(question(round))).rowCount ?? 0
    times.push(performance.now() - started)
  }
  busy.push(loadavg()[0] ?? 0)
  const sorted = times.sort((a, b) => a - b)
  return { rows, median: sorted[Math.floor(sorted.length / 2)] ?? 0, p95: sorted[Math.ceil(sorted.length * 0.95) - 1] ?? 0 }
}

/** Each question in each circumstance; what loads beside them is a process of its own. */
const measure = async (
  database: Database,
  filled: Filled,
): Promise<{ answered: Answered[]; loads: number; rowsLoaded: number }> => {
  const questions = Object.entries(questionsOver(filled.loaded)).filter(([name]) => name.includes(options.question))
  const alone = new Map<string, Timed & { readonly rows: number }>()
  for (const [name, question] of questions) alone.set(name, await time(database, question))
  const fresh = new Map<string, Timed>()
  let rowsLoaded = 0
  for (const [at, [name, question]] of questions.entries()) {
    const restated = { month: monthOf(filled.loaded, at), domain: domainOf(at), round: at + 1 }
    rowsLoaded = await restateUnit(database, filled, restated)
    await analyzeChanged(database, [filled.definition])
    fresh.set(name, await time(database, question))
  }
  const beside = new Map<string, Timed>()
  const loader = await startLoader(database)
  for (const [name, question] of questions) beside.set(name, await time(database, question))
  const loads = loader.stop()
  const none = { median: Number.NaN, p95: Number.NaN, rows: 0 }
  const answered: Answered[] = []
  for (const [name, question] of questions) {
    const first = alone.get(name) ?? none
    const pages = await pagesOf(database, question(rounds))
    answered.push({
      name,
      rows: first.rows,
      pages,
      alone: first,
      fresh: fresh.get(name) ?? none,
      beside: beside.get(name) ?? none,
    })
  }
  return { answered, loads, rowsLoaded }
}

/** Returns once its first unit is loaded. */
const startLoader = async (database: Database): Promise<{ stop(): number }> => {
  const child = spawn(process.execPath, [import.meta.filename, '--loading'], {
    env: { ...process.env, DATABASE_URL: database.url.reveal() },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let loads = 0
  await new Promise<void>((done, fail) => {
    child.stdout.on('data', (data: Buffer) => {
      loads += data.toString().split('\n').length - 1
      done()
    })
    child.on('exit', () => fail(new Error('the process that loads ended')))
  })
  return {
    stop: () => {
      child.removeAllListeners('exit')
      child.kill()
      return loads
    },
  }
}

const loadForEver = async (database: Database): Promise<void> => {
  const filled = await prepare(database)
  for (let round = 100; ; round += 1) {
    await restateUnit(database, filled, { month: monthOf(filled.loaded, round), domain: domainOf(round), round })
    process.stdout.write('.\n')
  }
}

const report = async (database: Database): Promise<void> => {
  const filled = await prepare(database)
  const tried = await limited(database)
  const { answered, loads, rowsLoaded } = await measure(database, filled)
  const { rows } = await database.pool.query<{ version: string }>(
    `select split_part(current_setting('server_version'), ' ', 1) as version`,
  )
  const server = `PostgreSQL ${rows[0]?.version.split('.')[0]}`
  const section = `${sectionOf(
    {
      ...{ server, rows: filled.rows, months: filled.loaded.length, rounds, loads, rowsLoaded, goalMs },
      busy: [Math.min(...busy), Math.max(...busy)],
    },
    answered,
  )}\n\n${tried}`
  process.stdout.write(`${section}\n`)
  if (options.page !== undefined) writeSection(options.page, server, section)
}

const home = keptHome ?? mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const address = options.loading ? process.env['DATABASE_URL'] : options.database
const databaseUrl = address === undefined ? null : unregisteredSecret('DATABASE_URL', address)
const database = await openDatabase({ databaseUrl, home })
try {
  await (options.loading ? loadForEver(database) : report(database))
} finally {
  await database.close()
  if (keptHome === undefined) rmSync(home, { recursive: true, force: true })
}
