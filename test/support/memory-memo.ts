// A report's memory without a database, that takes the same steps in the same order as the ledger and writes down which were taken.
import type { UnknownSpan, ReportMemo, ReportRecord } from '../../src/core/report-shape.ts'

export interface MemoryMemo extends ReportMemo {
  fairPause: number
  forgottenSpan: UnknownSpan | null
  readonly steps: string[]
  record: ReportRecord | null
}

const blank: ReportRecord = {
  jobId: 1,
  state: 'intent',
  requestHash: '',
  reportId: null,
  statusWord: null,
  polls: 0,
  nextPollInMs: null,
  retries: 0,
  deadlineInMs: null,
  askedMsAgo: null,
  submittedMsAgo: null,
  estimatedQuota: null,
  usedQuota: null,
}

export const reportRecord = (given: Partial<ReportRecord>): ReportRecord => ({ ...blank, ...given })

/** @param deadlineMs of a report bought here: how long it is waited for; null: no deadline */
export const memoryMemo = (record: ReportRecord | null, deadlineMs: number | null = null): MemoryMemo => {
  const memo: MemoryMemo = {
    steps: [],
    fairPause: 0,
    fairPauseMs: async () => memo.fairPause,
    forgotten: async () => memo.forgottenSpan,
    forgottenSpan: null,
    unknown: async (reportIds) => reportIds,
    record,
    current: async () => memo.record,
    affordable: async () => undefined,
    intend: async ({ requestHash, estimatedQuota }) => {
      memo.steps.push(`intend ${estimatedQuota}`)
      if (memo.record !== null) throw new Error('a job submits once')
      memo.record = reportRecord({ requestHash, estimatedQuota, askedMsAgo: 0 })
    },
    submitted: async (reportId, statusWord) => {
      step(`submitted ${reportId} ${statusWord}`, {
        state: 'submitted',
        reportId,
        statusWord,
        submittedMsAgo: 0,
        deadlineInMs: deadlineMs,
      })
      return null
    },
    polled: async ({ statusWord, nextPollInMs }) =>
      step(`polled ${statusWord} ${nextPollInMs}`, { statusWord, nextPollInMs, polls: (memo.record?.polls ?? 0) + 1 }),
    ready: async ({ statusWord, usedQuota, dataPoints }) =>
      step(`ready ${statusWord} ${usedQuota} ${dataPoints}`, {
        state: 'ready',
        statusWord,
        usedQuota,
        nextPollInMs: null,
      }),
    retried: async () =>
      step('retried', {
        state: 'submitted',
        retries: (memo.record?.retries ?? 0) + 1,
        nextPollInMs: null,
      }),
    uncertain: async (message) => step(`uncertain ${message}`, { state: 'uncertain' }),
    withdrawn: async (message) => {
      memo.steps.push(`withdrawn ${message}`)
      memo.record = null
    },
    failed: async (state, { statusWord, usedQuota, message }) =>
      step(`${state} ${message}`, { state, statusWord, ...(usedQuota === null ? {} : { usedQuota }) }),
  }
  const step = (name: string, change: Partial<ReportRecord>): void => {
    memo.steps.push(name)
    if (memo.record !== null) memo.record = { ...memo.record, ...change }
  }
  return memo
}
