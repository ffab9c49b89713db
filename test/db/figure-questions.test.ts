// Generated questions, two of five of them traps: views, dashboards' formulas, Lightdash's and dbt's statements and the assistant's tools say what brute force over the landed rows says, or refuse for the named
// reason. A dozen seeds here, with ten questions each; FIGURES_QUESTIONS=500 asks as many, of ten worlds, FIGURES_SEED another set.
import { Client } from '@modelcontextprotocol/client'
import { InMemoryTransport } from '@modelcontextprotocol/server'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { Mart } from '../../src/core/mart.ts'
import type { Definition } from '../../src/core/types.ts'
import type { Chart } from '../../src/definition/dashboard.ts'
import { loadDashboards } from '../../src/definition/dashboards.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { publish } from '../../src/publish/publish.ts'
import { recordVersion } from '../../src/publish/versions.ts'
import { createMcpServer } from '../../src/semantic/mcp-server.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { type DbtProject, dbtQuestionOf, openDbtProject } from '../support/dbt-project.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import {
  type AskedWorld,
  type FigureQuestion,
  questionsOf,
  rowCount,
  type TrafficLife,
  worldGroups,
} from '../support/figure-questions.ts'
import { figureWorld, putWorld, randomOf, type ShopFact, worldDomains, worldMonths } from '../support/figure-world.ts'
import { months, newJob, newPipeline, newSlices, type PipelineKit } from '../support/ledger.ts'
import { newAnswer } from '../support/ledger-answers.ts'
import { lightdashSqlOf } from '../support/lightdash-questions.ts'
import { readerOf } from '../support/open-figures.ts'
import { dropRole, testDatabase } from '../support/postgres.ts'

const asked = Number(process.env['FIGURES_QUESTIONS'] ?? '120')
const firstSeed = Number(process.env['FIGURES_SEED'] ?? '11')
const aSeed = asked > 120 ? 50 : 10

// Once the database is gone, which is dropped before.
afterAll(async () => {
  if (dbt !== null) await dropRole(login)
})
const db = testDatabase()
let reader: Reader
let marts: readonly Mart[]
let definitions: readonly Definition[]
let first: PipelineKit
let second: PipelineKit
let model: SemanticModel
/** `bash test/clients/dbt.sh` names its folder; without it dbt is not asked. */
const dbtBin = process.env['MILLRACE_DBT_BIN'] ?? ''
const login = `figures_test_${process.pid}`
let dbt: DbtProject | null = null
const dashboards = new Map<string, readonly Chart[]>()
const client = new Client({ name: 'questions', version: '0.0.0' })
const shops = 'shopper_category_performance'
const later = (): Definition => ({ ...definitions.find(({ pipeline }) => pipeline === shops), version: 2 }) as Definition

beforeAll(async () => {
  marts = await loadMarts([])
  definitions = await shippedDefinitions()
  await publish(db.database, definitions, marts)
  for (const suffix of ['', '_history'])
    await db.query(
      `create table data.${shops}_v2${suffix} (like data.${shops}_v1${suffix} including all) ${suffix === '' ? 'partition by range (date)' : ''}`,
    )
  const of = { pipeline: shops, dimensions: ['domain', 'category_id'], parameters: '{"granularity": "monthly"}' }
  first = await newPipeline(db, of)
  second = await newPipeline(db, { ...of, version: 2 })
  reader = await readerOf(db)
  model = await loadSemantics([])
  for (const [domain, group] of Object.entries(worldGroups))
    await db.query(`insert into bi.attribute_versions (subject, value, attributes, file) values ('domain', $1, $2, 'domains.csv')`, [domain, { group, team: group }]) // biome-ignore format: one look
  for (const { name, charts } of await loadDashboards([])) dashboards.set(name, charts)
  if (dbtBin !== '') {
    await db.query(`create role ${login} login password '${login}' in role bi_reader`)
    const url = new URL(db.url)
    ;[url.username, url.password] = [login, login]
    dbt = openDbtProject(dbtBin, url.href)
    dbt.run('parse')
  }
  const server = createMcpServer({ reader, model, onError: () => undefined })
  const [one, other] = InMemoryTransport.createLinkedPair()
  await Promise.all([server.connect(one), client.connect(other)])
})
afterAll(async () => {
  await client.close()
  await reader.close()
  dbt?.remove()
})

