// The ledger's memory of one job's report: every step commits before it returns; all but a new id under the job's fence.
import { type RawBuilder, sql, type UpdateObject } from 'kysely'
import { EtlError } from '../core/errors.ts'
import { rounded } from '../core/learned-price.ts'
import type { ReportIntent, ReportMemo, ReportRecord } from '../core/report-shape.ts'
import type { ReportState } from '../core/types.ts'
import { withoutCancel } from '../db/stoppable.ts'
import type { Db, Tables } from '../db/tables.ts'
import { numberOf } from '../db/typed-row.ts'
import { affordable, recordRefusedPrice, type Payer, reserveReport } from './budget.ts'
import type { ClaimedJob } from './claim.ts'
import { databaseNow, msFromNow } from '../db/database-clock.ts'
import { fenced, isClaimedBy, jobRow, lockJob, setClaimed } from './claim-fence.ts'
import { creditsOfUnit, billFactor } from './prices.ts'
import { unknownReports } from './purchases.ts'
import { recordId } from './record-id.ts'
import { isSameApi } from './spent.ts'
import { mayBegin, nothingAsked, reportTransitions, type Transition } from './transitions.ts'
import type { OwnProcess } from './processes.ts'
import { assertMayBuy, forgottenSpan } from './warehouse.ts'

/** What the memory of a purchase must know of its job. */
export interface ReportMemoOptions extends Payer {
  readonly source: string
  readonly runId: number
  readonly process: OwnProcess
  readonly deadlineMs: number
  readonly requestsPerSecond: number
}

/** Share of the request rate that polls of open reports may take; the rest is for submissions and downloads. */
const shareOfPolls = 0.5

/** Each call is one transaction under the job's fence, but for an id that was paid for. */
export const reportMemo = (db: Db, claim: ClaimedJob, options: ReportMemoOptions): ReportMemo => {
  const set = (transition: Transition<ReportState>, values: Values): Promise<void> => change(db, claim, transition, values)
  // A report that a person recorded has no deadline until it is polled.
  const deadline = sql<string>`coalesce(deadline_at, ${msFromNow(options.deadlineMs)})`
  return {
    current: () => current(db, claim),
    affordable: () => affordable(db, claim, options),
    intend: async (intent) => {
      const said = intent.estimatedQuota
      const price = said === 0 ? await priceByBills(db, claim, options) : said && rounded(said * (await billFactor(db, options)))
      await db
        .transaction()
        .execute((trx) => intend(trx, claim, options, { ...intent, price }))
        .catch((error: unknown) => recordRefusedPrice(db, claim, price, error))
    },
    submitted: (reportId, statusWord, letGo = async () => undefined) =>
      withoutCancel(() => recordId(db, claim, { reportId, statusWord, letGo })),
    polled: ({ statusWord, nextPollInMs }) =>
      set(stillOpen, {
        status_word: statusWord,
        next_poll_at: msFromNow(nextPollInMs),
        deadline_at: deadline,
        polls: sql<number>`polls + 1`,
      }),
    forgotten: () => forgottenSpan(db, claim),
    unknown: (reportIds) => unknownReports(db, options.account, reportIds),
    fairPauseMs: async () => ((await openReports(db, options)) * 1_000) / (options.requestsPerSecond * shareOfPolls),
    ready: ({ statusWord, usedQuota, dataPoints }) =>
      set(reportTransitions.done, {
        report_state: 'ready',
        status_word: statusWord,
        used_quota: usedQuota,
        data_points_count: dataPoints,
        // The first time only: the service may say it again for as long as the download is refused.
        completed_at: sql<string>`coalesce(completed_at, clock_timestamp())`,
        next_poll_at: null,
        deadline_at: deadline,
        polls: sql<number>`polls + 1`,
      }),
    retried: () =>
      set(reportTransitions['free retry'], {
        report_state: 'submitted',
        retries: sql<number>`retries + 1`,
        next_poll_at: null,
        deadline_at: deadline,
        completed_at: null,
        error_message: null,
      }),
    uncertain: (message) => set(reportTransitions['answer lost'], { report_state: 'uncertain', error_message: message }),
    withdrawn: () => withdrawIntent(db, claim),
    failed: (state, { statusWord, usedQuota, message }) =>
      set(endings[state], {
        report_state: state,
        status_word: statusWord,
        ...(usedQuota === null ? {} : { used_quota: usedQuota }),
        error_message: message,
        completed_at: databaseNow,
      }),
  }
}

