// The three tools: how each is installed and started, and what it counts as its configuration.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { version } from '../../src/core/shipped.ts'
import { launcher } from '../../test/support/command.ts'

/** One load to make, the same for all. */
export interface Task {
  readonly service: string
  readonly key: string
  readonly month: string
  readonly domains: readonly string[]
  /** The request as the service takes it, for tools that are told it. */
  readonly request: unknown
  readonly databaseUrl: string
  readonly folder: string
}

export interface Peer {
  readonly name: string
  readonly version: string
  /** Table that holds the current rows. */
  readonly table: string
  /** Lines a person writes for it. */
  readonly lines: number
  prepare(task: Task): void
  command(task: Task, restated: boolean): { readonly file: string; readonly args: readonly string[] }
  environment(task: Task): Readonly<Record<string, string>>
}

export interface Tools {
  readonly python: string
  readonly sling: string
  readonly dltVersion: string
  readonly slingVersion: string
}

const here = import.meta.dirname
/** The last one whose program comes from PyPI itself: newer ones fetch it from another place when they are first started. */
const wanted = ['dlt[postgres]==1.31.0', 'sling-linux-amd64==1.4.11']

/** Installs what is not there yet. */
export const preparePeers = (folder: string): Tools => {
  mkdirSync(folder, { recursive: true })
  const python = join(folder, 'venv', 'bin', 'python')
  if (!existsSync(python)) execFileSync('python3', ['-m', 'venv', join(folder, 'venv')])
  execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...wanted], { stdio: 'inherit' })
  const module = execFileSync(python, ['-c', 'import sling_linux_amd64 as s; print(s.__path__[0])'], { encoding: 'utf8' }).trim()
  const program = join(module, 'bin', readdirSync(join(module, 'bin')).find((name) => name.startsWith('sling')) ?? 'sling')
  chmodSync(program, 0o755)
  const [dltVersion = '', slingVersion = ''] = wanted.map((one) => one.split('==')[1] ?? '')
  return { python, sling: program, dltVersion, slingVersion }
}

const linesOf = (text: string): number =>
  text.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('#')).length

const definition = ({ domains, month }: Pick<Task, 'domains' | 'month'>): string => `pipeline: referrals
version: 1
description: Visits by the site that sent them.
source: web-analytics.report
params: { vtable: referrals, granularity: daily, include_subdomains: true }
for_each:
  domain: [${domains.join(', ')}]
  country: [us, gb]
window: { every: month, from: ${month} }
table:
  key: [date, domain, country, referrer]
  columns:
    referrer: { type: text }
    referral_visits: { type: numeric }
    referral_share: { type: numeric }
limits: { poll_every: 200ms }
`

export const millrace = (): Peer => ({
  name: 'Millrace',
  version,
  table: 'bi.referrals',
  lines: linesOf(definition({ domains: ['a.com'], month: '2026-08' })),
  prepare: (task) => {
    mkdirSync(join(task.folder, 'pipelines'))
    writeFileSync(join(task.folder, 'pipelines', 'referrals.yaml'), definition(task))
    const options = { cwd: task.folder, env: { ...process.env, ...ownEnvironment(task) }, stdio: 'ignore' } as const
    execFileSync(process.execPath, [launcher(), 'new', 'migration', 'referrals'], options)
    execFileSync(process.execPath, [launcher(), 'migrate'], options)
  },
  command: ({ month }, restated) => ({
    file: process.execPath,
    args: [launcher(), 'backfill', 'referrals', '--from', month, '--to', month, '--yes', ...(restated ? ['--force'] : [])],
  }),
  environment: ownEnvironment,
})

const ownEnvironment = (task: Task): Readonly<Record<string, string>> => ({
  WEB_ANALYTICS_BASE_URL: task.service,
  WEB_ANALYTICS_API_KEY: task.key,
  WEB_ANALYTICS_REQUESTS_PER_SECOND: '1000',
  DATABASE_URL: task.databaseUrl,
  MILLRACE_HOME: join(task.folder, 'home'),
})

const toldEnvironment = (task: Task): Readonly<Record<string, string>> => ({
  PEER_SERVICE: task.service,
  PEER_KEY: task.key,
  PEER_REQUEST: JSON.stringify(task.request),
  PEER_DATABASE: task.databaseUrl,
  PEER_FOLDER: task.folder,
  HOME: task.folder,
})

export const dlt = ({ python, dltVersion }: Tools): Peer => ({
  name: 'dlt',
  version: dltVersion,
  table: 'peer.referrals',
  lines: linesOf(readFileSync(join(here, 'report.py'), 'utf8')),
  prepare: () => undefined,
  command: () => ({ file: python, args: [join(here, 'report.py')] }),
  environment: (task) => ({ ...toldEnvironment(task), RUNTIME__DLTHUB_TELEMETRY: 'false' }),
})

export const sling = ({ sling: program, slingVersion }: Tools): Peer => ({
  name: 'Sling',
  version: slingVersion,
  table: 'peer.referrals',
  lines: linesOf(readFileSync(join(here, 'report.sh'), 'utf8')),
  prepare: () => undefined,
  command: () => ({ file: 'bash', args: [join(here, 'report.sh')] }),
  environment: (task) => ({ ...toldEnvironment(task), PEER_SLING: program, SLING_DISABLE_TELEMETRY: 'true' }),
})
