// The generated documents in the repository say what the definitions say now.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadMarts } from '../../src/definition/marts.ts'
import { dbtSources } from '../../src/publish/dbt.ts'
import { dataDictionary } from '../../src/publish/dictionary.ts'
import { shippedDefinitions } from '../support/definitions.ts'

const docs = resolve(import.meta.dirname, '..', '..', 'docs')

test('docs/data-dictionary.md and docs/dbt/sources.yml are fresh; `millrace docs` writes them', async () => {
  const [definitions, marts] = [await shippedDefinitions(), await loadMarts([])]
  expect(readFileSync(join(docs, 'data-dictionary.md'), 'utf8')).toBe(dataDictionary(definitions, marts))
  expect(readFileSync(join(docs, 'dbt', 'sources.yml'), 'utf8')).toBe(dbtSources(definitions, marts))
})

test('the dbt sources are YAML that names every fact with its tests', async () => {
  const parsed = parse(dbtSources(await shippedDefinitions(), await loadMarts([]))) as {
    sources: [{ tables: { name: string; freshness?: unknown; columns: { name: string; data_tests?: string[] }[] }[] }]
    exposures: { name: string }[]
  }
  const keywords = parsed.sources[0].tables.find(({ name }) => name === 'keywords')
  expect(keywords?.freshness).toBeDefined()
  expect(keywords?.columns.find(({ name }) => name === 'domain')?.data_tests).toEqual(['not_null'])
  expect(parsed.exposures.map(({ name }) => name)).toContain('keyword_month_over_month')
})

test('every mart explains each column it makes', async () => {
  for (const mart of await loadMarts([])) {
    expect(mart.purpose.length, mart.name).toBeGreaterThan(20)
    expect(mart.question, mart.name).toMatch(/\?$/)
    expect(mart.columns.size, mart.name).toBeGreaterThan(0)
  }
})
