// The table a dry run prints, and its summary with the same keys as a real one.

import { showWindow } from '../core/window.ts'
import type { DryRun, DryRunPipeline, DryRunUnit } from '../pipeline/dry-run.ts'
import { formatNumber, formatSeconds, type Output } from './output.ts'

const sum = (units: readonly DryRunUnit[], pick: (unit: DryRunUnit) => number | null): number =>
  units.reduce((total, unit) => total + (pick(unit) ?? 0), 0)

const dashed = (value: number | null): string => (value === null ? '-' : formatNumber(value))

export const printDryRun = (output: Output, command: string, estimate: DryRun): void => {
  const { units, pipelines, asked, idle } = estimate
  for (const unit of units) output.event({ event: 'unit', ...unit })
  for (const pipeline of pipelines) output.event({ event: 'pipeline', ...pipeline })
  output.event(summaryOf(command, estimate))
  output.table(
    ['pipeline', 'units', 'requests', 'reports', 'rows', 'quota', 'time', 'known from'],
    pipelines.map((pipeline) =>
      rowOf(
        pipeline,
        units.filter((unit) => unit.pipeline === pipeline.pipeline),
      ),
    ),
  )
  const done = idle.filter((unit) => unit.reason === 'done').length
  const unpublished = idle.filter((unit) => unit.reason === 'not-published').length
  const held = idle.filter((unit) => unit.reason === 'held').length
  output.line()
  output.line(
    `${units.length} units to load; ${done} are loaded already, ${unpublished} are not published yet, ${held} are held.`,
  )
  for (const window of unpublishedWindows(idle))
    output.line(`${window} is not published yet; the same command loads it once it is.`)
  output.line(
    `Nothing was spent: no report was submitted, no keywords were read. ${formatNumber(asked)} free requests asked the service for its prices.`,
  )
  if (units.some(({ reports }) => reports > 0))
    output.line('A report is looked at once here; one that takes long is looked at more often.')
  if (units.some(({ from }) => from === 'unknown'))
    output.line('- : neither the service nor an earlier load tells. A walk of unknown size is counted as one request.')
}

/** Newest first, each once; a long list ends in its count. */
const unpublishedWindows = (idle: DryRun['idle']): string[] => {
  const windows = [...new Set(idle.filter(({ reason }) => reason === 'not-published').map(({ window }) => showWindow(window)))]
  return windows.length > 3 ? [...windows.slice(0, 2), `and each of ${windows.length - 2} more`] : windows
}

const rowOf = ({ pipeline, rowsError, quotaError, seconds }: DryRunPipeline, units: readonly DryRunUnit[]): string[] => [
  pipeline,
  formatNumber(units.length),
  formatNumber(sum(units, (unit) => unit.requests)),
  formatNumber(sum(units, (unit) => unit.reports)),
  units.every((unit) => unit.rows === null) ? '-' : dashed(sum(units, (unit) => unit.rows)),
  units.every((unit) => unit.quota === null) ? '-' : dashed(sum(units, (unit) => unit.quota)),
  formatSeconds(seconds),
  [...new Set(units.map((unit) => unit.from))].join(', ') + errorWords(units, rowsError, quotaError),
]

/** How far guesses from history were off so far; nothing where nothing is guessed. */
const errorWords = (units: readonly DryRunUnit[], rowsError: number | null, quotaError: number | null): string => {
  const guessed = units.filter(({ from, rows }) => from === 'history' || (from === 'service' && rows !== null))
  if (guessed.length === 0) return ''
  const shown = (error: number): string => `±${(error * 100).toFixed(1)} %`
  const words = [
    rowsError === null ? 'rows: error not known yet' : `rows ${shown(rowsError)}`,
    ...(guessed.some(({ from, reports }) => from === 'history' && reports > 0)
      ? [quotaError === null ? 'quota: error not known yet' : `quota ${shown(quotaError)}`]
      : []),
  ]
  return ` (${words.join(', ')})`
}

const summaryOf = (command: string, { units, idle, asked, pipelines }: DryRun): Record<string, unknown> => {
  const count = (reason: string): number => idle.filter((unit) => unit.reason === reason).length
  const rows = sum(units, (unit) => unit.rows)
  return {
    event: 'summary',
    command,
    dry_run: true,
    run_id: null,
    units: {
      planned: units.length + idle.length,
      loaded: units.length,
      unchanged: count('done'),
      waiting: count('not-published'),
      held: count('held'),
      failed: 0,
    },
    rows: { read: rows, inserted: rows, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
    requests: sum(units, (unit) => unit.requests),
    reports_submitted: sum(units, (unit) => unit.reports),
    quota_used: sum(units, (unit) => unit.quota),
    bytes: 0,
    seconds: Math.round(pipelines.reduce((total, { seconds }) => total + seconds, 0) * 10) / 10,
    free_requests: asked,
  }
}
