// A paid report, step by step: bought once, asked for patiently, downloaded whatever happened before.
import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Clock } from '../../../src/core/clock.ts'
import { EtlError } from '../../../src/core/errors.ts'
import { createLog } from '../../../src/core/log.ts'
import type { RepeatedReportId, ListedReport, ReportRecord } from '../../../src/core/report-shape.ts'
import type { Limits } from '../../../src/core/limits.ts'
import type { HttpStream } from '../../../src/extract/http-types.ts'
import { runReport } from '../../../src/extract/report.ts'
import {
  foldStatus,
  isKnownStatus,
  type ReportApi,
  type ReportOptions,
  type ReportStatus,
} from '../../../src/extract/report-api.ts'
import { requestHash } from '../../../src/extract/report-submit.ts'
import type { SourceContext } from '../../../src/extract/source.ts'
import { memoryMemo, reportRecord } from '../../support/memory-memo.ts'

const start = 1_000_000_000
const hour = 3_600_000
const limits: Limits = {
  pageSize: 1,
  maxPages: 1,
  concurrency: 1,
  timeoutMs: 1,
  attempts: 1,
  rejectShare: 0,
  rejectCount: null,
  shrink: 0.5,
  walks: 1,
  pollEveryMs: 5_000,
  pollMaxMs: 60_000,
  deadlineMs: 6 * hour,
  quotaPerMonth: null,
  quotaPerDay: null,
  maxBodyBytes: 1,
}
const request = { domain: ['a.com'] }

interface Scene {
  readonly record?: Partial<ReportRecord>
  /** Answers of the status endpoint in order; the last one stays. */
  readonly statuses?: readonly (ReportStatus | null)[]
  readonly submit?: ReportApi['submit']
  readonly estimate?: number | null | EtlError
  readonly rejection?: EtlError
  readonly retry?: boolean
  /** HTTP statuses of downloads in order; the last one stays. */
  readonly downloads?: readonly number[]
  readonly options?: Partial<ReportOptions>
  readonly random?: number
  readonly fairPause?: number
  readonly keepFails?: readonly unknown[]
  /** The service's own list; null: it offers none. */
  readonly listed?: readonly ListedReport[] | null | EtlError
  readonly given?: RepeatedReportId
}

const status = (word: string, more: Partial<ReportStatus> = {}): ReportStatus => ({
  word,
  downloadUrl: null,
  usedQuota: null,
  dataPoints: null,
  dataVersion: null,
  detail: null,
  ...more,
})
const finished = status('complete', { downloadUrl: 'https://files/1', usedQuota: 5, dataPoints: 9 })

const nth = <T>(list: readonly T[], index: number, fallback: T): T => list[Math.min(index, list.length - 1)] ?? fallback

const play = (scene: Scene) => {
  const record =
    scene.record === undefined
      ? null
      : reportRecord({ requestHash: requestHash(request), reportId: 'r1', deadlineInMs: 6 * hour, ...scene.record })
  const memo = memoryMemo(record, 6 * hour)
  memo.fairPause = scene.fairPause ?? 0
  const calls: string[] = []
  const notices: string[] = []
  const logged: string[] = []
  const slept: number[] = []
  let [asked, fetched, kept] = [0, 0, 0]
  const clock: Clock = { now: () => start, random: () => scene.random ?? 0.5, sleep: async (ms) => void slept.push(ms) }
  const keep = memo.submitted
  memo.submitted = async (id, word) => {
    const failure = scene.keepFails?.[kept]
    kept += 1
    if (failure !== undefined) throw failure
    return scene.given ?? keep(id, word)
  }
  const api: ReportApi = {
    endpoint: '/reports',
    request,
    estimate: async () => {
      calls.push('estimate')
      if (scene.estimate instanceof EtlError) throw scene.estimate
      return scene.estimate ?? null
    },
    submit: async () => {
      calls.push('submit')
      return scene.submit === undefined ? { reportId: 'new', word: 'pending' } : scene.submit()
    },
    status: async (reportId) => {
      calls.push(`status ${reportId}`)
      asked += 1
      return nth<ReportStatus | null>(scene.statuses ?? [finished], asked - 1, null)
    },
    listed: async () => {
      calls.push('listed')
      if (scene.listed instanceof EtlError) throw scene.listed
      return scene.listed ?? null
    },
    rejection: async () =>
      scene.rejection ?? new EtlError('BAD_REQUEST', 'refused', { follows: { next: 'split', about: 'values' } }),
    retry: async (reportId) => {
      calls.push(`retry ${reportId}`)
      return scene.retry ?? false
    },
  }
  const download = async (url: string): Promise<HttpStream> => {
    calls.push(`download ${url}`)
    fetched += 1
    return { status: nth(scene.downloads ?? [200], fetched - 1, 200), contentType: 'text/csv', body: (async function* () {})() }
  }
  const unused = (): never => {
    throw new Error('not for reports')
  }
  const context: SourceContext = {
    http: { url: unused, origin: 'https://service', read: unused, download },
    report: memo,
    // As a job's own: each line names the unit.
    log: createLog('info', (line) => logged.push(line)).child({ unit: 'u' }),
    clock,
    signal: new AbortController().signal,
    reportHook: null,
    resubmitUncertain: false,
    notice: (code) => notices.push(code),
  }
  const options: ReportOptions = {
    unitKey: 'u',
    limits,
    policy: { resubmitUncertain: false, resubmitFailed: false },
    resubmitUncertain: false,
    ...scene.options,
  }
  const done = runReport(api, context, options)
  const outcome = done.then(
    (report) => ({ report, error: null }),
    (error: unknown) => ({ report: null, error }),
  )
  return { memo, calls, notices, logged, slept, outcome, context }
}

