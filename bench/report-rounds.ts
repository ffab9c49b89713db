// Reports: first loads, the same again, restated rows, a backfill; floor and Millrace in turns.
import type { DatabaseClient } from '../src/db/connect.ts'
import { monthsFrom, type ReportBody, reportFile } from './bodies.ts'
import { createFloor, type Floor } from './floor.ts'
import { type CommandRun, runMeasured } from './measured-command.ts'
import { serverProcessor } from './processor.ts'
import { forget, forgetLedger, owe, type Project } from './project.ts'
import type { GoalId } from './goals.ts'
import { median, type Results } from './results.ts'
import type { Sizes } from './sizes.ts'

const month = '2026-01'
const backfillMonths = Array.from({ length: 12 }, (_, index) => `2025-${String(index + 1).padStart(2, '0')}`)
const otherRows = `insert into data.report_v1 select 'other-' || domain, country, "date", m_a, m_b, m_c, m_d, m_e, m_f, 0, 0, 1, _loaded_at from data.report_v1`

export interface Timing {
  readonly floor: number[]
  readonly ours: number[]
  /** Bytes of WAL that Millrace caused. */
  readonly wal: number[]
  /** Processor seconds of the server and the process that measures, then of the server and Millrace's own. */
  readonly floorProcessor: number[]
  readonly oursProcessor: number[]
}

interface Bench {
  readonly project: Project
  readonly client: DatabaseClient
  readonly floor: Floor
  /** Seconds the server has used. */
  readonly server: () => number | null
  readonly timings: Map<string, Timing>
  readonly peaks: number[]
}

const backfill = (project: Project, pipeline: string, expected: Readonly<Record<string, number>>, more: readonly string[] = []) =>
  runMeasured(project, ['backfill', pipeline, '--from', month, '--to', month, ...more], expected)

const serve = async ({ project }: Bench, body: ReportBody): Promise<string> => {
  await project.service.tell({ do: 'reports', files: { [`report-${body.month}`]: reportFile(project.bodies, body) } })
  return `${project.service.url}/body/report-${body.month}`
}

const walPosition = async (client: DatabaseClient): Promise<number> => {
  const { rows } = await client.query<{ at: string }>(`select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as at`)
  return Number(rows[0]?.at ?? 0)
}

/** The floor first, then Millrace; between two measurements a checkpoint, so that none pays for what another wrote. */
const inTurns = async (bench: Bench, id: string, floor: () => Promise<void>, ours: () => Promise<CommandRun>): Promise<void> => {
  const { client, server, timings, peaks } = bench
  const timing = timings.get(id) ?? { floor: [], ours: [], wal: [], floorProcessor: [], oursProcessor: [] }
  timings.set(id, timing)
  await client.query('checkpoint')
  const usedBefore = (server() ?? Number.NaN) + process.cpuUsage().user / 1e6 + process.cpuUsage().system / 1e6
  const started = performance.now()
  await floor()
  timing.floor.push((performance.now() - started) / 1000)
  const { user, system } = process.cpuUsage()
  timing.floorProcessor.push((server() ?? Number.NaN) + (user + system) / 1e6 - usedBefore)
  await client.query('checkpoint')
  const before = await walPosition(client)
  const serverBefore = server() ?? Number.NaN
  const run = await ours()
  timing.oursProcessor.push((server() ?? Number.NaN) - serverBefore + (run.processorSeconds ?? Number.NaN))
  timing.wal.push((await walPosition(client)) - before)
  timing.ours.push(run.seconds)
  if (run.peakMegabytes !== null) peaks.push(run.peakMegabytes)
  process.stderr.write(
    `  ${id}: floor ${timing.floor.at(-1)?.toFixed(2)} s, Millrace ${run.seconds.toFixed(2)} s, ${run.peakMegabytes?.toFixed(0)} MB\n`,
  )
}

const round = async (bench: Bench, rows: number): Promise<void> => {
  const { project, client, floor } = bench
  const { database } = project
  const first = { month, rows, restated: 0 }
  const url = await serve(bench, first)
  await forget(project, 'report')
  await floor.reset()
  await inTurns(
    bench,
    'empty',
    () => floor.intoEmpty(url),
    () => backfill(project, 'report', { 'rows.inserted': rows }),
  )
  await client.query('vacuum analyze data.report_v1')
  await client.query('vacuum analyze public.floor_target')
  await inTurns(
    bench,
    'unchanged',
    () => floor.difference(url),
    () => backfill(project, 'report', { 'rows.unchanged': rows }, ['--force']),
  )
  await owe(database)
  await inTurns(
    bench,
    'same-body',
    () => floor.difference(url),
    () => backfill(project, 'report', { reports_submitted: 1, 'rows.read': 0, 'units.failed': 0 }),
  )
  const restated = await serve(bench, { month, rows, restated: 100 })
  await inTurns(
    bench,
    'restated',
    () => floor.restate(restated),
    () => backfill(project, 'report', { 'rows.updated': rows / 100 }, ['--force']),
  )
  await filled(bench, await serve(bench, first), rows)
}

