// The generated documents in the repository say what the definitions say now.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Definition } from '../../src/core/types.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { dbtFiles } from '../../src/semantic/dbt.ts'
import { dataDictionary } from '../../src/publish/dictionary.ts'
import { commands } from '../../src/cli/commands.ts'
import { madeDocuments, readDocumented } from '../../src/cli/docs.ts'
import { shippedDefinitions } from '../support/definitions.ts'

const docs = resolve(import.meta.dirname, '..', '..', 'docs')

test('every generated page and file is fresh; `millrace docs` writes them', async () => {
  const pipelines = resolve(docs, '..', 'pipelines')
  const more = madeDocuments(pipelines, await readDocumented(pipelines), commands, () => undefined)
  for (const [path, text] of more) expect(readFileSync(join(docs, path), 'utf8'), path).toBe(text)
  // What is left of a subject that went would be read as if it were true.
  const generated = ['dbt', 'lightdash', 'superset-bundle'].flatMap((folder) =>
    readdirSync(join(docs, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name)),
  )
  expect(generated.map((file) => relative(docs, file)).filter((path) => !more.has(path))).toEqual([])
})

test('each view that ships answers a question of its own, and the dictionary lists it under a topic', async () => {
  const marts = await loadMarts([])
  expect(new Set(marts.map(({ question }) => question)).size).toBe(marts.length)
  expect(marts.filter(({ topic }) => topic === 'Your own').map(({ name }) => name)).toEqual([])
  const text = dataDictionary(await shippedDefinitions(), marts)
  for (const { question, name } of marts) expect(text).toContain(`| ${question} | \`bi.${name}\` |`)
})

test('the dbt sources are YAML that names every fact with its tests', async () => {
  const files = dbtFiles({ subjects: new Map() }, await shippedDefinitions(), await loadMarts([]))
  const parsed = parse(files.get('models/sources.yml') ?? '') as {
    sources: [
      {
        tables: {
          name: string
          freshness?: unknown
          loaded_at_query?: string
          columns: { name: string; data_tests?: unknown[] }[]
        }[]
      },
    ]
    exposures: { name: string }[]
  }
  const keywords = parsed.sources[0].tables.find(({ name }) => name === 'keywords')
  expect(keywords?.freshness).toBeDefined()
  const asked = parsed.sources[0].tables.filter(({ freshness }) => freshness !== undefined)
  // Of the view that reads no fact.
  expect(asked.map((one) => one.loaded_at_query)).toEqual(
    asked.map(({ name }) => `select max(last_loaded_at) from bi.freshness where pipeline = '${name}'`),
  )
  expect(keywords?.columns.find(({ name }) => name === 'domain')?.data_tests).toMatchObject([{ not_null: {} }])
  expect(parsed.exposures.map(({ name }) => name)).toContain('keyword_movements')
})

const dataTests = (definitions: readonly Definition[]): ReadonlyMap<string, string> =>
  new Map([...dbtFiles({ subjects: new Map() }, definitions, [])].filter(([path]) => /^tests\/(?!generic)/.test(path)))

test('each test of a definition is one of dbt, an error where it holds and a warning where it warns', async () => {
  const definitions = await shippedDefinitions()
  const named = definitions.flatMap(({ pipeline, tests }) => tests.map(({ name }) => `tests/${pipeline}_v1_${name}.sql`))
  expect(named.length).toBeGreaterThan(2)
  const found = dataTests(definitions)
  expect([...found.keys()]).toEqual(named)
  const jump = found.get('tests/traffic_and_engagement_v1_no_jump.sql')
  expect(jump).toContain("config(severity='warn')")
  expect(jump).toContain(
    "where pipeline = 'traffic_and_engagement' and version = 1 and test = 'no_jump' and outcome <> 'released'",
  )
  const [first] = definitions.filter(({ tests }) => tests.length > 0)
  const held =
    first === undefined ? [] : [{ ...first, tests: first.tests.map((one) => ({ ...one, onFailure: 'hold' as const })) }]
  for (const text of dataTests(held).values()) expect(text).toContain("severity='error'")
  expect(dataTests(held.map((one) => ({ ...one, publish: false })))).toEqual(new Map())
})

test('every mart explains each column it makes', async () => {
  for (const mart of await loadMarts([])) {
    expect(mart.purpose.length, mart.name).toBeGreaterThan(20)
    expect(mart.question, mart.name).toMatch(/\?$/)
    expect(mart.columns.size, mart.name).toBeGreaterThan(0)
  }
})
