// Every step of a paid report in the ledger: durable when it returns, in order, within its budget, bought once.
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { ReportMemo } from '../../src/core/report.ts'
import { type ReportState, reportStates } from '../../src/core/types.ts'
import { loadedHistory } from '../../src/ledger/estimates.ts'
import { reportMemo } from '../../src/ledger/reports.ts'
import { requestCancel } from '../../src/ledger/runs.ts'
import { reportTransitions, type Transition } from '../../src/ledger/transitions.ts'
import { type ClaimedUnit, dropLanding, markLanded } from '../../src/ledger/units.ts'
import { claimed, newRun, planned, wholeLedger } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let runId: number
let claim: ClaimedUnit
let memo: ReportMemo
let count = 0

beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())
beforeEach(async () => {
  runId = await newRun(db)
  count += 1
  claim = await claimed(db, runId, await planned(db, runId, `r${count}.com`))
  memo = memoOf(claim)
})

const k = () => db.database.kysely
const noBudget = { perMonth: null, perDay: null }
const memoOf = (
  of: ClaimedUnit,
  budget: { perMonth: number | null; perDay: number | null } = noBudget,
  pipeline = 'traffic',
  accountBudget: { perMonth: number | null; perDay: number | null } = noBudget,
): ReportMemo =>
  reportMemo(k(), of, {
    account: `a${count}`,
    pipeline,
    runId,
    deadlineMs: 3_600_000,
    requestsPerSecond: 10,
    budget,
    accountBudget,
  })
const intent = { endpoint: '/reports', request: { domain: ['a.com'] }, requestHash: 'h1', estimatedQuota: 7 }
const id = (): string => `id-${count}`

const rows = async (): Promise<Readonly<Record<string, unknown>>[]> =>
  (await db.database.pool.query(`select * from etl.reports where unit_id = $1 order by edition, submission`, [claim.unitId])).rows
const row = async (): Promise<Readonly<Record<string, unknown>>> => (await rows()).at(-1) ?? {}

/** Each event by the step that makes it happen. */
const events: Readonly<Record<keyof typeof reportTransitions, () => Promise<unknown>>> = {
  intend: () => memo.intend(intent),
  'id known': () => memo.submitted(id(), 'pending'),
  'answer lost': () => memo.uncertain('lost'),
  'certainly not taken': () => memo.withdrawn('refused'),
  'not yet': () => memo.polled({ statusWord: 'processing', nextPollAt: 1_000 }),
  'link not good yet': () => memo.polled({ statusWord: 'processing', nextPollAt: 1_000 }),
  done: () => memo.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: 9 }),
  'free retry': () => memo.retried(),
  failed: () => memo.failed('failed', 'broken'),
  rejected: () => memo.failed('rejected', 'no such metric'),
  'link gone for good': () => memo.failed('expired', '410'),
  'bytes landed': () => markLanded(k(), claim, { landing: 'here', sha256: 'abc', bytes: 1 }),
  'bytes unusable': () => dropLanding(k(), claim),
}

/** Steps through `state` itself only where the same function serves both. */
const sameStep: Partial<Record<keyof typeof reportTransitions, keyof typeof reportTransitions>> = {
  'not yet': 'link not good yet',
  'link not good yet': 'not yet',
}

const reportIn = async (state: ReportState): Promise<void> => {
  await memo.intend(intent)
  const known = state === 'intent' || state === 'uncertain' ? null : id()
  await sql`update etl.reports set state = ${state}, report_id = ${known} where unit_id = ${claim.unitId}`.execute(k())
}

const eventNames = Object.keys(reportTransitions) as (keyof typeof reportTransitions)[]

