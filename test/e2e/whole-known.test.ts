// What a part of a whole is made of, and why figures changed: of a warehouse in which a domain's month is not loaded.
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { answerQuery, answerView } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { readerOf } from '../support/open-figures.ts'
import { sandboxWorld } from '../support/test-world.ts'

const world = sandboxWorld({ copied: ['pipelines', 'marts'], sandbox: { keywordsPerDomain: 30, reportDurationMs: 50 } })
const { db, sandbox, edit } = world

let reader: Reader
let model: SemanticModel
const traffic = 'traffic_and_engagement'

const millrace = async (...args: string[]): Promise<void> => {
  const result = await world.millrace(...args)
  expect([0, 1], result.stdout + result.stderr).toContain(result.code)
}

beforeAll(async () => {
  edit(traffic, ['poll_every: 5s', 'poll_every: 1s'])
  await millrace('migrate')
  await millrace('backfill', traffic, '--from', '2026-05', '--to', '2026-05', '--yes')
  await millrace('backfill', traffic, '--from', '2026-06', '--to', '2026-06', '--yes', '--only', 'domain=example.com,example.org')
  sandbox.restate('2026-05')
  await millrace('backfill', traffic, '--from', '2026-05', '--to', '2026-05', '--yes', '--force')
  await millrace('backfill', 'keywords', '--from', '2026-04', '--to', '2026-05', '--yes')
  edit('keywords', ['branded_type: All }', 'branded_type: All, top: 15 }'])
  await millrace('backfill', 'keywords', '--from', '2026-06', '--to', '2026-06', '--yes')
  model = await loadSemantics([])
  reader = await readerOf(db)
})
afterAll(async () => {
  await reader.close()
})

test('a part of a whole names the cells that the whole lacks, though the part is of another domain', async () => {
  const period = { from: '2026-06', to: '2026-06' }
  const where = [{ dimension: 'domain', is: 'example.com' }]
  const { cells_missing, notes } = await answerQuery(reader, model, { metrics: ['visits_share'], period, where })
  expect(cells_missing).toEqual([
    { period: '2026-06-01', cell: '{"domain": "example.net", "country": "world"}', reason: 'not asked' },
  ])
  expect(notes).toContainEqual(expect.stringMatching(/Rows are missing/))
  expect((await answerQuery(reader, model, { metrics: ['visits'], period, where })).cells_missing).toEqual([])
})

test('a value that only one of two filters on a dimension allows is not named as missing', async () => {
  const where = ['example.net', 'example.org'].map((other) => ({ dimension: 'domain', is: ['example.com', other] }))
  const answer = await answerQuery(reader, model, { metrics: ['visits'], period: { from: '2026-06', to: '2026-06' }, where })
  expect(answer.cells_missing).toEqual([])
})

test('why figures changed begins with what changed last; what is not loaded has no time and comes last', async () => {
  const { rows } = await answerView(reader, model, {
    view: 'figure_changes',
    newestBy: 'changed_at',
    pipeline: traffic,
    limit: 2,
  })
  expect(rows.map(({ why }) => why)).not.toContain('not loaded')
})

test('what another domain has alone is not compared with a month of which only the first rows are loaded', async () => {
  const where = [
    { dimension: 'domain', is: 'example.com' },
    { dimension: 'other_domain', is: 'example.net' },
    { dimension: 'country', is: 'us' },
  ]
  const period = { from: '2026-06', to: '2026-06' }
  const { rows } = await answerQuery(reader, model, {
    metrics: ['gap_clicks', 'gap_keywords'],
    period,
    where,
    compare: 'previous',
  })
  expect(rows[0]?.['gap_keywords_before']).toBeGreaterThan(0)
  expect(rows[0]).toMatchObject({
    gap_clicks: null,
    gap_clicks_change: null,
    gap_keywords: null,
    gap_keywords_change: null,
  })
})

test('what is lost is not compared with a month of which only the first rows are loaded, which may hold it', async () => {
  const where = [
    { dimension: 'domain', is: 'example.com' },
    { dimension: 'country', is: 'us' },
  ]
  const period = { from: '2026-06', to: '2026-06' }
  const lost = [...where, { dimension: 'movement', is: 'lost' }]
  const clicks = await answerQuery(reader, model, { metrics: ['clicks_lost'], period, where, compare: 'previous' })
  expect(clicks.rows[0]?.['clicks_lost_before']).toBeGreaterThan(0)
  expect(clicks.rows[0]).toMatchObject({ clicks_lost_change: null })
  const words = await answerQuery(reader, model, { metrics: ['moved_keywords'], period, where: lost, compare: 'previous' })
  expect(words.rows[0]).toMatchObject({ moved_keywords_change: null })
})

test('figures by how many months earlier the other month is name the cells of all those months that are missing, and count slices once', async () => {
  const where = [
    { dimension: 'domain', is: 'example.net' },
    { dimension: 'country', is: 'world' },
    { dimension: 'months_back', at_most: 2 },
  ]
  const period = { from: '2026-07', to: '2026-07' }
  const named = await answerQuery(reader, model, { metrics: ['visits_against_before'], period, where, by: ['months_back'] })
  expect(named.cells_missing).toMatchObject([{ period: '2026-06-01', reason: 'not asked' }])
  const may = { metrics: ['visits_against_before'], period: { from: '2026-05', to: '2026-05' }, where: where.slice(1, 2) }
  const { compared } = await answerQuery(reader, model, may)
  expect(compared).toMatchObject({ in_both: 0, only_now: expect.any(Number) })
  expect(await answerQuery(reader, model, { ...may, by: ['months_back'] })).toMatchObject({ compared })
})

test('a month is not final where the rows of a unit were cut off at the limit, whichever row is read', async () => {
  const asked = { metrics: ['clicks'], period: { from: '2026-05', to: '2026-05' }, where: [{ dimension: 'country', is: 'us' }] }
  expect(await answerQuery(reader, model, asked)).toMatchObject({ is_final: true })
  await db.database.pool.query(`insert into etl.cut_units (unit_id, answer_id, row_limit)
    select unit_id, answer_id, 30 from etl.units u join etl.pipelines p using (pipeline_id) join etl.slices s using (slice_id)
    where p.pipeline = 'keywords' and window_from = '2026-05-01' and s."values" @> array['us'] order by unit_id desc limit 1`)
  expect(await answerQuery(reader, model, asked)).toMatchObject({ is_final: false, not_final: ['2026-05'] })
})