const insert = (table: string, rows: readonly unknown[]): Promise<unknown> =>
  db.query(`insert into data.${table} select * from jsonb_populate_recordset(null::data.${table}, $1)`, [JSON.stringify(rows)])

/** As two versions leave the shops: a domain that the second does not want any more, cells it was not asked for, and answers without a row. */
const putShops = async (before: readonly ShopFact[], random: () => number): Promise<ShopFact[]> => {
  await db.query(`truncate data.${shops}_v2, data.${shops}_v2_history`)
  for (const month of worldMonths)
    await db.query(`create table if not exists data.${shops}_v2_p${month.slice(0, 7).replace('-', '')} partition of data.${shops}_v2
      for values from ('${month}') to ('${month}'::date + interval '1 month')`)
  await db.query('delete from etl.units where pipeline_id in ($1, $2)', [first.pipelineId, second.pipelineId])
  const cells = worldDomains.flatMap((domain) => ['1', '2'].map((category) => [domain, category]))
  const unitsOf = async ({ pipelineId }: PipelineKit, wanted: (key: string) => boolean): Promise<Map<string, number>> => {
    const known = await db.query<{ id: number; key: string }>(`select slice_id as id, array_to_string("values", '/') as key from etl.slices where pipeline_id = $1`, [pipelineId]) // biome-ignore format: one look
    const made = new Map<string, number>()
    for (const month of worldMonths)
      for (const { id, key } of known.filter((one) => wanted(`${month}/${one.key}`))) {
        const [unit] = await db.query<{ id: string }>(
          `insert into etl.units (pipeline_id, window_from, slice_id, answer_id, ask_number)
          values ($1, $2, $3, 1, 1) returning unit_id as id`,
          [pipelineId, month, id],
        )
        made.set(`${month}/${key}`, Number(unit?.id))
      }
    return made
  }
  for (const pipeline of [first, second])
    if ((await db.query('select 1 from etl.slices where pipeline_id = $1', [pipeline.pipelineId])).length === 0)
      await newSlices(db, pipeline, cells)
  const keyOf = (row: ShopFact): string => `${row.date}/${row.domain}/${row.category_id}`
  const rows = (some: readonly ShopFact[], units: ReadonlyMap<string, number>, at: string) =>
    some.map((row) => ({
      ...row,
      granularity: 'monthly',
      _unit_id: units.get(keyOf(row)),
      _run_id: 1,
      _revision: 1,
      _loaded_at: at,
    }))
  await insert(`${shops}_v1`, rows(before, await unitsOf(first, () => true), '2025-12-05T00:00:00Z'))
  const answered = await unitsOf(second, (key) => !key.includes('late.com') && random() > 0.25)
  const now = before.flatMap((row): ShopFact[] =>
    !answered.has(keyOf(row)) || random() < 0.15
      ? []
      : [{ ...row, revenue: row.revenue === null ? 5 : Math.floor(row.revenue * (0.5 + random())) }],
  )
  await insert(`${shops}_v2`, rows(now, answered, '2025-12-20T00:00:00Z'))
  return [...now, ...before.filter((row) => !answered.has(keyOf(row)))]
}

const moments = ['2025-12-02T00:00:00Z', '2025-12-09T00:00:00Z', '2025-12-16T00:00:00Z', '2025-12-23T00:00:00Z']

