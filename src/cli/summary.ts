// The summary of a run: one table for people, one object for machines, and the exit code.
import { counted, formatBytes, formatNumber } from '../core/counted.ts'
import { emptySummary, type RunSummary } from '../ledger/runs.ts'
import type { RunResult } from '../run/run-jobs.ts'
import { formatSeconds, type Output, paint, showWindows, stateTone } from './output.ts'

/** `{"event":"summary",…}`, the last line of `--json`. */
export const summaryEvent = (command: string, runId: number | null, summary: RunSummary, seconds: number) => ({
  ...{ event: 'summary', command, run_id: runId, ...summary, seconds },
})

const runCommands: ReadonlySet<string> = new Set(['run', 'backfill', 'replay', 'quarantine retry', 'release'])

/** The closing object of a command that ended before its run began, or that never has one. */
export const stoppedEvent = (command: string): Record<string, unknown> =>
  runCommands.has(command) ? summaryEvent(command, null, emptySummary, 0) : { event: 'summary', command }

/** The summary, as text or as the last JSON line. @param more fields of this command */
export const printSummary = (
  output: Output,
  command: string,
  result: RunResult & { missing?: number },
  more: Readonly<Record<string, unknown>> = {},
): void => {
  const { runId, summary, seconds, requestsSaved, passed, unanswered, notPublished, listsNotObeyed, state, missing = 0 } = result
  if (requestsSaved > 0) output.event({ event: 'spared', run_id: runId, requests: requestsSaved })
  const { units: later, windows, expectedOn } = notPublished
  if (later > 0) output.event({ event: 'not_published', run_id: runId, units: later, windows, expected_on: expectedOn })
  output.event({ ...summaryEvent(command, runId, summary, seconds), ...more })
  const { units, rows } = summary
  output.line()
  const isLess = (state === 'failed' && units.failed === 0) || (state === 'done' && missing > 0)
  const less =
    units.held > 0
      ? 'units held'
      : listsNotObeyed > 0
        ? `${counted(listsNotObeyed, 'list')} not accepted`
        : missing > 0
          ? `${counted(missing, 'answer')} gone`
          : 'units waiting'
  const how = isLess ? paint('yellow', `ended with ${less}`) : paint(stateTone(state), stateWords[state])
  output.line(`Run ${runId} ${how} in ${formatSeconds(seconds)}: ${unitWords(units, command)}.`)
  output.line(
    `Rows: ${formatNumber(rows.read)} read, ${formatNumber(rows.inserted)} inserted, ${formatNumber(rows.updated)} updated, ` +
      `${formatNumber(rows.ended)} ended, ${formatNumber(rows.unchanged)} unchanged, ${formatNumber(rows.quarantined)} quarantined, ` +
      `${counted(rows.duplicates, 'duplicate')}.`,
  )
  output.line(
    `Service: ${counted(summary.requests, 'request')}, ${counted(summary.reports_submitted, 'report')} submitted, ` +
      `${counted(summary.quota_used, 'credit')} used, ${formatBytes(summary.bytes)}.`,
  )
  const skipped = skippedWords(command, units.unchanged - passed, requestsSaved, unanswered > 0 || state === 'interrupted')
  if (skipped !== null) output.line(skipped)
  if (passed > 0) output.line(`Skipped, a newer answer is loaded already: ${counted(passed, 'unit')}.`)
  if (later > 0)
    output.line(
      `Not published yet by the service: ${showWindows(windows)} (${counted(later, 'unit')}). Nothing was requested for them; run it again once they are published${expectedOn === null ? '' : `: the first is expected on ${expectedOn}`}.`,
    )
  const isOpen = summary.reports_submitted > 0 && summary.units.loaded < units.planned
  const next = state === 'interrupted' ? resumeWords(isOpen) : nextWords(summary, later)
  if (next !== null) output.line(next)
}

/** A nightly run has checked unchanged units at the source; a backfill counts loaded units as unchanged without a request. */
const skippedWords = (command: string, unchanged: number, requestsSaved: number, isPartial: boolean): string | null => {
  if (unchanged === 0 || (command !== 'run' && requestsSaved === 0)) return null
  // A sample request without an answer is repeated as a job of its own; for the rest of its month nothing is known.
  if (isPartial)
    return `Skipped: ${counted(unchanged, 'loaded unit')}, unchanged as far as could be checked; the next run checks again.`
  const saved = requestsSaved === 0 ? '' : `, which saved ${counted(requestsSaved, 'request')}`
  return `Skipped, unchanged at the source: ${counted(unchanged, 'unit')}${saved}.`
}

const stateWords = {
  done: 'done',
  failed: 'ended with failures',
  cancelled: 'was cancelled',
  interrupted: 'was interrupted (state kept)',
} as const

const stateNames = (state: string): string => (state === 'failed' || state === 'held' ? paint(stateTone(state), state) : state)

const unitWords = (units: RunSummary['units'], command: string): string => {
  if (units.planned === 0) return command === 'run' ? 'nothing is due' : 'nothing was loaded'
  const parts = (['loaded', 'unchanged', 'waiting', 'held', 'failed'] as const)
    .filter((state) => units[state] > 0)
    .map((state) => `${formatNumber(units[state])} ${stateNames(state)}`)
  return `${counted(units.planned, 'unit')} planned, ${parts.join(', ') || 'none finished'}`
}

const resumeWords = (hasOpenReports: boolean): string =>
  `Counted until it stopped${hasOpenReports ? ', without reports that are not finished' : ''}. Next: run the same command again to resume.`

const nextWords = ({ units, rows }: RunSummary, notPublished: number): string | null => {
  if (units.failed + units.held > 0) return 'Next: `millrace status` shows what failed or is held, and what to do.'
  if (units.waiting > notPublished)
    return 'Next: run it again later. Waiting units could not be loaded yet (report not finished, month not published, rate or budget used up, service away); `millrace status` names the reason.'
  if (rows.quarantined > 0) return 'Next: `millrace quarantine list` shows the rejected rows.'
  return null
}

/** 0: all done; 1: units failed, were held or did not finish, or a list from the database was not used. Units not yet published do not fail a nightly run. */
export const exitCodeOf = ({ summary, state, unanswered, listsNotObeyed }: RunResult, waitingIsDone: boolean): number => {
  if (state === 'interrupted') return 130
  if (state === 'cancelled') return 1
  if (summary.units.failed + summary.units.held + unanswered + listsNotObeyed > 0) return 1
  return summary.units.waiting > 0 && !waitingIsDone ? 1 : 0
}