const errorOf = async (scene: Scene) => {
  const played = play(scene)
  const { error } = await played.outcome
  if (!(error instanceof EtlError)) throw new Error(`no EtlError but ${String(error)}`)
  return { ...played, error }
}

describe('buying', () => {
  test('the intent is on record before the submission, the id before anything else, then the first look is awaited', async () => {
    const { memo, calls, error } = await errorOf({ estimate: 7 })
    expect(memo.steps).toEqual(['intend 7', 'submitted new pending', 'polled pending 500'])
    expect(calls).toEqual(['estimate', 'submit'])
    expect(error).toMatchObject({ code: 'REPORT_PENDING', notBefore: start + 500, follows: { next: 'wait', isFinal: false } })
    expect(memo.record?.requestHash).toBe(createHash('sha256').update('{"domain":["a.com"]}').digest('hex'))
  })

  test('a report that the submission calls finished is fetched at once, without the first wait', async () => {
    const { memo, calls, outcome } = play({ submit: async () => ({ reportId: 'new', word: 'Completed' }) })
    expect((await outcome).report).toMatchObject({ dataPoints: 9 })
    expect(calls).toEqual(['estimate', 'submit', 'status new', 'download https://files/1'])
    expect(memo.steps.some((step) => step.startsWith('polled'))).toBe(false)
  })

  test('a submission without a word is looked at as submitted', async () => {
    const { memo } = await errorOf({ submit: async () => ({ reportId: 'new', word: null }) })
    expect(memo.steps.at(-1)).toBe('polled submitted 500')
  })

  test('a stopped run submits nothing', async () => {
    const stopped = new AbortController()
    stopped.abort(new Error('stop'))
    const memo = memoryMemo(null)
    const { context } = play({})
    const submits: string[] = []
    const api: ReportApi = {
      endpoint: '/',
      request,
      estimate: async () => null,
      submit: async () => {
        submits.push('x')
        return { reportId: 'x', word: null }
      },
      status: async () => null,
      listed: async () => null,
      rejection: async () => new EtlError('BAD_REQUEST', 'refused'),
      retry: async () => false,
    }
    const run = runReport(
      api,
      { ...context, report: memo, signal: stopped.signal },
      { unitKey: 'u', limits, policy: { resubmitUncertain: false, resubmitFailed: false }, resubmitUncertain: false },
    )
    await expect(run).rejects.toThrow('stop')
    expect([memo.steps, submits]).toEqual([[], []])
  })

  test('an answer that is lost leaves the question on record, and nothing is sent again', async () => {
    const { memo, error } = await errorOf({
      submit: async () => {
        throw new Error('reset')
      },
    })
    expect(error).toMatchObject({ code: 'REPORT_UNCERTAIN', message: expect.stringContaining('reset') })
    expect(memo.steps).toEqual(['intend null', 'uncertain reset'])
  })

  test.each([
    ['with a NUL', 'a\u0000b'],
    ['of 16,000 characters', 'x'.repeat(16_000)],
    ['with a line break', 'a\nb'],
    ['that is empty', ''],
    ['that leads to the folder above in a path', '.'],
    ['that leads further up', '..'],
  ])('an id %s is none: the purchase is uncertain, and nothing of the id is kept', async (_, reportId) => {
    const { memo, error } = await errorOf({ submit: async () => ({ reportId, word: 'pending' }) })
    expect(error).toMatchObject({
      code: 'REPORT_UNCERTAIN',
      message: expect.stringContaining('no plain text of 1 to 200 characters'),
    })
    expect(memo.steps).toEqual(['intend null', expect.stringMatching(/^uncertain The service answered with an id/)])
    expect(error.message).not.toContain('xxx')
  })

  test('an id in the list of the service that is no plain text is passed over', async () => {
    const lost = { state: 'uncertain', reportId: null, askedMsAgo: hour } as const
    const listed = [{ reportId: 'a\u0000b', createdMs: start - hour, request }]
    const { calls, error } = await errorOf({ record: lost, listed })
    expect([calls, error.code]).toEqual([['listed'], 'REPORT_UNCERTAIN'])
  })

  test('a submission that certainly did not arrive is forgotten, its own error is told', async () => {
    for (const code of ['SERVICE_UNREACHABLE', 'RATE_LIMITED', 'KEY_REFUSED', 'QUOTA_EXHAUSTED'] as const) {
      const away = new EtlError(code, 'no', { sent: false })
      const { memo, error } = await errorOf({
        submit: async () => {
          throw away
        },
      })
      expect(error).toBe(away)
      expect(memo.steps).toEqual(['intend null', 'withdrawn no'])
    }
  })

  test.each([
    ['BAD_REQUEST', 'values'],
    ['NOT_PUBLISHED', 'dates'],
    ['NO_CAPABILITY', 'values'],
    ['TOO_LARGE', 'size'],
  ] as const)(
    'a request refused with %s is forgotten, and said to be refused as a whole: a part of it may be taken',
    async (code, about) => {
      const refusal = new EtlError(code, 'no', { sent: false, context: { field: 'domain' }, notBefore: start + hour })
      const { memo, error } = await errorOf({
        submit: async () => {
          throw refusal
        },
      })
      expect(error).toMatchObject({ code, message: 'no', notBefore: start + hour, cause: refusal })
      expect([error.context, error.sent, error.follows]).toEqual([{ field: 'domain' }, false, { next: 'split', about }])
      expect([memo.steps, memo.record]).toEqual([['intend null', 'withdrawn no'], null])
    },
  )

  test('a request that the service would refuse is never submitted, and said to be refused as a whole', async () => {
    const { memo, calls, error } = await errorOf({ estimate: new EtlError('BAD_REQUEST', 'too many domains') })
    expect(error).toMatchObject({
      code: 'BAD_REQUEST',
      message: 'too many domains',
      notBefore: null,
      follows: { next: 'split', about: 'values' },
    })
    expect([memo.steps, calls]).toEqual([[], ['estimate']])
    const away = new EtlError('SERVICE_UNREACHABLE', 'no answer')
    expect((await errorOf({ estimate: away })).error).toBe(away)
  })

  test('one that may have arrived is not, whatever its error', async () => {
    for (const code of ['SERVICE_ERROR', 'BAD_REQUEST'] as const) {
      const { memo, error } = await errorOf({
        submit: async () => {
          throw new EtlError(code, '500', { sent: true })
        },
      })
      expect(error.code).toBe('REPORT_UNCERTAIN')
      expect(error.context).toEqual({})
      expect(memo.steps.at(-1)).toBe('uncertain 500')
    }
  })

  test('a job that was taken over meanwhile is left to its new holder', async () => {
    const fenced = new EtlError('FENCED', 'taken over')
    const { memo, error } = await errorOf({
      submit: async () => {
        throw fenced
      },
    })
    expect(error).toBe(fenced)
    expect(memo.steps).toEqual(['intend null'])
  })

  test('an id is kept trying for half a minute, then told whole', async () => {
    const down = new Error('database is away')
    const kept = await errorOf({ keepFails: [down, down] })
    expect(kept.slept).toEqual([100, 300])
    const ours = await errorOf({ keepFails: [new EtlError('DATABASE', 'restarting')] })
    expect([ours.slept, ours.error.code]).toEqual([[100], 'REPORT_PENDING'])
    expect(kept.memo.steps).toContain('submitted new pending')
    const lost = await errorOf({ keepFails: Array.from({ length: 20 }, () => down) })
    expect(lost.slept).toEqual([100, 300, 1_000, 3_000, 5_000, 10_000, 10_000])
    expect(lost.error).toMatchObject({ code: 'REPORT_UNCERTAIN', message: expect.stringContaining('report new was bought') })
  })

  test('an id that the ledger refuses is told at once: later tries are refused as well', async () => {
    const defect = new EtlError('INTERNAL', 'report other is submitted')
    const { slept, error } = await errorOf({ keepFails: Array.from({ length: 20 }, () => defect) })
    expect([slept, error.code, error.cause]).toEqual([[], 'REPORT_UNCERTAIN', defect])
    expect(error.message).toContain('report new was bought')
    expect(error.message).toContain('Keep this id')
  })

  test('an id is put on record by a process that lost its job meanwhile as well', async () => {
    const fenced = new EtlError('FENCED', 'taken over')
    const once = await errorOf({ keepFails: [fenced] })
    expect([once.slept, once.error.code]).toEqual([[100], 'REPORT_PENDING'])
    expect(once.memo.steps).toContain('submitted new pending')
    const never = await errorOf({ keepFails: Array.from({ length: 20 }, () => fenced) })
    expect(never.error).toMatchObject({
      code: 'REPORT_UNCERTAIN',
      message: expect.stringContaining('report new was bought'),
      cause: fenced,
    })
  })
})

