// Reports that lack rows or have one more, the first of their dataset and later ones, by everything a count may count; and the same reports whole.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Fault } from '../../src/sandbox/fault-kinds.ts'
import type { DataPoints } from '../../src/sandbox/report-query.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, pipelinesOfRepository, runCommand } from '../support/command.ts'
import { randomFrom } from './fault-mix.ts'

const damages = ['half-report', 'missing-row', 'extra-row'] as const

export interface Case {
  readonly seed: number
  readonly damage: (typeof damages)[number]
  readonly counted: Exclude<DataPoints, 'none'>
  /** Whether no report of the dataset has been loaded before. */
  readonly isFirst: boolean
  readonly metrics: number
  readonly domains: number
  readonly months: number
}

/** Every damage, count and place in turn; sizes by the seed. */
export const caseOf = (seed: number): Case => {
  const random = randomFrom(seed)
  const between = (least: number, most: number): number => least + Math.floor(random() * (most - least + 1))
  const counts = ['rows', 'cells', 'non-empty'] as const
  return {
    seed,
    damage: damages[seed % 3] ?? 'half-report',
    counted: counts[Math.floor(seed / 3) % 3] ?? 'rows',
    isFirst: Math.floor(seed / 9) % 2 === 0,
    metrics: between(2, 6),
    domains: between(3, 25),
    months: between(1, 4),
  }
}

export interface Outcome {
  readonly case: Case
  /** Rows in the table of the months in question: of the damaged report, and of the whole one. */
  readonly damagedRows: number
  readonly wholeRows: number
  /** Rows the service sold. */
  readonly soldRows: number
  /** Submissions beyond the first, over both commands. */
  readonly boughtAgain: number
  /** Both numbers stand in what the command says. */
  readonly isSaid: boolean
  readonly codes: readonly (number | null)[]
}

/** A migrated warehouse of its own. */
export interface Warehouse {
  readonly url: string
  count(question: string): Promise<number>
  change(statement: string): Promise<void>
  drop(): Promise<void>
}

const ranges = { before: '2025-01', from: '2025-03' }

export const tryCase = async (one: Case, newWarehouse: () => Promise<Warehouse>): Promise<Outcome> => {
  const [damaged, whole] = await Promise.all([
    tryReport(one, await newWarehouse(), [{ kind: one.damage, row: 1 + (one.seed % 3) }]),
    tryReport(one, await newWarehouse(), []),
  ])
  return {
    case: one,
    damagedRows: damaged.rows,
    wholeRows: whole.rows,
    soldRows: whole.sold,
    boughtAgain: damaged.boughtAgain + whole.boughtAgain,
    isSaid: /INCOMPLETE|announces \d+ data points/.test(damaged.said),
    codes: [...damaged.codes, ...whole.codes],
  }
}

interface Tried {
  readonly rows: number
  readonly sold: number
  readonly boughtAgain: number
  readonly said: string
  readonly codes: readonly (number | null)[]
}

const tryReport = async (one: Case, warehouse: Warehouse, faults: readonly Fault[]): Promise<Tried> => {
  const folder = mkdtempSync(join(tmpdir(), 'millrace-whole-reports-'))
  const sandbox = await startSandbox({
    seed: one.seed,
    dataPoints: one.counted,
    requestsPerSecond: null,
    reportDurationMs: 30,
    now: '2026-01-20',
  })
  try {
    await writeDefinition(folder, one, warehouse)
    const backfill = (from: string, months: number): Promise<CommandResult> =>
      runCommand(
        ['backfill', 'traffic_and_engagement', '--from', from, '--to', monthAfter(from, months - 1)],
        {
          WEB_ANALYTICS_BASE_URL: sandbox.url,
          WEB_ANALYTICS_API_KEY: sandbox.apiKey,
          DATABASE_URL: warehouse.url,
          MILLRACE_HOME: join(folder, 'home'),
        },
        folder,
      )
    const codes: (number | null)[] = []
    if (!one.isFirst) codes.push((await backfill(ranges.before, 1)).code)
    const before = sandbox.books().submissions.length
    sandbox.configure({ faults: [...faults] })
    const first = await backfill(ranges.from, one.months)
    sandbox.configure({ faults: [] })
    const again = await backfill(ranges.from, one.months)
    const { submissions } = sandbox.books()
    const bought = submissions.slice(before)
    return {
      rows: await warehouse.count(`select count(*) as n from data.traffic_and_engagement_v1 where date >= '${ranges.from}-01'`),
      sold: bought.reduce((sum, { id }) => sum + (sandbox.truth.sold(id)?.length ?? 0), 0),
      boughtAgain: bought.length - 1,
      said: first.stdout + first.stderr,
      codes: [...codes, first.code, again.code],
    }
  } finally {
    await sandbox.close()
    await warehouse.drop()
    rmSync(folder, { recursive: true, force: true })
  }
}

const monthAfter = (month: string, count: number): string => {
  const at = Number(month.slice(0, 4)) * 12 + Number(month.slice(5, 7)) - 1 + count
  return `${Math.floor(at / 12)}-${String((at % 12) + 1).padStart(2, '0')}`
}

const metrics = [
  'all_traffic_visits',
  'mobile_visits',
  'desktop_visits',
  'desktop_unique_visitors',
  'mobile_unique_visitors',
  'all_page_views',
]

/** The shipped pipeline with fewer metrics, and its table. */
export const writeDefinition = async (
  folder: string,
  { domains, metrics: wanted, seed }: Pick<Case, 'domains' | 'metrics' | 'seed'>,
  warehouse: Pick<Warehouse, 'change'>,
): Promise<void> => {
  mkdirSync(join(folder, 'pipelines'))
  const text = readFileSync(join(pipelinesOfRepository, 'traffic_and_engagement.yaml'), 'utf8')
  const left = metrics.slice(wanted)
  const isOfOneLeft = (line: string): boolean =>
    left.includes(/^ {4}(\w+):/.exec(line)?.[1] ?? '') ||
    (/^ {2}\w+: \{ column:/.test(line) && left.some((name) => line.includes(name)))
  const lines = text.split('\n').filter((line) => !isOfOneLeft(line))
  for (const table of ['traffic_and_engagement_v1', 'traffic_and_engagement_v1_history'])
    for (const column of left) await warehouse.change(`alter table data.${table} drop column ${column} cascade`)
  writeFileSync(
    join(folder, 'pipelines', 'traffic_and_engagement.yaml'),
    lines.join('\n').replace('poll_every: 5s', 'poll_every: 100ms'),
  )
  const names = Array.from({ length: domains }, (_, at) => `d${at}-${seed}.example`)
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${names.join('\n')}\n`)
}
