// Restatements by unit, against brute force over its answers one by one: rows that change, end, come late or come back, and answers without a row.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { randomOf } from '../support/figure-world.ts'
import { months, newJob, newPipeline, newRun, newSlices, type PipelineKit } from '../support/ledger.ts'
import { newAnswer } from '../support/ledger-answers.ts'
import { openFigures } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let reader: Reader
let model: SemanticModel

beforeAll(async () => {
  ;({ model, reader } = await openFigures(db))
  for (const table of ['keywords_v1', 'traffic_and_engagement_v1'])
    await db.query(
      `create table data.${table}_p202507 partition of data.${table} for values from ('2025-07-01') to ('2025-08-01')`,
    )
})
afterAll(() => reader.close())

/** When the service was asked, once a month. */
const moments = ['2025-08-12T03:00:00Z', '2025-09-12T03:00:00Z', '2025-10-12T03:00:00Z', '2025-11-12T03:00:00Z'] as const

/** What each answer had of one unit: figures by the key of their rows; null: the row had none. */
type Answer = ReadonlyMap<string, number | null>
interface Life {
  readonly domain: string
  readonly answers: readonly Answer[]
}

/** @param keys rows that an answer may have */
const livesOf = (seed: number, keys: readonly string[]): Life[] => {
  const random = randomOf(seed)
  return Array.from({ length: 24 }, (_, at) => ({
    domain: `d${at}.com`,
    answers: moments.slice(0, 1 + Math.floor(random() * moments.length)).map((): Answer => {
      const there = keys.filter(() => random() > 0.35)
      return new Map(there.map((key) => [key, random() < 0.15 ? null : Math.floor(random() * 4) * 100]))
    }),
  }))
}

interface Row {
  readonly key: string
  readonly figure: number | null
  readonly revision: number
  readonly from: string
  readonly to: string | null
}

/** As loads leave them: a row's value lasts until an answer has another one, or none. */
const rowsOf = ({ answers }: Life): Row[] => {
  const rows: Row[] = []
  for (const [at, answer] of answers.entries()) {
    const moment = moments[at] ?? ''
    for (const [place, row] of rows.entries())
      if (row.to === null && (!answer.has(row.key) || answer.get(row.key) !== row.figure)) rows[place] = { ...row, to: moment }
    for (const [key, figure] of answer)
      if (!rows.some((row) => row.key === key && row.to === null))
        rows.push({ key, figure, revision: rows.filter((row) => row.key === key).length + 1, from: moment, to: null })
  }
  return rows
}

/** The rows in the tables, and the loads without a row of a unit in the ledger. */
const put = async (
  table: string,
  lives: readonly Life[],
  cellsOf: (life: Life, row: Row) => Record<string, unknown>,
): Promise<void> => {
  await db.query(`truncate data.${table}, data.${table}_history`)
  await db.query(`insert into bi.dim_domain (domain) select unnest($1::text[]) on conflict do nothing`, [
    lives.map(({ domain }) => domain),
  ])
  const pipeline = await newPipeline(db)
  for (const life of lives) {
    const unitId = await unitOf(pipeline, life)
    const all = rowsOf(life).map((row) => ({
      ...cellsOf(life, row),
      ...{ _unit_id: unitId, _run_id: 1, _revision: row.revision, _loaded_at: row.from, _valid_from: row.from },
      ...{ _valid_to: row.to, _ended_run_id: 1 },
    }))
    const into = (name: string, some: readonly unknown[]) =>
      db.query(`insert into data.${name} select * from jsonb_populate_recordset(null::data.${name}, $1)`, [JSON.stringify(some)])
    await into(table, all.filter((row) => row._valid_to === null)) // biome-ignore format: one look
    await into(`${table}_history`, all.filter((row) => row._valid_to !== null)) // biome-ignore format: one look
  }
}

