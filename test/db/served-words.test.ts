// What has a person's word and was bought by another pipeline meanwhile, whole or in part: it is loaded from there, and the rest keeps the word.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { requestedBy, requestDigest, metricsOf } from '../../src/core/request-digest.ts'
import { secret } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import type { Source } from '../../src/extract/source.ts'
import { approve, withdraw } from '../../src/ledger/approvals.ts'
import { dissolveServed } from '../../src/ledger/approved-jobs.ts'
import { reuseScope } from '../../src/ledger/reuse-answers.ts'
import { planApproved } from '../../src/plan/plan-run.ts'
import { makeJobsDue } from '../../src/ledger/wait-list.ts'
import { newRun } from '../support/ledger.ts'
import { allLoaded, died, pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, previewAll, range, runtimeFor, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const due = { mode: 'due' } as const

/** Six months and more, of which the last may not be published. */
const today = new Date()
const month = (back: number): string =>
  new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - back, 15)).toISOString().slice(0, 7)
const history = range(month(9), month(4))

/** Two pipelines of one question. A guard would hold the history of either. */
const twoOf = (kind: Source['kind'], ours: readonly string[], theirs: readonly string[]): [Planning, Planning] => {
  const source: Source = { ...sourceOf({ kind, price: 3 }), ...(kind === 'walk' ? { billing: { seen: [] } } : {}) }
  const one = definitionFor(source, { domains: ours }, { from: `${month(9)}-01` })
  const guard = { creditsPerNight: null, factor: 2 }
  const definition = { ...one, account: one.pipeline, guard }
  return [
    { source, definition },
    { source, definition: { ...withLists(definition, { domains: theirs }), pipeline: `${one.pipeline}_b` } },
  ]
}

/** Units of the history by what their jobs wait for. */
const units = async ({ definition }: Planning): Promise<Record<string, number>> => {
  const rows = await db.query<{ what: string; units: number }>(
    `select case when j.answer_id is not null then 'here' when j.served_by is not null then 'served' when j.guard <> 'usual' then 'held'
       when j.approval_id is null then 'to buy' else 'to buy with a word' end as what, count(*)::int as units
     from etl.units u join etl.jobs j using (job_id) where u.pipeline_id = $1 and j.state in ('open', 'held') and u.window_from < $2 group by 1`,
    [await pipelineIdOf(db, definition), `${month(3)}-01`],
  )
  return Object.fromEntries(rows.map((row) => [row.what, row.units]))
}

/** As if a person had bought it, and it was loaded. */
const bought = async (planning: Planning): Promise<void> => {
  const { runId } = await plan(db, planning, history)
  await allLoaded(db, planning.definition)
  await died(db, runId)
  const metrics = planning.source.kind === 'walk' ? [] : metricsOf(planning.definition)
  await db.database.pool.query(
    `update etl.answer_rows set shape_id = etl.shape_of($1, $2, null, null, null, null, null, null) where pipeline_id = $3`,
    [requestDigest(planning.definition), metrics, await pipelineIdOf(db, planning.definition)],
  )
}

/** Its history has a person's word, and is not asked for yet. */
const approved = async (planning: Planning): Promise<void> => {
  const { runId } = await plan(db, planning, due)
  await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
  await died(db, runId)
}

const kinds = [['report'], ['walk']] as const

test.each(kinds)('of what waits for a %s, what another pipeline has bought is here; the rest goes on waiting', async (kind) => {
  const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com'])
  const { runId } = await plan(db, ours, due)
  await died(db, runId)
  expect(await units(ours)).toEqual({ held: 12 })
  await bought(theirs)
  await plan(db, ours, due)
  expect(await units(ours)).toEqual({ here: 6, held: 6 })
})

test('a job that waits is read a few times a night, however many wait and whatever the server last knew of them', async () => {
  const domains = Array.from({ length: 100 }, (_, at) => `${at}.com`)
  const [ours, theirs] = twoOf('walk', domains, domains)
  for (const one of [ours, theirs]) await died(db, (await plan(db, one, due)).runId)
  const { kysely, pool } = db.database
  await pool.query(`update etl.jobs set state = 'open' where state = 'held'`)
  await pool.query('analyze etl.jobs')
  await pool.query(`update etl.jobs set state = 'held' where guard <> 'usual'`)
  const pipelineId = await pipelineIdOf(db, ours.definition)
  const of = { ...requestedBy(ours.definition, 'walk'), source: ours.source.name, runId: 0 }
  const reuse = await reuseScope(kysely, { pipelineId, dimensions: ['domain'], generation: 1 }, of)
  if (reuse === null) throw new Error('a sister')
  const read = await kysely.transaction().execute(async (trx) => {
    // Of transactions before, too, which the server has not yet added up.
    const readSoFar = async (): Promise<number> => {
      const { rows } = await sql<{ jobs: number }>`select (seq_tup_read + idx_tup_fetch)::float8 as jobs
        from pg_stat_xact_user_tables where relid = 'etl.jobs'::regclass`.execute(trx)
      return rows[0]?.jobs ?? 0
    }
    const before = await readSoFar()
    await dissolveServed(trx, { pipelineId, every: 'month' }, reuse, { from: `${month(9)}-01`, to: `${month(3)}-01` })
    return (await readSoFar()) - before
  })
  expect(read).toBeGreaterThan(600)
  expect(read, 'not each of the 600 for each other').toBeLessThan(50 * 600)
})

