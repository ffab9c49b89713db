// All state transitions of a job and of its report. The statements keep to them, and the diagrams in docs/internals/how-it-works.md equal them.
import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import type { JobState, ReportState } from '../core/types.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { Db, Tables } from '../db/tables.ts'

/** One arrow of the state diagrams in docs/internals/how-it-works.md. */
export interface Transition<State> {
  /** States it may begin in; empty: there was nothing yet. */
  readonly from: readonly State[]
  /** States it may end in; empty: nothing is left. */
  readonly to: readonly State[]
}

/** A transition from `open` needs a claim and names its fence, except to dissolve, and for a late id, which ends the claims before it. */
export const jobTransitions = {
  // A job that waits for approval is held from the start.
  plan: { from: [], to: ['open', 'held'] },
  claim: { from: ['open'], to: ['open'] },
  'not yet': { from: ['open'], to: ['open'] },
  'give back': { from: ['open'], to: ['open'] },
  'needs a person': { from: ['open'], to: ['held'] },
  'cannot succeed': { from: ['open'], to: ['failed'] },
  'load commits': { from: ['open'], to: ['done'] },
  'nothing changed': { from: ['open'], to: ['done'] },
  'cut or asked again': { from: ['open', 'held', 'failed'], to: ['replaced'] },
  release: { from: ['held'], to: ['open'] },
  'judge again': { from: ['held'], to: ['open'] },
  approve: { from: ['held'], to: ['open'] },
  retry: { from: ['failed'], to: ['open'] },
  'late id': { from: ['open', 'held', 'failed', 'replaced'], to: ['open'] },
  dissolve: { from: ['open', 'held'], to: [] },
  // A walk with paid pages.
  'taken back': { from: ['open', 'held', 'failed'], to: ['failed'] },
} as const satisfies Record<string, Transition<JobState>>

/** Of one job, which buys one report at most: buying again takes another job. */
export const reportTransitions = {
  intend: { from: [], to: ['intent'] },
  // Of the failed ones only those without an id: given up before it was known.
  'id known': { from: ['intent', 'submitted', 'uncertain', 'failed'], to: ['submitted'] },
  'answer lost': { from: ['intent', 'uncertain'], to: ['uncertain'] },
  'certainly not taken': { from: ['intent'], to: [] },
  'not yet': { from: ['submitted'], to: ['submitted'] },
  'link not good yet': { from: ['ready'], to: ['ready'] },
  done: { from: ['submitted', 'ready', 'downloaded'], to: ['ready'] },
  'free retry': { from: ['submitted', 'ready'], to: ['submitted'] },
  failed: { from: ['submitted', 'ready', 'downloaded'], to: ['failed'] },
  rejected: { from: ['submitted', 'ready', 'downloaded'], to: ['rejected'] },
  'id adopted': { from: ['intent', 'submitted', 'uncertain', 'failed', 'rejected', 'expired'], to: ['submitted'] },
  'asked about again': { from: ['failed', 'rejected', 'expired'], to: ['submitted'] },
  'given up': { from: ['intent', 'submitted', 'ready', 'uncertain'], to: ['failed', 'expired'] },
  'link gone for good': { from: ['submitted', 'ready', 'downloaded'], to: ['expired'] },
  'bytes landed': { from: ['ready'], to: ['downloaded'] },
  'bytes unusable': { from: ['downloaded'], to: ['ready'] },
} as const satisfies Record<string, Transition<ReportState>>

/** Condition that the report of a job is in a state in which the transition may begin. */
export const mayBegin = ({ from }: Transition<ReportState>): RawBuilder<boolean> =>
  sql<boolean>`report_state = any(${[...from]}::text[])`

/** The report state of a job that was to download its answer again: an answer that is here is read as it is. */
export const asDownloaded = sql<ReportState | null>`case when report_state = 'ready' and answer_id is not null then 'downloaded' else report_state end`

/**
 * Error columns of job `j` that is open again: what a download was refused for is kept, also between runs, since the same twice is no accident (run/judge.ts).
 */
export const openError = (j: RawBuilder<unknown>): RawBuilder<unknown> => {
  const isKept = sql`${j}.report_state = 'ready' and ${j}.error_code = 'TRUNCATED'`
  return sql`error_code = case when ${isKept} then ${j}.error_code end, error_message = case when ${isKept} then ${j}.error_message end`
}

/** Updates one job, with or without a holder. The caller holds its lock. */
export const setJob = async (trx: Db, jobId: number | string, values: UpdateObject<Tables, 'etl.jobs'>): Promise<void> => {
  await trx.updateTable('etl.jobs').set(values).where('job_id', '=', String(jobId)).execute()
}

/** Columns of a job that is a plan again and draws a new number when it is asked for. Its estimate stays: a budget needs it the next time, too. */
export const nothingAsked = {
  ...{ report_state: null, ask_number: null, asked_at: null, endpoint: null, request: null, request_hash: null },
  ...{ said_quota: null, deadline_at: null, tag_set_id: null },
} as const

/** Columns of a job that is worked on again, with all its attempts. */
export const openAgain = {
  state: 'open',
  attempts: 0,
  not_before: null,
  error_code: null,
  error_message: null,
  updated_at: databaseNow,
} as const
