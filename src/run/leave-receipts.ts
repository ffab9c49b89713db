// Leaves a receipt for each purchase: the intent before it is sent, the report as soon as its id is known. They show a restored ledger what it lost.
import { requestDigest, metricsOf } from '../core/request-digest.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { ReportMemo } from '../core/report-shape.ts'
import { withoutCancel } from '../db/stoppable.ts'
import { withinGracePeriod } from '../extract/grace-period.ts'
import { boughtPath, intentPath, type Question, questionSchema, type Receipt } from '../extract/landing-files.ts'
import { keyParameters } from '../ledger/pipelines.ts'
import { type Purchase, purchaseOf, receiptWritten } from '../ledger/receipts.ts'
import type { JobWork } from './job-work.ts'

/** What a receipt needs of the work on a job. */
type ReceiptWork = Pick<JobWork, 'claim' | 'definition' | 'source' | 'signal'> & {
  readonly runtime: Pick<JobWork['runtime'], 'database' | 'landing' | 'warehouse' | 'log' | 'clock'>
}

/** The same memo, which also leaves receipts. An intent without one is not sent; an id without one is kept, and its receipt tried again at each poll. */
export const withReceipts = (memo: ReportMemo, work: ReceiptWork): ReportMemo => {
  const { log, landing, database, warehouse } = work.runtime
  const { jobId } = work.claim
  /** The purchase as the intent recorded it, for when the database is away. */
  let intended: Purchase | null = null
  /** Never throws. False: the receipt could not be written. */
  const leave = async (reportId: string, purchase: Purchase | null): Promise<boolean> => {
    if (purchase === null) return false
    const path = boughtPath(warehouse, purchase.ask_number, purchase.account, reportId)
    return landing.notes.write(path, receiptOf(work, { ...purchase, report_id: reportId })).then(
      () => true,
      (error: unknown) => {
        log.warn({ job_id: jobId, report_id: reportId, error: messageOf(error) }, 'the receipt of a purchase is not written yet')
        return false
      },
    )
  }
  return {
    ...memo,
    current: async () => {
      const record = await memo.current()
      const reportId = record?.reportId ?? null
      if (reportId === null) return record
      const purchase = await purchaseOf(database.kysely, jobId)
      if (purchase?.receipt_at === null && (await leave(reportId, purchase)))
        await receiptWritten(database.kysely, jobId, reportId)
      return record
    },
    intend: async (intent) => {
      let isKnown = false
      try {
        await memo.intend(intent)
        isKnown = true
        intended = await purchaseOf(database.kysely, jobId)
        if (intended !== null) await landing.notes.write(intentPath(warehouse, intended.ask_number), receiptOf(work, intended))
      } catch (error) {
        // A bucket that refuses has the receipt only where the reply to an earlier attempt was lost, and may not let it be removed.
        if (intended !== null && isEtlError(error) && error.code === 'LANDING_REFUSED') {
          await landing.notes.remove(intentPath(warehouse, intended.ask_number)).catch(() => undefined)
          intended = null
        }
        // Nothing was sent. An intent that the ledger refused is not on record; where the database went away, it may be.
        if (isKnown || !isEtlError(error)) await withdrawUnsent(memo, work, intended, messageOf(error)).catch(() => undefined)
        throw error
      }
    },
    submitted: async (reportId, statusWord) => {
      // Beside the record, not after it: if a lock keeps the ledger from taking the id, or this process must stop, the receipt has it.
      const purchase = intended ?? (await purchaseOf(database.kysely, jobId).catch(() => null))
      const isNoted = leave(reportId, purchase)
      const forgetId = async (): Promise<void> => {
        await isNoted
        if (purchase !== null) await landing.notes.remove(boughtPath(warehouse, purchase.ask_number, purchase.account, reportId))
      }
      const given = await memo.submitted(reportId, statusWord, async () => {
        // Nothing was bought under the job's own number: its notes are removed, as in `withdrawJobs`.
        await forgetId()
        if (purchase !== null) await landing.notes.remove(intentPath(warehouse, purchase.ask_number))
      })
      // Another request's report: a restored ledger must not find two receipts of it.
      if (given?.waitMs === null) await forgetId()
      if (given === null && (await isNoted)) await receiptWritten(database.kysely, jobId, reportId).catch(() => undefined)
      return given
    },
    withdrawn: (message) => withdrawUnsent(memo, work, intended, message),
  }
}

/** Pauses between attempts while the database is away: half a minute in all, as for an id. */
const withdrawPausesMs = [100, 300, 1_000, 3_000, 5_000, 10_000, 10_000]

/**
 * Withdraws an intent. Only this process knows that nothing was sent: an intent that stays is uncertain, and is held for a person. So the process waits
 * for a database that restarts, unless it must stop itself. It removes the receipt first: one that the ledger lacks looks like that of a newer ledger.
 */
const withdrawUnsent = async (memo: ReportMemo, work: ReceiptWork, intended: Purchase | null, message: string): Promise<void> => {
  const { signal, claim } = work
  const { clock, landing, warehouse, log } = work.runtime
  const withdraw = async (): Promise<void> => {
    if (intended !== null) await landing.notes.remove(intentPath(warehouse, intended.ask_number))
    await memo.withdrawn(message)
  }
  for (const pause of [...withdrawPausesMs, null]) {
    try {
      return await withinGracePeriod({ signal, clock }, withoutCancel(withdraw))
    } catch (error) {
      if (pause === null || signal.aborted || isFinal(error)) throw error
      log.warn({ job_id: claim.jobId, error: messageOf(error) }, 'an intent that was not sent is still recorded')
      await clock.sleep(pause, signal).catch(() => undefined)
    }
  }
}

/** The job is another's by now, or its report is not as this process left it. */
const isFinal = (error: unknown): boolean => isEtlError(error) && (error.code === 'FENCED' || error.code === 'INTERNAL')

/** What an answer was asked for, for its manifest. */
export const questionOf = ({ definition, source }: Pick<JobWork, 'definition' | 'source'>): Question => ({
  parameters: keyParameters(definition),
  asks: requestDigest(definition),
  metrics: metricsOf(definition),
  top: source.limitsOf?.(definition.params).top ?? null,
})

/** The text of a receipt. The parameters come from the ledger: a stored definition lacks the table's key. */
const receiptOf = (work: ReceiptWork, purchase: Purchase): string => {
  const { runtime, claim } = work
  const { receipt_at: _, parameters, ...words } = purchase
  const receipt: Receipt = {
    ...{ version: 1, warehouse: runtime.warehouse.id, epoch: runtime.warehouse.epoch, ...words },
    question: questionSchema.parse({ ...questionOf(work), parameters }),
    ...{ window: { ...claim.box.window }, slice: { ...claim.box.slice } },
  }
  return JSON.stringify(receipt)
}
