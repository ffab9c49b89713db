// The table a dry run prints, and its summary with the same keys as a real one.
import type { DryRun, DryRunUnit } from '../run/dry-run.ts'
import { formatNumber, type Output } from './output.ts'

const sum = (units: readonly DryRunUnit[], pick: (unit: DryRunUnit) => number | null): number =>
  units.reduce((total, unit) => total + (pick(unit) ?? 0), 0)

const dashed = (value: number | null): string => (value === null ? '-' : formatNumber(value))

export const printDryRun = (output: Output, command: string, { units, idle }: DryRun): void => {
  for (const unit of units) output.event({ event: 'unit', ...unit })
  output.event(summaryOf(command, { units, idle }))
  const pipelines = [...new Set(units.map((unit) => unit.pipeline))]
  output.table(
    ['pipeline', 'units', 'requests', 'reports', 'rows', 'quota', 'known from'],
    pipelines.map((pipeline) =>
      rowOf(
        pipeline,
        units.filter((unit) => unit.pipeline === pipeline),
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
  output.line('Nothing was spent. Polls of open reports are not counted.')
}

const rowOf = (pipeline: string, units: readonly DryRunUnit[]): string[] => [
  pipeline,
  formatNumber(units.length),
  formatNumber(sum(units, (unit) => unit.requests)),
  formatNumber(sum(units, (unit) => unit.reports)),
  units.every((unit) => unit.rows === null) ? '-' : dashed(sum(units, (unit) => unit.rows)),
  units.every((unit) => unit.quota === null) ? '-' : dashed(sum(units, (unit) => unit.quota)),
  [...new Set(units.map((unit) => unit.from))].join(', '),
]

const summaryOf = (command: string, { units, idle }: DryRun): Record<string, unknown> => {
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
    seconds: 0,
  }
}
