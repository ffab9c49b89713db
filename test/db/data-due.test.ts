// Data that are expected by a day: when a month counts as due, and what is said of one that is not there.
import { expect, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { dueCauses, dueMonths } from '../../src/schedule/notify/alarm-causes.ts'
import type { Runtime } from '../../src/run/runtime.ts'
import { months, newJob, newPipeline, newProcess, newRun, newSlices, nextAskNumber } from '../support/ledger.ts'
import { loadedAs, newAnswer } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'
import { definitionOf } from '../unit/plan/definition.ts'

const db = testDatabase()

const expecting = (pipeline: string, from = '2026-04-01'): Definition => ({
  ...definitionOf([], { from }),
  pipeline,
  expect: { monthBy: 12 },
})

/** Noon of that day, where the service is. */
const noon = (day: string): number => Date.parse(`${day}T17:00:00Z`)

const causesAt = async (definition: Definition, day: string) => {
  const runtime = { database: db.database, definitions: [definition], clock: { now: () => noon(day) } }
  return (await dueCauses(runtime as unknown as Runtime)).map(({ cause, message, changed, details }) => ({
    cause,
    message,
    changed,
    reason: details['reason'],
  }))
}

const load = async (jobId: number): Promise<void> => loadedAs(db, jobId, await newAnswer(db, jobId), await nextAskNumber(db))

test('a month is due from its day on, in the time zone of the service; older ones for three months', () => {
  const definition = expecting('p', '2026-01-01')
  const due = (at: string): string[] =>
    dueMonths(definition, Date.parse(at)).map(({ window, dueOn }) => `${window.from} ${dueOn}`)
  expect(due('2026-05-12T04:59:00Z')).toEqual(['2026-03-01 2026-04-12', '2026-02-01 2026-03-12', '2026-01-01 2026-02-12'])
  expect(due('2026-05-12T05:00:00Z')).toEqual(['2026-04-01 2026-05-12', '2026-03-01 2026-04-12', '2026-02-01 2026-03-12'])
  expect(dueMonths({ ...definition, expect: null }, Date.parse('2026-05-12T05:00:00Z'))).toEqual([])
})

test('a pipeline that nobody ever ran is told of, and so is one whose nights have stopped although nothing failed', async () => {
  expect(await causesAt(expecting('never'), '2026-05-12')).toMatchObject([{ cause: 'due/never/2026-04', reason: 'never ran' }])
  const pipeline = await newPipeline(db, { parameters: '{}' })
  const definition = expecting(pipeline.pipeline)
  const sliceIds = await newSlices(db, pipeline, ['a.example', 'b.example'])
  const runId = await newRun(db)
  await load(await newJob(db, pipeline, { window: months('2026-03'), sliceIds, runs: [runId] }))
  expect(await causesAt(definition, '2026-05-11')).toEqual([])
  const [cause] = await causesAt(definition, '2026-05-12')
  expect(cause).toMatchObject({ cause: `due/${pipeline.pipeline}/2026-04`, reason: 'not run' })
  expect(cause?.message).toBe(`2026-04 of ${pipeline.pipeline} is not loaded; it was expected on 2026-05-12.`)
  expect(cause?.changed).toMatch(/^Nothing failed\. The last run .* began at /)
  await load(await newJob(db, pipeline, { window: months('2026-04'), sliceIds }))
  expect(await causesAt(definition, '2026-05-12')).toEqual([])
})

test.each([
  [
    'the service itself is late',
    { not_before: '2999-01-01T00:00:00Z', error_code: 'NOT_PUBLISHED' },
    'service late',
    /The service is late/,
  ],
  ['units failed', { state: 'failed', error_code: 'BAD_RESPONSE' }, 'trouble', /1 unit failed/],
  [
    'a budget is spent',
    { not_before: '2999-01-01T00:00:00Z', error_code: 'QUOTA_EXHAUSTED' },
    'budget',
    /1 unit waits for a budget/,
  ],
] as const)('where %s, that is said', async (_, set, reason, words) => {
  const pipeline = await newPipeline(db)
  const sliceIds = await newSlices(db, pipeline, ['a.example', 'b.example'])
  await load(await newJob(db, pipeline, { window: months('2026-04'), sliceIds: sliceIds.slice(0, 1), runs: [await newRun(db)] }))
  await newJob(db, pipeline, { window: months('2026-04'), sliceIds: sliceIds.slice(1), set })
  const [cause] = await causesAt(expecting(pipeline.pipeline), '2026-05-12')
  expect(cause).toMatchObject({ reason, message: expect.stringContaining('lacks 1 of 2 units') })
  expect(cause?.changed).toMatch(words)
})

test('what waits for a person, and values that are new in a list, are not overdue', async () => {
  const pipeline = await newPipeline(db)
  const [first = 0, second = 0, third = 0] = await newSlices(db, pipeline, ['a.example', 'b.example', 'c.example'])
  await load(await newJob(db, pipeline, { window: months('2026-04'), sliceIds: [first], runs: [await newRun(db)] }))
  await newJob(db, pipeline, { window: months('2026-04'), sliceIds: [second], set: { state: 'held', guard: 'needs approval' } })
  await db.database.kysely.updateTable('etl.slices').set({ wanted_since: 2 }).where('slice_id', '=', third).execute()
  expect(await causesAt(expecting(pipeline.pipeline), '2026-05-12')).toEqual([])
})

test('a run of the pipeline silences it while it is at work, and no longer once it has ended or its process is gone', async () => {
  const pipeline = await newPipeline(db, { parameters: '{}' })
  const definition = expecting(pipeline.pipeline)
  const sliceIds = await newSlices(db, pipeline, ['a.example'])
  const process = await newProcess(db)
  const runId = await newRun(db, process.processId, 'backfill')
  await load(await newJob(db, pipeline, { window: months('2026-03'), sliceIds, runs: [runId] }))
  const run = db.database.kysely.updateTable('etl.runs').where('run_id', '=', String(runId))
  for (const named of [{ pipelines: [pipeline.pipeline] }, { pipelines: [] }, { pipeline: pipeline.pipeline }]) {
    await run.set({ arguments: JSON.stringify(named), state: 'running' }).execute()
    expect(await causesAt(definition, '2026-05-12')).toEqual([])
    await run.set({ state: 'done' }).execute()
    expect(await causesAt(definition, '2026-05-12')).toMatchObject([{ reason: 'not run' }])
  }
  await run.set({ state: 'running' }).execute()
  const { processId } = process
  await db.database.kysely
    .updateTable('etl.processes')
    .set({ ended_at: '2026-05-01T00:00:00Z' })
    .where('process_id', '=', processId)
    .execute()
  expect(await causesAt(definition, '2026-05-12')).toMatchObject([{ reason: 'not run' }])
})
