// The tools: how each is installed and started, and what it counts as its configuration.
import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
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
  /** null: no sources of it were given. */
  readonly ingestr: string | null
}

const here = import.meta.dirname
/** The last one whose program comes from PyPI itself: newer ones fetch it from another place when they are first started. */
const wanted = ['dlt[postgres]==1.31.0', 'sling-linux-amd64==1.4.11']

/** Of ingestr's hundred sources and destinations those that the task needs: all of them take an hour to build. */
const buildIngestr = (folder: string, sources: string): string => {
  const program = join(folder, 'ingestr')
  if (existsSync(program)) return program
  const imports = join(sources, 'internal', 'registry', 'imports')
  rmSync(imports, { recursive: true, force: true })
  mkdirSync(imports)
  const module = 'github.com/bruin-data/ingestr/pkg'
  writeFileSync(
    join(imports, 'two.go'),
    `package imports\n\nimport (\n\t_ "${module}/destination/postgres"\n\t_ "${module}/source/csv"\n)\n`,
  )
  const named = execFileSync('git', ['-C', sources, 'describe', '--tags', '--always'], { encoding: 'utf8' }).trim()
  const flags = `-s -w -X github.com/bruin-data/ingestr/cmd.Version=${named}`
  execFileSync('go', ['build', '-trimpath', `-ldflags=${flags}`, '-o', program, '.'], { cwd: sources, stdio: 'inherit' })
  return program
}

/** Installs what is not there yet. @param sources a clone of ingestr's repository, which is changed */
export const preparePeers = (folder: string, sources: string | undefined): Tools => {
  mkdirSync(folder, { recursive: true })
  const python = join(folder, 'venv', 'bin', 'python')
  if (!existsSync(python)) execFileSync('python3', ['-m', 'venv', join(folder, 'venv')])
  execFileSync(python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', ...wanted], { stdio: 'inherit' })
  const module = execFileSync(python, ['-c', 'import sling_linux_amd64 as s; print(s.__path__[0])'], { encoding: 'utf8' }).trim()
  const program = join(module, 'bin', readdirSync(join(module, 'bin')).find((name) => name.startsWith('sling')) ?? 'sling')
  chmodSync(program, 0o755)
  const [dltVersion = '', slingVersion = ''] = wanted.map((one) => one.split('==')[1] ?? '')
  const isBuilt = existsSync(join(folder, 'ingestr'))
  const ingestr = sources === undefined && !isBuilt ? null : buildIngestr(folder, resolve(sources ?? '.'))
  return { python, sling: program, dltVersion, slingVersion, ingestr }
}

const linesOf = (text: string): number =>
  text.split('\n').filter((line) => line.trim() !== '' && !line.trim().startsWith('#')).length

const definition = ({ domains, month }: Pick<Task, 'domains' | 'month'>): string => `pipeline: referrals
version: 1
description: Visits by the site that sent them.
source: web-analytics.report
params: { vtable: referrals, granularity: daily, rows: one }
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
  // A load that failed leaves a package behind, which would fail the trials after it, too; for root that is /var/dlt without the setting.
  environment: (task) => ({
    ...toldEnvironment(task),
    ...{ RUNTIME__DLTHUB_TELEMETRY: 'false', DLT_DATA_DIR: join(task.folder, 'dlt', task.month) },
  }),
})

export const sling = ({ sling: program, slingVersion }: Tools): Peer => loaderOfFiles('Sling', slingVersion, program)

export const ingestr = ({ ingestr: program }: Tools): Peer => {
  if (program === null) throw new Error('ingestr was not built: --ingestr names no clone of its repository')
  const [, version = ''] = /v?(\S+)\s*$/.exec(execFileSync(program, ['--version'], { encoding: 'utf8' })) ?? []
  return loaderOfFiles('ingestr', version, program)
}

const loaderOfFiles = (name: string, version: string, program: string): Peer => {
  const script = join(here, `${name.toLowerCase()}.sh`)
  return {
    ...{ name, version, table: 'peer.referrals' },
    lines: [script, join(here, 'download.sh')].reduce((lines, file) => lines + linesOf(readFileSync(file, 'utf8')), 0),
    prepare: () => undefined,
    command: () => ({ file: 'bash', args: [script] }),
    environment: (task) => ({
      ...toldEnvironment(task),
      ...{ PEER_PROGRAM: program, SLING_DISABLE_TELEMETRY: 'true', INGESTR_DISABLE_TELEMETRY: 'true' },
    }),
  }
}