describe('what an earlier process left', () => {
  test('an intent is a question: held, and nothing is sent', async () => {
    const { memo, calls, error } = await errorOf({ record: { state: 'intent', reportId: null } })
    expect(error).toMatchObject({ code: 'REPORT_UNCERTAIN', follows: null })
    expect([memo.steps.length, calls]).toEqual([1, []])
    expect(memo.record?.state).toBe('uncertain')
  })

  test.each([
    ['a person', { resubmitUncertain: true }],
    ['the definition', { policy: { resubmitUncertain: true, resubmitFailed: false } }],
  ])('an uncertain one is left to a new job with the consent of %s: this one never submits again', async (_, options) => {
    for (const state of ['uncertain', 'intent'] as const) {
      const { calls, memo, error } = await errorOf({ record: { state, reportId: null }, options })
      expect(error).toMatchObject({ code: 'REPORT_UNCERTAIN', follows: { next: 'ask again' } })
      expect([calls, memo.record?.state]).toEqual([[], 'uncertain'])
    }
    const held = await errorOf({ record: { state: 'uncertain', reportId: null } })
    expect(held.error).toMatchObject({ code: 'REPORT_UNCERTAIN', follows: null })
    expect([held.calls, held.memo.steps]).toEqual([[], []])
  })

  test.each([
    ['failed', 'REPORT_FAILED'],
    ['rejected', 'REPORT_REJECTED'],
    ['expired', 'REPORT_EXPIRED'],
  ] as const)('a %s one is told again, whatever the definition allows: only a new job may buy another', async (state, code) => {
    for (const resubmitFailed of [false, true]) {
      const { error, calls, memo } = await errorOf({
        record: { state, statusWord: 'oh' },
        options: { policy: { resubmitUncertain: false, resubmitFailed } },
      })
      expect(error).toMatchObject({ code, message: expect.stringContaining(`report r1 ${state} (the service says 'oh')`) })
      expect(error.message).toContain('resubmit_failed: true')
      expect([calls, memo.steps]).toEqual([[], []])
    }
  })

  test('one that was asked for with other parameters is loaded, and that is said', async () => {
    const other = play({ record: { state: 'ready', requestHash: 'other' } })
    expect((await other.outcome).error).toBeNull()
    expect(other.notices).toEqual(['REPORT_DIFFERS'])
    const same = play({ record: { state: 'ready' } })
    await same.outcome
    expect(same.notices).toEqual([])
  })

  test.each(['submitted', 'ready', 'downloaded'] as const)('a %s one is downloaded, not bought', async (state) => {
    const { outcome, calls, memo } = play({ record: { state, polls: 3 } })
    expect((await outcome).report).toMatchObject({ dataPoints: 9, stream: { status: 200 } })
    expect(calls).toEqual(['status r1', 'download https://files/1'])
    expect(memo.steps).toEqual(['ready complete 5 9'])
  })

  test('one without an id is a defect', async () => {
    expect((await errorOf({ record: { state: 'submitted', reportId: null, polls: 1 } })).error.code).toBe('INTERNAL')
  })

  test('one whose next look is later is not asked for yet, and that is not written again', async () => {
    const { calls, memo, error } = await errorOf({ record: { state: 'submitted', nextPollInMs: 1 } })
    expect(error).toMatchObject({ code: 'REPORT_PENDING', notBefore: start + 1 })
    expect([calls, memo.steps]).toEqual([[], []])
    const due = play({ record: { state: 'submitted', nextPollInMs: 0 } })
    expect((await due.outcome).error).toBeNull()
    const landed = play({ record: { state: 'downloaded', nextPollInMs: 9_999 } })
    expect((await landed.outcome).error).toBeNull()
  })

  test('one whose next look is further off than any wait was noted by a clock that was ahead: it is asked for at once', async () => {
    const ahead = { state: 'submitted', polls: 4, nextPollInMs: 2 * 86_400_000 } as const
    expect((await play({ record: ahead }).outcome).error).toBeNull()
    const crowded = await errorOf({ record: { ...ahead, nextPollInMs: 400_000 }, fairPause: 400_000 })
    expect(crowded.error).toMatchObject({ code: 'REPORT_PENDING', notBefore: start + 400_000 })
  })

  test('one that is finished and whose download was refused is left alone until its time', async () => {
    const { calls, memo, error } = await errorOf({ record: { state: 'ready', polls: 4, nextPollInMs: 9_999 } })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + 9_999,
      message: expect.stringContaining('its download was refused; it is asked for again'),
    })
    expect([calls, memo.steps]).toEqual([[], []])
    for (const nextPollInMs of [0, null])
      expect((await play({ record: { state: 'ready', polls: 4, nextPollInMs } }).outcome).error).toBeNull()
  })

  test('one that was said to be done when it was submitted is asked for at once, later ones in their time', async () => {
    const done = play({ record: { state: 'submitted', statusWord: 'complete' } })
    expect((await done.outcome).error).toBeNull()
    const looked = await errorOf({ record: { state: 'submitted', statusWord: 'complete', polls: 1, nextPollInMs: 1 } })
    expect([looked.error.code, looked.calls]).toEqual(['REPORT_PENDING', []])
  })

  test('one that was retried, or looked at before, is asked for at once', async () => {
    for (const record of [{ retries: 1 }, { polls: 1 }]) {
      const played = play({ record: { state: 'submitted', ...record } })
      expect((await played.outcome).error).toBeNull()
    }
  })
})