test('beside what another account plans, all that was asked for of late is not read once for each unit', async () => {
  const domains = Array.from({ length: 2_000 }, (_, at) => `${at}.com`)
  const [ours, theirs] = twoOf('walk', domains, domains)
  const last = range(month(4), month(4))
  await plan(db, { ...theirs, definition: { ...theirs.definition, account: 'quiet' } }, last)
  await db.query(
    `insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, asked_at, account)
     select pipeline_id, 'walk', 'new', '2020-01-01', '2020-02-01', '{1}', 1, 'done', now(), $1 from etl.pipelines, generate_series(1, 150000) where pipeline = $2`,
    [ours.definition.account, theirs.definition.pipeline],
  )
  await db.query('analyze etl.jobs')
  // As where more was asked for than the server's memory for one hash holds.
  const database = await openDatabase({ databaseUrl: secret('small', `${db.url}?options=-c%20work_mem=64kB`), home: '/nowhere' })
  const began = performance.now()
  await plan({ ...db, database }, ours, last).finally(() => database.close())
  expect(performance.now() - began).toBeLessThan(10_000)
  expect(await units(ours)).toEqual({ 'to buy': 2_000 })
})

test.each(kinds)(
  "of a %s with a person's word, what another pipeline has bought is here; the rest keeps the word",
  async (kind) => {
    const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com'])
    await approved(ours)
    expect(await units(ours)).toEqual({ 'to buy with a word': 12 })
    await bought(theirs)
    await plan(db, ours, due)
    expect(await units(ours)).toEqual({ here: 6, 'to buy with a word': 6 })
  },
)

test.each(kinds)("so it is of a %s whose months are none of the definition's any more", async (kind) => {
  const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com'])
  await approved(ours)
  await bought(theirs)
  const { definition } = ours
  await plan(db, { ...ours, definition: { ...definition, window: { ...definition.window, from: `${month(3)}-01` } } }, due)
  expect(await units(ours)).toEqual({ here: 6, 'to buy with a word': 6 })
})

/** As a budget left it whose day has turned since. */
const turned = "error_code = 'QUOTA_EXHAUSTED', not_before = now() - interval '1 hour'"

test.each([
  ['report', 'new', 'not_before = null'],
  ['walk', 'new', 'not_before = null'],
  ['report', 'left by a budget', turned],
  ['walk', 'left by a budget', turned],
] as const)(
  'of two pipelines with a word for the same %s, %s, which `schedule` takes up by themselves, one buys',
  async (kind, _, how) => {
    const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com'])
    await approved(theirs)
    await approved(ours)
    await db.database.pool.query(`update etl.jobs set ${how} where approval_id is not null and state = 'open'`)
    const runs = [theirs, ours].map(async (planning) => {
      const runtime = runtimeFor(db, planning) as unknown as Parameters<typeof planApproved>[0]
      return planApproved(runtime, await newRun(db), [planning.definition], new AbortController().signal)
    })
    await Promise.all(runs)
    const [one, other] = [await units(ours), await units(theirs)]
    expect((one['to buy with a word'] ?? 0) + (other['to buy with a word'] ?? 0)).toBe(12)
  },
)

test('of two versions with a word left by a budget the one that asks for more buys for both, in whatever order they are given', async () => {
  const [narrow, other] = twoOf('report', ['a.com', 'b.com'], ['a.com', 'b.com'])
  const visits = { name: 'visits', from: [], type: 'numeric', origin: 'response', isKey: false } as const
  const wide = { ...other, definition: { ...other.definition, columns: [visits] } } as unknown as Planning
  await approved(narrow)
  await approved(wide)
  await db.database.pool.query(`update etl.jobs set ${turned} where approval_id is not null and state = 'open'`)
  const runtime = runtimeFor(db, narrow) as unknown as Parameters<typeof planApproved>[0]
  await planApproved(runtime, await newRun(db), [narrow.definition, wide.definition], new AbortController().signal)
  expect(await units(wide)).toEqual({ 'to buy with a word': 12 })
  expect(await units(narrow)).toEqual({ served: 12 })
})

