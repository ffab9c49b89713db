// The ledger's memory of one unit's report: every step commits before it returns, under the unit's fence.
import { type Kysely, type Selectable, sql, type Transaction } from 'kysely'
import type { Budget } from '../core/budget.ts'
import { EtlError } from '../core/errors.ts'
import type { ReportIntent, ReportMemo, ReportRecord } from '../core/report.ts'
import type { ReportState } from '../core/types.ts'
import type { ReportsTable, Tables } from '../db/tables.ts'
import { reserveBudget } from './budget.ts'
import { databaseNow } from './database-now.ts'
import { mayBegin, reportTransitions, type Transition } from './transitions.ts'
import { type ClaimedUnit, lockUnit } from './units.ts'

type Db = Kysely<Tables>

export interface ReportMemoOptions {
  readonly account: string
  readonly pipeline: string
  readonly runId: number
  readonly deadlineMs: number
  /** What the account allows. */
  readonly requestsPerSecond: number
  /** Credits this pipeline may spend; null: no limit. */
  readonly budget: Budget
  /** Credits the account may spend over all its pipelines. */
  readonly accountBudget: Budget
}

/** Of the rate, what looks at open reports may take; the rest is for submissions and downloads. */
const shareOfLooks = 0.5

export const reportMemo = (db: Db, claim: ClaimedUnit, options: ReportMemoOptions): ReportMemo => {
  const change = (work: (trx: Transaction<Tables>) => Promise<void>): Promise<void> =>
    db.transaction().execute(async (trx) => {
      await lockUnit(trx, claim)
      await work(trx)
    })
  const set = (transition: Transition<ReportState>, values: Values): Promise<void> =>
    change((trx) => updateNewest(trx, claim, transition, values))
  return {
    current: async () => {
      const row = await newest(db, claim)
      return row === undefined ? null : recordOf(row)
    },
    intend: (intent) => change((trx) => insertIntent(trx, claim, options, intent)),
    submitted: (reportId, statusWord) =>
      set(reportTransitions['id known'], {
        state: 'submitted',
        report_id: reportId,
        status_word: statusWord,
        submitted_at: databaseNow,
        error_message: null,
      }),
    polled: ({ statusWord, nextPollAt }) =>
      set(stillOpen, { status_word: statusWord, next_poll_at: new Date(nextPollAt).toISOString(), polls: sql`polls + 1` }),
    fairPauseMs: async () => {
      const { rows } = await sql<{ n: number }>`
        select count(*)::int as n from etl.reports where state = 'submitted' and account = ${options.account}`.execute(db)
      return ((rows[0]?.n ?? 0) * 1_000) / (options.requestsPerSecond * shareOfLooks)
    },
    ready: ({ statusWord, usedQuota, dataPoints }) =>
      set(reportTransitions.done, {
        state: 'ready',
        status_word: statusWord,
        used_quota: usedQuota,
        data_points_count: dataPoints,
        completed_at: databaseNow,
        polls: sql`polls + 1`,
      }),
    retried: () =>
      set(reportTransitions['free retry'], {
        state: 'submitted',
        retries: sql`retries + 1`,
        next_poll_at: null,
        error_message: null,
      }),
    uncertain: (message) => set(reportTransitions['answer lost'], { state: 'uncertain', error_message: message }),
    withdrawn: () => change((trx) => deleteIntent(trx, claim)),
    failed: (state, message) => set(endings[state], { state, error_message: message, completed_at: databaseNow }),
  }
}

const stillOpen: Transition<ReportState> = {
  from: [...reportTransitions['not yet'].from, ...reportTransitions['link not good yet'].from],
  to: [],
}

const endings = {
  failed: reportTransitions.failed,
  rejected: reportTransitions.rejected,
  expired: reportTransitions['link gone for good'],
}

type Values = Readonly<Record<string, unknown>>
type ReportRow = Selectable<ReportsTable>

const newest = (db: Db, claim: ClaimedUnit): Promise<ReportRow | undefined> =>
  db
    .selectFrom('etl.reports')
    .selectAll()
    .where('unit_id', '=', String(claim.unitId))
    .where('edition', '=', claim.edition)
    .orderBy('submission', 'desc')
    .limit(1)
    .executeTakeFirst()

