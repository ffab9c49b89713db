// A schedule that runs, a service that releases data, and a proxy between them that keeps what the service sent, as an eavesdropper would.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addWindows, alignDown } from '../../src/core/window.ts'
import { type Sandbox, type SandboxOptions, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, pipelinesOfRepository, type RunningCommand, startCommand } from './command.ts'
import { createTestDatabase, type TestDatabase } from './postgres.ts'
import { runWarm } from './warm-command.ts'

export const serviceKey = 'release-key-0123456789'
export const hookSecret = 'hook-secret-0123456789abcdef'

/** Whole months before this one, and days of this one, whatever the date is. */
export const lastMonth = addWindows(alignDown(new Date().toISOString().slice(0, 10), 'month'), 'month', -1).slice(0, 7)
export const endOf = (month: string): string => addWindows(addWindows(`${month}-01`, 'month', 1), 'day', -1)
/** Before last month is out, and on the day it comes. */
export const beforeRelease = `${addWindows(`${lastMonth}-01`, 'month', 1).slice(0, 7)}-05`
export const onRelease = `${addWindows(`${lastMonth}-01`, 'month', 1).slice(0, 7)}-10`

/** A message as it passed the proxy. */
export interface Passed {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  readonly status: number
}

export interface ReleaseWorld {
  readonly db: TestDatabase
  readonly sandbox: Sandbox
  /** What came through the proxy, oldest first. */
  readonly passed: readonly Passed[]
  /** Where the schedule listens. */
  readonly address: string
  readonly environment: Readonly<Record<string, string>>
  run(...args: string[]): Promise<CommandResult>
  schedule(extra?: Readonly<Record<string, string>>): RunningCommand
  close(): Promise<void>
}

export interface WorldOptions {
  readonly pipeline: 'keywords' | 'traffic_and_engagement'
  /** First month wanted. */
  readonly from: string
  readonly sandbox?: SandboxOptions
  /** What stands before the sandbox; its address. */
  readonly before?: (sandboxUrl: string) => Promise<string>
  /** Further changes of the definition's text. */
  readonly edit?: (text: string) => string
}

const listening = (server: Server): Promise<number> =>
  new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })

export const openReleaseWorld = async ({
  pipeline,
  from,
  sandbox: options,
  before = async (url) => url,
  edit = (text) => text,
}: WorldOptions): Promise<ReleaseWorld> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-releases-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  for (const other of ['keywords', 'traffic_and_engagement', 'shopper_category_performance'])
    if (other !== pipeline) rmSync(join(folder, 'pipelines', `${other}.yaml`))
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), 'a.com\n')
  const file = join(folder, 'pipelines', `${pipeline}.yaml`)
  // No tick comes by itself.
  const text = readFileSync(file, 'utf8')
    .replace('from: 2024-01', `from: ${from}`)
    .replace(/cron: "[^"]+"/, 'cron: "0 0 29 2 *"')
  writeFileSync(file, edit(text))
  const db = await createTestDatabase()
  const sandbox = await startSandbox({
    apiKey: serviceKey,
    requestsPerSecond: null,
    now: beforeRelease,
    keywordsPerDomain: 20,
    ...options,
  })
  const reserved = createServer()
  const port = await listening(reserved)
  await new Promise((resolve) => reserved.close(resolve))
  const passed: Passed[] = []
  const proxy = createProxy(port, passed)
  const publicUrl = `http://127.0.0.1:${await listening(proxy)}`
  const environment = {
    WEB_ANALYTICS_BASE_URL: await before(sandbox.url),
    WEB_ANALYTICS_API_KEY: serviceKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
    MILLRACE_WEB_PORT: String(port),
    MILLRACE_PUBLIC_URL: publicUrl,
    MILLRACE_HOOK_SECRET: hookSecret,
    MILLRACE_LOG_LEVEL: 'trace',
    MILLRACE_GUARD: 'off',
  }
  const begun: RunningCommand[] = []
  return {
    ...{ db, sandbox, passed, environment },
    address: `http://127.0.0.1:${port}`,
    run: (...args) => runWarm(args, environment, folder),
    schedule: (extra = {}) => {
      const running = startCommand(['schedule', '--json'], { ...environment, ...extra }, folder)
      begun.push(running)
      return running
    },
    close: async () => {
      for (const { child } of begun) child.kill('SIGKILL')
      await Promise.all(begun.map(({ result }) => result))
      proxy.closeAllConnections()
      proxy.close()
      await sandbox.close()
      await db.drop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

const createProxy = (port: number, passed: Passed[]): Server =>
  createServer((incoming, reply) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const body = Buffer.concat(chunks)
      const { url: path = '/', method = 'GET', headers } = incoming
      const forward = request({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
        const status = answer.statusCode ?? 0
        passed.push({ path, headers, body: body.toString('utf8'), status })
        reply.writeHead(status)
        answer.pipe(reply)
      })
      forward.on('error', () => reply.writeHead(502).end())
      forward.end(body)
    })
  })

/** The schedule answers. */
export const isUp =
  ({ address }: ReleaseWorld) =>
  () =>
    fetch(`${address}/livez`).then(
      (answer) => answer.ok,
      () => false,
    )

export const rowsOf = <Row extends object>({ db }: ReleaseWorld, query: string): Promise<Row[]> => db.query<Row>(query)
