// What is made of the semantic files: a metric is one entry and appears everywhere, whatever its words hold; Lightdash's files are as its schema wants them.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadMarts } from '../../../src/definition/marts.ts'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseSemantics, shippedSemantics } from '../../../src/definition/semantic-model.ts'
import { describedViews } from '../../../src/publish/view-columns.ts'
import { listMetrics, llmsText } from '../../../src/semantic/explain.ts'
import { semanticDocuments } from '../../../src/semantic/documents.ts'
import { yamlFile } from '../../../src/semantic/yaml-text.ts'
import { supersetBundle } from '../../../src/semantic/superset/superset-bundle.ts'
import { shippedDefinitions } from '../../support/definitions.ts'

const shipped = readdirSync(shippedSemantics)
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => ({ file: name, text: readFileSync(join(shippedSemantics, name), 'utf8') }))

const hostile = `It's "quoted": [a, {b}] & *c # no comment, 50 % of \\n | > \u2028 \u0085 \u{1F4C8} naïve – 数`

const everything = async (entry: string) => {
  const { model, problems } = parseSemantics([...shipped, { file: 'own.yaml', text: entry }])
  expect(problems).toEqual([])
  const definitions = await shippedDefinitions()
  const views = describedViews(definitions, await loadMarts([]))
  const { files } = supersetBundle({ connection: 'Millrace', views, model, definitions, dashboards: [] })
  return { model, documents: semanticDocuments(model, [], []), bundle: files }
}
const own = (about: string): string =>
  `subject: domain_pairs\nmetrics:\n  on:\n    about: ${JSON.stringify(about)}\n    sum: "case when domain like 'a%' then 2 end"\n    unit: ${JSON.stringify(about)}\n    synonyms: [${JSON.stringify(about)}]\n`

test('a metric of one’s own is one entry and appears in every document and for assistants, whatever its words hold', async () => {
  const { model, documents, bundle } = await everything(own(hostile))
  const of = (path: string): string => documents.get(path) ?? ''
  const [dataset] = [...bundle].flatMap(([path, text]) =>
    path.endsWith('/domain_pairs.yaml') ? [parse(text, { version: '1.1' })] : [],
  )
  expect(dataset.metrics).toContainEqual(
    expect.objectContaining({
      metric_name: 'on',
      description: `${hostile} Unit: ${hostile}.`,
      expression: "sum(case when domain like 'a%' then 2 end)",
    }),
  )
  const lightdash = parse(of('lightdash/lightdash/models/domain_pairs.yml'), { version: '1.1' })
  expect(lightdash.metrics.on.description).toBe(`${hostile} Unit: ${hostile}.`)
  const dbt = parse(of('dbt/models/semantic.yml'), { version: '1.1' })
  expect(dbt.metrics).toContainEqual(expect.objectContaining({ name: 'on', description: `${hostile} Unit: ${hostile}.` }))
  expect(of('metrics-dictionary.md')).toContain("It's")
  expect(llmsText({ model, commands: [], pipelines: [] })).toMatch(/\bon\b/)
  expect(listMetrics(model, { subject: 'domain_pairs' }).map(({ metric }) => metric)).toContain('on')
})

test.each(['{{ run_query("drop") }}', '{% set x = 1 %}', '{# hidden #}'])(
  'a template is refused wherever it stands: %s',
  (text) => {
    const pairs = shipped.filter(({ file }) => file === 'domain_pairs.yaml')
    const problemsOf = (entry: string) => parseSemantics([...pairs, { file: 'own.yaml', text: entry }]).problems
    expect(problemsOf(own(text)).map(({ message }) => message)).toContainEqual(expect.stringContaining('take for a template'))
    const formula = own('x').replace(/sum: .*/, `sum: ${JSON.stringify(`length('${text}')`)}`)
    expect(problemsOf(formula).map(({ message }) => message)).toContainEqual(expect.stringContaining('take for a template'))
  },
)

test('values come out of YAML 1.1 as they went in', () => {
  const text = fc.oneof(
    fc.string({ unit: 'grapheme' }),
    fc.constantFrom('on', 'null', '1e3', '0x1f', '\u2028', '\u0085a', '~', '- a: b', '&x', '!t', "'"),
  )
  const leaf = fc.oneof(text, fc.integer(), fc.boolean(), fc.constant(null))
  const { tree } = fc.letrec<{ tree: unknown; leaf: unknown }>((tie) => ({
    leaf,
    tree: fc.oneof(
      { maxDepth: 4 },
      tie('leaf'),
      fc.array(tie('tree'), { maxLength: 4 }),
      fc.dictionary(text, tie('tree'), { maxKeys: 4 }),
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(text, tree, { minKeys: 1, maxKeys: 5 }), (value) => {
      const plain: Parameters<typeof yamlFile>[0] = JSON.parse(JSON.stringify(value))
      expect(parse(yamlFile(plain), { version: '1.1', uniqueKeys: false })).toEqual(plain)
    }),
    { numRuns: 100 },
  )
})

/** Fields that we use, of https://github.com/lightdash/lightdash packages/common/src/schemas/json/model-as-code-1.0.json. */
const lightdashModel = z.strictObject({
  type: z.literal('model'),
  name: z.string(),
  description: z.string(),
  sql_from: z.string(),
  dimensions: z.array(
    z.strictObject({
      name: z.string(),
      type: z.enum(['string', 'number', 'timestamp', 'date', 'boolean']),
      sql: z.string(),
      description: z.string().optional(),
      time_intervals: z.array(z.enum(['YEAR', 'QUARTER', 'MONTH', 'WEEK', 'DAY'])).optional(),
    }),
  ),
  metrics: z.record(
    z.string(),
    z.strictObject({ type: z.literal('number'), sql: z.string(), description: z.string(), format: z.string() }),
  ),
})

test('each file for Lightdash is as its schema for models as code wants it, its names unique', async () => {
  const { documents } = await everything(own('x'))
  const files = [...documents].filter(([path]) => path.startsWith('lightdash/lightdash/models/'))
  const models = files.map(([, text]) => lightdashModel.parse(parse(text, { version: '1.1' })))
  expect(models.length).toBeGreaterThan(20)
  expect(new Set(models.map(({ name }) => name)).size).toBe(models.length)
  expect(parse(documents.get('lightdash/lightdash.config.yml') ?? '')).toHaveProperty('spotlight')
  // What is a number is one there, too: else months_back 10 stands before 2.
  const typesOf = models.flatMap(({ name, dimensions }) => dimensions.map((one) => `${name}.${one.name} ${one.type}`))
  expect(typesOf).toEqual(expect.arrayContaining(['keyword_movements.months_back number', 'keyword_movements.keyword string']))
})
