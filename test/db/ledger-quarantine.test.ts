// Rejected rows in the ledger: kept whole with their answer, listed newest first, counted, and answered for by the next load of their unit.
import { beforeAll, describe, expect, test } from 'vitest'
import {
  insertQuarantine,
  listQuarantine,
  showQuarantine,
  supersede,
  closeQuarantine,
  supersedeReplaced,
} from '../../src/ledger/quarantine.ts'
import { type PipelineKit, newJob, newPipeline, newRun, newSlices, nextAskNumber } from '../support/ledger.ts'
import { loadedAs, newAnswer, unitRows } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let runId: number
let pipeline: PipelineKit
beforeAll(async () => {
  runId = await newRun(db)
  pipeline = await newPipeline(db, { pipeline: 'traffic' })
})

const k = () => db.database.kysely
const entry = (line: number, reason = 'not a number', raw = `a,${line}`) => ({ part: 1, line, column: 'visits', reason, raw })
const everything = { pipelines: [], limit: 10_000, all: false }

/** A unit of that domain with an answer. */
const answered = async (domain: string, of = pipeline) => {
  const sliceIds = await newSlices(db, of, [domain])
  const jobId = await newJob(db, of, { sliceIds })
  const units = await unitRows(db, of)
  const unitId = Number(units.find(({ slice_id }) => slice_id === sliceIds[0])?.unit_id)
  return { jobId, unitId, answerId: await newAnswer(db, jobId, { landing: `here/${domain}` }) }
}
type Answered = Awaited<ReturnType<typeof answered>>

/** @param unitId null: of nobody */
const put = (of: Answered, name: string, entries: ReturnType<typeof entry>[], unitId: number | null = of.unitId) =>
  insertQuarantine(
    k(),
    of.answerId,
    { jobId: of.jobId, runId, pipeline: name },
    entries.map((one) => ({ ...one, unitId })),
  )
const lines = async (name: string, all = true) =>
  (await listQuarantine(k(), { pipelines: [name], limit: 9, all })).rows.map(({ line, state }) => `${line} ${state}`).toReversed()

