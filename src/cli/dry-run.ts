// The table a dry run prints, and its summary with the same keys as a real one.
import type { Preview, PreviewJob, PreviewPipeline } from '../pipeline/dry-run.ts'
import { formatNumber, formatSeconds, type Output } from './output.ts'

const sum = <One>(all: readonly One[], pick: (one: One) => number | null): number =>
  all.reduce((total, one) => total + (pick(one) ?? 0), 0)

export const printDryRun = (output: Output, command: string, preview: Preview): void => {
  const { jobs, pipelines, asked } = preview
  for (const job of jobs) output.event({ event: 'job', ...job })
  for (const pipeline of pipelines) output.event({ event: 'pipeline', ...pipeline })
  output.event(summaryOf(command, preview))
  output.table(
    ['pipeline', 'units', 'requests', 'reports', 'rows', 'quota', 'time', 'known from'],
    pipelines.map((pipeline) =>
      rowOf(
        pipeline,
        jobs.filter((job) => job.pipeline === pipeline.pipeline),
      ),
    ),
  )
  output.line()
  output.line(
    `${formatNumber(sum(jobs, ({ units }) => units))} units to load; ${formatNumber(sum(pipelines, ({ done }) => done))} are loaded already, ` +
      `${formatNumber(sum(pipelines, ({ notPublished }) => notPublished))} are not published yet, ${formatNumber(sum(pipelines, ({ held }) => held))} are held.`,
  )
  for (const window of unpublishedWindows(pipelines)) output.line(`${window} is not published yet; run it again once it is.`)
  output.line(
    `Nothing was spent: no report was submitted, no keywords were read. ${formatNumber(asked)} free requests asked the service for its prices.`,
  )
  if (jobs.some(({ reports }) => reports > 0))
    output.line('A report is counted with one poll here; one that takes long is polled more often.')
  if (jobs.some(({ from }) => from === 'unknown'))
    output.line('- : neither the service nor an earlier load tells. A paged unit of unknown size is counted as one request.')
}

/** Newest first, each once; a long list ends in its count. */
const unpublishedWindows = (pipelines: readonly PreviewPipeline[]): string[] => {
  const windows = [...new Set(pipelines.flatMap((pipeline) => pipeline.unpublishedWindows))].sort().reverse()
  return windows.length > 3 ? [...windows.slice(0, 2), `and each of ${windows.length - 2} more`] : windows
}

const rowOf = (pipeline: PreviewPipeline, jobs: readonly PreviewJob[]): string[] => {
  const known = (pick: (job: PreviewJob) => number | null): string =>
    jobs.every((job) => pick(job) === null) ? '-' : formatNumber(sum(jobs, pick))
  return [
    pipeline.pipeline,
    formatNumber(sum(jobs, ({ units }) => units)),
    formatNumber(sum(jobs, ({ requests }) => requests)),
    formatNumber(sum(jobs, ({ reports }) => reports)),
    known(({ rows }) => rows),
    known(({ quota }) => quota),
    formatSeconds(pipeline.seconds),
    [...new Set(jobs.map(({ from }) => from))].join(', ') + errorWords(jobs, pipeline),
  ]
}

/** How far guesses from history were off so far; nothing where nothing is guessed. */
const errorWords = (jobs: readonly PreviewJob[], { rowsError, quotaError }: PreviewPipeline): string => {
  const guessed = jobs.filter(({ from, rows }) => from === 'history' || (from === 'service' && rows !== null))
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

const summaryOf = (command: string, { jobs, pipelines, asked }: Preview): Record<string, unknown> => {
  const [units, rows] = [sum(jobs, (job) => job.units), sum(jobs, (job) => job.rows)]
  const done = sum(pipelines, (one) => one.done)
  const held = sum(pipelines, (one) => one.held)
  const waiting = sum(pipelines, (one) => one.notPublished)
  return {
    event: 'summary',
    command,
    dry_run: true,
    run_id: null,
    units: { planned: units + done + held + waiting, loaded: units, unchanged: done, waiting, held, failed: 0 },
    rows: { read: rows, inserted: rows, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 },
    requests: sum(jobs, ({ requests }) => requests),
    reports_submitted: sum(jobs, ({ reports }) => reports),
    quota_used: sum(jobs, ({ quota }) => quota),
    bytes: 0,
    seconds: Math.round(sum(pipelines, ({ seconds }) => seconds) * 10) / 10,
    free_requests: asked,
  }
}
