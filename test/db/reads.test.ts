// The read model: totals by window, pages of units, what a run asked for, and the way from a row back to the bytes that brought it.
import { type RawBuilder, sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { causesInLedger } from '../../src/ledger/causes.ts'
import { boxKey } from '../../src/web/reads/shared-columns.ts'
import { pipelineNights } from '../../src/web/pages/overview-page.ts'
import { lastRuns, oneRun, runJobs, runUnits } from '../../src/web/reads/read-runs.ts'
import { completeSpan, lastMonths, nextDue, wantedLines } from '../../src/web/reads/read-months.ts'
import { readStatus } from '../../src/web/reads/read-status.ts'
import { unitAnswers, unitDetail, unitJobs, unitLoads, unitRows } from '../../src/web/reads/unit-detail.ts'
import { countUnits, type UnitFilter, unitLines } from '../../src/web/reads/unit-lines.ts'
import { coverageMonths, pipelineCounts, readWindows } from '../../src/web/reads/read-windows.ts'
import { shippedDefinition } from '../support/definitions.ts'
import {
  type PipelineKit,
  bought,
  months,
  newJob,
  newPipeline,
  newProcess,
  newRun,
  newSlices,
  waitFor,
} from '../support/ledger.ts'
import { loadedAs, newAnswer, setJob, unitRows as unitRowsOf } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const k = () => db.database.kysely

/** A load of the whole answer into each of its windows. */
const load = async (answerId: number, loadedAt: string, rows = 1, runId: number | null = null): Promise<void> => {
  await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, loaded_at)
    select a.answer_id, a.pipeline_id, w::date, a.job_id, ${runId}, 'loaded', cardinality(a.slice_ids), ${rows}, ${rows}, ${loadedAt}
    from etl.answers a, generate_series(a.window_from::timestamp, a.window_to - interval '1 day', interval '1 month') w
    where a.answer_id = ${answerId}`.execute(k())
}

const loadedJob = async (pipeline: PipelineKit, sliceIds: readonly number[], month: string, number = 1): Promise<number> => {
  const jobId = await newJob(db, pipeline, { sliceIds, window: months(month, number) })
  const answerId = await newAnswer(db, jobId)
  await load(answerId, '2026-03-01T00:00:00Z', sliceIds.length)
  await loadedAs(db, jobId, answerId, jobId)
  return jobId
}

test('the newest load of a window, and of all, is found at the end of an index, whether it stands with its answer or not', async () => {
  await k()
    .transaction()
    .execute(async (trx) => {
      await sql`set local enable_seqscan = off`.execute(trx)
      const planOf = async (question: RawBuilder<unknown>): Promise<string> =>
        (await sql<{ 'QUERY PLAN': string }>`explain (costs off) ${question}`.execute(trx)).rows
          .map((row) => row['QUERY PLAN'])
          .join('\n')
      const inWindow = await planOf(
        sql`select max(loaded_at) from etl.loads where pipeline_id = 1 and window_from = '2026-01-01' and outcome = 'loaded'`,
      )
      expect(inWindow).toMatch(/Index Only Scan Backward using load_rows_window/)
      expect(inWindow).toMatch(/Index Only Scan Backward using answer_rows_window/)
      expect(await planOf(sql`select max(load_id) from etl.loads`)).toMatch(/Index.* Scan Backward using answer_rows_pkey/)
    })
})

describe('totals', () => {
  test('of what nothing asks for count values that are wanted alone: those that left count neither as loaded nor as missing', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c'])
    const [a = 0, ...others] = slices
    await loadedJob(pipeline, [a], '2026-01')
    for (const slice of others)
      await sql`insert into etl.units (pipeline_id, window_from, slice_id) values (${pipeline.pipelineId}, '2026-01-01', ${slice})`.execute(
        k(),
      )
    const counts = async () => pipelineCounts(await readWindows(k(), { pipelines: [pipeline.pipeline] }))[0]?.units
    expect(await counts()).toEqual({ loaded: 1, planned: 2 })
    await sql`update etl.slices set wanted_until = 1 where slice_id = ${others[0] ?? 0}`.execute(k())
    expect(await counts()).toEqual({ loaded: 1, planned: 1 })
    const { states } = await readWindows(k(), { pipelines: [pipeline.pipeline] })
    const listed = await unitLines(k(), states, { pipeline: pipeline.pipeline }, { limit: 10 })
    expect(listed.map(({ unit_key }) => unit_key.split('/').at(-1))).toEqual(['domain=c', 'domain=a'])
    await sql`update etl.slices set wanted_until = 1 where slice_id = ${a}`.execute(k())
    expect(await counts()).toEqual({ planned: 1 })
  })

  test('of a closed window are those that are wanted still, without a look at them, and its rows those of its closing; each unit is counted once', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c'])
    await loadedJob(pipeline, slices, '2026-01', 2)
    const [a = 0, b = 0] = slices
    await newJob(db, pipeline, { sliceIds: [a], window: months('2026-02'), set: { state: 'failed' } })
    await newJob(db, pipeline, { sliceIds: [b], window: months('2026-02') })
    const read = async () => {
      const windows = await readWindows(k(), { pipelines: [pipeline.pipeline] })
      return { counts: pipelineCounts(windows), months: coverageMonths(windows) }
    }
    const live = await read()
    expect(live.counts).toEqual([
      {
        pipeline: pipeline.pipeline,
        units: { loaded: 4, failed: 1, planned: 1 },
        rows: 6,
        newest_window: '2026-02-01',
        oldest_window: '2026-01-01',
        last_loaded_at: '2026-03-01T00:00:00Z',
      },
    ])
    expect(live.months).toEqual([
      { pipeline: pipeline.pipeline, month: '2026-01', loaded: 3, total: 3, held: 0, failed: 0, open: 0 },
      { pipeline: pipeline.pipeline, month: '2026-02', loaded: 3, total: 3, held: 0, failed: 1, open: 0 },
    ])
    await sql`insert into etl.windows (pipeline_id, window_from, closed_generation, closed_units, closed_rows)
      values (${pipeline.pipelineId}, '2026-01-01', 1, 3, 3)`.execute(k())
    expect(await read()).toEqual(live)
    // Nothing of a closed window is read: not its units, not its loads.
    await sql`update etl.windows set closed_rows = 300 where pipeline_id = ${pipeline.pipelineId}`.execute(k())
    await sql`update etl.units set answer_id = null where pipeline_id = ${pipeline.pipelineId} and window_from = '2026-01-01'`.execute(
      k(),
    )
    expect((await read()).counts).toMatchObject([{ units: { loaded: 4, failed: 1, planned: 1 }, rows: 303 }])
    // One has left the lists since, another has come, which is not loaded there.
    await sql`update etl.slices set wanted_until = 2 where slice_id = ${slices[2] ?? 0}`.execute(k())
    const [d = 0] = await newSlices(db, pipeline, ['d'])
    await sql`update etl.slices set wanted_since = 2 where slice_id = ${d}`.execute(k())
    await sql`update etl.pipelines set generation = 2 where pipeline_id = ${pipeline.pipelineId}`.execute(k())
    const later = await read()
    expect(later.months[0]).toMatchObject({ month: '2026-01', loaded: 2, total: 2 })
    expect(later.counts).toMatchObject([{ units: { loaded: 2, failed: 1, planned: 1 }, rows: 303 }])
  })

  test('are of the version that readers see; of one that is filled beside it what is held or failed stands there, too', async () => {
    const former = await newPipeline(db)
    const next = await newPipeline(db, { pipeline: former.pipeline, version: 2 })
    const publish = (version: number) =>
      sql`insert into etl.published_versions (pipeline, version, published_at) values (${former.pipeline}, ${version}, clock_timestamp())`.execute(
        k(),
      )
    await publish(1)
    const old = await newSlices(db, former, ['a', 'b', 'c'])
    await loadedJob(former, old, '2026-01', 2)
    const [a = 0, b = 0, c = 0] = await newSlices(db, next, ['a', 'b', 'c'])
    await loadedJob(next, [a], '2026-02')
    await newJob(db, next, { sliceIds: [b], window: months('2026-02') })
    await newJob(db, next, { sliceIds: [c], window: months('2026-03'), set: { state: 'failed' } })
    const read = async () => {
      const { pipelines, coverage } = await readStatus(k(), [former.pipeline])
      return [
        ...pipelines.map(({ units, rows, newest_window }) => ({ units, rows, newest_window })),
        ...coverage.map(({ month, loaded, total, failed }) => `${month} ${loaded}/${total} ${failed}`),
      ]
    }
    expect(await read()).toEqual([
      { units: { loaded: 6, failed: 1 }, rows: 6, newest_window: '2026-02-01' },
      ...['2026-01 3/3 0', '2026-02 3/3 0', '2026-03 0/1 1'],
    ])
    const wantedOf = async () => (await wantedLines(k())).find(({ pipeline }) => pipeline === former.pipeline)
    expect(await wantedOf()).toMatchObject({ pipeline_id: former.pipelineId, version: 1 })
    await publish(2)
    expect(await read()).toEqual([
      { units: { loaded: 1, planned: 1, failed: 1 }, rows: 1, newest_window: '2026-02-01' },
      ...['2026-02 1/2 0', '2026-03 0/1 1'],
    ])
    expect(await wantedOf()).toMatchObject({ pipeline_id: next.pipelineId, version: 2 })
    // What failed of the former one counts where the later one has not loaded it, and nobody is told of the rest.
    await newJob(db, former, {
      sliceIds: [old[0] ?? 0, old[2] ?? 0],
      window: months('2026-02'),
      set: { state: 'failed', error_code: 'TIMEOUT' },
    })
    expect((await read()).slice(1)).toEqual(['2026-02 1/3 1', '2026-03 0/1 1'])
    const { troubled } = await readStatus(k(), [former.pipeline])
    expect(troubled.map(({ unit }) => unit.replace(`${former.pipeline}/`, ''))).toEqual([
      'v2/2026-03/domain=c',
      'v1/2026-02/domain=c',
    ])
    const causes = await causesInLedger(k())
    expect(causes.find(({ cause }) => cause === `failure/${former.pipeline}`)?.details).toMatchObject({ count: 2 })
  })

  test('of a month of weeks are all that begin in it, also those before the first one and to come; it is due when the last one is published', async () => {
    const publication = { publishedOn: 10, restatedOn: [], timeZone: 'UTC' }
    const shipped = await shippedDefinition('traffic_and_engagement')
    const definition = { ...shipped, window: { ...shipped.window, every: 'week', from: '2026-09-28', publication } } as const
    const pipeline = await newPipeline(db, { window_every: 'week' })
    const sliceIds = await newSlices(db, pipeline, ['a', 'b'])
    const loadWeeks = async (from: string, to: string): Promise<void> => {
      const jobId = await newJob(db, pipeline, { sliceIds, window: { from, to }, every: 'week' })
      await loadedAs(db, jobId, await newAnswer(db, jobId), jobId)
    }
    const read = async () => {
      const windows = await readWindows(k(), { pipelines: [pipeline.pipeline] })
      const states = [...windows.states, ...windows.absent]
      const wanted = (await wantedLines(k())).find((line) => line.pipeline === pipeline.pipeline)
      const nowMs = Date.parse('2026-11-29')
      const lines = lastMonths({ definition, wanted, states, restated: new Set(), waitsForApproval: () => false, nowMs }, 3)
      return {
        months: coverageMonths(windows).map(({ month, loaded, total, open }) => `${month} ${loaded}/${total} ${open}`),
        lines: lines.map(({ month, state, loaded, wanted: of }) => `${month} ${state} ${loaded}/${of}`),
        units: pipelineCounts(windows).map(({ units }) => units),
        due: nextDue(definition, completeSpan(lines)?.to ?? '2026-09', nowMs),
      }
    }
    await loadWeeks('2026-09-28', '2026-10-26')
    expect(await read()).toEqual({
      months: ['2026-09 2/8 6', '2026-10 6/8 2'],
      lines: ['2026-09 partly 2/8', '2026-10 partly 6/8', '2026-11 later 0/0'],
      // None that a run would ask for.
      units: [{ loaded: 8 }],
      due: { month: '2026-10', on: '2026-12-10', overdue: false },
    })
    await loadWeeks('2026-10-26', '2026-11-02')
    await loadWeeks('2026-09-07', '2026-09-28')
    expect(await read()).toMatchObject({
      months: ['2026-09 8/8 0', '2026-10 8/8 0'],
      lines: ['2026-09 loaded 8/8', '2026-10 loaded 8/8', '2026-11 later 0/0'],
    })
  })

  test('that a page remembers are counted again once rows came or units are asked for', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c'])
    const look = async (remembered: boolean) =>
      pipelineCounts(await readWindows(k(), { pipelines: [pipeline.pipeline], remembered }))
    const jobId = await newJob(db, pipeline, { sliceIds: slices, window: months('2026-01') })
    const asked = await look(true)
    expect(asked).toEqual(await look(false))
    const answerId = await newAnswer(db, jobId)
    await load(answerId, '2026-03-01T00:00:00Z', 3)
    await loadedAs(db, jobId, answerId, jobId)
    expect(await look(true)).toMatchObject([{ units: { loaded: 3 }, rows: 3 }])
    await load(answerId, '2026-03-02T00:00:00Z', 2)
    expect(await look(true)).toMatchObject([{ units: { loaded: 3 }, rows: 5 }])
    await newJob(db, pipeline, { sliceIds: slices.slice(0, 1), window: months('2026-01') })
    expect(await look(true)).toEqual(await look(false))
    // Nothing is read again of a window that looks as it did.
    await sql`update etl.load_rows set rows_inserted = 100, rows_read = 100 where pipeline_id = ${pipeline.pipelineId}`.execute(
      k(),
    )
    expect(await look(true)).toMatchObject([{ rows: 5 }])
  })

  test('name what is open of a pipeline to the command line', async () => {
    const pipeline = await newPipeline(db, { dimensions: ['domain', 'country'] })
    const slices = await newSlices(db, pipeline, [
      ['a.com', 'de'],
      ['a.com', 'us'],
    ])
    const box = { sliceIds: slices, window: months('2026-01', 2) }
    await newJob(db, pipeline, { ...box, set: { ...bought('open', 90_001), status_word: 'queued' } })
    const held = await newJob(db, pipeline, { sliceIds: slices, window: months('2026-03') })
    await setJob(db, held, { state: 'held', error_code: 'SHRUNK', error_message: 'look' })
    const status = await readStatus(k(), [pipeline.pipeline])
    expect(status.open_reports).toMatchObject([
      {
        box: `${pipeline.pipeline}/v1/2026-01..2026-02/country=[de,us];domain=a.com`,
        units: 4,
        report_id: 'open',
        state: 'submitted',
      },
    ])
    expect(status.pipelines).toMatchObject([{ units: { waiting: 4, held: 2 }, quarantined: 0, drift: null }])
    expect(status.troubled.map(({ state, unit, code }) => [state, unit.slice(-23), code])).toEqual([
      ['held', 'country=de;domain=a.com', 'SHRUNK'],
      ['held', 'country=us;domain=a.com', 'SHRUNK'],
      ...Array.from({ length: 4 }, (_, at) => ['waiting', `country=${at % 2 === 0 ? 'de' : 'us'};domain=a.com`, null]),
    ])
  })
})

test('a box of very many slices is named by their number, and its values are not read', () => {
  const box = { pipeline: 'p', version: 1, window_from: '2026-01-01', window_to: '2027-01-01', slices: 40_000, slice: null }
  expect(boxKey(box)).toBe('p/v1/2026-01..2026-12/40000 slices')
})

describe('pages of units', () => {
  test('show each unit once, in the order that needs a person, whatever the length of a page', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'])
    const one = (at: number) => [slices[at] ?? 0]
    await loadedJob(pipeline, slices, '2026-01')
    await loadedJob(pipeline, slices, '2026-02')
    const { processId } = await newProcess(db)
    const answerId = await newAnswer(db, await newJob(db, pipeline, { sliceIds: one(0), set: { state: 'held' } }))
    await newJob(db, pipeline, { sliceIds: one(1), set: { state: 'failed' } })
    await newJob(db, pipeline, { sliceIds: one(2), set: { not_before: '2099-01-01T00:00:00Z' } })
    await newJob(db, pipeline, { sliceIds: one(3), set: { holder: processId } })
    await newJob(db, pipeline, { sliceIds: one(4), set: { answer_id: answerId, ask_number: 90_100 } })
    await newJob(db, pipeline, { sliceIds: one(5) })
    await sql`update etl.units set held_answer_id = ${answerId}, held_code = 'SHRUNK'
      where pipeline_id = ${pipeline.pipelineId} and window_from = '2026-01-01' and slice_id = ${slices[6]}`.execute(k())
    await sql`insert into etl.units (pipeline_id, window_from, slice_id) values (${pipeline.pipelineId}, '2026-03-01', ${slices[7]})`.execute(
      k(),
    )
    const { states } = await readWindows(k())
    const all = async (filter: UnitFilter, limit: number) => {
      const total = await countUnits(k(), states, filter)
      const lines = []
      for (let offset = 0; offset < total; offset += limit)
        lines.push(...(await unitLines(k(), states, filter, { limit, offset })))
      expect(lines).toHaveLength(total)
      return lines
    }
    const own = { pipeline: pipeline.pipeline }
    const whole = await all(own, 100)
    expect(whole.map(({ state }) => state)).toEqual(
      ['held', 'held', 'failed', 'waiting', 'running', 'landed', 'planned', 'planned', ...Array.from({ length: 11 }, () => 'loaded')], // biome-ignore format: one look
    )
    expect(new Set(whole.map(({ unit_id: id }) => id)).size).toBe(whole.length)
    for (const limit of [1, 2, 3, 7]) expect(await all(own, limit)).toEqual(whole)
    for (const state of ['held', 'failed', 'waiting', 'running', 'landed', 'planned', 'loaded'] as const)
      expect(await all({ ...own, state }, 2)).toEqual(whole.filter((line) => line.state === state))
    expect(await all({ ...own, month: '2026-02' }, 4)).toEqual(whole.filter(({ unit_key: key }) => key.includes('/2026-02/')))
    const ofA = whole.filter(({ unit_key: key }) => key.endsWith('=a'))
    expect(ofA.map(({ state }) => state)).toEqual(['held', 'loaded'])
    expect(await all({ ...own, value: 'a' }, 2)).toEqual(ofA)
    expect(await all({ ...own, value: 'a', state: 'loaded', month: '2026-02' }, 2)).toEqual(ofA.slice(1))
    expect(await all({ value: 'A' }, 2)).toEqual([])
  })

  test('tell the rows of a unit whose answer was for it alone, and no number where it was for many', async () => {
    const pipeline = await newPipeline(db)
    const [alone = 0, ...others] = await newSlices(db, pipeline, ['alone', 'b', 'c'])
    await loadedJob(pipeline, [alone], '2026-01')
    await loadedJob(pipeline, others, '2026-01')
    const lines = await unitLines(k(), (await readWindows(k())).states, { pipeline: pipeline.pipeline }, { limit: 10 })
    expect(lines.map(({ rows }) => rows)).toEqual([1, null, null])
  })
})

describe('one unit', () => {
  test('shows every answer it was ever in, alone or packed, with their jobs, the ones these were asked again for, and their loads', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b'])
    const [a = 0, b = 0] = slices
    const packed = await loadedJob(pipeline, slices, '2026-01', 3)
    const failed = await newJob(db, pipeline, { sliceIds: [a], window: months('2026-02'), set: { state: 'replaced' } })
    const alone = await loadedJob(pipeline, [a], '2026-02')
    await setJob(db, alone, { former_job_id: failed })
    await loadedJob(pipeline, [b], '2026-02')
    const unit = (await unitRowsOf(db, pipeline)).find((row) => row.window_from === '2026-02-01' && row.slice_id === a)
    const detail = await unitDetail(k(), Number(unit?.unit_id))
    if (detail === null) throw new Error('no unit')
    const answers = await unitAnswers(k(), detail)
    expect(answers.map(({ job_id, slices: number }) => [job_id, number])).toEqual([[alone, 1], [packed, 2]]) // biome-ignore format: one look
    const jobIds = answers.map(({ job_id }) => job_id)
    const answerIds = answers.map(({ answer_id }) => answer_id)
    expect((await unitJobs(k(), jobIds)).map(({ job_id }) => job_id)).toEqual([alone, failed, packed])
    expect((await unitLoads(k(), detail.window_from, answerIds)).map(({ answer_id, units }) => [answer_id, units])).toEqual([
      [answers[0]?.answer_id, 1],
      [answers[1]?.answer_id, 2],
    ])
  })

  test('of a packed answer is counted in the table', async () => {
    const definition = await shippedDefinition('traffic_and_engagement')
    const pipeline = await newPipeline(db, { pipeline: definition.pipeline, dimensions: ['domain', 'country'] })
    const [slice = 0] = await newSlices(db, pipeline, [['a.com', 'us']])
    await loadedJob(pipeline, [slice], '2026-01')
    const unitId = (await unitRowsOf(db, pipeline))[0]?.unit_id
    await sql`create table data.reads_p202601 partition of data.traffic_and_engagement_v1 for values from ('2026-01-01') to ('2026-02-01')`.execute(
      k(),
    )
    await sql`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, _unit_id, _run_id, _revision, _loaded_at)
      values ('2026-01-01', 'monthly', 'a.com', 'us', true, ${unitId}, 1, 1, now()), ('2026-01-01', 'monthly', 'b.com', 'us', true, 0, 1, 1, now())`.execute(
      k(),
    )
    const detail = await unitDetail(k(), Number(unitId))
    if (detail === null) throw new Error('no unit')
    expect(await unitRows(k(), definition, detail)).toBe(1)
    expect(await unitRows(k(), { ...definition, pipeline: 'nowhere' }, detail)).toBeNull()
  })
})

describe('a run', () => {
  test('shows its jobs, trouble first, and the units it asked of them and no others', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c'])
    const runId = await newRun(db)
    const packed = await newJob(db, pipeline, { sliceIds: slices, window: months('2026-01', 2) })
    await waitFor(db, runId, packed, 2, { slice_ids: slices.slice(0, 2), window_from: '2026-02-01', window_to: '2026-03-01' })
    const [d = 0] = await newSlices(db, pipeline, ['d'])
    const failed = await newJob(db, pipeline, {
      sliceIds: [d],
      runs: [runId],
      set: { state: 'failed', error_code: 'BAD_RESPONSE' },
    })
    await sql`update etl.run_jobs set outcome = 'failed' where run_id = ${runId} and job_id = ${failed}`.execute(k())
    const jobs = await runJobs(k(), runId, 10)
    expect(jobs.map((job) => [job.job_id, job.outcome, job.units, boxKey(job).split('/').slice(2).join('/')])).toEqual([
      [failed, 'failed', 1, '2026-01/domain=d'],
      [packed, null, 2, '2026-02/domain=[a,b]'],
    ])
    const units = await runUnits(k(), runId, jobs, 10)
    expect(units.map(({ unit_key: key }) => key.split('/').slice(2).join('/'))).toEqual([
      '2026-01/domain=d',
      '2026-02/domain=a',
      '2026-02/domain=b',
    ])
    expect(await runUnits(k(), runId, jobs, 1)).toHaveLength(1)
    expect(await oneRun(k(), runId)).toMatchObject({ planned: 3, loaded: 0, failed: 1, held: 0 })
  })

  test('is counted from what it waits for until it is summed up; units that a loaded job held are held', async () => {
    const pipeline = await newPipeline(db)
    const runId = await newRun(db)
    const slices = await newSlices(db, pipeline, ['a', 'b', 'c'])
    const jobId = await newJob(db, pipeline, { sliceIds: slices, runs: [runId] })
    await sql`update etl.run_jobs set outcome = 'loaded', held_units = 1 where job_id = ${jobId}`.execute(k())
    expect((await lastRuns(k(), 1))[0]).toMatchObject({ run_id: runId, planned: 3, loaded: 2, held: 1 })
    const inserted = async () => (await pipelineNights(k(), '2026-01-01')).reduce((all, night) => all + night.inserted, 0)
    const before = await inserted()
    const summary = { units: { planned: 9, loaded: 8, unchanged: 0, waiting: 0, held: 1, failed: 0 }, pipelines: { p: { inserted: 70, updated: 0, ended: 0, quarantined: 0, restated: [] } } } // biome-ignore format: one look
    await sql`update etl.runs set state = 'done', finished_at = now(), summary = ${JSON.stringify(summary)} where run_id = ${runId}`.execute(
      k(),
    )
    expect((await lastRuns(k(), 1))[0]).toMatchObject({ planned: 9, loaded: 8, held: 1 })
    expect(await inserted()).toBe(before + 70)
  })
})