describe('a report that is still being made', () => {
  const waiting = (record: Partial<ReportRecord>, more: Scene = {}) =>
    errorOf({ record: { state: 'submitted', ...record }, statuses: [status('processing')], ...more })

  test.each([
    [1, 1_000],
    [2, 2_000],
    [3, 11_250],
    [4, 16_875],
    [5, 25_312.5],
    [20, 60_000],
  ])('after %i looks it is left alone for %i ms', async (polls, wait) => {
    const { error, memo } = await waiting({ polls, nextPollInMs: null })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + wait,
      follows: { next: 'wait', isFinal: false },
      message: expect.stringContaining("report r1 is 'processing'"),
    })
    expect(memo.steps).toEqual([`polled processing ${wait}`])
  })

  test('one of thousands is left alone for as long as looks at all of them take, but not in its first moments', async () => {
    const fairPause = 400_000
    expect((await waiting({ polls: 20, nextPollInMs: null }, { fairPause })).error.notBefore).toBe(start + fairPause)
    expect((await waiting({ polls: 2, nextPollInMs: null }, { fairPause })).error.notBefore).toBe(start + 2_000)
  })

  test('the first look after the first wait comes soon', async () => {
    expect((await waiting({ polls: 0, nextPollInMs: 0 })).error.notBefore).toBe(start + 500)
  })

  test('the wait is spread by 15 % to both sides', async () => {
    expect((await waiting({ polls: 20 }, { random: 0 })).error.notBefore).toBe(start + 51_000)
    expect((await waiting({ polls: 20 }, { random: 1 })).error.notBefore).toBeCloseTo(start + 69_000, 3)
  })

  test('beyond its deadline it stays open for the next run', async () => {
    const { error, memo } = await waiting({ polls: 9, deadlineInMs: -1 })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + 24 * hour,
      follows: { next: 'wait', isFinal: true },
      message: expect.stringContaining('deadline'),
    })
    expect(memo.steps).toEqual(['polled processing 0'])
    expect((await waiting({ polls: 20, deadlineInMs: 0 })).error.follows).toEqual({ next: 'wait', isFinal: false })
    expect((await waiting({ polls: 20, deadlineInMs: null })).error.follows).toEqual({ next: 'wait', isFinal: false })
  })

  test('one that is said to be done but has no link yet is open', async () => {
    const { error, calls } = await errorOf({ record: { state: 'submitted', polls: 1 }, statuses: [status('complete')] })
    expect([error.code, calls]).toEqual(['REPORT_PENDING', ['status r1']])
  })

  test('an id that the service does not know yet is waited for, ten minutes', async () => {
    const fresh = { state: 'submitted', polls: 1 } as const
    const submitted = (submittedMsAgo: number, deadlineInMs: number | null = hour) => ({ ...fresh, submittedMsAgo, deadlineInMs })
    const early = await errorOf({ record: submitted(10 * 60_000), statuses: [null] })
    expect(early.error).toMatchObject({ code: 'REPORT_PENDING', message: expect.stringContaining("'not found'") })
    const late = await errorOf({ record: submitted(10 * 60_000 + 1), statuses: [null] })
    expect(late.error).toMatchObject({ code: 'BAD_RESPONSE', message: expect.stringContaining('does not know it') })
    // So that a person may put another id in its place.
    expect(late.memo.steps).toEqual(['polled not found 0'])
    const known = await errorOf({ record: submitted(hour), statuses: [status('processing')] })
    expect(known.error.code).toBe('REPORT_PENDING')
    const timeless = await errorOf({ record: { ...fresh, submittedMsAgo: null }, statuses: [null] })
    expect(timeless.error.code).toBe('REPORT_PENDING')
    const endless = await errorOf({ record: submitted(10 * 60_000 + 1, null), statuses: [null] })
    expect(endless.error.code).toBe('BAD_RESPONSE')
  })
})