const unitOf = async (pipeline: PipelineKit, { domain, answers }: Life): Promise<number> => {
  const [slice = 0] = await newSlices(db, pipeline, [domain])
  const jobId = await newJob(db, pipeline, { sliceIds: [slice], window: months('2025-07') })
  const answerId = await newAnswer(db, jobId)
  for (const [at, answer] of answers.entries())
    await db.query(
      `insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, slices_without_rows, loaded_at)
       values ($1, $2, '2025-07-01', $3, 'loaded', 1, $4, $5)`,
      [answerId, pipeline.pipelineId, jobId, answer.size === 0 ? [slice] : [], moments[at]],
    )
  const [unit] = await db.query<{ id: string }>(`select unit_id as id from etl.units where job_id = $1`, [jobId])
  return Number(unit?.id)
}

const sum = (values: readonly (number | null | undefined)[]): number | null => {
  const known = values.filter((value) => typeof value === 'number')
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0)
}
interface Restated {
  readonly first: number | null
  readonly now: number | null
  readonly change: number | null
}
const restatedOf = ({ answers }: Life): Restated => {
  const [first, now] = [sum([...(answers[0]?.values() ?? [])]), sum([...(answers.at(-1)?.values() ?? [])])]
  return { first, now, change: first === null && now === null ? null : (now ?? 0) - (first ?? 0) }
}

const kinds = {
  visits: {
    view: 'traffic_restatements',
    keys: ['row'],
    table: 'traffic_and_engagement_v1',
    cells: ({ domain }: Life, { figure }: Row) => ({
      ...{
        date: '2025-07-01',
        granularity: 'monthly',
        domain,
        country: 'us',
        include_subdomains: true,
        all_traffic_visits: figure,
      },
    }),
  },
  clicks: {
    view: 'keyword_restatements',
    keys: ['shoes', 'boots', 'sandals', 'laces'],
    table: 'keywords_v1',
    cells: ({ domain }: Life, { key, figure }: Row) => ({
      ...{ month: '2025-07-01', domain, country: 'us', traffic_source: 'All', web_source: 'Total', branded_type: 'All' },
      ...{ keyword: key, top_url: 'u', clicks: figure },
    }),
  },
} as const

describe.each(['visits', 'clicks'] as const)('%s', (kind) => {
  const { view, keys, table, cells } = kinds[kind]

  test.each([1, 2, 3, 4, 5])('first and change add up to now, unit by unit and over all, seed %i', async (seed) => {
    await db.query(`insert into bi.dim_country (country) values ('us') on conflict do nothing`)
    const lives = livesOf(seed, keys)
    await put(table, lives, cells)
    const rows = await db.query<{ domain: string; first: string | null; now: string | null; change: string | null }>(
      `select domain, ${kind}_first as first, ${kind}_now as now, ${kind}_change as change from bi.${view}`,
    )
    const number = (text: string | null | undefined): number | null => (text == null ? null : Number(text))
    for (const life of lives) {
      const found = rows.filter(({ domain }) => domain === life.domain)
      // A unit that never had a row has nothing to restate.
      expect(found.length, life.domain).toBe(rowsOf(life).length === 0 ? 0 : 1)
      const [row] = found
      const wanted = restatedOf(life)
      expect({ first: number(row?.first), now: number(row?.now), change: number(row?.change) }, life.domain).toEqual(wanted)
    }
    const all = lives.map(restatedOf)
    const [first, now, change] = [
      sum(all.map((one) => one.first)),
      sum(all.map((one) => one.now)),
      sum(all.map((one) => one.change)),
    ]
    expect((first ?? 0) + (change ?? 0)).toBe(now ?? 0)
    const asked = await answerQuery(reader, model, {
      metrics: [`${kind}_first`, `${kind}_restated_by`, `${kind}_now`, `${kind}_restated_share`],
      where: [{ dimension: 'country', is: 'us' }],
    })
    expect(asked.rows[0]).toEqual({
      [`${kind}_first`]: first,
      [`${kind}_restated_by`]: change,
      [`${kind}_now`]: now,
      [`${kind}_restated_share`]: Number(((change ?? 0) / (first ?? 1)).toFixed(6)),
    })
  })
})

