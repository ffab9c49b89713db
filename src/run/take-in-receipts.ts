// A receipt for each purchase: the intent before it is sent, the report as soon as its id is on record. What the ledger forgets, they do not.
import { asksOf, metricsOf } from '../core/asks.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { GivenBefore, ReportMemo } from '../core/report-shape.ts'
import { unstopped } from '../db/stoppable.ts'
import { inTime } from '../extract/in-time.ts'
import { type Question, questionSchema } from '../extract/landing-files.ts'
import { boughtPath, intentPath, type Receipt } from '../extract/receipt-files.ts'
import { keyParameters } from '../ledger/pipelines.ts'
import { purchaseWords, receiptWritten } from '../ledger/receipts.ts'
import type { JobWork } from './job-work.ts'

/** What a receipt needs of the work on a job. */
export type ReceiptWork = Pick<JobWork, 'claim' | 'definition' | 'signal'> & {
  readonly runtime: Pick<JobWork['runtime'], 'database' | 'landing' | 'warehouse' | 'log' | 'clock'>
}

/** The same memo, which also leaves receipts. An intent without one is not sent; an id without one is kept, and its receipt tried again at each poll. */
export const withReceipts = (memo: ReportMemo, work: ReceiptWork): ReportMemo => {
  const { log } = work.runtime
  /** As the intent had it, for when the database is away. */
  let intended: Words | null = null
  const leave = (reportId: string): Promise<void> =>
    leaveReceipt(work, reportId, intended).catch((error: unknown) =>
      log.warn({ job_id: work.claim.jobId, error: messageOf(error) }, 'the receipt of a purchase is not written yet'),
    )
  return {
    ...memo,
    current: async () => {
      const record = await memo.current()
      if (record !== null && record.reportId !== null) await leave(record.reportId)
      return record
    },
    intend: async (intent) => {
      let isKnown = false
      try {
        await memo.intend(intent)
        isKnown = true
        intended = await purchaseWords(work.runtime.database.kysely, work.claim.jobId)
        await leaveIntent(work, intended)
      } catch (error) {
        // Nothing was sent. What the ledger refuses is not on record; where the database went away, it may be.
        if (isKnown || !isEtlError(error)) await takeBack(memo, work, intended, messageOf(error)).catch(() => undefined)
        throw error
      }
    },
    submitted: async (reportId, statusWord) => {
      let given: GivenBefore | null = null
      const recorded = memo.submitted(reportId, statusWord, () => forgetIntent(work, intended, reportId))
      const early = intended !== null && (await isLate(recorded, work)) ? await leaveEarly(work, reportId, intended) : null
      try {
        given = await recorded
        if (given !== null && early !== null) await work.runtime.landing.notes.remove(early)
      } finally {
        // Also of an id that the database does not take: the next start finds it here.
        if (given === null) await leave(reportId)
      }
      return given
    },
    withdrawn: (message) => takeBack(memo, work, intended, message),
  }
}

/** Most ledgers take an id in milliseconds. */
const lateMs = 1_000

const isLate = async (recorded: Promise<unknown>, { runtime }: ReceiptWork): Promise<boolean> => {
  const over = new AbortController()
  const isOver = (): false => {
    over.abort()
    return false
  }
  return Promise.race([recorded.then(isOver, isOver), runtime.clock.sleep(lateMs, over.signal).then(() => true, isOver)])
}

/**
 * While somebody's lock keeps the ledger from taking the id, its receipt is what has it: this process may be told to stop, and the next start takes the id up
 * from there. Its path; null: it cannot be written either.
 */
const leaveEarly = async (work: ReceiptWork, reportId: string, intended: Words): Promise<string | null> => {
  const { landing, warehouse, log } = work.runtime
  const path = boughtPath(warehouse, intended.askNumber, intended.account, reportId)
  try {
    await landing.notes.write(path, JSON.stringify(receiptOf(work, { ...intended, reportId })))
    return path
  } catch (error) {
    log.warn(
      { job_id: work.claim.jobId, report_id: reportId, error: messageOf(error) },
      'an id is neither on record nor noted yet',
    )
    return null
  }
}

