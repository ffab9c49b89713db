// What people are told of: a cause is over when its units are loaded, not while they are being tried again; and how it is sent.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { releaseByPerson } from '../../src/ledger/release-unit.ts'
import { leaveRun, requestCancel } from '../../src/ledger/cancel-request.ts'
import { causesInLedger } from '../../src/ledger/causes.ts'
import { deliverNext, syncNotifications } from '../../src/ledger/deliveries.ts'
import { insertQuarantine, isOpenRecord, listQuarantine } from '../../src/ledger/quarantine.ts'
import { readStatus } from '../../src/web/reads/read-status.ts'
import { failJob, holdJob, parkJob } from '../../src/ledger/claim-fence.ts'
import {
  type PipelineKit,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  newSlices,
  nextAskNumber,
  waitFor,
} from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const k = () => db.database.kysely
const reason = { code: 'BAD_RESPONSE', message: 'the page is HTML' }

/** Causes open after a look, of the pipeline alone. */
const look = async ({ pipeline }: PipelineKit): Promise<string[]> => {
  await syncNotifications(k(), await causesInLedger(k()), () => [], [])
  const open = await k()
    .selectFrom('etl.notifications')
    .select('cause')
    .where('resolved_at', 'is', null)
    .where('pipeline', '=', pipeline)
    .orderBy('cause')
    .execute()
  return open.map(({ cause }) => cause)
}

const toldTimes = async (cause: string): Promise<number> =>
  (await k().selectFrom('etl.notifications').select('cause').where('cause', '=', cause).execute()).length

const claimed = async (jobId: number) => {
  const { processId } = await newProcess(db)
  await setJob(db, jobId, { state: 'open', holder: processId })
  return { jobId, fence: (await jobRow(db, jobId)).fence, holder: processId }
}

