// What is measured of one tool: the first load, the same again, a kill between submission and download, a restated month, five faults.
import { spawn } from 'node:child_process'
import { Client } from 'pg'
import type { Fault, Sandbox } from '../../src/sandbox/sandbox-server.ts'
import type { Peer, Task } from './peers.ts'

export interface Figures {
  readonly name: string
  readonly version: string
  readonly rows: number
  readonly firstSeconds: number
  /** Of the tool's own processes, user and system; PostgreSQL's and the service's are not in it. */
  readonly firstCpuSeconds: number
  /** Of the largest of its processes. */
  readonly firstMegabytes: number
  readonly againSeconds: number
  readonly againReports: number
  readonly killedReports: number
  readonly restatedSeconds: number
  readonly keepsHistory: boolean
  readonly endsVanished: boolean
  /** Rows that were missing after commands that ended with 0, and the faults behind them. */
  readonly lostRows: number
  readonly lostBy: readonly string[]
  readonly lines: number
}

export interface Place {
  readonly sandbox: Sandbox
  readonly month: string
  readonly domains: readonly string[]
  readonly folder: string
  readonly databaseUrl: string
}

/** Throws with what was printed where a command fails. */
export const tryPeer = async (peer: Peer, place: Place): Promise<Figures> => {
  const { sandbox, month, domains } = place
  const task = taskOf(place, domains)
  peer.prepare(task)
  const bought = (): number => sandbox.books().submissions.length
  const { seconds: firstSeconds, cpu: firstCpuSeconds, megabytes: firstMegabytes } = await timed(peer, task, false)
  const rows = await count(task, peer.table)
  const before = bought()
  const { seconds: againSeconds } = await timed(peer, task, false)
  const againReports = bought() - before
  sandbox.restate(month)
  const { seconds: restatedSeconds } = await timed(peer, task, true)
  const killedReports = await killed(peer, { ...place, month: earlier(month) })
  return {
    ...{
      name: peer.name,
      version: peer.version,
      lines: peer.lines,
      rows,
      firstSeconds,
      firstCpuSeconds,
      firstMegabytes,
      againSeconds,
      againReports,
    },
    ...{
      restatedSeconds,
      killedReports,
      endsVanished: await endsVanished(task, peer, sandbox),
      keepsHistory: await keepsHistory(task, peer),
      ...(await lostUnderFaults(peer, place)),
    },
  }
}

const taskOf = ({ sandbox, month, folder, databaseUrl }: Place, domains: readonly string[]): Task => ({
  ...{ service: sandbox.url, key: sandbox.apiKey, month, domains, folder, databaseUrl },
  request: {
    delivery_information: { response_format: 'csv', delivery_method: 'download_link' },
    report_query: {
      tables: [
        {
          ...{ vtable: 'referrals', granularity: 'daily', metrics: ['referral_visits', 'referral_share'] },
          filters: { domains, countries: ['US', 'GB'] },
          ...{ start_date: month, end_date: month },
        },
      ],
    },
  },
})

const earlier = (month: string): string => {
  const date = new Date(`${month}-01T00:00:00Z`)
  date.setUTCMonth(date.getUTCMonth() - 1)
  return date.toISOString().slice(0, 7)
}

const start = (peer: Peer, task: Task, restated: boolean) => {
  const { file, args } = peer.command(task, restated)
  // GNU time counts what the command and its children used.
  const child = spawn('/usr/bin/time', ['-f', 'cpu %U %S peak %M', file, ...args], {
    cwd: task.folder,
    env: { ...process.env, ...peer.environment(task) },
    stdio: ['ignore', 'pipe', 'pipe'],
    // A kill takes what it has started, too.
    detached: true,
  })
  let printed = ''
  child.stdout?.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  child.stderr?.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const ended = new Promise<number | null>((done) => child.once('close', done))
  return { kill: () => process.kill(-(child.pid ?? 0), 'SIGKILL'), ended, printed: () => printed }
}

interface Timed {
  readonly seconds: number
  readonly cpu: number
  readonly megabytes: number
}

const timed = async (peer: Peer, task: Task, restated: boolean): Promise<Timed> => {
  const began = performance.now()
  const { ended, printed } = start(peer, task, restated)
  const code = await ended
  if (code !== 0) throw new Error(`${peer.name} ended with ${code}:\n${printed().slice(-4_000)}`)
  const [, user, system, peak] = /^cpu ([\d.]+) ([\d.]+) peak (\d+)$/m.exec(printed()) ?? []
  const seconds = rounded((performance.now() - began) / 1000)
  return { seconds, cpu: rounded(Number(user) + Number(system)), megabytes: Math.round(Number(peak) / 1024) }
}

