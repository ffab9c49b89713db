// What a run leaves to a person, or to the nights to come: what waits for approval, what is beyond a budget.
import { stopsWith } from '../db/stoppable.ts'
import { type Paced, paceRun } from '../plan/pace-backfill.ts'
import type { RunResult } from '../run/run-jobs.ts'
import type { Runtime } from '../run/runtime.ts'
import { notify } from '../schedule/notify/send-alarms.ts'
import { type WaitingWord, waitingWords } from '../web/reads/read-approvals.ts'
import { formatNumber, type Output, some } from './output.ts'
import { exitCodeOf, printSummary } from './summary.ts'

/** What is left to tell once a run has ended: budgets it waits for, and what waits for a person. */
export interface AfterRun {
  readonly paced: readonly Paced[]
  readonly waiting: readonly WaitingWord[]
}

/** @param by whose word keeps what is beyond a budget; null: nobody gave one. A run that was stopped keeps nothing. */
export const afterRun = async (runtime: Runtime, { runId, state }: RunResult, by: string | null): Promise<AfterRun> => {
  const { definitions, database } = runtime
  const isWhole = state === 'done' || state === 'failed'
  const find = async (): Promise<AfterRun> => ({
    paced: await paceRun(runtime, definitions, runId, isWhole ? by : null),
    waiting: await waitingWords(
      database.kysely,
      definitions.map(({ pipeline }) => pipeline),
    ),
  })
  return isWhole ? find() : stopsWith(AbortSignal.timeout(stoppedForMs), find).catch(() => ({ paced: [], waiting: [] }))
}

/** Messages, for which a run that was stopped takes no longer either. */
export const tellAfter = (runtime: Runtime, { state }: RunResult): Promise<void> =>
  state === 'done' || state === 'failed' ? notify(runtime) : stopsWith(AbortSignal.timeout(stoppedForMs), () => notify(runtime))

/** A run that was stopped tells what can be read in this time, and ends also where somebody locks what tells it. */
const stoppedForMs = 500

/** For machines, before the summary: that one is the last line. */
const afterEvents = (output: Output, { paced, waiting }: AfterRun): void => {
  for (const one of waiting) output.event({ event: 'needs_approval', ...one, approve: `millrace approve ${one.pipeline}` })
  for (const { doneOn, ...one } of paced) output.event({ event: 'paced', ...one, done_on: doneOn })
}

/** For people, after the summary. */
const printAfter = (output: Output, { paced, waiting }: AfterRun): void => {
  for (const { pipeline, reports, credits, doneOn } of paced)
    output.line(
      `${pipeline}: ${some(reports, 'report')} (about ${some(credits, 'credit')}) wait for the budget. Every night continues with them, newest month first` +
        `${doneOn === null ? '' : `; the last about ${doneOn}`}.`,
    )
  for (const { pipeline, units, reports, credits, priced, allowed } of waiting)
    output.line(
      `${pipeline}: ${some(units, 'unit')} (${reports === 0 ? '' : `${some(reports, 'report')}, `}${priced ? `about ${some(credits, 'credit')}` : 'price not known'}) need approval${allowed === null ? '' : `: a night may cost ${formatNumber(allowed)}`}. \`millrace approve ${pipeline}\` allows them.`,
    )
}

/** A command that worked on units, at its end. */
export interface Ended {
  readonly command: 'run' | 'backfill'
  readonly result: RunResult
  readonly after: AfterRun
  /** Units that are not yet published, or wait for a budget, do not make the command fail. */
  readonly waitingIsDone: boolean
}

/** The last words of a command that worked on units. Returns its exit code. */
export const sayEnded = (output: Output, { command, result, after, waitingIsDone }: Ended): number => {
  afterEvents(output, after)
  printSummary(output, command, result)
  printAfter(output, after)
  return exitCodeOf(result, waitingIsDone)
}
