// A report's memory without a database, that takes the same steps in the same order as the ledger and writes down which were taken.
import type { ReportMemo, ReportRecord } from '../../src/core/report.ts'

export interface MemoryMemo extends ReportMemo {
  fairPause: number
  readonly steps: string[]
  record: ReportRecord | null
}

const blank: ReportRecord = {
  reportKey: '1',
  submission: 1,
  state: 'intent',
  requestHash: '',
  reportId: null,
  statusWord: null,
  polls: 0,
  nextPollAt: null,
  retries: 0,
  deadlineAt: null,
  estimatedQuota: null,
  usedQuota: null,
}

export const reportRecord = (given: Partial<ReportRecord>): ReportRecord => ({ ...blank, ...given })

export const memoryMemo = (record: ReportRecord | null, deadlineAt: number | null = null): MemoryMemo => {
  const memo: MemoryMemo = {
    steps: [],
    fairPause: 0,
    fairPauseMs: async () => memo.fairPause,
    record,
    current: async () => memo.record,
    intend: async ({ requestHash, estimatedQuota }) => {
      memo.steps.push(`intend ${estimatedQuota}`)
      const submission = (memo.record?.submission ?? 0) + 1
      memo.record = reportRecord({ requestHash, estimatedQuota, submission, deadlineAt })
    },
    submitted: async (reportId, statusWord) =>
      step(`submitted ${reportId} ${statusWord}`, { state: 'submitted', reportId, statusWord }),
    polled: async ({ statusWord, nextPollAt }) =>
      step(`polled ${statusWord} ${nextPollAt}`, { statusWord, nextPollAt, polls: (memo.record?.polls ?? 0) + 1 }),
    ready: async ({ statusWord, usedQuota, dataPoints }) =>
      step(`ready ${statusWord} ${usedQuota} ${dataPoints}`, { state: 'ready', statusWord, usedQuota }),
    retried: async () => step('retried', { state: 'submitted', retries: (memo.record?.retries ?? 0) + 1, nextPollAt: null }),
    uncertain: async (message) => step(`uncertain ${message}`, { state: 'uncertain' }),
    withdrawn: async (message) => {
      memo.steps.push(`withdrawn ${message}`)
      memo.record = null
    },
    failed: async (state, message) => step(`${state} ${message}`, { state }),
  }
  const step = (name: string, change: Partial<ReportRecord>): void => {
    memo.steps.push(name)
    if (memo.record !== null) memo.record = { ...memo.record, ...change }
  }
  return memo
}
