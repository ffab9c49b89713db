// The first hour of somebody who has npm and one Node.js: from the packed program to rows, a dataset of one's own, a mart, a schedule and a page.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cleanEnvironment } from '../support/command.ts'

/** One thing a newcomer does. */
export interface Step {
  readonly name: string
  readonly seconds: number
  /** What shows that it worked. */
  readonly saw: string
}

export interface Newcomer {
  /** Folder that holds the `node` everything runs on. */
  readonly node: string
  /** What `npm pack` made. */
  readonly tarball: string
  /** Empty. */
  readonly folder: string
  readonly tell: (step: Step) => void
}

/** Of one command; a machine that is busy with other work takes minutes for an install. */
const timeoutMs = 900_000

/** Throws with what was printed where a step does not do what the manual says. */
export const firstHour = async (newcomer: Newcomer): Promise<readonly Step[]> => {
  const { folder, tarball, tell } = newcomer
  const steps: Step[] = []
  const step = async (name: string, work: () => Promise<string>): Promise<void> => {
    const began = performance.now()
    const saw = await work()
    const done = { name, seconds: Number(((performance.now() - began) / 1000).toFixed(1)), saw }
    steps.push(done)
    tell(done)
  }
  const warehouse = join(folder, 'my-warehouse')
  const inFolder = commandsIn(newcomer, folder)
  const inWarehouse = commandsIn(newcomer, warehouse)
  writeFileSync(join(folder, 'package.json'), '{"name":"empty","private":true}')
  await step('npm install', async () => {
    await inFolder.npm('install', tarball)
    return `${await megabytes(join(folder, 'node_modules'))} MB in node_modules`
  })
  await step('demo: rows', async () => matched(await inFolder.millrace('demo'), /Run \d+ done .*/))
  await step('init and its npm install', async () => {
    const made = matched(await inFolder.millrace('init', 'my-warehouse'), /wrote \d+ files/)
    await inWarehouse.npm('install')
    return made
  })
  const sandbox = await startLasting(newcomer, warehouse, ['sandbox', '--port', '0'], /at (http:\S+) .*Key: (\S+)/)
  try {
    const [, url = '', key = ''] = sandbox.said
    writeFileSync(join(warehouse, '.env'), `WEB_ANALYTICS_BASE_URL=${url}\nWEB_ANALYTICS_API_KEY=${key}\nMILLRACE_WEB_PORT=0\n`)
    await step('a dataset of one’s own', () => ownDataset(inWarehouse))
    await step('a mart', () => ownMart(inWarehouse, warehouse))
    await step('a schedule and a page', () => scheduleAndPage(newcomer, warehouse))
  } finally {
    await sandbox.stop()
  }
  return steps
}

type Commands = ReturnType<typeof commandsIn>

/** From the service's own words to rows in `bi`, without a line of code. */
const ownDataset = async ({ millrace }: Commands): Promise<string> => {
  matched(await millrace('describe'), /traffic_sources/)
  matched(await millrace('new', 'dataset', 'traffic_sources'), /migrations\/\d{4}_traffic_sources_v1\.ts/)
  matched(await millrace('check'), /^0 errors/m)
  matched(await millrace('migrate'), /applied \d{4}_traffic_sources_v1[\s\S]*New in bi: /)
  const month = publishedMonth()
  return matched(await millrace('backfill', 'traffic_sources', '--from', month, '--to', month), /[1-9]\d* inserted/)
}

/** Two months back: published on any day. */
const publishedMonth = (): string => {
  const now = new Date()
  return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - 2, 1)).toISOString().slice(0, 7)
}

const ownMart = async ({ millrace }: Commands, warehouse: string): Promise<string> => {
  writeFileSync(join(warehouse, 'marts', 'visits_by_channel.sql'), martOfPage())
  matched(await millrace('migrate'), /New in bi: visits_by_channel/)
  await millrace('export', 'visits_by_channel', '--out', 'visits.csv')
  return `${readFileSync(join(warehouse, 'visits.csv'), 'utf8').trim().split('\n').length - 1} rows in a CSV file`
}