test('the rest of two pipelines beyond a budget is bought once by a night of both, as planned', async () => {
  const [ours, theirs] = twoOf('report', ['a.com', 'b.com'], ['a.com', 'b.com'])
  await approved(ours)
  await approved(theirs)
  await db.database.pool.query(`update etl.jobs set error_code = 'QUOTA_EXHAUSTED' where approval_id is not null`)
  const found = await previewAll(db, ours.source, [ours.definition, theirs.definition], due)
  const old = found.jobs.filter(({ window, reports }) => window.startsWith(month(9)) && reports > 0)
  expect(old).toHaveLength(1)
  const { runId } = await plan(db, ours, due)
  await plan(db, theirs, due, runId)
  expect(await units(ours)).toEqual({ 'to buy with a word': 12 })
  expect(await units(theirs)).toEqual({ served: 12 })
})

test.each(kinds)(
  'what a budget left until later is tried by a run of both at once, and bought once where a person raised it (%s)',
  async (kind) => {
    const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com', 'b.com'])
    await approved(ours)
    await approved(theirs)
    const left = "error_code = 'QUOTA_EXHAUSTED', not_before = now() + interval '9 days'"
    await db.query(`update etl.jobs set ${left} where approval_id is not null and state = 'open'`)
    const { runId } = await plan(db, ours, due)
    await plan(db, theirs, due, runId)
    expect([await units(ours), await units(theirs)]).toEqual([{ 'to buy with a word': 12 }, { served: 12 }])
    expect(await makeJobsDue(db.database.kysely, runId)).toBeGreaterThan(0)
  },
)

/** Both have a word, and ours was on its way for both when no run was left. */
const turnedDown = async (kind: Source['kind'], how: string): Promise<[Planning, Planning]> => {
  const [ours, theirs] = twoOf(kind, ['a.com', 'b.com'], ['a.com', 'b.com'])
  await approved(ours)
  await approved(theirs)
  const { runId } = await plan(db, ours, due)
  await plan(db, theirs, due, runId)
  expect(await units(theirs)).toEqual({ served: 12 })
  await died(db, runId)
  await db.database.pool.query(
    `update etl.jobs set ${how} where pipeline_id = $1 and approval_id is not null and state = 'open'`,
    [await pipelineIdOf(db, ours.definition)],
  )
  return [ours, theirs]
}

const refused = "state = 'held', error_code = 'QUOTA_EXHAUSTED', error_message = 'No credits', estimated_quota = null"

test.each(kinds)(
  "a word outlasts another's purchase (%s) that does not come, and any number of nights that wait for it",
  async (kind) => {
    const [ours, theirs] = await turnedDown(kind, 'not_before = null')
    for (const _ of [1, 2]) {
      const { runId } = await plan(db, ours, due)
      await plan(db, theirs, due, runId)
      expect(await units(theirs)).toEqual({ served: 12 })
      await died(db, runId)
    }
    expect(await withdraw(db.database.kysely, [ours.definition.pipeline], 'ada')).toBeGreaterThan(0)
    await plan(db, theirs, due)
    expect(await units(theirs)).toEqual({ 'to buy with a word': 12 })
    expect(
      await db.query(
        `select distinct wanted_by, estimated_quota from etl.jobs where pipeline_id = $1 and approval_id is not null and state = 'open'`,
        [await pipelineIdOf(db, theirs.definition)],
      ),
      'what it costs is asked anew, not nothing',
    ).toEqual([{ wanted_by: 'approval', estimated_quota: null }])
  },
)

test.each(kinds)('what was refused for certain (%s) can be taken back, and is held by the next night', async (kind) => {
  const [ours] = await turnedDown(kind, refused)
  expect(await withdraw(db.database.kysely, [ours.definition.pipeline], 'ada')).toBeGreaterThan(0)
  await plan(db, ours, due)
  expect(await units(ours)).toEqual({ held: 12 })
})

/** As a warehouse that is to be told from its copy leaves what it may not buy. */
const copied = "state = 'held', error_code = 'WAREHOUSE_COPY', error_message = 'A copy'"

test.each([
  ['report', 'refused', refused, true],
  ['report', 'refused', refused, false],
  ['report', 'held as of a copy', copied, true],
  ['report', 'held as of a copy', copied, false],
  ['walk', 'held as of a copy', copied, true],
  ['walk', 'held as of a copy', copied, false],
] as const)('of a %s with a word, %s, and its twin one is bought, whoever plans first', async (kind, _, how, isFirst) => {
  const both = await turnedDown(kind, how)
  const [first, second] = isFirst ? both : both.toReversed()
  if (first === undefined || second === undefined) throw new Error('two')
  const { runId } = await plan(db, first, due)
  await plan(db, second, due, runId)
  expect(await units(first)).toEqual({ 'to buy with a word': 12 })
  expect(await units(second)).toEqual({ served: 12 })
})

// The service charges nothing for a report that it could not make (the retry of one is free, too), so that asking for it once more costs no credit twice.
test('a report that failed at the service serves nobody: the other pipeline with a word asks by itself', async () => {
  const [ours, theirs] = await turnedDown('report', "state = 'failed', report_state = 'failed', ask_number = 1, asked_at = now()")
  await plan(db, theirs, due)
  expect(await units(theirs)).toEqual({ 'to buy with a word': 12 })
  expect(await units(ours)).toEqual({})
})