describe('another number of rows asked for', () => {
  /** Of each answer: how many rows were asked for, how many the service has, and the rows by keyword. */
  type Asked = readonly [top: number | null, of: number, rows: Readonly<Record<string, number>>]
  const lives: Readonly<Record<string, readonly Asked[]>> = {
    'more.com': [
      [2, 9, { a: 50, b: 40 }],
      [2, 9, { a: 60, b: 40 }],
      [3, 9, { a: 60, b: 40, c: 30 }],
      [3, 9, { a: 60, b: 45, c: 30 }],
    ],
    'fewer.com': [
      [null, 3, { a: 50, b: 40, c: 30 }],
      [2, 3, { a: 50, b: 40 }],
    ],
    'all.com': [
      [5, 2, { a: 50, b: 40 }],
      [9, 2, { a: 50, b: 44 }],
    ],
  }
  let pipeline: PipelineKit

  beforeAll(async () => {
    await db.query(`truncate data.keywords_v1, data.keywords_v1_history`)
    pipeline = await newPipeline(db)
    await db.query(`insert into bi.dim_domain (domain) select unnest($1::text[]) on conflict do nothing`, [Object.keys(lives)])
    for (const [domain, asked] of Object.entries(lives)) await live(domain, asked)
    // The first answer was asked for by another version, whose slices have numbers of their own.
    const twin = await newPipeline(db, { pipeline: pipeline.pipeline, version: 2 })
    const [slice = 0] = await newSlices(db, twin, ['fewer.com'])
    await db.query(
      `update etl.answer_rows set pipeline_id = $1, slice_id = $2 where answer_id = (select min(a.answer_id) from etl.answer_rows a
        join etl.slices s on s.slice_id = a.slice_id and s.pipeline_id = $3 where s."values" = '{fewer.com}')`,
      [twin.pipelineId, slice, pipeline.pipelineId],
    )
  })

  const live = async (domain: string, asked: readonly Asked[]): Promise<void> => {
    const [slice = 0] = await newSlices(db, pipeline, [domain])
    const answers = asked.map(([, , rows]): Answer => new Map(Object.entries(rows)))
    let unitId = '0'
    for (const [at, [top, of, rows]] of asked.entries()) {
      const jobId = await newJob(db, pipeline, { sliceIds: [slice], window: months('2025-07') })
      const answerId = await newAnswer(db, jobId, { sourceCount: of })
      await db.query(
        `update etl.answer_rows set shape_id = etl.shape_of('asks', '{}', $2, null, null, null, null, null) where answer_id = $1`,
        [answerId, top],
      )
      const before = asked[at - 1]?.[2] ?? {}
      const same = Object.keys(rows).filter((key) => before[key] === rows[key]).length
      const changed = Object.keys(rows).filter((key) => key in before).length - same
      await db.query(
        `insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_unchanged, rows_ended, loaded_at)
         values ($1, $2, '2025-07-01', $3, 'loaded', 1, $4::bigint + $5 + $6, $4, $5, $6, $7, $8)`,
        [
          ...[answerId, pipeline.pipelineId, jobId, Object.keys(rows).length - same - changed, changed, same],
          ...[Object.keys(before).filter((key) => !(key in rows)).length, moments[at]],
        ],
      )
      unitId = (await db.query<{ id: string }>(`select unit_id as id from etl.units where slice_id = $1`, [slice]))[0]?.id ?? ''
    }
    for (const row of rowsOf({ domain, answers })) {
      const cells = { ...kinds.clicks.cells({ domain, answers }, row), _unit_id: unitId, _run_id: 1, _revision: row.revision }
      const times = { _loaded_at: row.from, _valid_from: row.from, _valid_to: row.to, _ended_run_id: 1 }
      const name = `data.keywords_v1${row.to === null ? '' : '_history'}`
      await db.query(`insert into ${name} select * from jsonb_populate_record(null::${name}, $1)`, [
        JSON.stringify({ ...cells, ...times }),
      ])
    }
  }

  test('is no restatement of the service, if it cuts an answer: the first one is that of the number asked for now', async () => {
    expect(
      await db.query(`select domain, clicks_first::int as first, clicks_now::int as now, rows_restated::int as restated, first_loaded_at = $1 as at_once
        from bi.keyword_restatements order by domain`, [moments[0]]),
    ).toEqual([
      { domain: 'all.com', first: 90, now: 94, restated: 1, at_once: true },
      { domain: 'fewer.com', first: 90, now: 90, restated: 0, at_once: false },
      { domain: 'more.com', first: 130, now: 135, restated: 1, at_once: false },
    ]) // biome-ignore format: a table
  })

  test('is the cause of what it changes, and why figures changed', async () => {
    const ours = `pipeline = '${pipeline.pipeline}'`
    const restatements = `select slice::jsonb ->> 'domain' as domain, cause from bi.restatements where ${ours} order by slice, seen_at`
    expect(await db.query(restatements)).toEqual([
      { domain: 'all.com', cause: 'service' },
      { domain: 'fewer.com', cause: 'top' },
      { domain: 'more.com', cause: 'service' },
      { domain: 'more.com', cause: 'service' },
    ])
    const changes = `select string_agg(why, ' ' order by changed_at) as why from bi.figure_changes where ${ours} and changed_at is not null group by slice order by slice`
    expect(await db.query(changes)).toEqual([
      { why: 'came restated' },
      { why: 'came top' },
      { why: 'came restated top restated' },
    ])
  })

  test('of several weeks of a month in one answer is one change of that month, with the rows of all weeks', async () => {
    const ofChange = `select rows_changed::int as rows from bi.figure_changes
      where pipeline = '${pipeline.pipeline}' and why = 'restated' and changed_at = $1 and slice::jsonb ->> 'domain' = 'more.com'`
    expect(await db.query(ofChange, [moments[1]])).toEqual([{ rows: 1 }])
    await db.query(
      `insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_unchanged, rows_ended, loaded_at)
        select l.answer_id, l.pipeline_id, '2025-07-08', l.job_id, l.outcome, l.units, 2 + l.rows_unchanged, 0, 2, l.rows_unchanged, 0, l.loaded_at
        from etl.load_rows l join etl.answer_rows a using (answer_id) join etl.slices s on s.slice_id = a.slice_id
        where l.pipeline_id = $1 and s."values" = '{more.com}' and l.loaded_at = $2`,
      [pipeline.pipelineId, moments[1]],
    )
    expect(await db.query(ofChange, [moments[1]])).toEqual([{ rows: 3 }])
  })
})