const rounded = (seconds: number): number => Number(seconds.toFixed(1))

/** Killed once the service has the submission, before the report is there; then the same command until it has ended well. */
const killed = async (peer: Peer, place: Place): Promise<number> => {
  const { sandbox } = place
  const task = taskOf(place, place.domains.slice(0, 2))
  const before = sandbox.books().submissions.length
  sandbox.configure({ reportDurationMs: 5_000 })
  const { kill, ended } = start(peer, task, false)
  while (sandbox.books().submissions.length === before) await new Promise((resolve) => setTimeout(resolve, 20))
  await new Promise((resolve) => setTimeout(resolve, 500))
  kill()
  await ended
  sandbox.configure({ reportDurationMs: 1_000 })
  await timed(peer, task, false)
  return sandbox.books().submissions.length - before
}

/** Each acts on the first answer of its place alone; the count that the service announces stays right. */
const faults = [
  { kind: 'reset-mid-body', on: 'download', nth: 1 },
  { kind: 'truncate-body', on: 'download', mode: 'silent', nth: 1 },
  { kind: 'half-report', nth: 1 },
  { kind: 'missing-row', nth: 1 },
  { kind: 'expired-link', nth: 1 },
] as const satisfies readonly Fault[]

/** Of a small report of a month of its own for each; what the command refuses is not lost: it says so, and nobody counts on the month. */
const lostUnderFaults = async (peer: Peer, place: Place): Promise<Pick<Figures, 'lostRows' | 'lostBy'>> => {
  const { sandbox } = place
  const lost = new Map<string, number>()
  let month = earlier(place.month)
  for (const fault of faults) {
    month = earlier(month)
    const task = taskOf({ ...place, month }, place.domains.slice(0, 2))
    sandbox.configure({ faults: [fault] })
    const { ended, printed } = start(peer, task, false)
    const code = await ended
    process.stderr.write(
      `${peer.name}, ${fault.kind}: ended with ${code}${code === 0 ? '' : `: ${printed().trim().slice(-200)}`}\n`,
    )
    sandbox.configure({ faults: [] })
    const missing = code === 0 ? (await truthOf(task)) - (await count(task, peer.table)) : 0
    if (missing > 0) lost.set(fault.kind, missing)
  }
  return { lostRows: [...lost.values()].reduce((all, one) => all + one, 0), lostBy: [...lost.keys()] }
}

const ask = async (task: Task, statement: string): Promise<Record<string, unknown>[]> => {
  const client = new Client({ connectionString: task.databaseUrl })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(statement)).rows
  } finally {
    await client.end()
  }
}

const inMonth = ({ month }: Task): string => `to_char(date, 'YYYY-MM') = '${month}'`

const count = async (task: Task, table: string): Promise<number> =>
  Number((await ask(task, `select count(*) as rows from ${table} where ${inMonth(task)}`))[0]?.['rows'])

/** Whether the table holds as many rows of the month as the restated answer has. */
const endsVanished = async (task: Task, peer: Peer, sandbox: Sandbox): Promise<boolean> => {
  const held = await count(task, peer.table)
  const submission = sandbox.books().submissions.length
  const truth = await truthOf(task)
  if (sandbox.books().submissions.length !== submission + 1) throw new Error('the count of the answer was not asked for')
  return held === truth
}

/** Rows of the answer as it is now, asked for by hand. */
const truthOf = async ({ service, key, request }: Task): Promise<number> => {
  const headers = { 'api-key': key, 'content-type': 'application/json' }
  const asked = await fetch(`${service}/batch/v4/request-report`, { method: 'POST', headers, body: JSON.stringify(request) })
  const { report_id } = (await asked.json()) as { report_id: string }
  for (;;) {
    const status = await fetch(`${service}/v3/batch/request-status/${report_id}`, { headers })
    const { status: word, download_url } = (await status.json()) as { status: string; download_url?: string }
    if (word === 'completed' && download_url !== undefined)
      return (await (await fetch(download_url)).text()).trim().split('\n').length - 1
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

const keepsHistory = async (task: Task, { name }: Peer): Promise<boolean> => {
  if (name !== 'Millrace') return false
  const [found] = await ask(
    task,
    `select count(*) as rows from bi.referrals_history where valid_to is not null and ${inMonth(task)}`,
  )
  return Number(found?.['rows']) > 0
}
