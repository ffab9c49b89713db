// The small world every cell of the matrix starts from: a few units, a warehouse as it stands before the command, the service's books.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { addMonths } from '../../src/sandbox/publication-calendar.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { age } from '../outsider/warehouse.ts'
import { pipelinesOfRepository, runCommand } from '../support/command.ts'

/** What is loaded in a cell. */
export interface Subject {
  readonly name: string
  readonly pipeline: 'keywords' | 'traffic_and_engagement' | 'shopper_category_performance'
  readonly months: number
  readonly domains: number
  readonly countries: readonly string[]
}

/** A walk, a report of one month of each kind, and one that is loaded month by month. */
export const subjects: readonly Subject[] = [
  { name: 'keywords', pipeline: 'keywords', months: 1, domains: 1, countries: ['us'] },
  { name: 'traffic_and_engagement', pipeline: 'traffic_and_engagement', months: 1, domains: 1, countries: ['us'] },
  { name: 'shopper_category_performance', pipeline: 'shopper_category_performance', months: 1, domains: 4, countries: [] },
  { name: 'packed', pipeline: 'traffic_and_engagement', months: 3, domains: 4, countries: ['us', 'gb'] },
]
export const loads = ['first', 'restated'] as const
/** `restated`: the warehouse holds the months already and the service has changed them since. */
export type Load = (typeof loads)[number]

export interface World {
  readonly serverUrl: string
  /** A warehouse of its own to be killed in, beside a sandbox that has bought nothing yet. */
  place(subject: Subject, load: Load): Promise<Place>
  close(): Promise<void>
}

export interface Place {
  readonly sandbox: Sandbox
  readonly pool: pg.Pool
  /** Holds `pipelines/`; the command runs here. */
  readonly folder: string
  readonly home: string
  readonly environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

/** The newest month that is published and restated for sure on any day of the year. */
const month = (): string => {
  const day = new Date(Date.now() - 16 * 86_400_000)
  return new Date(Date.UTC(day.getUTCFullYear(), day.getUTCMonth() - 1, 1)).toISOString().slice(0, 7)
}

const monthsOf = ({ months }: Subject): string[] =>
  Array.from({ length: months }, (_, index) => addMonths(month(), index - months + 1))

const makeDefinitions = (folder: string, subject: Subject): void => {
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const names = Array.from({ length: subject.domains }, (_, index) => `shop-${index + 1}.example\n`).join('')
  for (const list of ['domains.txt', 'shop_domains.txt']) writeFileSync(join(folder, 'pipelines', list), names)
  const file = join(folder, 'pipelines', `${subject.pipeline}.yaml`)
  const text = readFileSync(file, 'utf8')
    .replace(/country: \[.*\]/, `country: [${subject.countries.join(', ')}]`)
    .replace(/from: \d{4}-\d{2}/, `from: ${monthsOf(subject)[0]}`)
    .replace('look_back: 2', `look_back: ${subject.months + 1}`)
    .replace('poll_every: 5s', 'poll_every: 200ms')
    .replace('page_size: 1000', 'page_size: 40')
  writeFileSync(file, text)
}

export const createWorld = async (serverUrl: string): Promise<World> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-crash-matrix-'))
  for (const subject of subjects) makeDefinitions(join(folder, subject.name), subject)
  const admin = new pg.Client({ connectionString: serverUrl })
  await admin.connect()
  const stamp = `crash_${process.pid}_${Math.random().toString(36).slice(2, 8)}`
  const templates = new Map<string, Promise<Template>>()
  let places = 0
  const newPlace = async (template: Template, subject: Subject, load: Load): Promise<Place> => {
    places += 1
    const name = `${stamp}_${places}`
    const home = join(folder, name)
    mkdirSync(home)
    await admin.query(`create database ${name} template ${template.database}`)
    cpSync(template.home, home, { recursive: true })
    const sandbox = await newSandbox()
    if (load === 'restated') for (const restated of monthsOf(subject)) sandbox.restate(restated)
    const url = databaseUrl(serverUrl, name)
    const pool = new pg.Pool({ connectionString: url, max: 1 })
    pool.on('error', () => undefined)
    return {
      sandbox,
      pool,
      folder: join(folder, subject.name),
      home,
      environment: environmentOf(sandbox, url, home),
      close: async () => {
        await pool.end()
        await sandbox.close()
        await admin.query(`drop database ${name} with (force)`)
        rmSync(home, { recursive: true, force: true })
      },
    }
  }
  const templateOf = (subject: Subject, load: Load): Promise<Template> => {
    const name = `${load}_${subject.name}`
    const there = templates.get(name) ?? makeTemplate({ serverUrl, admin, folder, name: `${stamp}_${name}`, subject, load })
    templates.set(name, there)
    return there
  }
  return {
    serverUrl,
    place: async (subject, load) => newPlace(await templateOf(subject, load), subject, load),
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
  MILLRACE_GUARD: 'off',
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
  readonly subject: Subject
  readonly load: Load
}

const makeTemplate = async ({ serverUrl, admin, folder, name, subject, load }: TemplateOptions): Promise<Template> => {
  const home = join(folder, name)
  mkdirSync(home)
  await admin.query(`create database ${name}`)
  const url = databaseUrl(serverUrl, name)
  const sandbox = await newSandbox()
  const environment = environmentOf(sandbox, url, home)
  const folderOfSubject = join(folder, subject.name)
  await expectGreen(['migrate'], environment, folderOfSubject)
  if (load === 'restated') {
    await expectGreen(['run', subject.pipeline], environment, folderOfSubject)
    await makeOld(url)
  }
  await sandbox.close()
  await leaveHome(url)
  return { database: name, home }
}

const expectGreen = async (args: string[], environment: Record<string, string>, folder: string): Promise<void> => {
  const { code, stderr } = await runCommand([...args, '--json'], environment, folder)
  if (code !== 0) throw new Error(`millrace ${args.join(' ')} ended with ${code}:\n${stderr}`)
}

/** A nightly run looks again at what was loaded before the service's last restatement: these loads are made that old. */
const makeOld = async (url: string): Promise<void> => {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  await age(pool, 90)
  await pool.end()
}

/** Every place goes on as this warehouse, where it stands: none is a copy that has to be decided first. */
const leaveHome = async (url: string): Promise<void> => {
  const pool = new pg.Pool({ connectionString: url, max: 1 })
  await pool.query('update etl.warehouse set home = null')
  await pool.end()
}
