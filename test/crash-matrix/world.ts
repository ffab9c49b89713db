// The small world every cell of the matrix starts from: one unit of each pipeline, a warehouse as it stands before the command, the service's books.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { secret } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/server.ts'
import { pipelinesOfRepository, runCommand } from '../support/command.ts'

export const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance'] as const
export type Pipeline = (typeof pipelines)[number]
export const loads = ['first', 'restated'] as const
/** `restated`: the warehouse holds the month already and the service has changed it since. */
export type Load = (typeof loads)[number]

export interface World {
  readonly folder: string
  readonly serverUrl: string
  /** A warehouse of its own to be killed in, beside a sandbox that has bought nothing yet. */
  place(pipeline: Pipeline, load: Load): Promise<Place>
  close(): Promise<void>
}

export interface Place {
  readonly sandbox: Sandbox
  readonly client: pg.Client
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** The newest month that is published and restated for sure on any day of the year. */
const month = (): string => {
  const day = new Date(Date.now() - 16 * 86_400_000)
  return new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() - 1, 1)).toISOString().slice(0, 7)
}

const makeDefinitions = (folder: string): void => {
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const names = Array.from({ length: 12 }, (_, index) => `shop-${index + 1}.example\n`).join('')
  for (const list of ['domains.txt', 'shop_domains.txt']) writeFileSync(join(folder, 'pipelines', list), names)
  for (const pipeline of pipelines) {
    const file = join(folder, 'pipelines', `${pipeline}.yaml`)
    const text = readFileSync(file, 'utf8')
      .replace(/country: \[.*\]/, 'country: [us]')
      .replace(/from: \d{4}-\d{2}/, `from: ${month()}`)
      .replace('domain: { file: domains.txt }', 'domain: [shop-1.example]')
      .replace('poll_every: 5s', 'poll_every: 200ms')
      .replace('page_size: 1000', 'page_size: 40')
    writeFileSync(file, text)
  }
}

export const createWorld = async (serverUrl: string): Promise<World> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-crash-matrix-'))
  makeDefinitions(folder)
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  const stamp = `crash_${process.pid}_${Math.random().toString(36).slice(2, 8)}`
  const templates = new Map<string, Promise<Template>>()
  let places = 0
  const newPlace = async (template: Template | null, load: Load): Promise<Place> => {
    places += 1
    const name = `${stamp}_${places}`
    const home = join(folder, name)
    mkdirSync(home)
    await admin.query(`create database ${name}${template === null ? '' : ` template ${template.database}`}`)
    if (template !== null) cpSync(template.home, home, { recursive: true })
    const sandbox = await newSandbox()
    if (load === 'restated') sandbox.restate(month())
    const url = databaseUrl(serverUrl, name)
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    return {
      sandbox,
      client,
      home,
      environment: environmentOf(sandbox, url, home),
      close: async () => {
        await client.end()
        await sandbox.close()
        await admin.query(`drop database ${name} with (force)`)
        rmSync(home, { recursive: true, force: true })
      },
    }
  }
  const templateOf = (pipeline: Pipeline, load: Load): Promise<Template> => {
    const name = `${load}_${pipeline}`
    const there = templates.get(name) ?? makeTemplate({ serverUrl, admin, folder, name: `${stamp}_${name}`, pipeline, load })
    templates.set(name, there)
    return there
  }
  return {
    folder,
    serverUrl,
    place: async (pipeline, load) => newPlace(await templateOf(pipeline, load), load),
    close: async () => {
      for (const template of templates.values()) await admin.query(`drop database ${(await template).database} with (force)`)
      await admin.end()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const newSandbox = (): Promise<Sandbox> =>
  startSandbox({ seed: 7, keywordsPerDomain: 100, requestsPerSecond: null, reportDurationMs: 0 })

const databaseUrl = (serverUrl: string, name: string): string => {
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return url.href
}

const environmentOf = (sandbox: Sandbox, databaseUrl: string, home: string): Record<string, string> => ({
  WEB_ANALYTICS_BASE_URL: sandbox.url,
  WEB_ANALYTICS_API_KEY: sandbox.apiKey,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
  DATABASE_URL: databaseUrl,
  MILLRACE_HOME: home,
})

interface Template {
  readonly database: string
  readonly home: string
}

interface TemplateOptions {
  readonly serverUrl: string
  readonly admin: pg.Client
  readonly folder: string
  readonly name: string
  readonly pipeline: Pipeline
  readonly load: Load
}

const makeTemplate = async ({ serverUrl, admin, folder, name, pipeline, load }: TemplateOptions): Promise<Template> => {
  const home = join(folder, name)
  mkdirSync(home)
  await admin.query(`create database ${name}`)
  const url = databaseUrl(serverUrl, name)
  const sandbox = await newSandbox()
  const environment = environmentOf(sandbox, url, home)
  await expectGreen(['migrate'], environment, folder)
  if (load === 'restated') {
    await expectGreen(['run', pipeline], environment, folder)
    await makeOld(url)
  }
  await sandbox.close()
  return { database: name, home }
}

const expectGreen = async (args: string[], environment: Record<string, string>, folder: string): Promise<void> => {
  const { code, stderr } = await runCommand([...args, '--json'], environment, folder)
  if (code !== 0) throw new Error(`millrace ${args.join(' ')} ended with ${code}:\n${stderr}`)
}

/** A nightly run looks again at what was loaded before the service's last restatement: these loads are made that old. */
const makeOld = async (url: string): Promise<void> => {
  const database = await openDatabase({ databaseUrl: secret('crash matrix', url), home: '/nowhere' })
  await database.pool.query(
    `update etl.units set loaded_at = loaded_at - interval '90 days', checked_at = checked_at - interval '90 days'`,
  )
  await database.close()
}