describe('a report that could not be made', () => {
  const broken = status('internal_error', { detail: 'disk' })

  test('is tried again for free where the service does that', async () => {
    const { error, memo, calls } = await errorOf({
      record: { state: 'submitted', polls: 1, retries: 2 },
      statuses: [broken],
      retry: true,
    })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + 5_000,
      message: expect.stringContaining('for free'),
    })
    expect([memo.steps, calls]).toEqual([['retried'], ['status r1', 'retry r1']])
  })

  test.each([
    ['the service has no free retry', { retries: 0 }, false, ['status r1', 'retry r1']],
    ['three were had', { retries: 3 }, true, ['status r1']],
  ])('ends where %s', async (_, record, retry, calls) => {
    const played = await errorOf({ record: { state: 'submitted', polls: 1, ...record }, statuses: [broken], retry })
    expect(played.error).toMatchObject({ code: 'REPORT_FAILED', message: expect.stringContaining("('internal_error': disk)") })
    expect([played.memo.steps, played.calls]).toEqual([['failed internal_error: disk'], calls])
    const { error } = await errorOf({ record: { ...played.memo.record } })
    expect(error.message).toContain("(the service says 'internal_error')")
  })

  test('is cut where the request was rejected for free', async () => {
    const rejected = status('bad_request', { usedQuota: 0 })
    const { error, calls } = await errorOf({ record: { state: 'submitted', polls: 1 }, statuses: [rejected] })
    expect(error).toMatchObject({ code: 'REPORT_REJECTED', follows: { next: 'split', about: 'values' } })
    expect(calls).toEqual(['status r1'])
  })

  test('that was rejected for a month to come is asked for again by another job', async () => {
    const rejection = new EtlError('NOT_PUBLISHED', 'not yet', { follows: { next: 'ask again' }, notBefore: start + 1 })
    const { error, memo } = await errorOf({
      ...{ record: { state: 'submitted', polls: 1 }, statuses: [status('bad_request', { usedQuota: 0 })], rejection },
    })
    expect([error, memo.steps]).toEqual([rejection, ['rejected bad_request']])
  })

  test('ends at once where the request is rejected', async () => {
    const played = await errorOf({ record: { state: 'submitted', polls: 1 }, statuses: [status('bad_request')], retry: true })
    expect(played.error).toMatchObject({ code: 'REPORT_REJECTED', message: expect.stringContaining("('bad_request')") })
    expect([played.memo.steps, played.calls]).toEqual([['rejected bad_request'], ['status r1']])
  })
})