test('what the same answer changes, loaded again by replay, is the definition’s change; what a release brings, or a replay of units that were held, is the service’s', async () => {
  const pipeline = await newPipeline(db)
  const loadsOf = {
    'again.com': [['run', 0, 2], ['replay', 5, 2]],
    'released.com': [['run', 0, 2], ['release', 5, 2]],
    'corrected.com': [['replay', 5, 2]],
    'held.com': [['run', 0, 1], ['replay', 5, 2]],
  } as const // biome-ignore format: a table
  for (const [domain, loads] of Object.entries(loadsOf)) {
    const jobId = await newJob(db, pipeline, { sliceIds: await newSlices(db, pipeline, [domain]), window: months('2025-07') })
    const answerId = await newAnswer(db, jobId)
    for (const [at, [command, updated, units]] of loads.entries())
      await db.query(
        `insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated, loaded_at)
         values ($1, $2, '2025-07-01', $3, $4, 'loaded', $7, 5, 5 - $5::bigint, $5, $6)`,
        [answerId, pipeline.pipelineId, jobId, await newRun(db, undefined, command), updated, moments[at], units],
      )
  }
  expect(
    await db.query(`select r.slice::jsonb ->> 'domain' as domain, r.cause, c.why from bi.restatements r
      join bi.figure_changes c on c.pipeline = r.pipeline and c.slice = r.slice and c.changed_at = r.seen_at
      where r.pipeline = $1 order by 1`, [pipeline.pipeline]),
  ).toEqual([
    { domain: 'again.com', cause: 'definition', why: 'definition' },
    { domain: 'corrected.com', cause: 'service', why: 'restated' },
    { domain: 'held.com', cause: 'service', why: 'restated' },
    { domain: 'released.com', cause: 'service', why: 'restated' },
  ]) // biome-ignore format: a table
})
