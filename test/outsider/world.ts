// One warehouse, one service, one folder of definitions: small, quick, and changed by a test as a person would change it.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseDocument } from 'yaml'
import { addMonths } from '../../src/sandbox/publication-calendar.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository } from '../support/command.ts'
import type { WorldDatabase } from './databases.ts'

export const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance'] as const
export type Pipeline = (typeof pipelines)[number]

/** What a pipeline runs for, by dimension. */
export interface Lists {
  domains: string[]
  shops: string[]
  categories: string[]
  countries: string[]
}

export interface World {
  readonly folder: string
  readonly sandbox: Sandbox
  readonly database: WorldDatabase
  /** Published months the definitions begin with, oldest first. */
  readonly months: readonly string[]
  /** As the files have them now. */
  readonly lists: Lists
  /** Writes what is given into the list files and definitions. */
  setLists(lists: Partial<Lists>): void
  /** Changes one value of a definition; the path is that of the YAML. */
  set(pipeline: Pipeline, path: readonly string[], value: unknown): void
  /** @param caller name the requests bear in the sandbox's books. */
  environment(caller: string): Record<string, string>
  remove(): Promise<void>
}

export interface WorldOptions {
  readonly database: WorldDatabase
  readonly lists?: Partial<Lists>
  readonly months?: number
  readonly sandbox?: SandboxOptions
  /** Requests a second the program may send. */
  readonly rate?: number
}

export const names = (word: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${word}${index}.example`)

/** Newest month the service has now: it appears on the 10th of the next, in the service's zone. */
const newestMonth = async (sandbox: Sandbox): Promise<string> => {
  const answer = await fetch(`${sandbox.url}/capabilities?api_key=${encodeURIComponent(sandbox.apiKey)}`)
  const found = /"end_date":"(\d{4}-\d{2})/.exec(await answer.text())?.[1]
  if (found === undefined) throw new Error('the sandbox does not say its newest month')
  return found
}

export const createWorld = async (options: WorldOptions): Promise<World> => {
  const sandbox = await startSandbox({
    seed: 7,
    keywordsPerDomain: 20,
    requestsPerSecond: null,
    reportDurationMs: 100,
    openReports: 10_000,
    ...options.sandbox,
  })
  const folder = mkdtempSync(join(tmpdir(), 'millrace-outsider-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const newest = await newestMonth(sandbox)
  const count = options.months ?? 3
  const months = Array.from({ length: count }, (_, index) => addMonths(newest, index - count + 1))
  const lists: Lists = {
    domains: names('site', 4),
    shops: names('shop', 2),
    categories: ['1001', '1002'],
    countries: ['us', 'gb'],
    ...options.lists,
  }
  const set: World['set'] = (pipeline, path, value) => {
    const file = join(folder, 'pipelines', `${pipeline}.yaml`)
    const document = parseDocument(readFileSync(file, 'utf8'))
    if (value === undefined) document.deleteIn(path)
    else document.setIn(path, value)
    writeFileSync(file, document.toString({ lineWidth: 0 }))
  }
  const setLists = (changed: Partial<Lists>): void => {
    Object.assign(lists, changed)
    const write = (name: string, lines: readonly string[]): void =>
      writeFileSync(join(folder, 'pipelines', name), `${lines.join('\n')}\n`)
    write('domains.txt', lists.domains)
    write('shop_domains.txt', lists.shops)
    write('category_ids.txt', lists.categories)
    for (const pipeline of ['keywords', 'traffic_and_engagement'] as const)
      set(pipeline, ['for_each', 'country'], lists.countries)
  }
  for (const pipeline of pipelines) hasten(set, pipeline, months[0] ?? newest)
  setLists({})
  return {
    folder,
    sandbox,
    database: options.database,
    months,
    lists,
    setLists,
    set,
    environment: (caller) => ({
      WEB_ANALYTICS_BASE_URL: `${sandbox.url}/as/${caller}`,
      WEB_ANALYTICS_API_KEY: sandbox.apiKey,
      WEB_ANALYTICS_REQUESTS_PER_SECOND: String(options.rate ?? 2000),
      MILLRACE_GUARD: 'off',
      DATABASE_URL: options.database.url,
      MILLRACE_HOME: join(folder, 'home'),
      MILLRACE_WEB_PORT: '0',
    }),
    remove: async () => {
      await sandbox.close()
      await options.database.drop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Short waits and small pages. A restatement may take most of the few rows a unit has here. */
const hasten = (set: World['set'], pipeline: Pipeline, from: string): void => {
  const isWalk = pipeline === 'keywords'
  const limits = {
    concurrency: 4,
    timeout: '5s',
    attempts: 3,
    rejects: '50%',
    shrink: '95%',
    ...(isWalk ? { page_size: 15 } : { poll_every: '200ms', poll_max: '500ms', deadline: '20s' }),
  }
  for (const [name, value] of Object.entries(limits)) set(pipeline, ['limits', name], value)
  set(pipeline, ['window', 'from'], from)
}
