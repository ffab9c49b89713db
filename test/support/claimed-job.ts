// A job as a process holds it, without a ledger.
import type { ClaimedJob } from '../../src/ledger/claim.ts'
import { boxOfCountries } from './landing-names.ts'

/** A report for two countries in one month, unless asked otherwise. */
export const claimedJob = (given: Partial<ClaimedJob> = {}): ClaimedJob => ({
  jobId: 7,
  fence: '2',
  holder: 1,
  kind: 'report',
  reason: 'missing',
  pipelineId: 1,
  pipeline: 'keywords',
  version: 1,
  parameters: {},
  windowEvery: 'month',
  box: boxOfCountries(['us', 'gb']),
  sliceIds: [1, 2],
  cells: 2,
  runId: 1,
  orphan: false,
  attempts: 1,
  formerError: null,
  forced: false,
  released: false,
  begun: [],
  mayNotBuy: null,
  askNumber: '81',
  fetchesAgain: false,
  isReplay: false,
  answer: null,
  loaded: null,
  account: 'default',
  ...given,
})
