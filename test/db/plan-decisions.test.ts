// What planning decides of a unit: a table of every state its job can be in, under each consent, and which loaded units are asked for again.
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { requestDigest, metricsOf } from '../../src/core/request-digest.ts'
import type { JobKind } from '../../src/core/types.ts'
import * as candidates from '../../src/ledger/candidates.ts'
import type { Policy } from '../../src/ledger/job-decision.ts'
import { jobsOf, loaded, pipelineIdOf } from '../support/plan-ledger.ts'
import { keyParameters } from '../../src/ledger/pipelines.ts'
import { adoptWork, knownPipeline } from '../../src/ledger/adopt-work.ts'
import { nextAskNumber } from '../support/ledger.ts'
import { loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { definitionFor, plan, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

type JobSet = Parameters<typeof setJob>[2]
/** What a unit's job is set to; `waited`: by a run that lives. */
type State = JobSet & { readonly waited?: boolean }
/** Decisions where nobody consents to anything; with force; with consent to send lost submissions again; to buy failed reports again; unpublished; unpublished with force. */
type Decisions = readonly [string, string, string, string, string, string]

const same = (decision: string, unpublished = decision): Decisions => [
  ...([decision, decision, decision, decision] as const),
  ...([unpublished, unpublished] as const),
]
const ask = same('ask', 'not-published')
const [asked, bought] = [{ ask_number: 7 }, { ask_number: 7, answer_id: 1 }]

const reportStates: readonly (readonly [string, State, Decisions])[] = [
  ['open, not sent', { state: 'open' }, same('join')],
  ['open, sent', { state: 'open', ...asked }, ['join', 'ask', 'join', 'join', 'join', 'not-published']],
  [
    'open, sent by force, waited for',
    { state: 'open', ...asked, forced: true, waited: true },
    ['join', 'ask', 'join', 'join', 'join', 'not-published'],
  ],
  ['open, sent by force, left alone', { state: 'open', ...asked, forced: true }, same('join')],
  ['failed, never bought', { state: 'failed', error_code: 'KEY_REFUSED' }, ask],
  ...(['submitted', 'ready', 'downloaded'] as const).map(
    (report_state) => [`failed, ${report_state}`, { state: 'failed', ...asked, report_state }, same('join')] as const,
  ),
  ...(['failed', 'rejected', 'expired'] as const).map(
    (report_state) =>
      [
        `failed, report ${report_state}`,
        { state: 'failed', ...asked, report_state },
        ['join', 'ask', 'join', 'ask', 'join', 'not-published'],
      ] as const,
  ),
  [
    'failed, uncertain',
    { state: 'failed', ...asked, report_state: 'uncertain' },
    ['join', 'join', 'ask', 'join', 'join', 'join'],
  ],
  [
    'failed with its answer',
    { state: 'failed', ...bought, report_state: 'failed' },
    ['join', 'ask', 'join', 'join', 'join', 'not-published'],
  ],
  [
    'held, expired',
    { state: 'held', ...asked, report_state: 'expired' },
    ['held', 'ask', 'held', 'ask', 'held', 'not-published'],
  ],
  [
    'held with its answer, of a report that expired since',
    { state: 'held', ...bought, report_state: 'expired', error_code: 'INCOMPLETE' },
    ['held', 'ask', 'held', 'held', 'held', 'not-published'],
  ],
  ...(['intent', 'uncertain'] as const).map(
    (report_state) =>
      [
        `held, ${report_state}`,
        { state: 'held', ...asked, report_state },
        ['held', 'held', 'ask', 'held', 'held', 'held'],
      ] as const,
  ),
  ['held for the budget', { state: 'held', error_code: 'QUOTA_EXHAUSTED' }, same('join')],
  [
    'held for the budget, with an answer',
    { state: 'held', ...bought, error_code: 'QUOTA_EXHAUSTED' },
    ['held', 'ask', 'held', 'held', 'held', 'not-published'],
  ],
  ['held for approval', { state: 'held' }, same('held')],
  [
    'held, short',
    { state: 'held', ...bought, report_state: 'downloaded', error_code: 'SHRUNK' },
    ['held', 'ask', 'held', 'held', 'held', 'not-published'],
  ],
]

const walkStates: readonly (readonly [string, State, Decisions])[] = [
  ['open, not begun', { state: 'open' }, same('join')],
  ['open, begun', { state: 'open', ...asked }, ['join', 'ask', 'join', 'join', 'join', 'not-published']],
  ['failed', { state: 'failed', error_code: 'SERVICE_ERROR' }, same('join', 'not-published')],
  ['failed with its answer', { state: 'failed', ...bought }, ['join', 'ask', 'join', 'join', 'not-published', 'not-published']],
  ['held while it kept changing', { state: 'held', error_code: 'UNSTABLE' }, same('join')],
  ['held while it kept changing, with an answer', { state: 'held', ...bought, error_code: 'UNSTABLE' }, ask],
  ['held, and nobody knows why', { state: 'held' }, same('held')],
  ['held, shrunk', { state: 'held', error_code: 'SHRUNK' }, same('held')],
]

/** Units held back without a job, by code. */
const heldUnits: Readonly<Record<JobKind, readonly (readonly [string, string, Decisions])[]>> = {
  report: [
    ['answer held, shrunk', 'SHRUNK', ['held', 'ask', 'held', 'held', 'held', 'not-published']],
    ['answer held, unstable', 'UNSTABLE', ['held', 'ask', 'held', 'held', 'held', 'not-published']],
  ],
  walk: [
    ['answer held, shrunk', 'SHRUNK', ['held', 'ask', 'held', 'held', 'held', 'not-published']],
    ['answer held, unstable', 'UNSTABLE', ask],
  ],
}

const january = '2025-01-01'
const others = ['loaded', 'never asked for'] as const

/** A pipeline whose every unit of January is named after what it is in. */
const ledgerOf = async (kind: JobKind, states: typeof reportStates) => {
  const source = sourceOf({ kind, mostPerRequest: 1 })
  const names = [...states.map(([name]) => name), ...heldUnits[kind].map(([name]) => name), 'loaded']
  const definition = definitionFor(source, { domains: names })
  await plan(db, { source, definition }, range('2025-01', '2025-02'))
  const more = withLists(definition, { domains: [...names, 'never asked for'] })
  await plan(db, { source, definition: more }, range('2099-01', '2099-01'))
  const pipelineId = await pipelineIdOf(db, definition)
  const jobs = new Map((await jobsOf(db, definition)).map(({ jobId, cells }) => [cells[0] ?? '', jobId]))
  const jobOf = (name: string): number => jobs.get(`2025-01 ${name}`) ?? 0
  for (const [name, code] of [...heldUnits[kind], ['loaded', null] as const]) {
    await loaded(db, jobOf(name), { askedAt: '2025-03-05T00:00:00Z' })
    if (code !== null)
      await sql`update etl.units u set held_answer_id = u.answer_id, held_code = ${code} from etl.jobs j
        where j.job_id = ${jobOf(name)} and u.pipeline_id = ${pipelineId} and u.window_from = ${january}::date and u.slice_id = any(j.slice_ids)`.execute(
        db.database.kysely,
      )
  }
  for (const [name, { waited = false, ...set }] of states) {
    await setJob(db, jobOf(name), set)
    if (!waited) await sql`update etl.run_jobs set outcome = 'failed' where job_id = ${jobOf(name)}`.execute(db.database.kysely)
  }
  const rows = await db.query<{ id: number; name: string }>(
    'select slice_id as id, "values"[1] as name from etl.slices where pipeline_id = $1',
    [pipelineId],
  )
  return { pipelineId, jobOf, idOf: new Map(rows.map(({ id, name }) => [name, id])), names: [...names, 'never asked for'] }
}

type Ledger = Awaited<ReturnType<typeof ledgerOf>>
const policyOf = (kind: JobKind, more: Partial<Policy> = {}): Policy => ({
  ...{ kind, force: false, resubmitUncertain: false, resubmitFailed: false, ...more },
})
const askOf = (more: Partial<candidates.WindowQuery> = {}): candidates.WindowQuery => ({
  ...{ from: january, isPublished: true, since: 0, refresh: candidates.noRefresh, ...more },
})

/** Decision and reason of each unit, one by one, by name; those to ask for with whether they leave a job, and whose purchase comes before. */
const decided = async (ledger: Ledger, policy: Policy, window: candidates.WindowQuery = askOf()) => {
  const scope = {
    pipelineId: ledger.pipelineId,
    policy,
    only: new Map<number, string[]>(),
    reuse: null,
    usual: null,
    asker: 'night' as const,
  }
  const found = new Map<string, { decision: string; reason: string; leaves: readonly string[]; former: string | null }>()
  for (const [name, id] of ledger.idOf) {
    const { counts, needed } = await candidates.neededCells(db.database.kysely, scope, window, [id])
    const [count, more] = counts
    if (more !== undefined) throw new Error(`${name} is decided about twice`)
    if (count === undefined) continue
    found.set(name, { ...count, leaves: needed[0]?.leftJobIds ?? [], former: needed[0]?.formerJobId ?? null })
    if ((count.decision === 'ask') !== (needed[0]?.sliceIds[0] === id)) throw new Error(`${name}: asked and not named`)
  }
  // The same at once.
  const sum = new Map<string, number>()
  for (const { decision } of found.values()) sum.set(decision, (sum.get(decision) ?? 0) + 1)
  const counted = new Map<string, number>()
  for (const { decision, cells } of await candidates.countCells(db.database.kysely, scope, window))
    counted.set(decision, (counted.get(decision) ?? 0) + cells)
  expect(new Map([...counted].sort())).toEqual(new Map([...sum].sort()))
  return found
}

describe.each([
  ['report', reportStates],
  ['walk', walkStates],
] as const)('of a %s', (kind, states) => {
  let ledger: Ledger
  beforeAll(async () => {
    ledger = await ledgerOf(kind, states)
  })

  const expected = (column: number): Record<string, string> =>
    Object.fromEntries([
      ...[...states, ...heldUnits[kind]].map(([name, , decisions]) => [name, decisions[column]]),
      ['loaded', ['done', 'ask', 'done', 'done', 'done', 'not-published'][column]],
      ['never asked for', ask[column]],
    ])

  test.each([
    ['nobody consents to anything', 0, {}, true],
    ['force', 1, { force: true }, true],
    ['consent to send lost submissions again', 2, { resubmitUncertain: true }, true],
    ['consent to buy failed reports again', 3, { resubmitFailed: true }, true],
    ['nothing published', 4, {}, false],
    ['nothing published, and force', 5, { force: true }, false],
  ] as const)('%s', async (_, column, consent, isPublished) => {
    const found = await decided(ledger, policyOf(kind, consent), askOf({ isPublished }))
    expect(Object.fromEntries([...found].map(([name, { decision }]) => [name, decision]).sort())).toEqual(
      Object.fromEntries(Object.entries(expected(column)).sort()),
    )
    const reasonOf = (name: string): string => {
      if (states.some(([known]) => known === name))
        return consent === undefined || !('force' in consent) ? 'unfinished' : 'forced'
      if (name === 'never asked for') return 'new'
      return 'force' in consent ? 'forced' : 'look-back'
    }
    for (const [name, { reason }] of found) expect(reason, name).toBe(reasonOf(name))
  })

  test('a unit that is asked for leaves its job, and names the purchase before', async () => {
    const found = await decided(ledger, policyOf(kind, { force: true, resubmitUncertain: true }))
    for (const [name, set] of states) {
      const { decision, leaves, former } = found.get(name) ?? { decision: '', leaves: [], former: null }
      if (decision !== 'ask') continue
      expect(leaves, name).toEqual([String(ledger.jobOf(name))])
      expect(former, name).toBe(set.ask_number === undefined ? null : String(ledger.jobOf(name)))
    }
    for (const name of others) expect(found.get(name)).toMatchObject({ leaves: [], former: null })
  })

  test.each([
    ['all', { all: true }, true],
    ['its slice', { sliceIds: [0] }, true],
    ['restated after it was asked for', { restatedAt: '2025-03-05T00:00:01Z' }, true],
    ['not restated since', { restatedAt: '2025-03-05T00:00:00Z' }, false],
    ['its turn, and overdue', { fullCheck: { before: '2025-03-05T00:00:01Z', nights: 1, night: 0 } }, true],
    ['its turn, and not overdue', { fullCheck: { before: '2025-03-05T00:00:00Z', nights: 1, night: 0 } }, false],
    ['not restated, and yet its slice', { restatedAt: '2025-03-05T00:00:00Z', sliceIds: [0] }, true],
  ] as const)('a loaded unit is asked for again: %s', async (_, refresh, isAsked) => {
    const id = ledger.idOf.get('loaded') ?? 0
    const window = askOf({
      refresh: { ...candidates.noRefresh, ...refresh, sliceIds: 'sliceIds' in refresh ? [id] : [] },
    })
    const found = await decided(ledger, policyOf(kind), window)
    const reason = 'fullCheck' in refresh ? 'full check' : 'look-back'
    expect(found.get('loaded')).toMatchObject({ decision: isAsked ? 'ask' : 'done', reason })
    expect(found.get('never asked for')?.decision).toBe('ask')
  })

  test('only whose turn it is, and what is wanted since a later generation', async () => {
    const turn = Math.floor((ledger.idOf.get('loaded') ?? 0) / candidates.slicesPerBlock) + 500
    const fullCheck = { before: '2025-03-06T00:00:00Z', nights: 1000, night: turn % 1000 }
    expect((await decided(ledger, policyOf(kind), askOf({ refresh: { ...candidates.noRefresh, fullCheck } }))).size).toBe(0)
    expect([...(await decided(ledger, policyOf(kind), askOf({ since: 1 }))).keys()]).toEqual(['never asked for'])
  })

  test('step by step, those to ask for in the order of their slices', async () => {
    const scope = {
      pipelineId: ledger.pipelineId,
      policy: policyOf(kind),
      only: new Map<number, string[]>(),
      reuse: null,
      usual: null,
      asker: 'night' as const,
    }
    const asked = [...(await decided(ledger, policyOf(kind)))]
      .filter(([, { decision }]) => decision === 'ask')
      .map(([name]) => ledger.idOf.get(name) ?? 0)
      .sort((left, right) => left - right)
    const step = async (after: number, most: number): Promise<number[]> => {
      const { rows } = await sql<{ slice_id: number }>`${candidates.cellsToAsk(scope, askOf(), after, most)}`.execute(
        db.database.kysely,
      )
      return rows.map((row) => row.slice_id)
    }
    expect(await step(0, 1000)).toEqual(asked)
    expect(await step(0, 1)).toEqual(asked.slice(0, 1))
    expect(await step(asked[0] ?? 0, 1000)).toEqual(asked.slice(1))
  })
})

test('what another ledger had bought under a number that is taken here is no forced run’s own: neither while it is open nor loaded', async () => {
  const source = sourceOf({ kind: 'report', mostPerRequest: 1 })
  const definition = definitionFor(source, { domains: ['a.com', 'b.com', 'c.com'] })
  await plan(db, { source, definition }, range('2025-01', '2025-02'))
  const [first] = await jobsOf(db, definition)
  await loaded(db, first?.jobId ?? 0)
  const since = String(await nextAskNumber(db))
  const { pipeline, version } = definition
  const takeUp = async (askNumber: string, domain: string): Promise<number> => {
    await db.database.kysely.transaction().execute(async (trx) => {
      const known = await knownPipeline(trx, { pipeline, pipeline_version: version, parameters: keyParameters(definition) })
      if (known === null) expect.fail('no such pipeline')
      const box = { window: { from: january, to: '2025-02-01' }, slice: { domain: [domain] }, asked_at: new Date().toISOString() }
      const bought = { account: 'default', report_id: `of-${domain}`, endpoint: null, request: {}, request_hash: 'x' }
      const work = { kind: 'report', ask_number: askNumber, estimated_quota: null, answer: null, ...box, ...bought } as const
      expect(await adoptWork(trx, known, 'month', work)).toBe('taken up')
    })
    // The rest of the plan comes after it.
    return (await jobsOf(db, definition)).findLast((job) => job.askNumber !== null)?.jobId ?? 0
  }
  const taken = (await jobsOf(db, definition)).find(({ jobId }) => jobId === first?.jobId)?.askNumber ?? ''
  const renumbered = await takeUp(taken, 'b.com')
  // Bought since the run began, as far as numbers can tell: by the run itself, before the backup.
  const own = await takeUp(String(Number(since) + 1_000), 'c.com')
  const rows = await db.query<{ id: number; name: string }>(
    'select slice_id as id, "values"[1] as name from etl.slices where pipeline_id = $1',
    [await pipelineIdOf(db, definition)],
  )
  const ledger = {
    pipelineId: await pipelineIdOf(db, definition),
    jobOf: () => 0,
    names: [],
    idOf: new Map(rows.map(({ id, name }) => [name, id])),
  }
  const decisions = async (): Promise<(string | undefined)[]> => {
    const found = await decided(ledger, policyOf('report', { force: true, taken: { since, asks: 'asks', metrics: [] } }))
    return ['a.com', 'b.com', 'c.com'].map((name) => found.get(name)?.decision)
  }
  expect(await decisions()).toEqual(['ask', 'ask', 'join'])
  for (const job of [renumbered, own]) {
    const answer = await newAnswer(db, job)
    await loadedAs(db, job, answer, answer)
  }
  expect(await decisions()).toEqual(['ask', 'ask', 'done'])
  // Nor does it serve another version beside this one.
  const shape = sql`etl.shape_of(${requestDigest(definition)}, ${metricsOf(definition)}::text[], null, null, null, null, null, null)`
  await sql`update etl.answer_rows set shape_id = ${shape} where pipeline_id = ${ledger.pipelineId}`.execute(db.database.kysely)
  const second = { ...definition, version: version + 1 }
  await plan(db, { source, definition: second }, range('2025-01', '2025-01', { force: true, takenSince: since }))
  const served = (await jobsOf(db, second)).map(({ cells, answerId }) => [cells[0], answerId !== null])
  expect(Object.fromEntries(served)).toEqual({ '2025-01 a.com': false, '2025-01 b.com': false, '2025-01 c.com': true })
})