describe('the table of transitions', () => {
  test.each(reportStates.flatMap((state) => eventNames.map((event) => [state, event] as const)))(
    'from %s by "%s" leads where it says, or is refused and changes nothing',
    async (state, event) => {
      await reportIn(state)
      const before = (await wholeLedger(db))['reports']
      const { from, to }: Transition<ReportState> = reportTransitions[event]
      const also: readonly ReportState[] = reportTransitions[sameStep[event] ?? event].from
      if (from.includes(state)) {
        await events[event]()
        const found = await row()
        expect(to.length === 0 ? [undefined] : to).toContain(found['state'])
      } else if (!also.includes(state)) {
        await events[event]().catch((error: unknown) => expect(error).toMatchObject({ code: 'INTERNAL' }))
        expect((await wholeLedger(db))['reports']).toEqual(before)
      }
    },
  )

  test.each(['submitted', 'ready', 'downloaded', 'intent'] as const)(
    'a %s report stands in the way of another submission',
    async (state) => {
      await reportIn(state)
      await expect(memo.intend(intent)).rejects.toMatchObject({
        code: 'INTERNAL',
        message: expect.stringContaining(`is ${state}`),
      })
      expect(await rows()).toHaveLength(1)
    },
  )
})

describe('a step', () => {
  test('intend: the request, its hash, what it may cost and until when it may take are on record before anything is sent', async () => {
    const before = Date.now()
    await memo.intend(intent)
    const found = await row()
    expect(found).toMatchObject({
      unit_id: String(claim.unitId),
      edition: 1,
      submission: 1,
      run_id: String(runId),
      account: `a${count}`,
      pipeline: 'traffic',
      endpoint: '/reports',
      request_hash: 'h1',
      request: { domain: ['a.com'] },
      state: 'intent',
      report_id: null,
      estimated_quota: '7',
      used_quota: null,
      polls: 0,
      retries: 0,
    })
    const deadline = Date.parse(String(found['deadline_at']))
    expect(deadline).toBeGreaterThanOrEqual(before + 3_600_000)
    expect(deadline).toBeLessThan(Date.now() + 3_600_001)
    expect(await memo.current()).toEqual({
      reportKey: found['report_key'],
      submission: 1,
      state: 'intent',
      requestHash: 'h1',
      reportId: null,
      statusWord: null,
      polls: 0,
      nextPollAt: null,
      retries: 0,
      deadlineAt: deadline,
      estimatedQuota: 7,
      usedQuota: null,
    })
  })

  test('nothing is on record before there is an intent', async () => {
    expect(await memo.current()).toBeNull()
    await expect(memo.submitted(id(), null)).rejects.toMatchObject({
      code: 'INTERNAL',
      message: expect.stringContaining('not on record'),
    })
  })

  test('submitted: the id, once; the same again changes nothing of it, another one is refused', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), 'queued')
    await memo.submitted(id(), 'queued')
    expect(await row()).toMatchObject({
      state: 'submitted',
      report_id: id(),
      status_word: 'queued',
      submitted_at: expect.any(String),
    })
    await expect(memo.submitted('another', 'queued')).rejects.toMatchObject({ code: 'INTERNAL' })
    expect(await row()).toMatchObject({ report_id: id() })
  })

  test('one id belongs to one report', async () => {
    await memo.intend(intent)
    await memo.submitted('shared', null)
    const other = memoOf(await claimed(db, runId, await planned(db, runId, `twin${count}.com`)))
    await other.intend(intent)
    await expect(other.submitted('shared', null)).rejects.toThrow('reports_report_id')
  })

  test('polled: what was said, when to ask again, and how often it was asked', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await memo.polled({ statusWord: 'processing', nextPollAt: 1_800_000_000_000 })
    await memo.polled({ statusWord: 'processing 2', nextPollAt: 1_800_000_000_500 })
    expect(await memo.current()).toMatchObject({
      state: 'submitted',
      statusWord: 'processing 2',
      polls: 2,
      nextPollAt: 1_800_000_000_500,
    })
  })

  test('ready: what it cost and how much it holds', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await memo.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: 12 })
    expect(await memo.current()).toMatchObject({ state: 'ready', statusWord: 'complete', usedQuota: 5, polls: 1 })
    expect(await row()).toMatchObject({ data_points_count: '12', completed_at: expect.any(String) })
  })

  test('retried: open again, counted, asked anew', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await memo.polled({ statusWord: 'x', nextPollAt: 5 })
    await memo.retried()
    expect(await memo.current()).toMatchObject({ state: 'submitted', retries: 1, nextPollAt: null, reportId: id() })
  })

  test.each(['failed', 'rejected', 'expired'] as const)(
    '%s: with the reason and the time; another may follow, counted on',
    async (state) => {
      await memo.intend(intent)
      await memo.submitted(id(), null)
      await memo.failed(state, 'because')
      expect(await row()).toMatchObject({ state, error_message: 'because', completed_at: expect.any(String) })
      await memo.intend({ ...intent, requestHash: 'h2' })
      expect(await memo.current()).toMatchObject({ state: 'intent', submission: 2, requestHash: 'h2', reportId: null })
      expect((await rows()).map((one) => one['state'])).toEqual([state, 'intent'])
    },
  )

  test('uncertain: kept with its reason, and only the newest row changes', async () => {
    await memo.intend(intent)
    await memo.uncertain('reset')
    expect(await row()).toMatchObject({ state: 'uncertain', error_message: 'reset' })
    await memo.intend(intent)
    await memo.submitted(id(), null)
    expect((await rows()).map((one) => one['state'])).toEqual(['uncertain', 'submitted'])
  })

  test('withdrawn: the intent goes, earlier reports, those of other units and of other editions stay', async () => {
    const other = memoOf(await claimed(db, runId, await planned(db, runId, `other${count}.com`)))
    await other.intend(intent)
    const newer = memoOf({ ...claim, edition: 2 })
    await newer.intend(intent)
    await memo.intend(intent)
    await memo.uncertain('lost')
    await memo.intend(intent)
    await memo.withdrawn('refused')
    expect((await rows()).map((one) => [one['edition'], one['state']])).toEqual([
      [1, 'uncertain'],
      [2, 'intent'],
    ])
    expect(await memo.current()).toMatchObject({ state: 'uncertain' })
    expect(await newer.current()).toMatchObject({ state: 'intent' })
    expect(await other.current()).toMatchObject({ state: 'intent' })
  })

  test('is refused for a run that was cancelled, and nothing is on record', async () => {
    await requestCancel(k(), runId)
    await expect(memo.intend(intent)).rejects.toMatchObject({ code: 'CANCELLED' })
    expect(await rows()).toEqual([])
  })

  test('waits for a cancel that is on its way, and is refused by it', async () => {
    let intending: Promise<unknown> = Promise.resolve()
    await k()
      .transaction()
      .execute(async (trx) => {
        await requestCancel(trx, runId)
        intending = memo.intend(intent).then(
          () => 'intended',
          (error: unknown) => error,
        )
        await Promise.race([intending, new Promise((resolve) => setTimeout(resolve, 400))])
      })
    expect(await intending).toMatchObject({ code: 'CANCELLED' })
    expect(await rows()).toEqual([])
  })

  test('bytes of another edition or unit do not mark this one downloaded', async () => {
    await memo.intend(intent)
    await memo.submitted(id(), null)
    await memo.ready({ statusWord: 'complete', usedQuota: 5, dataPoints: 12 })
    await markLanded(k(), { ...claim, edition: 2 }, { landing: 'x', sha256: 'y', bytes: 1 })
    await markLanded(k(), await claimed(db, runId, await planned(db, runId, `other${count}.com`)), {
      landing: 'x',
      sha256: 'y',
      bytes: 1,
    })
    expect(await memo.current()).toMatchObject({ state: 'ready' })
    await markLanded(k(), claim, { landing: 'x', sha256: 'y', bytes: 1 })
    await dropLanding(k(), { ...claim, edition: 2 })
    expect(await memo.current()).toMatchObject({ state: 'downloaded' })
    await markLanded(k(), claim, { landing: 'x', sha256: 'y', bytes: 1 })
    await dropLanding(k(), claim)
    expect(await memo.current()).toMatchObject({ state: 'ready' })
  })
})