const load = async (jobId: number, answerId: number, outcome: 'loaded' | 'unchanged' = 'loaded'): Promise<void> => {
  await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, rows_read, rows_inserted)
    select ${answerId}, pipeline_id, window_from, job_id, ${outcome}, 1, 1 from etl.jobs where job_id = ${jobId}`.execute(k())
}

for (const [word, settle] of [
  ['held', holdJob],
  ['failure', failJob],
] as const)
  test(`a look in the middle of the next try does not tell that ${word} is over, and not again that it began`, async () => {
    const pipeline = await newPipeline(db)
    const jobId = await newJob(db, pipeline, { runs: [await newRun(db)] })
    await settle(k(), await claimed(jobId), reason)
    const told = await look(pipeline)
    expect(told).toEqual([`${word}/${pipeline.pipeline}`])
    await waitFor(db, await newRun(db), jobId)
    await setJob(db, jobId, { state: 'open', error_code: null, error_message: null })
    expect(await look(pipeline)).toEqual(told)
    const again = await claimed(jobId)
    expect(await look(pipeline)).toEqual(told)
    await parkJob(k(), again, { ...reason, notBeforeMs: 0, countsAttempt: false, final: false })
    expect(await look(pipeline)).toEqual(told)
    const answerId = await newAnswer(db, jobId)
    await load(jobId, answerId)
    await loadedAs(db, jobId, answerId, 1)
    expect(await look(pipeline)).toEqual([])
    expect(await toldTimes(`${word}/${pipeline.pipeline}`)).toBe(1)
  })

test('a loaded unit whose refresh failed is mended when the service says that nothing changed', async () => {
  const pipeline = await newPipeline(db)
  const first = await newJob(db, pipeline)
  const answerId = await newAnswer(db, first)
  await load(first, answerId)
  await loadedAs(db, first, answerId, 1)
  const { slice_ids: sliceIds } = await jobRow(db, first)
  const refresh = await newJob(db, pipeline, { sliceIds, runs: [await newRun(db)] })
  await failJob(k(), await claimed(refresh), reason)
  const told = await look(pipeline)
  expect(told).toHaveLength(1)
  await setJob(db, refresh, { state: 'open' })
  expect(await look(pipeline)).toEqual(told)
  await load(refresh, answerId, 'unchanged')
  await loadedAs(db, refresh, answerId, 1)
  expect(await look(pipeline)).toEqual([])
})

test('a try that was cancelled mends nothing', async () => {
  const pipeline = await newPipeline(db)
  const jobId = await newJob(db, pipeline, { runs: [await newRun(db)] })
  await failJob(k(), await claimed(jobId), reason)
  const told = await look(pipeline)
  expect(told).toHaveLength(1)
  const second = await newRun(db)
  await waitFor(db, second, jobId)
  await setJob(db, jobId, { state: 'open' })
  await requestCancel(k(), second)
  expect(await leaveRun(k(), second)).toBe(1)
  expect(await look(pipeline)).toEqual(told)
})

test('a walk that a person cancels between its pages is no failure to tell of, and mends none that was told', async () => {
  for (const hasFailed of [false, true]) {
    const pipeline = await newPipeline(db)
    const runId = await newRun(db)
    const jobId = await newJob(db, pipeline, { runs: [runId] })
    if (hasFailed) await failJob(k(), await claimed(jobId), reason)
    const told = await look(pipeline)
    expect(told).toHaveLength(hasFailed ? 1 : 0)
    const again = hasFailed ? await newRun(db) : runId
    if (hasFailed) await waitFor(db, again, jobId)
    await setJob(db, jobId, { state: 'open', error_code: null, error_message: null, begun_landing: 'begun/pages' })
    await requestCancel(k(), again)
    await leaveRun(k(), again)
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'failed', error_code: 'CANCELLED', begun_landing: 'begun/pages' })
    expect(await look(pipeline)).toEqual(told)
  }
})

test('what a person released is told to be over when it is loaded', async () => {
  const pipeline = await newPipeline(db)
  await newRun(db)
  const jobId = await newJob(db, pipeline)
  const held = await newAnswer(db, jobId, { askNumber: await nextAskNumber(db) })
  await setJob(db, jobId, { state: 'done' })
  await sql`update etl.units set job_id = null, held_answer_id = ${held}, held_code = 'SHRUNK' where job_id = ${jobId}`.execute(
    k(),
  )
  const told = await look(pipeline)
  expect(told).toEqual([`held/${pipeline.pipeline}`])
  const { unit_id: unitId } = await k()
    .selectFrom('etl.units')
    .select('unit_id')
    .where('pipeline_id', '=', pipeline.pipelineId)
    .executeTakeFirstOrThrow()
  expect(await releaseByPerson(k(), Number(unitId), 'test')).toBe(true)
  expect(await look(pipeline)).toEqual(told)
  await load(jobId, held)
  await sql`update etl.units set answer_id = ${held}, ask_number = 1, job_id = null where unit_id = ${unitId}`.execute(k())
  expect(await look(pipeline)).toEqual([])
})

test('what failed is tried again by the next run, and before window.from by a backfill alone: the words say both', async () => {
  const pipeline = await newPipeline(db)
  await failJob(k(), await claimed(await newJob(db, pipeline, { runs: [await newRun(db)] })), reason)
  const found = (await causesInLedger(k())).find(({ cause }) => cause === `failure/${pipeline.pipeline}`)
  expect(found?.message).toContain('failed; the next run tries it again, or, before window.from, the same backfill. For example')
  expect(found?.nextStep).toContain('tries again at once; months before `window.from` need the same `millrace backfill` again.')
})

test('a failed value that left the lists is nobody’s concern any more', async () => {
  const pipeline = await newPipeline(db)
  const sliceIds = await newSlices(db, pipeline, ['gone.com'])
  const jobId = await newJob(db, pipeline, { sliceIds, runs: [await newRun(db)] })
  await failJob(k(), await claimed(jobId), reason)
  expect(await look(pipeline)).toHaveLength(1)
  await sql`update etl.slices set wanted_until = 2 where slice_id = any(${sliceIds})`.execute(k())
  await sql`update etl.units set job_id = null where job_id = ${jobId}`.execute(k())
  await setJob(db, jobId, { state: 'replaced' })
  expect(await look(pipeline)).toEqual([])
})

test('units that are planned for the first time are no cause', async () => {
  const pipeline = await newPipeline(db)
  await newJob(db, pipeline, { runs: [await newRun(db)] })
  expect(await look(pipeline)).toEqual([])
})

test('the newest load tells of drift until a later one sees none', async () => {
  const pipeline = await newPipeline(db)
  const jobId = await newJob(db, pipeline)
  const answerId = await newAnswer(db, jobId)
  await load(jobId, answerId)
  await sql`update etl.load_rows set drift = '{"unknownColumns": ["x"]}' where answer_id = ${answerId}`.execute(k())
  expect(await look(pipeline)).toEqual([`drift/${pipeline.pipeline}`])
  await load(jobId, answerId)
  expect(await look(pipeline)).toEqual([])
})

test('drift is told of the parameters of the key that a pipeline has by now, not of those it had', async () => {
  const before = await newPipeline(db, { parameters: '{"source": "all"}' })
  const now = await newPipeline(db, { pipeline: before.pipeline, parameters: '{"source": "organic"}' })
  const loadOf = async (kit: PipelineKit): Promise<number> => {
    const jobId = await newJob(db, kit)
    const answerId = await newAnswer(db, jobId)
    await load(jobId, answerId)
    return answerId
  }
  await sql`update etl.load_rows set drift = '{"unknownColumns": ["x"]}' where answer_id = ${await loadOf(before)}`.execute(k())
  expect(await look(before)).toEqual([`drift/${before.pipeline}`])
  await loadOf(now)
  expect(await look(before)).toEqual([])
})

test('of a former version neither drift nor records in quarantine are told any more, once readers see a later one that has the unit', async () => {
  const former = await newPipeline(db)
  const { pipeline } = former
  const later = await newPipeline(db, { pipeline, version: 2 })
  const jobOf = async (kit: PipelineKit) => newJob(db, kit, { sliceIds: await newSlices(db, kit, ['a.com']) })
  const jobId = await jobOf(former)
  const answerId = await newAnswer(db, jobId)
  await load(jobId, answerId)
  await loadedAs(db, jobId, answerId, 1)
  await sql`update etl.load_rows set drift = '{"unknownColumns": ["x"]}' where answer_id = ${answerId}`.execute(k())
  const [unit] = await db.query<{ unit_id: string }>('select unit_id from etl.units where pipeline_id = $1', [former.pipelineId])
  const entry = { part: 1, line: 1, column: null, reason: 'no number', raw: 'x' }
  const unitId = Number(unit?.unit_id)
  await insertQuarantine(k(), answerId, { jobId, runId: await newRun(db), pipeline }, [
    { ...entry, unitId },
    { ...entry, unitId: null },
  ])
  const both = [`drift/${pipeline}`, `quarantine/${pipeline}`]
  expect(await look(former)).toEqual(both)
  const shown = async () => {
    const { drift, quarantined } = (await readStatus(k(), [pipeline])).pipelines[0] ?? {}
    const lists = [false, true].map((all) => listQuarantine(k(), { pipelines: [pipeline], limit: 9, all }))
    const [open, all] = await Promise.all(lists)
    return [drift !== null, quarantined, open?.total, open?.rows.length, all?.total]
  }
  expect(await shown()).toEqual([true, 2, 2, 2, 2])

  const publish = (version: number) =>
    sql`insert into etl.published_versions (pipeline, version, published_at) values (${pipeline}, ${version}, clock_timestamp())`.execute(
      k(),
    )
  await publish(1)
  const other = await jobOf(later)
  const newer = await newAnswer(db, other)
  await load(other, newer)
  expect(await look(former)).toEqual(both)
  await publish(2)
  expect(await look(former)).toEqual([`quarantine/${pipeline}`])
  await loadedAs(db, other, newer, 2)
  expect(await look(former)).toEqual([])
  expect(await shown()).toEqual([false, 0, 0, 0, 2])

  // Of many records each unit is looked up once.
  const more = { jobId, runId: await newRun(db), pipeline }
  await insertQuarantine(
    k(),
    answerId,
    more,
    Array.from({ length: 200 }, (_, line) => ({ ...entry, line, unitId })),
  )
  const { rows } = await sql<{
    'QUERY PLAN': string
  }>`explain (analyze) select count(*) from etl.quarantine q where ${isOpenRecord}`.execute(k())
  const loops = rows.flatMap((row) => / on units u .*loops=(\d+)/.exec(row['QUERY PLAN'])?.[1] ?? []).map(Number)
  expect(Math.max(...loops)).toBeLessThan(20)
})

const slack = [{ name: 'slack', grouped: true, repeatable: false }]
const now = { waitMs: () => 0 }

test('while a message is on its way no transaction is open, and nobody else sends it', async () => {
  const late = { cause: 'late/x', kind: 'late' as const, pipeline: null, message: 'late', details: {} }
  await syncNotifications(k(), [late], () => ['slack'], ['slack'])
  const open = () =>
    db.query(`select 1 from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`)
  const taken = { ...now, send: async () => null }
  const sent = await deliverNext(k(), slack, {
    ...now,
    send: async () => {
      expect(await open()).toEqual([])
      expect(await deliverNext(k(), slack, taken)).toBe(false)
      return 'HTTP 500'
    },
  })
  expect(sent).toBe(true)
  const { attempts, last_error: problem } = await k()
    .selectFrom('etl.deliveries')
    .select(['attempts', 'last_error'])
    .executeTakeFirstOrThrow()
  expect({ attempts, problem }).toEqual({ attempts: 1, problem: 'HTTP 500' })
  expect(await deliverNext(k(), slack, taken)).toBe(false)
  await sql`update etl.deliveries set next_at = clock_timestamp()`.execute(k())
  expect(await deliverNext(k(), slack, taken)).toBe(true)
  expect(await deliverNext(k(), slack, taken)).toBe(false)
})