describe('a download', () => {
  const ready = { state: 'ready' } as const
  const freshLink = status('complete', { downloadUrl: 'https://files/2' })

  test.each([401, 403, 404, 410])('that answers %i is asked for with a fresh link, once', async (gone) => {
    const { outcome, calls } = play({ record: ready, statuses: [finished, freshLink], downloads: [gone, 200] })
    expect((await outcome).report?.stream.status).toBe(200)
    expect(calls).toEqual(['status r1', 'download https://files/1', 'status r1', 'download https://files/2'])
  })

  const noFreshLink = [
    ['the fresh link is refused too', freshLink, [410, 403], 403],
    ['the service gives none', status('complete'), [403], 403],
    ['it forgot the report', null, [403], 403],
  ] as const

  test.each(noFreshLink)('that is refused where %s is asked for again later: it is paid for', async (_, second, downloads) => {
    const { error, memo } = await errorOf({ record: ready, statuses: [finished, second], downloads })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + 11_250,
      follows: { next: 'wait', isFinal: false },
      message:
        'u: the download of report r1 is refused (403). It is requested again, with a fresh link, in 11 s; it is not bought again.',
    })
    expect(memo.record).toMatchObject({ state: 'ready', nextPollInMs: 11_250 })
    expect(memo.steps).toEqual(['ready complete 5 9', 'polled complete 11250'])
  })

  test.each([
    [4, 16_875],
    [20, 60_000],
  ])('that is refused after %i looks is asked for again after %i ms', async (polls, wait) => {
    const { error } = await errorOf({ record: { ...ready, polls }, downloads: [403] })
    expect(error.notBefore).toBe(start + wait)
  })

  test('that is refused once more when its time has come waits again, and is loaded once the refusals end', async () => {
    const { memo } = await errorOf({ record: { ...ready, polls: 4 }, downloads: [403] })
    const again = play({ record: { ...memo.record, nextPollInMs: 0 } })
    expect((await again.outcome).report?.stream.status).toBe(200)
  })

  test('that is refused beyond the deadline is left to the next run', async () => {
    const { error, memo } = await errorOf({
      record: { ...ready, deadlineInMs: -1 },
      downloads: [404],
    })
    expect(error).toMatchObject({
      code: 'REPORT_PENDING',
      notBefore: start + 24 * hour,
      follows: { next: 'wait', isFinal: true },
      message: expect.stringContaining('The next run polls it again'),
    })
    expect(memo.record).toMatchObject({ state: 'ready', nextPollInMs: 0 })
    const endless = await errorOf({ record: { ...ready, deadlineInMs: null }, downloads: [404] })
    expect(endless.error.follows).toEqual({ next: 'wait', isFinal: false })
  })

  test('that is refused a month after its completion is asked for again all the same: the service calls it completed', async () => {
    const { error, memo } = await errorOf({ record: ready, downloads: [410] })
    expect([error.code, memo.record?.state]).toEqual(['REPORT_PENDING', 'ready'])
  })

  test.each([
    ['at first', { statuses: [finished], downloads: [500, 500] }, 500, 2],
    ['with the fresh link', { statuses: [finished, freshLink], downloads: [410, 503] }, 503, 2],
    ['while the report is made again', { statuses: [finished, status('processing')], downloads: [410] }, 410, 2],
    ['as a conflict', { statuses: [finished, freshLink], downloads: [409, 422] }, 422, 2],
  ])('that fails otherwise %s is asked for again later, and nothing is bought', async (_, scene, found, asked) => {
    const { error, memo, calls } = await errorOf({ record: ready, ...scene })
    expect(error).toMatchObject({ code: 'REPORT_PENDING', message: expect.stringContaining(`refused (${found})`) })
    expect(memo.record?.state).toBe('ready')
    expect(calls.filter((call) => call === 'status r1')).toHaveLength(asked)
  })

  test('that the service does not keep any more has expired: by its own word alone', async () => {
    const { error, memo } = await errorOf({ record: ready, statuses: [status('expired')] })
    expect(error).toMatchObject({ code: 'REPORT_EXPIRED', message: expect.stringContaining('--force') })
    expect(memo.record?.state).toBe('expired')
  })
})

