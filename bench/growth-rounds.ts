// How cost and memory grow: a tenth, once and ten times the rows; and a warehouse that holds many already.
import type { DatabaseClient } from '../src/db/connect.ts'
import { reportFile } from './bodies.ts'
import { runMeasured } from './measured-command.ts'
import { forget, forgetLedger, type Project, reportPipelines } from './project.ts'
import { exponentOf, median, type Results } from './results.ts'
import type { Sizes } from './sizes.ts'

const month = '2026-01'

const load = async (project: Project, pipeline: keyof typeof reportPipelines, rows: number) => {
  await forget(project, pipeline)
  const file = reportFile(project.bodies, { month, rows, restated: 0 })
  await project.service.tell({ do: 'reports', files: { [`${pipeline}-${month}`]: file } })
  await project.database.pool.query('checkpoint')
  const run = await runMeasured(project, ['backfill', pipeline, '--from', month, '--to', month], { 'rows.inserted': rows })
  process.stderr.write(`  ${rows} rows: ${run.seconds.toFixed(2)} s, ${Math.round(run.peakMegabytes ?? 0)} MB\n`)
  return run
}

export const measureGrowth = async (project: Project, _client: DatabaseClient, sizes: Sizes, results: Results): Promise<void> => {
  const points: [number, number][] = []
  const peaks: (number | null)[] = []
  for (const pipeline of ['growth_tenth', 'growth_once', 'growth_tenfold'] as const) {
    const rows = sizes.rows * reportPipelines[pipeline].share
    const runs = []
    for (let number = 0; number < (rows > sizes.rows ? 1 : Math.min(3, sizes.rounds)); number += 1)
      runs.push(await load(project, pipeline, rows))
    points.push([rows, median(runs.map((run) => run.seconds))])
    peaks.push(runs.every((run) => run.peakMegabytes !== null) ? median(runs.map((run) => run.peakMegabytes ?? 0)) : null)
  }
  const [, once, tenfold] = peaks
  const list = points.map(([rows, seconds]) => `${rows}: ${seconds.toFixed(2)} s`).join(', ')
  results.set('cost-rows', { value: exponentOf(points), note: list })
  if (typeof once === 'number' && typeof tenfold === 'number')
    results.set('memory-growth', { value: tenfold / once, note: `${Math.round(once)} MB, then ${Math.round(tenfold)} MB` })
}

/** Rows by the server itself, in twenty-four earlier months and in the month to be loaded. */
const fill = async ({ database }: Project, rows: number): Promise<void> => {
  const months = Array.from(
    { length: 24 },
    (_, index) => `${2023 + Math.floor(index / 12)}-${String((index % 12) + 1).padStart(2, '0')}`,
  )
  const each = Math.floor(rows / months.length)
  const next = (name: string): string => `(date '${name}-01' + interval '1 month')`
  for (const name of months) {
    const table = `data.report_v1_p${name.replace('-', '')}`
    await database.pool.query(`create table ${table} (like data.report_v1 including all)`)
    await database.pool.query(`insert into ${table} select 'other-' || lpad((n / 1023)::text, 6, '0') || '.example.com', 'c' || (n / 31) % 33,
      date '${name}-01' + (n % 28), n * 97, n / 8.0, n * 3, n, n % 100, 0.5, 0, 0, 1, now() from generate_series(1, ${each}) n
      on conflict do nothing`)
    const { rows: bound } = await database.pool.query<{ upper: string }>(`select ${next(name)}::date as upper`)
    await database.pool.query(
      `alter table data.report_v1 attach partition ${table} for values from ('${name}-01') to ('${bound[0]?.upper}')`,
    )
  }
  await database.pool.query('analyze data.report_v1')
}

export const measureFullWarehouse = async (
  project: Project,
  _client: DatabaseClient,
  sizes: Sizes,
  results: Results,
): Promise<void> => {
  const { rows, warehouseRows } = sizes
  if (warehouseRows === 0) return
  const file = reportFile(project.bodies, { month, rows, restated: 0 })
  await project.service.tell({ do: 'reports', files: { [`report-${month}`]: file } })
  const first = async (): Promise<number> => {
    await project.database.pool.query(`drop table if exists data.report_v1_p202601`)
    await forgetLedger(project)
    await project.database.pool.query('checkpoint')
    const run = await runMeasured(project, ['backfill', 'report', '--from', month, '--to', month], { 'rows.inserted': rows })
    return run.seconds
  }
  await forget(project, 'report')
  const empty = [await first(), await first(), await first()]
  process.stderr.write(`  filling the warehouse with ${warehouseRows} rows\n`)
  await fill(project, warehouseRows)
  const full = [await first(), await first(), await first()]
  const { rows: counted } = await project.database.pool.query<{ n: string }>('select count(*) as n from data.report_v1')
  await forget(project, 'report')
  results.set('full-warehouse', {
    value: median(empty) / median(full),
    floor: median(empty),
    ours: median(full),
    note: `${counted[0]?.n} rows, against empty`,
  })
}
