// What a test of commands stands in: a folder as its user has one, a database of its own and the service that is asked, made before the tests and gone after them.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, type RunningCommand, startCommand } from './command.ts'
import { type TestDatabase, type TestDatabaseOptions, testDatabase } from './postgres.ts'
import { runWarm } from './warm-command.ts'

const repository = resolve(import.meta.dirname, '..', '..')

interface Served {
  readonly url: string
  readonly apiKey?: string
  close(): Promise<void>
}

type Settings = Readonly<Record<string, string>>

export interface TestWorldOptions<Service extends Served> {
  /** Another one for each test. Default: one for the file. */
  readonly each?: boolean
  /** What of the repository lies in the folder. Default: the pipelines. */
  readonly copied?: readonly string[]
  /** Values of lists in place of those that ship, by the file's name without `.txt`. */
  readonly lists?: Readonly<Record<string, readonly (string | number)[]>>
  readonly database?: TestDatabaseOptions
  /** Starts what is asked. Left out: nothing answers until the test calls `serve`. */
  readonly service?: () => Promise<Service>
  /** Beside the addresses and the key. */
  readonly settings?: Settings
  /** Its commands print JSON. */
  readonly json?: boolean
}

/** A word or pattern that must be there, and what takes the place of its first occurrence; or what a whole text becomes. */
export type Edit = readonly [from: string | RegExp, to: string] | ((text: string) => string)

export interface TestWorld<Service extends Served> {
  readonly folder: string
  readonly db: TestDatabase
  readonly service: Service
  /** Has this one be asked from now on; it is closed with the world. */
  serve(starting: Promise<Service>): Promise<Service>
  /** The definition of a pipeline. */
  fileOf(pipeline: string): string
  /** Throws where a definition lacks what is to be replaced. */
  edit(pipeline: string, ...edits: readonly Edit[]): void
  /** @param name of the file, without `.txt` */
  list(name: string, values: readonly (string | number)[]): void
  environment(more?: Settings): Record<string, string>
  /** Runs a command in a process that is kept. */
  millrace(...args: string[]): Promise<CommandResult>
  /** The same, with other settings. */
  millraceWith(more: Settings, ...args: string[]): Promise<CommandResult>
  /** Starts a command in a process of its own. */
  start(args: readonly string[], more?: Settings): RunningCommand
  query<Row extends object = Record<string, unknown>>(statement: string, values?: readonly unknown[]): Promise<Row[]>
}

let count = 0

/** A path of nobody else's, not there yet. */
const newPath = (): string => {
  count += 1
  return join(tmpdir(), `millrace-test-${process.pid}-${count}-${Math.random().toString(36).slice(2, 8)}`)
}

/** A folder for each test or for all of the file: with what is copied into it before the test, gone after it. */
export const testFolder = ({ each = false, copied = [] }: { each?: boolean; copied?: readonly string[] } = {}): string => {
  const folder = newPath()
  const make = (): void => {
    mkdirSync(folder)
    for (const name of copied) cpSync(join(repository, name), join(folder, name), { recursive: true })
  }
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  if (each) {
    beforeEach(make)
    afterEach(remove)
  } else {
    beforeAll(make)
    afterAll(remove)
  }
  return folder
}

/** The definitions and lists of a folder, to be changed as a person would. */
export const definitionsIn = (folder: string): Pick<TestWorld<Served>, 'fileOf' | 'edit' | 'list'> => {
  const fileOf = (pipeline: string): string => join(folder, 'pipelines', `${pipeline}.yaml`)
  return {
    fileOf,
    edit: (pipeline, ...edits) => {
      const changed = edits.reduce(
        (text, one) => {
          if (typeof one === 'function') return one(text)
          const [from, to] = one
          if (typeof from === 'string' ? text.includes(from) : text.search(from) >= 0) return text.replace(from, to)
          throw new Error(`${pipeline}.yaml lacks ${from}`)
        },
        readFileSync(fileOf(pipeline), 'utf8'),
      )
      writeFileSync(fileOf(pipeline), changed)
    },
    list: (name, values) => writeFileSync(join(folder, 'pipelines', `${name}.txt`), values.map((value) => `${value}\n`).join('')),
  }
}

/** The same object whichever service it is at the moment. */
const heldService = <Service extends Served>(each: boolean, start: (() => Promise<Service>) | undefined) => {
  const held = {} as Service
  const opened: Service[] = []
  const serve = async (starting: Promise<Service>): Promise<Service> => {
    const service = await starting
    opened.push(service)
    Object.assign(held, service)
    return service
  }
  const open = async (): Promise<void> => {
    if (start !== undefined) await serve(start())
  }
  const close = async (): Promise<void> => {
    for (const service of opened.splice(0)) await service.close()
    for (const name of Object.keys(held)) delete (held as Record<string, unknown>)[name]
  }
  if (each) {
    beforeEach(open)
    afterEach(close)
  } else {
    beforeAll(open)
    afterAll(close)
  }
  return { service: held, serve }
}

/** Called where a file or a `describe` begins. What it returns is filled before the first test, or before each. */
export const testWorld = <Service extends Served>(options: TestWorldOptions<Service> = {}): TestWorld<Service> => {
  const { each = false, copied = ['pipelines'], lists = {}, settings = {}, json = false } = options
  const folder = testFolder({ each, copied })
  const db = testDatabase({ each, ...options.database })
  const { service, serve } = heldService(each, options.service)
  const definitions = definitionsIn(folder)
  const fillLists = (): void => {
    mkdirSync(join(folder, 'pipelines'), { recursive: true })
    for (const [name, values] of Object.entries(lists)) definitions.list(name, values)
  }
  if (each) beforeEach(fillLists)
  else beforeAll(fillLists)
  const environment = (more: Settings = {}): Record<string, string> => ({
    WEB_ANALYTICS_BASE_URL: service.url ?? 'http://127.0.0.1:1',
    WEB_ANALYTICS_API_KEY: service.apiKey ?? 'a-key-of-nobody-0123456789',
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
    ...settings,
    ...more,
  })
  const millraceWith = (more: Settings, ...args: string[]) =>
    runWarm(json ? [...args, '--json'] : args, environment(more), folder)
  return {
    ...{ folder, db, service, serve, ...definitions, environment, millraceWith },
    millrace: (...args) => millraceWith({}, ...args),
    start: (args, more) => startCommand(args, environment(more), folder),
    query: (statement, values) => db.query(statement, values),
  }
}

interface SandboxWorldOptions extends Omit<TestWorldOptions<Sandbox>, 'service'> {
  /** Beside that it takes as many requests as come. */
  readonly sandbox?: SandboxOptions
}

/** The same with the sandbox as the service. */
export const sandboxWorld = ({ sandbox: options = {}, ...others }: SandboxWorldOptions = {}) => {
  const service = () => startSandbox({ requestsPerSecond: null, ...options })
  const { service: sandbox, ...world } = testWorld({ ...others, service })
  return { ...world, sandbox }
}

/** Fails with all that the command printed unless it ended well. */
export const succeeded = async (running: Promise<CommandResult>): Promise<CommandResult> => {
  const ended = await running
  expect(ended.code, ended.stdout + ended.stderr).toBe(0)
  return ended
}