describe('quarantine', () => {
  test('keeps each row with its record, answer, landing, place, reason, unit and run', async () => {
    const one = await answered('one.com')
    await put(one, 'p1', [entry(7, 'not a \u0000 number', 'a\u0000,\ud800,ü')])
    const { rows, total } = await listQuarantine(k(), { ...everything, pipelines: ['p1'] })
    expect(total).toBe(1)
    expect(rows).toEqual([
      {
        quarantine_id: expect.any(Number),
        unit_key: 'traffic/v1/2026-01/domain=one.com',
        answer_id: one.answerId,
        pipeline: 'p1',
        state: 'open',
        landing: 'here/one.com',
        part: 1,
        line: 7,
        column_name: 'visits',
        reason: 'not a \\u0000 number',
        raw: 'a\\u0000,\ufffd,ü',
        run_id: runId,
        created_at: expect.stringMatching(/Z$/),
      },
    ])
    expect(await showQuarantine(k(), rows[0]?.quarantine_id ?? 0)).toEqual(rows[0])
    expect(await showQuarantine(k(), 999_999)).toBeNull()
  })

  test('lists a record of nobody without a unit', async () => {
    await put(await answered('nobody.com'), 'p9', [entry(1)], null)
    expect((await listQuarantine(k(), { ...everything, pipelines: ['p9'] })).rows).toMatchObject([{ unit_key: null, line: 1 }])
  })

  test('takes more rows than one statement may have parameters, and none', async () => {
    const many = await answered('many.com')
    await put(many, 'p2', [])
    await put(
      many,
      'p2',
      Array.from({ length: 2_501 }, (_, index) => entry(index + 1)),
    )
    const { rows, total } = await listQuarantine(k(), { ...everything, pipelines: ['p2'] })
    expect([rows.length, total]).toEqual([2_501, 2_501])
    expect(new Set(rows.map(({ line }) => line)).size).toBe(2_501)
  })

  test('lists the newest first, of the pipelines asked for, up to a limit, and counts all of them', async () => {
    const list = await answered('list.com')
    await put(list, 'p3', [entry(1), entry(2)])
    await put(list, 'p4', [entry(3)])
    await put(list, 'p5', [entry(4)])
    const { rows, total } = await listQuarantine(k(), { pipelines: ['p3', 'p4'], limit: 2, all: false })
    expect([rows.map(({ line }) => line), total]).toEqual([[3, 2], 3])
    const all = await listQuarantine(k(), everything)
    expect(all.rows.slice(0, 4).map(({ line }) => line)).toEqual([4, 3, 2, 1])
    expect(all.total).toBe(all.rows.length)
  })

  test('is answered for by the next load of the unit, whatever answer it was of; other units are not', async () => {
    const [one, other] = [await answered('sup1.com'), await answered('sup2.com')]
    await put(one, 'p6', [entry(1)])
    await put({ ...one, answerId: other.answerId }, 'p6', [entry(2)])
    await put(other, 'p6', [entry(3)])
    await closeQuarantine([one.unitId]).execute(k())
    expect(await lines('p6')).toEqual(['1 superseded', '2 superseded', '3 open'])
    const rows = await db.query(
      `select resolved_at is not null as resolved from etl.quarantine where pipeline = 'p6' order by line`,
    )
    expect(rows).toEqual([{ resolved: true }, { resolved: true }, { resolved: false }])
    const before = await db.database.pool.query(`select resolved_at from etl.quarantine where pipeline = 'p6' and line = 2`)
    await closeQuarantine([one.unitId]).execute(k())
    expect(
      await db.database.pool.query(`select resolved_at from etl.quarantine where pipeline = 'p6' and line = 2`),
    ).toMatchObject({ rows: before.rows })
  })

  test('gives way to a later try of the same answer: all of it, what is nobody’s, or what is of held units', async () => {
    const [one, other] = [await answered('try1.com'), await answered('try2.com')]
    const four = async () => {
      await put(one, 'p7', [entry(1)])
      await put(one, 'p7', [entry(2)], null)
      await put(one, 'p7', [entry(3)], other.unitId)
      await put(other, 'p7', [entry(4)], other.unitId)
    }
    await four()
    await supersede(k(), pipeline, one.answerId, 'strays')
    expect(await lines('p7', false)).toEqual(['1 open', '3 open', '4 open'])
    await supersede(k(), pipeline, one.answerId, [other.unitId])
    expect(await lines('p7', false)).toEqual(['1 open', '4 open'])
    await supersede(k(), pipeline, one.answerId, 'all')
    expect(await lines('p7', false)).toEqual(['4 open'])
  })

  test('forgets what is nobody’s once no unit holds its answer or waits for it any more', async () => {
    const own = await newPipeline(db, { pipeline: 'p8' })
    const one = await answered('gone.com', own)
    const ask = await nextAskNumber(db)
    await put(one, 'p8', [entry(1)], null)
    await supersedeReplaced(k(), own.pipelineId, 'p8')
    expect(await lines('p8')).toEqual(['1 open'])
    await loadedAs(db, one.jobId, one.answerId, ask)
    await supersedeReplaced(k(), own.pipelineId, 'p8')
    expect(await lines('p8')).toEqual(['1 open'])
    await k()
      .updateTable('etl.units')
      .set({ answer_id: null, held_answer_id: one.answerId })
      .where('unit_id', '=', String(one.unitId))
      .execute()
    await supersedeReplaced(k(), own.pipelineId, 'p8')
    expect(await lines('p8')).toEqual(['1 open'])
    await k().updateTable('etl.units').set({ held_answer_id: null }).where('unit_id', '=', String(one.unitId)).execute()
    await supersedeReplaced(k(), own.pipelineId, 'p8')
    expect(await lines('p8')).toEqual(['1 superseded'])
  })
})
