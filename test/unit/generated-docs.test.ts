// The generated documents in the repository say what the definitions say now.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadMarts } from '../../src/definition/marts.ts'
import { dbtDataTests, dbtSources } from '../../src/publish/dbt.ts'
import { dataDictionary } from '../../src/publish/dictionary.ts'
import { commands } from '../../src/cli/commands.ts'
import { moreDocuments } from '../../src/cli/docs.ts'
import { shippedDefinitions } from '../support/definitions.ts'

const docs = resolve(import.meta.dirname, '..', '..', 'docs')

test('every generated page and file is fresh; `millrace docs` writes them', async () => {
  const [definitions, marts] = [await shippedDefinitions(), await loadMarts([])]
  expect(readFileSync(join(docs, 'data-dictionary.md'), 'utf8')).toBe(dataDictionary(definitions, marts))
  expect(readFileSync(join(docs, 'dbt', 'models', 'sources.yml'), 'utf8')).toBe(dbtSources(definitions, marts))
  const more = await moreDocuments(resolve(docs, '..', 'pipelines'), definitions, commands, () => undefined)
  for (const [path, text] of more) expect(readFileSync(join(docs, path), 'utf8'), path).toBe(text)
  // What is left of a subject that went would be read as if it were true.
  const generated = ['dbt', 'lightdash', 'superset-bundle'].flatMap((folder) =>
    readdirSync(join(docs, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  )
  const ofTests = [...dbtDataTests(definitions)].map(([path, text]) => [join('dbt', path), text] as const)
  for (const [path, text] of ofTests) expect(readFileSync(join(docs, path), 'utf8'), path).toBe(text)
  const known = new Set([...more.keys(), ...ofTests.map(([path]) => path), join('dbt', 'models', 'sources.yml')])
  expect(generated.map((file) => relative(docs, file)).filter((path) => !known.has(path))).toEqual([])
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

test('each test of a definition is one of dbt, an error where it holds and a warning where it warns', async () => {
  const definitions = await shippedDefinitions()
  const named = definitions.flatMap(({ pipeline, tests }) => tests.map(({ name }) => `tests/${pipeline}_v1_${name}.sql`))
  expect(named.length).toBeGreaterThan(2)
  const found = dbtDataTests(definitions)
  expect([...found.keys()]).toEqual(named)
  const jump = found.get('tests/traffic_and_engagement_v1_no_jump.sql')
  expect(jump).toContain("config(severity='warn')")
  expect(jump).toContain(
    "where pipeline = 'traffic_and_engagement' and version = 1 and test = 'no_jump' and outcome <> 'released'",
  )
  const [first] = definitions.filter(({ tests }) => tests.length > 0)
  const held =
    first === undefined ? [] : [{ ...first, tests: first.tests.map((one) => ({ ...one, onFailure: 'hold' as const })) }]
  for (const text of dbtDataTests(held).values()) expect(text).toContain("severity='error'")
  expect(dbtDataTests(held.map((one) => ({ ...one, publish: false })))).toEqual(new Map())
})

test('every mart explains each column it makes', async () => {
  for (const mart of await loadMarts([])) {
    expect(mart.purpose.length, mart.name).toBeGreaterThan(20)
    expect(mart.question, mart.name).toMatch(/\?$/)
    expect(mart.columns.size, mart.name).toBeGreaterThan(0)
  }
})
