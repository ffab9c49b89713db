// The plan as events: a line for each job, reason, change and pipeline, and a summary with the keys of a real run's.
import { sum } from '../core/counted.ts'
import type { Preview, PreviewJob } from '../plan/dry-run.ts'
import { reasonsOf } from '../web/foresight.ts'
import type { Output } from './output.ts'

/** The plan as JSON lines, its summary last, in the words of a run's summary. */
export const planEvents = (output: Output, command: string, preview: Preview): void => {
  if (!output.json) return
  const { jobs, pipelines } = preview
  for (const job of jobs) output.event({ event: 'job', ...job })
  for (const reason of reasonsOf(jobs)) output.event({ event: 'reason', ...reason })
  for (const { pipeline, changes } of pipelines) {
    for (const change of changes.lists) output.event({ event: 'list_change', pipeline, ...change })
    for (const change of changes.definition) output.event({ event: 'definition_change', pipeline, ...change })
  }
  for (const pipeline of pipelines) output.event({ event: 'pipeline', ...pipeline })
  output.event(summaryOf(command, preview))
}

/** Credits as far as others tell; null: unknown, or every price is known. */
const rangeOf = (jobs: readonly PreviewJob[]): { readonly low: number; readonly high: number } | null =>
  jobs.every(({ quota }) => quota !== null) || jobs.some(({ quota, range }) => quota === null && range === null)
    ? null
    : {
        low: sum(jobs, ({ quota, range }) => quota ?? range?.low ?? 0),
        high: sum(jobs, ({ quota, range }) => quota ?? range?.high ?? 0),
      }

const summaryOf = (command: string, { jobs, pipelines, asked, priced }: Preview): Record<string, unknown> => {
  const now = jobs.filter(({ held }) => !held)
  const waits = jobs.filter(({ held }) => held)
  const [units, rows] = [sum(now, 'units'), sum(now, 'rows')]
  const done = sum(pipelines, 'done')
  const held = sum(pipelines, 'held') + sum(waits, 'units')
  const waiting = sum(pipelines, 'notPublished')
  const known = pipelines.filter(({ forecast }) => forecast !== null)
  return {
    event: 'summary',
    command,
    dry_run: true,
    run_id: null,
    units: { planned: units + done + held + waiting, loaded: units, unchanged: done, waiting, held, failed: 0 },
    rows: { read: rows, inserted: rows, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
    requests: sum(now, 'requests'),
    reports_submitted: sum(now, 'reports'),
    quota_used: sum(now, 'quota'),
    // The price of these is unknown: they are not among the credits.
    unpriced_units: sum(
      now.filter(({ quota }) => quota === null),
      ({ units: ofJob }) => ofJob,
    ),
    quota_range: rangeOf(now),
    bytes: 0,
    seconds: Math.round(sum(pipelines, 'seconds') * 10) / 10,
    free_requests: asked,
    needs_approval: {
      units: sum(waits, 'units') + sum(pipelines, (one) => one.waiting.units),
      reports: sum(waits, 'reports') + sum(pipelines, (one) => one.waiting.reports),
      credits: sum(waits, 'quota') + sum(pipelines, (one) => one.waiting.credits),
    },
    estimated: priced < now.length + waits.length,
    forecast: known.length === 0 ? null : sum(known, 'forecast'),
    done_on:
      pipelines
        .map(({ doneOn }) => doneOn)
        .filter((day) => day !== null)
        .sort()
        .at(-1) ?? null,
  }
}