/** A price of 0 named by the service is no price: only bills show whether a report is free. null: there is no bill yet. */
const priceByBills = async (db: Db, { cells }: ClaimedJob, { pipeline }: Payer): Promise<number | null> => {
  const perUnit = await creditsOfUnit(db, pipeline)
  return perUnit === null ? null : rounded(perUnit * cells)
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

type Values = UpdateObject<Tables, 'etl.jobs'>

const ms = (from: RawBuilder<unknown>, to: RawBuilder<unknown>) =>
  sql<number | null>`extract(epoch from ${to} - ${from})::float8 * 1000`

const reportRow = (db: Db, claim: ClaimedJob) =>
  jobRow(db, claim)
    .select(['report_state as state', 'request_hash as requestHash', 'report_id as reportId', 'status_word as statusWord'])
    .select(['polls', 'retries', 'estimated_quota', 'used_quota'])
    .select([
      ms(databaseNow, sql.ref('next_poll_at')).as('nextPollInMs'),
      ms(databaseNow, sql.ref('deadline_at')).as('deadlineInMs'),
      ms(sql.ref('asked_at'), databaseNow).as('askedMsAgo'),
      ms(sql.ref('submitted_at'), databaseNow).as('submittedMsAgo'),
    ])
    .executeTakeFirst()

const current = async (db: Db, claim: ClaimedJob): Promise<ReportRecord | null> => {
  const row = await reportRow(db, claim)
  if (row === undefined || row.state === null) return null
  const { state, estimated_quota: estimated, used_quota: used, ...record } = row
  const quota = { estimatedQuota: numberOf(estimated), usedQuota: numberOf(used) }
  return { jobId: claim.jobId, ...record, state, requestHash: record.requestHash ?? '', ...quota }
}

const change = async (db: Db, claim: ClaimedJob, transition: Transition<ReportState>, values: Values): Promise<void> => {
  if (!(await changed(db, claim, transition, values))) throw await refusal(db, claim, transition)
}

const changed = (db: Db, claim: ClaimedJob, transition: Transition<ReportState>, values: Values): Promise<boolean> =>
  setClaimed(db, claim, { ...values, updated_at: databaseNow }, mayBegin(transition))

/**
 * Idempotent. One statement first: once sent, PostgreSQL carries it out, behind any lock and whatever becomes of this process. Where it finds no
 * intent, a lock waits for an intent whose commit is still in progress.
 */
const withdrawIntent = async (db: Db, claim: ClaimedJob): Promise<void> => {
  const transition = reportTransitions['certainly not taken']
  if (await changed(db, claim, transition, nothingAsked)) return
  await db.transaction().execute(async (trx) => {
    await lockJob(trx, claim)
    if ((await reportRow(trx, claim))?.state === null) return
    await change(trx, claim, transition, nothingAsked)
  })
}

const refusal = async (db: Db, claim: ClaimedJob, transition: Transition<ReportState>): Promise<EtlError> => {
  const held = await db.selectFrom('etl.jobs').select('job_id').where(isClaimedBy(claim)).executeTakeFirst()
  if (held === undefined) return fenced(claim)
  const found = await reportRow(db, claim)
  const about = `${claim.box.key}: report ${found?.reportId ?? '(id not known)'} is ${found?.state ?? 'not on record'}`
  // The sender of the submission recorded its id while this process thought the response lost.
  if (found?.state === 'submitted' && transition === reportTransitions['answer lost'])
    return new EtlError('REPORT_PENDING', `${about}.`)
  return new EtlError(
    'INTERNAL',
    `${about} and cannot become ${transition.to.join(' or ') || 'polled or withdrawn'}; please report this defect.`,
  )
}

/** @param intent `price`: what the service named, corrected by its bills; null: unknown */
const intend = async (
  trx: Db,
  claim: ClaimedJob,
  options: ReportMemoOptions,
  intent: ReportIntent & { readonly price: number | null },
): Promise<void> => {
  await lockJob(trx, claim)
  const before = await reportRow(trx, claim)
  if (before === undefined || before.state !== null)
    throw new EtlError(
      'INTERNAL',
      `${claim.box.key}: report ${before?.reportId ?? '(id not known)'} is ${before?.state}; the same job must not submit another; please report this defect.`,
    )
  await assertMayBuy(trx, options.process, claim.box.key)
  const runId = await waitingRun(trx, claim, options.runId)
  // Without a price the plan's estimate counts; not where the service names 0, since the plan may have used that, too.
  const estimated = intent.price ?? (intent.estimatedQuota === 0 ? null : numberOf(before.estimated_quota))
  await reserveReport(trx, claim, options, estimated)
  await setClaimed(trx, claim, {
    ...{ run_id: runId, report_state: 'intent', endpoint: intent.endpoint, request_hash: intent.requestHash },
    account: options.account,
    ask_number: sql<string>`nextval('etl.ask_numbers')`,
    asked_at: databaseNow,
    tag_set_id: sql<number>`(select p.tag_set_id from etl.pipelines p where p.pipeline_id = etl.jobs.pipeline_id)`,
    request: JSON.stringify(intent.request),
    said_quota: intent.estimatedQuota,
    estimated_quota: estimated,
    deadline_at: msFromNow(options.deadlineMs),
    updated_at: databaseNow,
  })
}

/** Locks the runs: a cancel that comes now waits for this intent, and an earlier cancel is seen. */
const waitingRun = async (trx: Db, { jobId, box }: ClaimedJob, preferred: number): Promise<number> => {
  const entries = trx.selectFrom('etl.run_jobs').select('etl.run_jobs.run_id')
  const waiting = entries.where((eb) => eb.and({ job_id: String(jobId), outcome: null }))
  const rows = await trx
    .selectFrom('etl.runs')
    .select('run_id')
    .where('run_id', 'in', waiting)
    .where((eb) => eb.and({ state: 'running', cancel_requested_at: null }))
    .orderBy('run_id')
    .forShare()
    .execute()
  const runIds = rows.map((row) => Number(row.run_id))
  const runId = runIds.includes(preferred) ? preferred : runIds[0]
  if (runId === undefined) throw new EtlError('CANCELLED', `${box.key}: no run waits for it any more, so nothing is submitted.`)
  return runId
}

const openReports = async (db: Db, { account, pipeline }: ReportMemoOptions): Promise<number> => {
  const row = await db
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .select((eb) => eb.fn.countAll<string>().as('count'))
    .where('j.state', '=', 'open')
    .where('j.ask_number', 'is not', null)
    .where((eb) => eb.and({ 'j.report_state': 'submitted', 'j.account': account }))
    .where(isSameApi('p', pipeline))
    .executeTakeFirstOrThrow()
  return Number(row.count)
}