test.each(['failed', 'bad_request', 'expired'])('what a report costs that is %s is on record all the same', async (word) => {
  const { memo, error } = await errorOf({
    record: { state: 'submitted', polls: 1, retries: 3 },
    statuses: [status(word, { usedQuota: 2 })],
  })
  expect([error.code, memo.record?.usedQuota]).toEqual([expect.stringMatching(/^REPORT_/), 2])
})

test.each([-3, Number.NaN])('a bill of %d credits is recorded as unknown, and reported', async (usedQuota) => {
  const { memo, notices, outcome } = play({ record: { state: 'submitted', polls: 1 }, statuses: [{ ...finished, usedQuota }] })
  await outcome
  expect(memo.steps).toContain('ready complete null 9')
  expect(notices).toEqual(['BILL_UNREADABLE'])
})

describe('a submission whose answer was lost', () => {
  const lost = { state: 'uncertain', reportId: null, askedMsAgo: 60_000 } as const
  const entry = { reportId: 'found', createdMs: start - 59_000, request }
  const consent = { options: { resubmitUncertain: true } }

  test('is found in the list of the service by its content and time, and goes on', async () => {
    const other = { reportId: 'other', createdMs: start - 59_500, request: { domain: ['b.com'] } }
    const { memo, calls, outcome } = play({ record: lost, listed: [other, entry], ...consent })
    expect((await outcome).error).toMatchObject({ code: 'REPORT_PENDING' })
    expect(memo.steps[0]).toBe('submitted found null')
    expect(calls).not.toContain('submit')
  })

  test.each([
    ['the list tells no content', [{ ...entry, request: { report_id: 'found' } }]],
    ['it was made at another time', [{ ...entry, createdMs: start - 3_600_000 }]],
    ['it asks for something else', [{ ...entry, request: { domain: ['a.com', 'b.com'] } }]],
    ['there is no list', null],
  ])('is not found where %s: consent decides', async (_, listed) => {
    const without = await errorOf({ record: lost, listed })
    expect(without.error).toMatchObject({ code: 'REPORT_UNCERTAIN', follows: null })
    const allowed = await errorOf({ record: lost, listed, ...consent })
    expect(allowed.error.follows).toEqual({ next: 'ask again' })
  })

  test('is not sent again unseen, whatever the consent, where the list cannot be read', async () => {
    const { error } = await errorOf({ record: lost, listed: new EtlError('SERVICE_ERROR', 'away'), ...consent })
    expect(error).toMatchObject({ code: 'REPORT_UNCERTAIN', follows: null })
  })

  test('that the service answers with an id it gave before is taken up: the job goes on at once, and people are told', async () => {
    const { error, memo, notices } = await errorOf({ given: { message: 'its answer is loaded', waitMs: 0 } })
    expect(error).toMatchObject({ code: 'REPORT_PENDING', notBefore: start, message: 'u: its answer is loaded' })
    expect(notices).toEqual(['REPORT_GIVEN_AGAIN'])
    expect(memo.steps.some((step) => step.startsWith('uncertain'))).toBe(false)
  })

  test('that the service answers with the id of another request is uncertain: nobody knows what became of it', async () => {
    const { error, memo } = await errorOf({ given: { message: 'the service returned report r, which job 7 has', waitMs: null } })
    expect(error).toMatchObject({ code: 'REPORT_UNCERTAIN', message: expect.stringContaining('which job 7 has') })
    expect(memo.steps.some((step) => step.startsWith('uncertain'))).toBe(true)
  })
})