/** Between tries while the database is away: half a minute in all, as for an id. */
const takeBackPausesMs = [100, 300, 1_000, 3_000, 5_000, 10_000, 10_000]

/**
 * Only this process knows that nothing left: whoever finds the intent after it has to hold it as uncertain, for a person. So a database that is just
 * restarting is waited for, though not by a process that is to stop.
 */
const takeBack = async (memo: ReportMemo, work: ReceiptWork, intended: Words | null, message: string): Promise<void> => {
  const { signal, runtime, claim } = work
  const context = { signal, clock: runtime.clock }
  for (const pause of [...takeBackPausesMs, null]) {
    try {
      return await inTime(
        context,
        unstopped(() => withdraw(memo, work, intended, message)),
      )
    } catch (error) {
      if (pause === null || signal.aborted || isFinal(error)) throw error
      runtime.log.warn({ job_id: claim.jobId, error: messageOf(error) }, 'an intent that was not sent is still on record')
      await runtime.clock.sleep(pause, signal).catch(() => undefined)
    }
  }
}

/** The job is another's by now, or its report is not as this process left it. */
const isFinal = (error: unknown): boolean => isEtlError(error) && (error.code === 'FENCED' || error.code === 'INTERNAL')

/** The receipt goes first: one of which the ledger knows nothing would be taken for that of a newer ledger. */
const withdraw = async (memo: ReportMemo, work: ReceiptWork, intended: Words | null, message: string): Promise<void> => {
  const { landing, warehouse } = work.runtime
  if (intended !== null) await landing.notes.remove(intentPath(warehouse, intended.askNumber))
  await memo.withdrawn(message)
}

const leaveIntent = async (work: ReceiptWork, words: Words | null): Promise<void> => {
  const { landing, warehouse } = work.runtime
  if (words !== null) await landing.notes.write(intentPath(warehouse, words.askNumber), JSON.stringify(receiptOf(work, words)))
}

/** Nothing was bought under the job's own number. What was noted of it goes first, as in `withdraw`. */
const forgetIntent = async (
  { runtime: { landing, warehouse } }: ReceiptWork,
  intended: Words | null,
  reportId: string,
): Promise<void> => {
  if (intended === null) return
  await landing.notes.remove(boughtPath(warehouse, intended.askNumber, intended.account, reportId))
  await landing.notes.remove(intentPath(warehouse, intended.askNumber))
}

const leaveReceipt = async (work: ReceiptWork, reportId: string, intended: Words | null): Promise<void> => {
  const { landing, database, warehouse } = work.runtime
  const words = (await purchaseWords(database.kysely, work.claim.jobId).catch(() => null)) ?? intended
  if (words === null || (words.hasReceipt && words.reportId === reportId)) return
  const path = boughtPath(warehouse, words.askNumber, words.account, reportId)
  await landing.notes.write(path, JSON.stringify(receiptOf(work, { ...words, reportId })))
  await receiptWritten(database.kysely, work.claim.jobId, reportId)
}

/** What an answer was asked for, for its manifest. */
export const questionOf = (definition: JobWork['definition']): Question => ({
  parameters: keyParameters(definition),
  asks: asksOf(definition),
  metrics: metricsOf(definition),
})

type Words = NonNullable<Awaited<ReturnType<typeof purchaseWords>>>

const receiptOf = ({ runtime, claim, definition }: ReceiptWork, words: Words): Receipt => ({
  version: 1,
  warehouse: runtime.warehouse.id,
  epoch: runtime.warehouse.epoch,
  ask_number: words.askNumber,
  job_id: words.jobId,
  pipeline: words.pipeline,
  pipeline_version: words.version,
  source: words.source,
  account: words.account,
  window_every: words.windowEvery,
  dimensions: [...words.dimensions],
  definition: words.definition,
  question: questionSchema.parse({ parameters: words.parameters, asks: asksOf(definition), metrics: metricsOf(definition) }),
  window: { ...claim.box.window },
  slice: { ...claim.box.slice },
  endpoint: words.endpoint,
  request: words.request,
  request_hash: words.requestHash,
  estimated_quota: words.estimatedQuota,
  report_id: words.reportId,
  asked_at: words.askedAt,
  noted_at: words.now,
})