const milliseconds = (text: string | null): number | null => (text === null ? null : Date.parse(text))
const number = (text: string | null): number | null => (text === null ? null : Number(text))

const recordOf = (row: ReportRow): ReportRecord => ({
  reportKey: row.report_key,
  submission: row.submission,
  state: row.state,
  requestHash: row.request_hash,
  reportId: row.report_id,
  statusWord: row.status_word,
  polls: row.polls,
  nextPollAt: milliseconds(row.next_poll_at),
  retries: row.retries,
  deadlineAt: milliseconds(row.deadline_at),
  estimatedQuota: number(row.estimated_quota),
  usedQuota: number(row.used_quota),
})

const updateNewest = async (trx: Db, claim: ClaimedUnit, transition: Transition<ReportState>, values: Values): Promise<void> => {
  const assignments = Object.entries({ ...values, updated_at: databaseNow }).map(
    ([name, value]) => sql`${sql.ref(name)} = ${value}`,
  )
  // An id that is on record stays: another one would be another report.
  const id = values['report_id']
  const sameId = id === undefined ? sql`true` : sql`coalesce(report_id, ${id}) = ${id}`
  const { rows } = await sql`
    update etl.reports set ${sql.join(assignments)}
    where report_key = (select max(report_key) from etl.reports
        where unit_id = ${claim.unitId}::bigint and edition = ${claim.edition})
      and ${mayBegin('state', transition)} and ${sameId}
    returning report_key`.execute(trx)
  if (rows.length === 0) throw notAllowed(claim, await newest(trx, claim), values)
}

const notAllowed = (claim: ClaimedUnit, found: ReportRow | undefined, values: Values): EtlError =>
  new EtlError(
    'INTERNAL',
    `${claim.unit.key}: report ${found?.report_id ?? '(id not known)'} is ${found?.state ?? 'not on record'} and cannot become ` +
      `${String(values['state'] ?? 'polled')}; please report this defect.`,
  )

const insertIntent = async (trx: Db, claim: ClaimedUnit, options: ReportMemoOptions, intent: ReportIntent): Promise<void> => {
  await refuseCancelled(trx, options.runId)
  const before = await newest(trx, claim)
  const mayFollow: readonly ReportState[] = reportTransitions.intend.from
  if (before !== undefined && !mayFollow.includes(before.state)) {
    throw new EtlError(
      'INTERNAL',
      `${claim.unit.key}: report ${before.report_id ?? '(id not known)'} is ${before.state}; another must not be submitted.`,
    )
  }
  await reserveBudget(trx, { ...options, estimated: intent.estimatedQuota, unitKey: claim.unit.key })
  await trx
    .insertInto('etl.reports')
    .values({
      unit_id: claim.unitId,
      edition: claim.edition,
      submission: (before?.submission ?? 0) + 1,
      run_id: options.runId,
      account: options.account,
      pipeline: options.pipeline,
      endpoint: intent.endpoint,
      request_hash: intent.requestHash,
      request: JSON.stringify(intent.request),
      state: 'intent',
      estimated_quota: intent.estimatedQuota,
      deadline_at: sql`clock_timestamp() + ${options.deadlineMs} * interval '1 millisecond'`,
    })
    .execute()
}

// The row is locked so that a cancel that comes now waits for this intent, and one that came before is seen.
const refuseCancelled = async (trx: Db, runId: number): Promise<void> => {
  const run = await trx
    .selectFrom('etl.runs')
    .select('cancel_requested_at')
    .where('run_id', '=', String(runId))
    .forShare()
    .executeTakeFirst()
  if (run?.cancel_requested_at) throw new EtlError('CANCELLED', `Run ${runId} was cancelled; nothing more is submitted for it.`)
}

const deleteIntent = async (trx: Db, claim: ClaimedUnit): Promise<void> => {
  await trx
    .deleteFrom('etl.reports')
    .where('unit_id', '=', String(claim.unitId))
    .where('edition', '=', claim.edition)
    .where(mayBegin('state', reportTransitions['certainly not taken']))
    .where('report_id', 'is', null)
    .execute()
}