test('looks at all open reports of an account take half of its rate at most', async () => {
  expect(await memo.fairPauseMs()).toBe(0)
  const [account, n] = [`a${count}`, 2_000]
  await db.database.pool.query(
    `insert into etl.reports (unit_id, edition, submission, run_id, account, pipeline, endpoint, request_hash, request, state, report_id)
     select $1, 1, 100 + i, $2, case when i > $4 then 'other' else $3 end, 'traffic', '/', 'h', '{}', 'submitted', $3 || '-open-' || i
     from generate_series(1, $4 + 5) i`,
    [claim.unitId, runId, account, n],
  )
  // 2,000 looks at 5 a second.
  expect(await memo.fairPauseMs()).toBe(400_000)
})

describe('a budget', () => {
  const pipeline = (): string => `p${count}`
  const buy = async (name: string, budget: { perMonth: number | null; perDay: number | null }, estimatedQuota: number | null) => {
    const one = await claimed(db, runId, await planned(db, runId, `${name}${count}.com`))
    const its = memoOf(one, budget, pipeline())
    await its.intend({ ...intent, estimatedQuota })
    return { its, one }
  }
  const exhausted = { code: 'QUOTA_EXHAUSTED' }

  test.each(['perMonth', 'perDay'] as const)('%s is spent to the last credit and not beyond', async (period) => {
    const budget = { ...noBudget, [period]: 10 }
    await buy('a', budget, 4)
    await buy('b', budget, 6)
    await expect(buy('c', budget, 1)).rejects.toMatchObject(exhausted)
    await expect(buy('d', noBudget, 100)).resolves.toBeDefined()
  })

  test.each(['perMonth', 'perDay'] as const)('%s of the account holds over all its pipelines', async (period) => {
    const accountBudget = { ...noBudget, [period]: 10 }
    const buyIn = async (of: string, estimatedQuota: number): Promise<void> => {
      const one = await claimed(db, runId, await planned(db, runId, `${of}${count}-${estimatedQuota}.com`))
      await memoOf(one, noBudget, of, accountBudget).intend({ ...intent, estimatedQuota })
    }
    await buyIn('traffic', 6)
    await buyIn('shopper', 4)
    await expect(buyIn('traffic', 1)).rejects.toMatchObject(exhausted)
    await expect(buyIn('shopper', 2)).rejects.toThrow(/10 of 10 credits of account/)
  })

  test.each(['pipeline', 'account'] as const)('eight who want the last unit of the %s get it once', async (whose) => {
    const budget = { ...noBudget, perMonth: 10 }
    const limits = whose === 'pipeline' ? ([budget, noBudget] as const) : ([noBudget, budget] as const)
    await memoOf(claim, limits[0], `${pipeline()}-${whose}`, limits[1]).intend({ ...intent, estimatedQuota: 9 })
    const others: ClaimedUnit[] = []
    for (let at = 0; at < 8; at += 1)
      others.push(await claimed(db, runId, await planned(db, runId, `last-${whose}-${at}-${count}.com`)))
    const outcomes = await Promise.allSettled(
      others.map((one, at) => {
        const of = whose === 'pipeline' ? `${pipeline()}-${whose}` : `${pipeline()}-${whose}-${at}`
        return memoOf(one, limits[0], of, limits[1]).intend({ ...intent, estimatedQuota: 1 })
      }),
    )
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const outcome of outcomes) if (outcome.status === 'rejected') expect(outcome.reason).toMatchObject(exhausted)
  })

  test('counts a report with what it cost once that is known, and one without a price as 1', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its } = await buy('a', budget, 9)
    await its.submitted(`a-${id()}`, null)
    await its.ready({ statusWord: 'complete', usedQuota: 7, dataPoints: null })
    await buy('b', budget, null)
    await buy('c', budget, null)
    await buy('d', budget, null)
    await expect(buy('e', budget, null)).rejects.toMatchObject(exhausted)
  })

  test('goes on counting a downloaded report whose price nobody told, and frees what was never bought', async () => {
    const budget = { ...noBudget, perDay: 10 }
    const { its, one } = await buy('a', budget, 8)
    await its.submitted(`a-${id()}`, null)
    await its.ready({ statusWord: 'complete', usedQuota: null, dataPoints: null })
    await markLanded(k(), one, { landing: 'x', sha256: 'y', bytes: 1 })
    await expect(buy('b', budget, 3)).rejects.toMatchObject(exhausted)
    const small = await buy('c', budget, 2)
    await small.its.withdrawn('refused')
    const again = await buy('d', budget, 2)
    await again.its.submitted(`d-${id()}`, null)
    await again.its.failed('rejected', 'no')
    await expect(buy('e', budget, 2)).resolves.toBeDefined()
  })

  test('of a day or month forgets the one before, and knows no other pipeline or account', async () => {
    const budget = { perMonth: 10, perDay: 5 }
    await buy('a', budget, 5)
    await expect(buy('b', budget, 1)).rejects.toMatchObject({ ...exhausted, message: expect.stringContaining('this day') })
    const of = sql`where pipeline = ${pipeline()}`
    await sql`update etl.reports set created_at = date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC' ${of}`.execute(
      k(),
    )
    await expect(buy('m', budget, 6)).rejects.toMatchObject({ ...exhausted, message: expect.stringContaining('this month') })
    await sql`update etl.reports set created_at = date_trunc('month', clock_timestamp() at time zone 'UTC') at time zone 'UTC' - interval '1 second' ${of}`.execute(
      k(),
    )
    await buy('c', budget, 5)
    const one = await claimed(db, runId, await planned(db, runId, `other${count}.com`))
    await reportMemo(k(), one, {
      account: 'b',
      pipeline: pipeline(),
      runId,
      deadlineMs: 1,
      requestsPerSecond: 10,
      budget,
      accountBudget: noBudget,
    }).intend({
      ...intent,
      estimatedQuota: 5,
    })
    const two = await claimed(db, runId, await planned(db, runId, `more${count}.com`))
    await memoOf(two, budget, `${pipeline()}-other`).intend({ ...intent, estimatedQuota: 5 })
    await expect(buy('z', budget, 1)).rejects.toMatchObject({
      ...exhausted,
      message: expect.stringContaining(`limits.quota_per_day of ${pipeline()}`),
    })
  })

  test('is one for all who ask at the same time', async () => {
    const budget = { ...noBudget, perDay: 5 }
    const results = await Promise.allSettled(Array.from({ length: 8 }, (_, index) => buy(`n${index}-`, budget, 1)))
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(5)
  })
})