/** Visits from France: one answer after the other, with the load of each on record. */
const putLives = async (random: () => number): Promise<TrafficLife[]> => {
  const pipeline = await newPipeline(db)
  const table = 'traffic_and_engagement_v1'
  const lives = worldMonths.flatMap((date) =>
    worldDomains.map(
      (domain): TrafficLife => ({
        ...{ date, domain },
        answers: moments.map(() => (random() < 0.3 ? null : Math.floor(random() * 3) * 100 + 50)),
      }),
    ),
  )
  for (const { date, domain, answers } of lives) {
    const [slice = 0] = await newSlices(db, pipeline, [`${domain} ${date}`])
    const jobId = await newJob(db, pipeline, { sliceIds: [slice], window: months(date.slice(0, 7)) })
    const answerId = await newAnswer(db, jobId)
    const [unit] = await db.query<{ id: string }>('select unit_id as id from etl.units where job_id = $1', [jobId])
    let open: Record<string, unknown> | null = null
    let revision = 0
    const ended: unknown[] = []
    for (const [at, visits] of answers.entries()) {
      await db.query(`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, units, slices_without_rows, loaded_at)
        values ($1, $2, $3, $4, 'loaded', 1, $5, $6)`, [answerId, pipeline.pipelineId, date, jobId, visits === null ? [slice] : [], moments[at]]) // biome-ignore format: one look
      if (visits === (open?.['all_traffic_visits'] ?? null)) continue
      if (open !== null) ended.push({ ...open, _valid_from: open['_loaded_at'], _valid_to: moments[at], _ended_run_id: 1 })
      revision += visits === null ? 0 : 1
      open = visits === null ? null : {
        ...{ date, domain, country: 'fr', granularity: 'monthly', include_subdomains: true, all_traffic_visits: visits },
        ...{ _unit_id: Number(unit?.id), _run_id: 1, _revision: revision, _loaded_at: moments[at] },
      } // biome-ignore format: one look
    }
    await insert(`${table}_history`, ended)
    await insert(table, open === null ? [] : [open])
  }
  return lives
}

const putAll = async (seed: number): Promise<AskedWorld> => {
  const landed = figureWorld(seed)
  const random = randomOf(seed + 1_000)
  await putWorld(db, { ...landed, shop: [] }, marts)
  await db.query(`insert into bi.dim_country (country) values ('fr') on conflict do nothing`)
  const lives = await putLives(random)
  const shop = await putShops(landed.shop, random)
  // The switch: by the views once, from then on by what it puts on record.
  await db.query('delete from etl.kept_units')
  await db.query(`delete from etl.published_versions where pipeline = '${shops}' and version = 2`)
  if (seed === firstSeed)
    await publish(
      db.database,
      definitions.map((one) => (one.pipeline === shops ? later() : one)),
      marts,
    )
  else await db.database.kysely.transaction().execute((trx) => recordVersion(trx, later()))
  return { ...landed, shop, shopBefore: landed.shop, beforeSwitch: '2025-12-10T00:00:00Z', lives }
}

const toolAnswer = z.object({ isError: z.boolean().optional(), content: z.array(z.object({ text: z.string() })) })
const figures = z.object({ rows: z.array(z.record(z.string(), z.unknown())) })

const same = (found: unknown, right: number | null): boolean =>
  right === null || found === null || found === undefined
    ? right === (found ?? null)
    : Math.abs(Number(found) - right) <= 1e-5 * Math.max(1, Math.abs(right))

/** A tile's text has one digit of a per cent. */
const sameShown = (shown: unknown, right: number | null): boolean => {
  if (shown === 'nothing to compare with the month before') return right === null
  if (typeof shown !== 'string' || !/ on the month before$/.test(shown)) return same(shown, right)
  const [, percent] = /^([+-]\d+\.\d) % on/.exec(shown.replaceAll(',', '')) ?? []
  return percent === undefined ? right === null : right !== null && Math.abs(Number(percent) / 100 - right) <= 0.000501
}

/** How many figures of each kind were compared. */
const counted: Record<string, number> = {}

/** A statement of MetricFlow a question; null: it has no such question. */
const compiledOf = (questions: readonly FigureQuestion[]): (string | null)[] => {
  if (dbt === null) return questions.map(() => null)
  const asked = questions.map(({ tool, right, column }) =>
    right instanceof RegExp || column === rowCount ? null : dbtQuestionOf(db.database.kysely, model, { ...tool }),
  )
  const answers = dbt.compile(asked.flatMap((one) => one ?? []))
  let at = 0
  return asked.map((one) => {
    if (one === null) return null
    const answer = answers[at++] ?? { error: 'no answer' }
    if ('error' in answer) throw new Error(answer.error)
    return answer.sql
  })
}

