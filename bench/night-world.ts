// A warehouse as it is after years of nights: every unit of one pipeline loaded, no rows in its tables, the sandbox as its service.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addWindows } from '../src/core/window.ts'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../test/support/command.ts'
import { runMeasured } from './measured-command.ts'
import { writeSource } from './wide-source.ts'

export interface NightWorld {
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly database: Database
  readonly sandbox: Sandbox
  /** Published months in scope, oldest first. */
  readonly months: readonly string[]
  close(): Promise<void>
}

export interface NightWorldOptions {
  readonly pipeline: 'traffic_and_engagement' | 'keywords'
  readonly domains: number
  readonly countries: readonly string[]
  readonly months: number
  readonly sandbox?: SandboxOptions
  /** Changes what is shipped of the definition. */
  readonly edit?: (yaml: string) => string
  /** Text of a file with sources beside the shipped ones of the service. */
  readonly source?: string
}

/** Keywords of every domain: what a probe is told. */
export const keywordsPerDomain = 20

const newestMonth = async ({ url, apiKey }: Sandbox): Promise<string> => {
  const said = await fetch(`${url}/capabilities?api_key=${apiKey}`)
  const found = /"end_date":"(\d{4}-\d{2})/.exec(await said.text())?.[1]
  if (found === undefined) throw new Error('the sandbox does not say its newest month')
  return found
}

const writeDefinition = (folder: string, options: NightWorldOptions, from: string): void => {
  const { pipeline, domains, countries, edit = (yaml: string) => yaml } = options
  const pipelines = join(folder, 'pipelines')
  mkdirSync(pipelines)
  cpSync(join(pipelinesOfRepository, 'schema.json'), join(pipelines, 'schema.json'))
  const yaml = readFileSync(join(pipelinesOfRepository, `${pipeline}.yaml`), 'utf8')
    .replace(/country: \[.*\]/, `country: [${countries.join(', ')}]`)
    .replace(/from: \d{4}-\d{2}/, `from: ${from}`)
  writeFileSync(join(pipelines, `${pipeline}.yaml`), edit(yaml))
  const names = Array.from({ length: domains }, (_, index) => `site${String(index).padStart(6, '0')}.example`)
  writeFileSync(join(pipelines, 'domains.txt'), `${names.join('\n')}\n`)
  if (options.source !== undefined) writeSource(folder, options.source)
}

/** A folder of one shipped pipeline, its own embedded PostgreSQL with the tables made, and a sandbox. */
export const openNightWorld = async (options: NightWorldOptions): Promise<NightWorld> => {
  const sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain, openReports: 10_000, ...options.sandbox })
  const folder = mkdtempSync(join(tmpdir(), 'millrace-night-'))
  const newest = await newestMonth(sandbox)
  const months = Array.from({ length: options.months }, (_, index) =>
    addWindows(`${newest}-01`, 'month', index - options.months + 1).slice(0, 7),
  )
  writeDefinition(folder, options, months[0] ?? newest)
  const home = join(folder, 'home')
  const database = await openDatabase({ databaseUrl: null, home })
  const environment = {
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: sandbox.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000',
    MILLRACE_GUARD: 'off',
    DATABASE_URL: database.url.reveal(),
    MILLRACE_HOME: home,
    MILLRACE_WEB_PORT: '0',
  }
  const close = async (): Promise<void> => {
    await sandbox.close()
    await database.close()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await runMeasured({ folder, environment }, ['migrate'], {})
    return { folder, environment, database, sandbox, months, close }
  } catch (error) {
    await close()
    throw error
  }
}