describe('what earlier loads tell', () => {
  test('is the newest load of each slice, and the average of all', async () => {
    const pipeline = `est${count}`
    const unit = async (slice: string, loads: readonly [number, number | null][]): Promise<void> => {
      const made = await sql<{
        unit_id: string
      }>`insert into etl.units (unit_key, pipeline, version, window_from, window_to, slice)
        values (${`${pipeline}/${slice}`}, ${pipeline}, 1, '2026-01-01', '2026-02-01', ${JSON.stringify({ domain: slice })}::jsonb) returning unit_id`.execute(
        k(),
      )
      const unitId = made.rows[0]?.unit_id ?? ''
      for (const [index, [read, quota]] of loads.entries()) {
        const report = await sql<{
          report_key: string
        }>`insert into etl.reports (unit_id, edition, account, pipeline, endpoint, request_hash, request, state, used_quota)
          values (${unitId}::bigint, ${index + 1}, 'a', ${pipeline}, '/e', 'h', '{}', 'downloaded', ${quota}::bigint) returning report_key`.execute(
          k(),
        )
        await sql`insert into etl.loads (unit_id, edition, report_key, outcome, rows_read, rows_unchanged)
          values (${unitId}::bigint, ${index + 1}, ${report.rows[0]?.report_key}::bigint, 'loaded', ${read}, ${read})`.execute(
          k(),
        )
      }
      await sql`insert into etl.loads (unit_id, edition, outcome) values (${unitId}::bigint, 9, 'unchanged')`.execute(k())
    }
    expect(await loadedHistory(k(), pipeline)).toEqual({ bySlice: new Map(), average: null })
    await unit('a', [
      [100, 9],
      [10, 1],
    ])
    await unit('b', [[21, 2]])
    await unit('c', [[30, null]])
    const history = await loadedHistory(k(), pipeline)
    expect(history.bySlice).toEqual(
      new Map([
        ['{"domain":"a"}', { rows: 10, quota: 1 }],
        ['{"domain":"b"}', { rows: 21, quota: 2 }],
        ['{"domain":"c"}', { rows: 30, quota: null }],
      ]),
    )
    expect(history.average).toEqual({ rows: 20, quota: 2 })
  })
})
