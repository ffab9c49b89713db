// A folder as a user would have it (definitions, lists, migration), an embedded PostgreSQL, and the ways back to a known state.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { countries, domainName, metrics, rowsPerDomain } from './bodies.ts'
import { createService, type Service } from './service-process.ts'
import { wideSource, writeSource } from './wide-source.ts'

export interface Project {
  readonly folder: string
  readonly bodies: string
  readonly database: Database
  readonly service: Service
  readonly environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** Requests a second nobody reaches; the service's own limit is measured by itself. */
const unlimited = '100000'

const reportYaml = (
  name: string,
  { domains, byCountry, shape }: { domains: string; byCountry: boolean; shape: string },
): string => `pipeline: ${name}
version: 1
description: A report as large as the benchmark wants it.
source: web-analytics.${shape}-report
params: { vtable: ${name}, granularity: daily, include_subdomains: true }
for_each:
  domain: { file: ${domains} }
${byCountry ? `  country: [${countries.join(', ')}]\n` : ''}window: { every: month, from: 2023-02, look_back: 0 }
table:
  key: [domain, country, date]
  columns:
    date: { type: date }
${byCountry ? '' : '    country: { type: text }\n'}${metrics.map((metric) => `    ${metric}: { type: numeric }`).join('\n')}
limits: { concurrency: 4 }
`

/** What a keyword carries besides its key, by the names the service uses. */
export const keywordColumns = {
  clicks: 'numeric',
  traffic_share: 'numeric',
  difficulty: 'numeric',
  competition: 'numeric',
  primary_intent: 'text',
  secondary_intent: 'text',
  volume: 'numeric',
  cpc: 'numeric',
  cpc_low_bid: 'numeric',
  cpc_high_bid: 'numeric',
  zero_clicks_share: 'numeric',
  position: 'numeric',
  serp_features: 'text[]',
} as const

const keywordYaml = (name: string, domains: string, concurrency: number): string => `pipeline: ${name}
version: 1
description: Keywords in as many pages as the benchmark wants.
source: web-analytics.keywords
for_each:
  domain: { file: ${domains} }
  country: [us]
window: { every: month, from: 2025-01, look_back: 0 }
table:
  key: [month, domain, country, keyword, top_url]
  columns:
${Object.entries(keywordColumns)
  .map(([column, type]) => `    ${column}: { type: '${type}' }`)
  .join('\n')}
limits: { page_size: 100, concurrency: ${concurrency} }
`

const lineage = '_unit_id bigint not null, _run_id bigint not null, _revision integer not null, _loaded_at timestamptz not null'
const lineageOfLoads =
  "_unit_id bigint not null, _run_id bigint not null default current_setting('millrace.run_id')::bigint, _revision integer not null default 1, _loaded_at timestamptz not null default transaction_timestamp()"
const ended = '_valid_from timestamptz not null, _valid_to timestamptz not null, _ended_run_id bigint not null'

const tables = (name: string, columns: string, key: string, period: string): string[] => [
  `create table data.${name}_v1 (${columns}, ${lineageOfLoads}, primary key (${key})) partition by range (${period})`,
  `create table data.${name}_v1_history (${columns}, ${lineage}, ${ended}, primary key (${key}, _revision))`,
]

/** Columns in the definition's order: the key first, then the others. */
const reportColumns = `domain text not null, country text not null, "date" date not null, ${metrics.map((name) => `${name} numeric`).join(', ')}`
const keywordTable = `month date not null, domain text not null, country text not null, keyword text not null, top_url text not null, ${Object.entries(
  keywordColumns,
)
  .map(([name, type]) => `${name} ${type}`)
  .join(', ')}`

/**
 * How much each is for: a part of the benchmark's rows in a month, in units of a domain and a country. Those of the growth are a domain each, so that ten
 * times the rows are one report still. Its list holds every domain that has rows in the shortest of its months; in a longer one the last of
 * them have none.
 */
export const reportPipelines = {
  report: { share: 1, byCountry: true, shortest: '2026-01', shape: 'wide' },
  report_fifth: { share: 1 / 5, byCountry: true, shortest: '2025-02', shape: 'wide' },
  report_long: { share: 1 / 36, byCountry: true, shortest: '2023-02', shape: 'long' },
  growth_tenth: { share: 1 / 10, byCountry: false, shortest: '2026-01', shape: 'wide' },
  growth_once: { share: 1, byCountry: false, shortest: '2026-01', shape: 'wide' },
  growth_tenfold: { share: 10, byCountry: false, shortest: '2026-01', shape: 'wide' },
} as const
export const keywordPipelines = { pages: [1, 8], tiny_10: [10, 4], tiny_100: [100, 4], tiny_1000: [1000, 4] } as const

const migration = (): string => {
  const statements = [
    ...Object.keys(reportPipelines).flatMap((name) => tables(name, reportColumns, 'domain, country, "date"', '"date"')),
    ...Object.keys(keywordPipelines).flatMap((name) =>
      tables(name, keywordTable, 'month, domain, country, keyword, top_url', 'month'),
    ),
  ]
  return `import { sql } from 'kysely'
export const up = async (database) => {
  for (const statement of ${JSON.stringify(statements)}) await sql.raw(statement).execute(database)
}
`
}

const writeProject = (folder: string, rows: number): void => {
  const pipelines = join(folder, 'pipelines')
  mkdirSync(pipelines, { recursive: true })
  mkdirSync(join(folder, 'migrations'))
  mkdirSync(join(folder, 'bodies'))
  const list = (count: number): string => {
    const file = `domains-${count}.txt`
    writeFileSync(join(pipelines, file), `${Array.from({ length: count }, (_, index) => domainName(index)).join('\n')}\n`)
    return file
  }
  for (const [name, { share, byCountry, shortest, shape }] of Object.entries(reportPipelines)) {
    const domains = list(Math.ceil((rows * share) / rowsPerDomain(shortest)))
    writeFileSync(join(pipelines, `${name}.yaml`), reportYaml(name, { domains, byCountry, shape }))
  }
  writeSource(folder, wideSource)
  for (const [name, [domains, concurrency]] of Object.entries(keywordPipelines))
    writeFileSync(join(pipelines, `${name}.yaml`), keywordYaml(name, list(domains), concurrency))
  writeFileSync(join(folder, 'migrations', '9000_bench.ts'), migration())
}

/** @param rows of the report */
export const openProject = async (rows: number): Promise<Project> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
  writeProject(folder, rows)
  const service = await createService()
  const home = join(folder, 'home')
  const database = await openDatabase({ databaseUrl: null, home })
  return {
    folder,
    bodies: join(folder, 'bodies'),
    database,
    service,
    environment: {
      WEB_ANALYTICS_BASE_URL: service.url,
      WEB_ANALYTICS_API_KEY: 'bench-key-0123456789',
      WEB_ANALYTICS_REQUESTS_PER_SECOND: unlimited,
      MILLRACE_GUARD: 'off',
      DATABASE_URL: database.url.reveal(),
      MILLRACE_HOME: home,
      // As the image and the systemd units set it.
      MALLOC_ARENA_MAX: '1',
    },
    close: async () => {
      service.close()
      await database.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const partitionsOf = async ({ pool }: Database, pattern: string): Promise<string[]> => {
  const { rows } = await pool.query<{ name: string }>(
    `select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname = 'data' and c.relkind = 'r' and c.relispartition and c.relname like $1`,
    [pattern],
  )
  return rows.map(({ name }) => name)
}

/** The table's months and history gone, and everything the ledger knows. */
export const forget = async (project: Project, pipeline: string): Promise<void> => {
  const { database } = project
  for (const name of await partitionsOf(database, `${pipeline}_v1_p%`)) await database.pool.query(`drop table data.${name}`)
  await database.pool.query(`truncate data.${pipeline}_v1_history`)
  await forgetLedger(project)
}

/** Pipelines and their slices stay: they are there long before a night. The landing goes, too: what it proves to have been bought would be taken up. */
export const forgetLedger = async ({ database, folder }: Pick<Project, 'database' | 'folder'>): Promise<void> => {
  await database.pool.query(
    'truncate etl.runs, etl.run_jobs, etl.jobs, etl.units, etl.answer_rows, etl.load_rows, etl.windows, etl.requests, etl.quarantine cascade',
  )
  rmSync(join(folder, 'home', 'landing'), { recursive: true, force: true })
}

/** As after a try that failed before it bought anything: the next command asks for the units of the last report again, without force. */
export const owe = async (database: Database): Promise<void> => {
  await database.pool.query(`with failed as (
      insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, account, state)
      select pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, account, 'failed' from etl.jobs order by job_id desc limit 1 returning *
    ), opened as (
      update etl.windows w set closed_generation = null, closed_at = null, closed_units = null, closed_rows = null
      from failed f where w.pipeline_id = f.pipeline_id and w.window_from >= f.window_from and w.window_from < f.window_to
    )
    update etl.units u set job_id = f.job_id from failed f
    where u.pipeline_id = f.pipeline_id and u.window_from = f.window_from and u.slice_id = any(f.slice_ids)`)
}