describe('words for a state', () => {
  test.each([
    ['done', ['complete', 'Completed', ' SUCCESS ', 'ready']],
    ['failed', ['internal_error', 'Internal Error', 'failed', 'error']],
    ['rejected', ['bad_request', 'BAD REQUEST']],
    ['expired', ['expired', 'Deleted']],
    ['open', ['pending', 'processing', 'in progress', 'in_progress', 'queued', 'retry']],
  ])('%s', (phase, words) => {
    expect(words.map(foldStatus)).toEqual(words.map(() => phase))
    expect(words.every(isKnownStatus)).toBe(true)
  })

  test('a word nobody knows is an open report, and a line of the log names the unit once', async () => {
    expect(foldStatus('composting')).toBe('open')
    expect(isKnownStatus('composting')).toBe(false)
    const known = await errorOf({ record: { state: 'submitted', polls: 1 }, statuses: [{ ...finished, word: 'composting' }] })
    const lines = [...known.logged, ...(await errorOf({})).logged]
    expect(lines.map((line) => line.split('"unit":').length)).toEqual([2, 2])
  })
})

test('a report of several files opens each with its own link, and with a fresh one where that is refused', async () => {
  const files = (round: number) => ['one', 'two'].map((name) => ({ name, url: `https://files/${name}/${round}` }))
  const several = (round: number) => ({ ...finished, files: files(round) })
  const { calls, outcome } = play({
    record: { state: 'ready', polls: 4 },
    statuses: [several(1), several(2)],
    downloads: [200, 410, 200],
  })
  const { report } = await outcome
  expect(report?.names).toEqual(['one', 'two'])
  expect((await report?.open(1))?.status).toBe(200)
  expect(calls.filter((call) => call.startsWith('download'))).toEqual(
    ['one/1', 'two/1', 'two/2'].map((path) => `download https://files/${path}`),
  )
})

test.each([
  ['lists them in another order', {}, ['three', 'one', 'two'], 'two'],
  ['has another version of the data', { dataVersion: '2' }, ['one', 'two', 'three'], null],
  ['was restated since', { lastUpdated: '2026-11-28' }, ['one', 'two', 'three'], null],
  ['counts other data points', { dataPoints: 10 }, ['one', 'two', 'three'], null],
  ['lists other files', {}, ['one', 'two', 'four'], null],
  ['lists fewer files', {}, ['one', 'two'], null],
])('files of one report are never mixed with those of another: a fresh status that %s', async (_, more, names, opened) => {
  const files = (round: number, of: readonly string[]) => of.map((name) => ({ name, url: `https://files/${name}/${round}` }))
  const first = { ...finished, dataVersion: '1', lastUpdated: '2026-11-10', files: files(1, ['one', 'two', 'three']) }
  const { calls, outcome } = play({
    record: { state: 'ready', polls: 4 },
    statuses: [first, { ...first, ...more, files: files(2, names) }],
    downloads: [200, 410, 200],
  })
  const second = (await outcome).report?.open(1)
  if (opened === null)
    await expect(second).rejects.toMatchObject({ code: 'BAD_RESPONSE', message: expect.stringContaining('changed') })
  else {
    await second
    expect(calls.at(-1)).toBe(`download https://files/${opened}/2`)
  }
})
