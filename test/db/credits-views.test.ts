// Credits as a view of bi: by tag they are the ledger's.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { newPipeline } from '../support/ledger.ts'
import { openFigures } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let reader: Reader
let model: SemanticModel

beforeAll(async () => {
  ;({ model, reader } = await openFigures(db))
})
afterAll(() => reader.close())
beforeEach(async () => {
  await db.query('truncate etl.pipelines, etl.request_credits, etl.jobs, etl.units, etl.slices cascade')
})

const tagSet = async (tags: Readonly<Record<string, string>>): Promise<number> => {
  const [row] = await db.query<{ id: number }>('insert into etl.tag_sets (tags) values ($1) on conflict (tags) do update set tags = excluded.tags returning tag_set_id as id', [tags]) // biome-ignore format: one look
  return row?.id ?? 1
}

test('credits by a tag are all that was spent, what has no such tag included; two tags are never added up', async () => {
  const [both, one] = [await tagSet({ client: 'acme', team: 'growth' }), await tagSet({ client: 'beta' })]
  const pipeline = await newPipeline(db)
  const add = (tags: number, credits: number) => db.query(`insert into etl.request_credits values ('2026-03-01', 'default', $1, $2, true, 0, 1, $3, 0, 0)`, [pipeline.pipelineId, tags, credits]) // biome-ignore format: one look
  await add(both, 30)
  await add(one, 12)
  await add(1, 8)
  const by = async (tag: string, metrics = ['charged_credits']) => (await answerQuery(reader, model, { metrics, by: ['tag_value'], where: [{ dimension: 'tag', is: tag }] })).rows // biome-ignore format: one look
  expect(await by('team')).toEqual([
    { tag_value: 'growth', charged_credits: 30 },
    { tag_value: '(none)', charged_credits: 20 },
  ])
  expect(await by('client', ['charged_share'])).toEqual([
    { tag_value: 'acme', charged_share: 0.6, charged_share_over: 3 },
    { tag_value: 'beta', charged_share: 0.24, charged_share_over: 3 },
    { tag_value: '(none)', charged_share: 0.16, charged_share_over: 3 },
  ])
  await expect(answerQuery(reader, model, { metrics: ['charged_credits'] })).rejects.toThrow(
    /charged_credits does not add up over tag/,
  )
  await expect(by('taem')).rejects.toThrow(/tag has no value 'taem'\. Did you mean 'team'\?/)
})