/** The view as docs/first-hour.md shows it. */
const martOfPage = (): string => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'first-hour.md'), 'utf8')
  return /```sql\n([\s\S]*?)```/.exec(page)?.[1] ?? ''
}

/** The scheduler names its next ticks, and its page shows the dataset. */
const scheduleAndPage = async (newcomer: Newcomer, warehouse: string): Promise<string> => {
  const scheduler = await startLasting(newcomer, warehouse, ['schedule', '--json'], /"event":"status_page","url":"([^"]+)"/)
  try {
    matched(scheduler.printed(), /"event":"ticks","pipeline":"traffic_sources"/)
    const answer = await fetch(scheduler.said[1] ?? '')
    matched(await answer.text(), /traffic_sources/)
    return `the page answers ${answer.status}`
  } finally {
    await scheduler.stop()
  }
}

const environmentOf = ({ node, folder }: Newcomer): NodeJS.ProcessEnv => {
  const home = join(folder, 'home')
  mkdirSync(home, { recursive: true })
  return {
    ...cleanEnvironment({ HOME: home, PATH: `${node}:${process.env['PATH'] ?? ''}`, npm_config_update_notifier: 'false' }),
    // What npm fetched before stays where it always is.
    npm_config_cache: process.env['npm_config_cache'] ?? join(process.env['HOME'] ?? '/root', '.npm'),
  }
}

const commandsIn = (newcomer: Newcomer, folder: string) => {
  const execute = (file: string, args: readonly string[]): Promise<string> =>
    new Promise((done, failed) => {
      const options = { cwd: folder, env: environmentOf(newcomer), encoding: 'utf8', timeout: timeoutMs } as const
      execFile(file, [...args], { ...options, maxBuffer: 1 << 26 }, (error, stdout, stderr) =>
        error === null
          ? done(stdout)
          : failed(new Error(`${file} ${args.join(' ')} ended with ${error.code}:\n${stdout}${stderr}`)),
      )
    })
  return {
    npm: (...args: string[]) => execute('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error']),
    millrace: (...args: string[]) => execute('npx', ['millrace', ...args]),
  }
}

interface Lasting {
  /** What it said once it was ready, by groups of the pattern. */
  readonly said: RegExpExecArray
  printed(): string
  stop(): Promise<void>
}

/** A command that goes on until it is stopped; resolves once it has printed what `ready` asks for. */
const startLasting = (newcomer: Newcomer, folder: string, args: readonly string[], ready: RegExp): Promise<Lasting> => {
  const launcher = join(folder, 'node_modules', 'millrace', 'bin', 'millrace.js')
  const child: ChildProcess = spawn(join(newcomer.node, 'node'), [launcher, ...args], {
    cwd: folder,
    env: environmentOf(newcomer),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let printed = ''
  const ended = new Promise<void>((done) => child.once('close', () => done()))
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    await ended
  }
  return new Promise((done, failed) => {
    const timer = setTimeout(() => void stop().then(() => failed(new Error(`${args[0]} was not ready:\n${printed}`))), timeoutMs)
    const read = (chunk: Buffer): void => {
      printed += chunk.toString()
      const said = ready.exec(printed)
      if (said === null) return
      clearTimeout(timer)
      done({ said, printed: () => printed, stop })
    }
    child.stdout?.on('data', read)
    child.stderr?.on('data', read)
    void ended.then(() => {
      clearTimeout(timer)
      failed(new Error(`${args.join(' ')} ended:\n${printed}`))
    })
  })
}

const matched = (text: string, pattern: RegExp): string => {
  const [found] = pattern.exec(text) ?? []
  if (found === undefined) throw new Error(`${pattern} is not in:\n${text}`)
  return found
}

const megabytes = (folder: string): Promise<string> =>
  new Promise((done, failed) => {
    execFile('du', ['-sm', folder], { encoding: 'utf8' }, (error, stdout) =>
      error === null ? done(stdout.split('\t')[0] ?? '') : failed(error),
    )
  })
