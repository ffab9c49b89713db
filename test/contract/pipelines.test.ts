// The shipped definitions against the outside contract: they load, and their grain and measures are the promised ones.
import { readdirSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { checkDefinitions, loadDefinitions } from '../../src/definition/load.ts'
import { definitionSchema } from '../../src/definition/schema.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'

const specs = (await loadSourceFolders()).sources

const folder = 'pipelines'
const { definitions, problems } = await loadDefinitions({ folder, sources: specs })

const promised = {
  keywords: {
    key: 'month domain country traffic_source web_source branded_type keyword top_url',
    measures:
      'clicks traffic_share difficulty competition primary_intent secondary_intent volume cpc cpc_low_bid cpc_high_bid ' +
      'zero_clicks_share position serp_features',
  },
  traffic_and_engagement: {
    key: 'date granularity domain country include_subdomains',
    measures: 'all_traffic_visits mobile_visits desktop_visits desktop_unique_visitors mobile_unique_visitors all_page_views',
  },
  shopper_category_performance: {
    key: 'date granularity domain category_id',
    measures: 'product_views units_sold revenue cvr',
  },
}

test('every shipped definition is valid', () => {
  expect(problems).toEqual([])
  expect(definitions.map(({ file }) => file)).toEqual(
    readdirSync(folder)
      .filter((name) => name.endsWith('.yaml'))
      .sort()
      .map((name) => `${folder}/${name}`),
  )
})

test.each(Object.entries(promised))('%s has the promised key and measures', (name, { key, measures }) => {
  const definition = definitions.find(({ pipeline }) => pipeline === name)
  expect(definition?.version).toBe(1)
  expect(definition?.key).toEqual(key.split(' '))
  expect(definition?.columns.filter(({ isKey }) => isKey).map((column) => column.name)).toEqual(key.split(' '))
  expect(definition?.columns.filter(({ isKey }) => !isKey).map((column) => column.name)).toEqual(measures.split(' '))
})

test.each(definitions.map((definition) => [definition.pipeline, definition] as const))(
  '%s describes every column',
  (_, definition) => {
    const bare = definition.columns.filter(({ description }) => description === '' || description.startsWith('Field '))
    expect(bare).toEqual([])
    const figures = definition.columns.filter(({ isKey, type }) => !isKey && (type === 'bigint' || type === 'numeric'))
    expect(figures.filter(({ unit }) => unit === null)).toEqual([])
  },
)

test('every shipped YAML names the schema for editors in its first line', () => {
  for (const { file } of definitions) {
    expect(readFileSync(file, 'utf8').split('\n')[0]).toBe('# yaml-language-server: $schema=./schema.json')
  }
})

test('the numbers a keyword record may lack become the declared 0, and only those', () => {
  const columns = definitions.find(({ pipeline }) => pipeline === 'keywords')?.columns ?? []
  expect(columns.filter(({ ifAbsent }) => ifAbsent === '0').map(({ name }) => name)).toEqual(
    'clicks traffic_share difficulty volume cpc cpc_low_bid cpc_high_bid zero_clicks_share position'.split(' '),
  )
  expect(columns.filter(({ ifAbsent }) => ifAbsent !== null && ifAbsent !== '0')).toEqual([])
})

test('the definition shown in docs/definition.md is valid', () => {
  const text = /```yaml\n([\s\S]*?)```/.exec(readFileSync('docs/definition.md', 'utf8'))?.[1] ?? ''
  const readList = (path: string) => ({ shown: path, text: 'example.com\n' })
  const result = checkDefinitions({ folder, files: [{ file: 'docs', text }], sources: specs, readList })
  expect(result.problems).toEqual([])
  expect(result.definitions[0]?.columns.find(({ name }) => name === 'channel_visits')?.from).toEqual(['channel_visits'])
})

// `npx vitest run test/contract/pipelines.test.ts -u` writes it anew.
test('pipelines/schema.json is what the checks are made of', async () => {
  const made = { ...z.toJSONSchema(definitionSchema, { io: 'input', target: 'draft-7' }), title: 'Millrace pipeline definition' }
  await expect(`${JSON.stringify(made, null, 2)}\n`).toMatchFileSnapshot('../../pipelines/schema.json')
})
