// `millrace new dataset` and the first migration of what it writes: the pair is valid, matches itself, and a dataset needs no more.
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { z } from 'zod'
import type { SourceSpec } from '../../src/core/source-spec.ts'
import { loadDefinitions } from '../../src/definition/load.ts'
import { newDataset } from '../../src/definition/dataset-files.ts'
import { newMigration } from '../../src/run/new-migration.ts'
import { generalReport } from '../../src/sources/web-analytics/batch-reports.ts'
import { keywordsSpec, reportSpec, shopperSpec, specs } from '../unit/definition/source-specs.ts'

let root = ''
const folder = (): string => join(root, 'pipelines')
const migrationsFolder = (): string => join(root, 'migrations')

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'millrace-dataset-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

const described = { metrics: ['visits', 'Bounce-Rate', 'xmin'], choices: { granularity: ['daily', 'monthly'] } }
const create = (name: string, source: SourceSpec = reportSpec, more: Partial<Parameters<typeof newDataset>[0]> = {}) =>
  newDataset({ name, source, folder: folder(), described, ...more })
const migrationOf = (name: string) =>
  newMigration({
    pipeline: name,
    pipelinesFolder: folder(),
    settings: () => {
      throw new Error('A first migration needs no database')
    },
  })

/** Lines of a `create table` in the migration, by table. */
const tableIn = (migration: string, table: string): string[] =>
  new RegExp(`create table data\\.${table} \\(\\n([\\s\\S]*?)\\n {2}\\)`)
    .exec(migration)?.[1]
    ?.split(/,\n/)
    .map((line) => line.trim()) ?? []

test('the lists of the folder are taken: of a definition beside it what the source accepts, else the example', async () => {
  const countries = async (name: string): Promise<string | undefined> =>
    /^ +country: (.*)$/m.exec(readFileSync(await create(name, keywordsSpec), 'utf8'))?.[1]
  expect(await countries('first')).toBe('[us]')
  rmSync(join(folder(), 'first.yaml'))
  writeFileSync(join(folder(), 'a_shop.yaml'), 'pipeline: a_shop\nfor_each:\n  country: [Atlantis, us]\n')
  writeFileSync(join(folder(), 'b_keywords.yaml'), 'pipeline: b_keywords\nfor_each:\n  country: [us, gb]\n')
  expect(await countries('second')).toBe('[us, gb]')
})