/** What is wrong with the answers; null: nothing. */
const wrongWith = async (question: FigureQuestion, compiled: string | null): Promise<string | null> => {
  const { about, sql, chart, tool, column, row, right } = question
  const told = toolAnswer.parse(await client.callTool({ name: 'query_metrics', arguments: { ...tool } }))
  const text = told.content.map((one) => one.text).join('\n')
  if (right instanceof RegExp)
    return told.isError === true && right.test(text) ? null : `${about}: not refused for ${right}: ${text.slice(0, 200)}`
  if (told.isError === true) return `${about}: ${right}, the tool refused: ${text.slice(0, 200)}`
  const meant = (one: Record<string, unknown>): boolean => Object.entries(row).every(([name, value]) => one[name] === value)
  const rows = figures.parse(JSON.parse(text)).rows.filter(meant)
  if (column === rowCount) return rows.length === right ? null : `${about}: ${right} rows, the tool has ${rows.length}`
  if (rows.length > 1) return `${about}: ${rows.length} rows`
  if (!same(rows[0]?.[column] ?? null, right)) return `${about}: ${right}, the tool said ${String(rows[0]?.[column])}`
  for (const [by, statement] of Object.entries({
    Lightdash: lightdashSqlOf(db.database.kysely, model, { ...tool }),
    dbt: compiled,
  })) {
    if (statement === null) continue
    const found = (await db.query(statement)).filter((one) =>
      Object.values(row).every((value) => Object.values(one).includes(value)),
    )
    const figure = found[0]?.[column] ?? null
    if (!same(figure, right)) return `${about}: ${right}, ${by} said ${String(figure)}: ${statement}`
    counted[by] = (counted[by] ?? 0) + 1
  }
  if (chart !== undefined) {
    const { view, where, measures } = dashboards.get(chart.dashboard)?.find(({ name }) => name === chart.name) ?? { view: '', where: null, measures: new Map() } // biome-ignore format: one look
    // A tile shows the newest month alone; its formula is asked for any.
    const rows = (where ?? 'true').replace(' and is_newest', '')
    const [shown] = await db.query<{ figure: unknown }>(`select ${measures.get(chart.measure)} as figure from bi.${view} where ${rows} and ${chart.where}`) // biome-ignore format: one look
    if (!sameShown(shown?.figure ?? null, right))
      return `${about}: ${right}, the chart ${chart.name} said ${String(shown?.figure)}`
    counted['charts'] = (counted['charts'] ?? 0) + 1
  }
  if (sql === null) return null
  const [line] = await db.query<{ figure: unknown }>(sql)
  // Views of shares and growth round to six digits.
  return same(line?.figure ?? null, right) ? null : `${about}: ${right}, the view said ${String(line?.figure)}`
}

const seeds = Array.from({ length: Math.ceil(asked / aSeed) }, (_, at) => firstSeed + at)

test.each(seeds)(
  `${aSeed} questions over a world of gaps, restatements and two versions, seed %i`,
  async (seed) => {
    const world = await putAll(seed)
    const questions = questionsOf(world, seed, aSeed)
    expect(questions.filter(({ trap }) => trap !== null)).toHaveLength((aSeed * 2) / 5)
    const wrong: string[] = []
    const compiled = compiledOf(questions)
    for (const [at, question] of questions.entries()) {
      const found = await wrongWith(question, compiled[at] ?? null)
      if (found !== null) wrong.push(found)
    }
    expect(wrong).toEqual([])
  },
  600_000,
)

test('charts, Lightdash and, where it is there, dbt were among those asked', () => {
  expect(counted).toMatchObject({
    charts: expect.any(Number),
    Lightdash: expect.any(Number),
    ...(dbt === null ? {} : { dbt: expect.any(Number) }),
  })
})

test('why a figure changed is one tool', async () => {
  const told = toolAnswer.parse(
    await client.callTool({
      name: 'why_did_it_change',
      arguments: { pipeline: shops, period: { from: '2025-09', to: '2025-09' } },
    }),
  )
  expect(told.isError).not.toBe(true)
  expect(figures.parse(JSON.parse(told.content[0]?.text ?? '')).rows).toContainEqual(
    expect.objectContaining({ why: 'version', month: '2025-09-01', detail: 'version 2' }),
  )
})