/** Other slices' rows stand in the month; the unit's own are new. */
const filled = async (bench: Bench, url: string, rows: number): Promise<void> => {
  const { project, client, floor } = bench
  await client.query(otherRows)
  await client.query(`delete from data.report_v1 where domain not like 'other-%'`)
  await client.query('truncate data.report_v1_history')
  await client.query(`update public.floor_target set domain = 'other-' || domain`)
  await client.query('vacuum full analyze public.floor_target')
  await client.query('vacuum full analyze data.report_v1')
  await forgetLedger(project)
  await inTurns(
    bench,
    'filled',
    () => floor.upsert(url),
    () => backfill(project, 'report', { 'rows.inserted': rows }),
  )
}

/** Twelve months, none loaded yet, in one command; the floor is the sum of twelve first loads into an empty table. */
const twelveMonths = async (bench: Bench, rows: number): Promise<void> => {
  const { project, floor } = bench
  await forget(project, 'report_fifth')
  const files = Object.fromEntries(
    backfillMonths.map((name) => [`report_fifth-${name}`, reportFile(project.bodies, { month: name, rows, restated: 0 })]),
  )
  await project.service.tell({ do: 'reports', files })
  await inTurns(
    bench,
    'backfill',
    async () => {
      await floor.reset()
      await project.database.pool.query('alter table public.floor_target add primary key (domain, country, "date")')
      for (const name of backfillMonths) await floor.upsert(`${project.service.url}/body/report_fifth-${name}`)
    },
    () =>
      runMeasured(project, ['backfill', 'report_fifth', '--from', '2025-01', '--to', '2025-12'], {
        reports_submitted: 12,
        'rows.inserted': rows * 12,
      }),
  )
}

/** All in one report; none of them is there yet. */
const manyMonths = async (bench: Bench, rows: number): Promise<void> => {
  const { project, floor } = bench
  const months = monthsFrom('2023-02', 36)
  const [from = '', to = ''] = [months[0], months.at(-1)]
  await forget(project, 'report_long')
  const file = reportFile(project.bodies, { month: from, months: months.length, rows, restated: 0 })
  await project.service.tell({ do: 'reports', files: { [`report_long-${from}`]: file } })
  await inTurns(
    bench,
    'months',
    () => floor.intoMonths(`${project.service.url}/body/report_long-${from}`, months),
    () =>
      runMeasured(project, ['backfill', 'report_long', '--from', from, '--to', to], {
        reports_submitted: 1,
        'rows.inserted': Math.floor(rows / months.length) * months.length,
      }),
  )
}

/** Interleaved rounds of what `measure` does in one; the rows of these goals are made of them. @returns peaks of memory */
const measureRounds = async (
  project: Project,
  client: DatabaseClient,
  { rounds }: Sizes,
  results: Results,
  goals: readonly GoalId[],
  measure: (bench: Bench) => Promise<void>,
): Promise<readonly number[]> => {
  const server = await serverProcessor(client)
  const bench: Bench = { project, client, server, floor: createFloor(client), timings: new Map(), peaks: [] }
  for (let number = 1; number <= rounds; number += 1) {
    process.stderr.write(`round ${number} of ${rounds}\n`)
    await measure(bench)
  }
  for (const id of goals) {
    const timing = bench.timings.get(id)
    if (timing === undefined) continue
    const [floor, ours] = [median(timing.floor), median(timing.ours)]
    const used = [timing.floorProcessor, timing.oursProcessor].map((seconds) => `${median(seconds).toFixed(1)} s`)
    const note = `processor ${used.join(' and ')}; ${(median(timing.wal) / 1e6).toFixed(0)} MB WAL`
    results.set(id, { value: ours / floor, floor, ours, note })
  }
  return bench.peaks
}

export const measureReports = async (project: Project, client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  const ids = ['filled', 'empty', 'unchanged', 'same-body', 'restated', 'backfill'] as const
  const peaks = await measureRounds(project, client, sizes, results, ids, async (bench) => {
    await round(bench, sizes.rows)
    await twelveMonths(bench, sizes.rows / 5)
  })
  if (peaks.length > 0) results.set('memory', { value: Math.max(...peaks), note: 'the highest of all rounds and kinds of load' })
}

export const measureWindows = async (project: Project, client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  await measureRounds(project, client, sizes, results, ['months'], (bench) => manyMonths(bench, sizes.rows))
}