test.each([keywordsSpec, reportSpec, shopperSpec])(
  'the pair for $name is valid as it is, and the table has the columns of the definition',
  async (source) => {
    const yaml = await create('traffic_sources', source)
    expect(yaml).toBe(join(folder(), 'traffic_sources.yaml'))
    const { definitions, problems } = await loadDefinitions({ folder: folder(), sources: specs })
    expect(problems).toEqual([])
    const { file, kind } = await migrationOf('traffic_sources')
    const migration = file ?? ''
    expect([kind, migration]).toEqual(['table', join(migrationsFolder(), '0006_traffic_sources_v1.ts')])
    const definition = definitions[0]
    const text = readFileSync(migration, 'utf8')
    const columns = definition?.columns.map(({ name, type, nullable }) => `"${name}" ${type}${nullable ? '' : ' not null'}`) ?? []
    const lineage = ['_unit_id bigint', '_run_id bigint', '_revision integer', '_loaded_at timestamptz'].map(
      (line) => `${line} not null`,
    )
    const key = definition?.key.map((name) => `"${name}"`).join(', ')
    const defaults = ['', " default current_setting('millrace.run_id')::bigint", ' default 1', ' default transaction_timestamp()']
    const current = lineage.map((line, place) => `${line}${defaults[place]}`)
    expect(tableIn(text, 'traffic_sources_v1')).toEqual([...columns, ...current, `primary key (${key})`])
    const history = tableIn(text, 'traffic_sources_v1_history')
    expect(history.slice(0, columns.length + lineage.length)).toEqual([...columns, ...lineage])
    expect(history.at(-1)).toBe(`primary key (${key}, "_revision")`)
    expect(text).toContain(`) partition by range ("${definition?.key[0]}")`)
    expect(text.match(/from '[^']*'/g)).toEqual(["from 'kysely'"])
  },
)

test('the migration takes the next free number and lists in the folder are used', async () => {
  mkdirSync(folder())
  mkdirSync(migrationsFolder())
  writeFileSync(join(folder(), 'domains.txt'), 'example.com\n')
  writeFileSync(join(migrationsFolder(), '0017_other_v1.ts'), 'export const up = () => undefined\n')
  const yaml = await create('engagement')
  expect(readFileSync(yaml, 'utf8')).toContain('domain: { file: domains.txt }')
  expect((await migrationOf('engagement')).file).toBe(join(migrationsFolder(), '0018_engagement_v1.ts'))
})

test('of two versions without a table each gets one, the older first', async () => {
  const yaml = await create('traffic_sources')
  const text = readFileSync(yaml, 'utf8').replace(/^version: 1$/m, 'version: 2\npublish: false')
  writeFileSync(join(folder(), 'traffic_sources_v2.yaml'), text)
  const made = [await migrationOf('traffic_sources'), await migrationOf('traffic_sources')]
  expect(made.map(({ file }) => file)).toEqual(
    ['0006_traffic_sources_v1.ts', '0007_traffic_sources_v2.ts'].map((name) => join(migrationsFolder(), name)),
  )
})

test('metrics are those the service describes, under names that PostgreSQL takes, in a granularity it offers', async () => {
  const text = readFileSync(
    await create('engagement', reportSpec, { described: { ...described, choices: { granularity: ['weekly'] } } }),
    'utf8',
  )
  expect(text).toContain('visits: { type: numeric, description: "Visits" }')
  expect(text).toContain('bounce_rate: { type: numeric, from: "Bounce-Rate", description: "Bounce rate" }')
  expect(text).toContain('metric_xmin: { type: numeric, from: "xmin"')
  expect(text).toContain('granularity: weekly')
  expect(text).not.toContain('FILL IN')
})

test('dimensions, words and the first month are those the service describes; how an answer is handed over is no part of it', async () => {
  const delivered: SourceSpec = {
    ...reportSpec,
    params: z.strictObject({
      vtable: z.string(),
      granularity: z.enum(['daily', 'monthly']).default('monthly'),
      response_format: z.enum(['csv', 'json']).default('csv'),
    }),
    deliveryParams: ['response_format'],
  }
  const said = {
    dimensions: ['Channel'],
    about: 'Visits by channel.',
    descriptions: { Channel: 'Who sent them', visits: 'Visits, all' },
  }
  const text = readFileSync(await create('sources', delivered, { described: { ...described, ...said, from: '2025-03' } }), 'utf8')
  expect(text).toContain('key: [date, domain, country, channel, granularity]')
  expect(text).toContain('description: "Visits by channel; one row per domain, country, channel and month."')
  expect(text).toContain('channel: { type: text, from: "Channel", description: "Who sent them" }')
  expect(text).toContain('visits: { type: numeric, description: "Visits, all" }')
  expect(text).toContain('from: 2025-03')
  expect(text).not.toMatch(/response_format|does not say/)
  expect((await loadDefinitions({ folder: folder(), sources: new Map([[delivered.name, delivered]]) })).problems).toEqual([])
  expect(readFileSync(await create('engagement'), 'utf8')).toContain('The service does not list other such columns')
})

test.each([
  ['a table of weeks comes by weeks', { granularity: ['weekly'] }, {}, ['granularity: weekly', 'every: week, from: 2025-03-03']],
  [
    'a filter that the service does not name is not asked by',
    { granularity: ['monthly'] },
    { filters: ['domains', 'countries'] },
    [
      'params: { vtable: visits_of, granularity: monthly, filters: [domains, countries] }',
      'key: [date, domain, country, granularity]',
    ],
  ],
  [
    'what is named twice, or alike but for its signs, is a column each',
    { granularity: ['monthly'] },
    { metrics: ['visits', 'visits', 'visits.share', 'visits_share'], dimensions: ['channel', 'channel'] },
    [
      'visits_share: { type: numeric, from: "visits.share"',
      'visits_share_2: { type: numeric, from: "visits_share"',
      'country, channel, granularity',
    ],
  ],
  [
    'what is asked for anyway, and is named among what splits it too, is one column',
    { granularity: ['monthly'] },
    { dimensions: ['date', 'Country', 'granularity', 'channel'] },
    ['key: [date, domain, country, channel, granularity, include_subdomains]'],
  ],
] as const)('of the service itself %s, and the file is valid', async (_, choices, said, lines) => {
  const sources = new Map([[generalReport.name, generalReport]])
  const text = readFileSync(
    await create('visits_of', generalReport, { described: { ...described, from: '2025-03', ...said, choices } }),
    'utf8',
  )
  for (const line of lines) expect(text).toContain(line)
  expect((await loadDefinitions({ folder: folder(), sources })).problems).toEqual([])
})

test('a dataset that is called otherwise at the service is asked for by that name', async () => {
  expect(readFileSync(await create('engagement', reportSpec, { table: 'traffic_v2' }), 'utf8')).toContain('vtable: traffic_v2')
})

test('fields that a source of one dataset declares are its columns, also where it may answer with more', async () => {
  const text = readFileSync(await create('stock', { ...keywordsSpec, openFields: true }, { described: null }), 'utf8')
  expect(text).toContain('description: "Stock; one row per domain, country, keyword, top url and month."')
  expect(text).toContain('competition: { type: "numeric", description: "Competition" }')
  expect(text).not.toContain('FILL IN')
  // Of several, which has which is not known.
  const several = { ...keywordsSpec, openFields: true, dimensionsOf: () => keywordsSpec.dimensions }
  expect(readFileSync(await create('others', several, { described: null }), 'utf8')).toContain('my_metric')
})

test('what nobody described is left to fill in, and no check lets it pass', async () => {
  await create('engagement', reportSpec, { described: null })
  const { problems } = await loadDefinitions({ folder: folder(), sources: specs })
  expect(problems.map(({ message }) => message)).toEqual([
    "'FILL IN: say what one row is' is a placeholder; replace it with the value it describes.",
    "'FILL IN: one line for each metric, under its name at the service' is a placeholder; replace it with the value it describes.",
  ])
  await expect(migrationOf('engagement')).rejects.toThrow(expect.objectContaining({ code: 'DEFINITION' }))
  expect(existsSync(migrationsFolder())).toBe(false)
})

test.each([
  ['Traffic', /not a name of lower-case letters/],
  ['../evil', /not a name of lower-case letters/],
  ['x'.repeat(60), /60 characters; at most 44/],
  ['keywords_history', /would collide/],
  ['coverage', /would collide with views Millrace makes in bi \('coverage'\)/],
])('the name %j is refused and nothing is written', async (name, message) => {
  await expect(create(name)).rejects.toThrow(expect.objectContaining({ code: 'USAGE', message: expect.stringMatching(message) }))
  expect(readdirSync(root)).toEqual([])
})

test('nothing that exists is written over', async () => {
  await create('engagement')
  await expect(create('engagement')).rejects.toThrow(/engagement\.yaml exists already, nothing was written/)
  writeFileSync(join(folder(), 'other.yaml'), 'pipeline: bounce\n')
  await expect(create('bounce')).rejects.toThrow(/other\.yaml exists already/)
  expect(readdirSync(folder())).toEqual(['engagement.yaml', 'other.yaml'])
})

test('a fourth dataset is one YAML beside the three: it loads with them and needs no code', async () => {
  await create('traffic_sources')
  const file = join(folder(), 'traffic_sources.yaml')
  const filled = readFileSync(file, 'utf8')
    .replace(/key: .*/, 'key: [date, granularity, domain, country, include_subdomains, channel]')
    .replace(/^ {4}visits: .*/m, '    channel: { type: text }\n    visits: { type: numeric, from: desktop_visits }')
  writeFileSync(file, filled)
  for (const name of readdirSync('pipelines')) writeFileSync(join(folder(), name), readFileSync(join('pipelines', name)))
  const { definitions, problems } = await loadDefinitions({ folder: folder(), sources: specs })
  expect(problems).toEqual([])
  expect(definitions.map(({ pipeline }) => pipeline)).toEqual([
    'keywords',
    'shopper_category_performance',
    'traffic_and_engagement',
    'traffic_sources',
  ])
})

test('a folder that is not there, or holds no definition, says so', async () => {
  await expect(loadDefinitions({ folder: join(root, 'none'), sources: specs })).rejects.toThrow(
    expect.objectContaining({ code: 'USAGE', message: expect.stringContaining('name it with --pipelines DIR') }),
  )
  expect((await loadDefinitions({ folder: root, sources: specs })).problems).toEqual([
    { file: root, line: 1, column: 1, message: expect.stringContaining('holds no *.yaml') },
  ])
})

test('list files are found beside the definition that names them', async () => {
  const yaml = await create('engagement')
  writeFileSync(yaml, readFileSync(yaml, 'utf8').replace(/domain: .*/, 'domain: { file: lists/mine.txt, bucket: 10 }'))
  expect((await loadDefinitions({ folder: folder(), sources: specs })).problems[0]?.message).toContain('mine.txt does not exist')
  mkdirSync(join(folder(), 'lists'))
  writeFileSync(join(folder(), 'lists', 'mine.txt'), 'example.com\nexample.net\n')
  const { definitions } = await loadDefinitions({ folder: folder(), sources: specs })
  expect(definitions[0]?.dimensions[0]).toMatchObject({ values: ['example.com', 'example.net'], file: 'lists/mine.txt' })
})
