// What is there and what is not: bi.coverage and coverage_months over ledgers worked out by hand and over random ones.
import fc from 'fast-check'
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import { windowAt } from '../../src/core/window.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { publish } from '../../src/publish/publish.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { months, newJob, newPipeline, newSlices, type PipelineKit } from '../support/ledger.ts'
import { loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

beforeAll(async () => {
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
})

/** As a load would leave it. @param at a month, or the first day of a week */
const load = async (
  pipeline: PipelineKit,
  at: string,
  sliceIds: readonly number[],
  without: readonly number[],
): Promise<void> => {
  const every = at.length === 7 ? 'month' : 'week'
  const window = windowAt(at.length === 7 ? `${at}-01` : at, every)
  const job = await newJob(db, pipeline, { sliceIds, window, every })
  const answer = await newAnswer(db, job)
  await loadedAs(db, job, answer, answer)
  await sql`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, slices_without_rows)
    values (${answer}, ${pipeline.pipelineId}, ${window.from}, ${job}, 'loaded', ${sliceIds.length}, ${[...without]}::integer[])`.execute(
    db.database.kysely,
  )
}

const close = (pipeline: PipelineKit, month: string, generation: number, units: number): Promise<unknown> =>
  sql`insert into etl.windows (pipeline_id, window_from, closed_generation, closed_at, closed_units, closed_rows)
    values (${pipeline.pipelineId}, ${`${month}-01`}, ${generation}, now(), ${units}, 0)`.execute(db.database.kysely)

describe('coverage', () => {
  test('names each expected cell with the reason why it has no row', async () => {
    const pipeline = await newPipeline(db, { dimensions: ['domain', 'country'] })
    const [aUs = 0, aWorld = 0, bUs = 0, bWorld = 0, gone = 0] = await newSlices(db, pipeline, [
      ['a.com', 'us'],
      ['a.com', 'world'],
      ['b.com', 'us'],
      ['b.com', 'world'],
      ['gone.com', 'us'],
    ])
    await db.query(`update etl.slices set wanted_until = 2 where slice_id = ${gone}`)
    // January is loaded and closed before c.com came; February was never planned; in March everything goes wrong.
    await load(pipeline, '2026-01', [aUs, aWorld, bUs, bWorld, gone], [bUs])
    await close(pipeline, '2026-01', 1, 5)
    const [cUs = 0] = await newSlices(db, pipeline, [['c.com', 'us']])
    await db.query(`update etl.slices set wanted_since = 3 where slice_id = ${cUs}`)
    await load(pipeline, '2026-03', [aUs], [])
    const held = await newJob(db, pipeline, { sliceIds: [aWorld], window: months('2026-03') })
    await setJob(db, held, { state: 'held', error_code: 'INCOMPLETE' })
    const failed = await newJob(db, pipeline, { sliceIds: [bUs], window: months('2026-03') })
    await setJob(db, failed, { state: 'failed', error_code: 'TIMEOUT' })
    const asked = await newJob(db, pipeline, { sliceIds: [bWorld], window: months('2026-03') })
    await setJob(db, asked, { report_state: 'submitted' })
    await newJob(db, pipeline, { sliceIds: [cUs], window: months('2026-03') })
    const where = `where pipeline = '${pipeline.pipeline}'`
    const cells = await db.query(
      `select to_char(period, 'MM') || ' ' || domain || ' ' || country as cell, reason, error_code from bi.coverage ${where} and not has_data order by 1`,
    )
    expect(cells.map(({ cell, reason, error_code: code }) => [cell, reason, code])).toEqual([
      ['01 b.com us', 'service had none', null],
      ['01 c.com us', 'not asked', null],
      ...['a.com us', 'a.com world', 'b.com us', 'b.com world', 'c.com us'].map((cell) => [`02 ${cell}`, 'not asked', null]),
      ['03 a.com world', 'held', 'INCOMPLETE'],
      ['03 b.com us', 'failed', 'TIMEOUT'],
      ['03 b.com world', 'under way', null],
      ['03 c.com us', 'not asked', null],
    ])
    expect(await db.query(`select count(*)::int as n from bi.coverage ${where}`)).toEqual([{ n: 15 }])
    expect(
      await db.query(`select to_char(month, 'MM') as m, cells::int, cells_with_rows::int as with_rows, cells_service_had_none::int as had_none, cells_held::int as held,
        cells_failed::int as failed, cells_under_way::int as under_way, cells_not_asked::int as not_asked, completeness, is_answered from bi.coverage_months ${where} order by 1`),
    ).toEqual([
      { m: '01', cells: 5, with_rows: 3, had_none: 1, held: 0, failed: 0, under_way: 0, not_asked: 1, completeness: '1 of 3 domains', is_answered: false },
      { m: '02', cells: 5, with_rows: 0, had_none: 0, held: 0, failed: 0, under_way: 0, not_asked: 5, completeness: '0 of 3 domains', is_answered: false },
      { m: '03', cells: 5, with_rows: 1, had_none: 0, held: 1, failed: 1, under_way: 1, not_asked: 1, completeness: '0 of 3 domains', is_answered: false },
    ]) // biome-ignore format: a table
  })

  test('a month is complete when every cell has rows, and no sooner; one that the service had nothing for is answered', async () => {
    const pipeline = await newPipeline(db)
    const slices = await newSlices(db, pipeline, ['a.com', 'b.com'])
    await load(pipeline, '2026-01', slices, [])
    await load(pipeline, '2026-02', slices, slices.slice(1))
    const said = `select to_char(month, 'MM') as month, is_complete, is_answered, completeness from bi.coverage_months where pipeline = '${pipeline.pipeline}' order by 1`
    expect(await db.query(said)).toEqual([
      { month: '01', is_complete: true, is_answered: true, completeness: '2 of 2 domains' },
      { month: '02', is_complete: false, is_answered: true, completeness: '1 of 2 domains' },
    ])
    // The row came with a later answer.
    await load(pipeline, '2026-02', slices, [])
    expect((await db.query(said)).map(({ is_complete: is }) => is)).toEqual([true, true])
  })

  test('a month of weeks is complete when all that begin in it are there: those before the first one and those to come are not asked', async () => {
    const pipeline = await newPipeline(db, { window_every: 'week' })
    const slices = await newSlices(db, pipeline, ['a.com', 'b.com'])
    for (const week of ['2026-09-28', '2026-10-05', '2026-10-12', '2026-10-19']) await load(pipeline, week, slices, [])
    const said = async () => {
      const rows =
        await db.query(`select to_char(month, 'MM') as month, cells::int, cells_with_rows::int as there, cells_not_asked::int as not_asked, completeness, is_answered, is_complete
        from bi.coverage_months where pipeline = '${pipeline.pipeline}' order by 1`)
      return rows.map((row) => Object.values(row).join(' '))
    }
    expect(await said()).toEqual(['09 8 2 6 0 of 2 domains false false', '10 8 6 2 0 of 2 domains false false'])
    expect(
      await db.query(
        `select distinct period::text, reason from bi.coverage where pipeline = '${pipeline.pipeline}' and not has_data order by 1`,
      ),
    ).toEqual(['2026-09-07', '2026-09-14', '2026-09-21', '2026-10-26'].map((period) => ({ period, reason: 'not asked' })))
    // A table that ends has no week to come.
    await db.query(
      `update etl.pipelines set definition = '{"window": {"publication": {"until": "2026-10-26"}}}' where pipeline_id = ${pipeline.pipelineId}`,
    )
    expect((await said())[1]).toBe('10 6 6 0 2 of 2 domains true true')
    await db.query(`update etl.pipelines set definition = '{}' where pipeline_id = ${pipeline.pipelineId}`)
    for (const week of ['2026-09-07', '2026-09-14', '2026-09-21', '2026-10-26']) await load(pipeline, week, slices, [])
    expect(await said()).toEqual(['09 8 8 0 2 of 2 domains true true', '10 8 8 0 2 of 2 domains true true'])
  })

  test('a month that was loaded beyond an end set back later stays counted, without values wanted since', async () => {
    const pipeline = await newPipeline(db, { dimensions: ['domain', 'country'] })
    const slices = await newSlices(db, pipeline, [
      ['a.com', 'us'],
      ['b.com', 'us'],
    ])
    for (const month of ['2026-02', '2026-03', '2026-05']) await load(pipeline, month, slices, [])
    await db.query(
      `update etl.pipelines set definition = '{"window": {"publication": {"until": "2026-03-01"}}}' where pipeline_id = ${pipeline.pipelineId}`,
    )
    await newSlices(db, pipeline, [
      ['a.com', 'gb'],
      ['c.com', 'us'],
    ])
    const of = `where pipeline = '${pipeline.pipeline}'`
    const said = await db.query(
      `select to_char(month, 'MM') as month, cells::int, cells_not_asked::int as not_asked, completeness, is_complete from bi.coverage_months ${of} order by 1`,
    )
    expect(said.map((row) => Object.values(row).join(' '))).toEqual([
      '02 4 2 1 of 3 domains false',
      '03 2 0 2 of 2 domains true',
      '05 2 0 2 of 2 domains true',
    ])
    const cells = await db.query(
      `select to_char(period, 'MM') || ' ' || domain || ' ' || country as cell from bi.coverage ${of} and not has_data order by 1`,
    )
    expect(cells.map(({ cell }) => cell)).toEqual(['02 a.com gb', '02 c.com us'])
  })

  test('a month of days has as many cells as days, whichever are loaded', async () => {
    const pipeline = await newPipeline(db, { window_every: 'day' })
    const slices = await newSlices(db, pipeline, ['a.com'])
    for (const from of ['2028-01-31', '2028-02-01'])
      await newJob(db, pipeline, { sliceIds: slices, window: windowAt(from, 'day'), every: 'day' })
    expect(
      await db.query(`select month::text, cells::int from bi.coverage_months where pipeline = '${pipeline.pipeline}' order by 1`),
    ).toEqual([
      { month: '2028-01-01', cells: 31 },
      { month: '2028-02-01', cells: 29 },
    ])
  })

  test('the units of freshness are all that were ever loaded, in months that were closed since and in open ones alike', async () => {
    const pipeline = await newPipeline(db)
    const [a = 0, b = 0, gone = 0] = await newSlices(db, pipeline, ['a.com', 'b.com', 'gone.com'])
    for (const month of ['2026-01', '2026-02', '2026-03']) await load(pipeline, month, [a, b, gone], [])
    // January was closed before it left the lists, February after it did, March never.
    await close(pipeline, '2026-01', 1, 3)
    await db.query(`update etl.slices set wanted_until = 2 where slice_id = ${gone}`)
    await close(pipeline, '2026-02', 2, 2)
    const said = `select units_loaded::int as units, slices_left::int as left from bi.freshness where pipeline = '${pipeline.pipeline}'`
    expect(await db.query(said)).toEqual([{ units: 9, left: 1 }])
  })

  const what = fc.constantFrom('nothing', 'rows', 'no rows', 'held', 'failed', 'planned', 'rows, then none', 'none, then rows', 'rows, newer held') // biome-ignore format: one line
  const reasons: Readonly<Record<string, string | null>> = {
    nothing: 'not asked',
    rows: null,
    'no rows': 'service had none',
    held: 'held',
    failed: 'failed',
    planned: 'not asked',
    'rows, then none': 'service had none',
    'none, then rows': null,
    'rows, newer held': null,
  }

  test('agrees with what was done to each cell, whatever it was, and its months are the sums of its cells', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(what, { minLength: 3, maxLength: 3 }), { minLength: 1, maxLength: 3 }), async (done) => {
        const pipeline = await newPipeline(db)
        const slices = await newSlices(db, pipeline, ['a.com', 'b.com', 'c.com'])
        const act = async (month: string, slice: number, kind: string): Promise<void> => {
          if (kind.startsWith('rows')) await load(pipeline, month, [slice], [])
          if (kind.startsWith('no')) await load(pipeline, month, [slice], kind === 'nothing' ? [] : [slice])
          if (kind.endsWith(', then none')) await load(pipeline, month, [slice], [slice])
          if (kind.endsWith(', then rows')) await load(pipeline, month, [slice], [])
          if (/held|failed|planned/.test(kind)) {
            const job = await newJob(db, pipeline, { sliceIds: [slice], window: months(month) })
            if (kind !== 'planned') await setJob(db, job, { state: kind.endsWith('held') ? 'held' : 'failed' })
          }
        }
        const expected: Record<string, string | null> = {}
        for (const [at, kinds] of done.entries())
          for (const [index, kind] of kinds.entries()) {
            const month = `2026-0${at + 1}`
            if (kind !== 'nothing') await act(month, slices[index] ?? 0, kind)
            expected[`${month}-01 ${['a', 'b', 'c'][index]}.com`] = reasons[kind] ?? null
          }
        const known = (await db.query<{ month: string }>(`select distinct window_from::text as month from etl.units where pipeline_id = ${pipeline.pipelineId}`)).map(({ month }) => month).sort() // biome-ignore format: one line
        const cells = await db.query<{ cell: string; reason: string | null }>(
          `select period || ' ' || domain as cell, reason from bi.coverage where pipeline = '${pipeline.pipeline}'`,
        )
        const inside = Object.entries(expected).filter(
          ([cell]) => cell >= (known[0] ?? '~') && cell.slice(0, 10) <= (known.at(-1) ?? ''),
        )
        expect(Object.fromEntries(cells.map(({ cell, reason }) => [cell, reason]))).toEqual(Object.fromEntries(inside))
        const sums = `select pipeline, month, count(*) as cells, count(*) filter (where has_data) as with_rows, count(*) filter (where reason = 'not asked') as not_asked,
          count(distinct domain) as domains from bi.coverage where pipeline = '${pipeline.pipeline}' group by 1, 2`
        const kept = `select pipeline, month, cells, cells_with_rows, cells_not_asked, domains from bi.coverage_months where pipeline = '${pipeline.pipeline}'`
        expect(await db.query(`(${sums} except ${kept}) union all (${kept} except ${sums})`)).toEqual([])
      }),
      { numRuns: 6 },
    )
  })
})
