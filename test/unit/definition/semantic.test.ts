// Semantic files: mistakes have their line and column, a metric of one's own is one entry, and the shipped files speak of what ships.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { jsonSchemaOf } from '../../../src/definition/yaml-file.ts'
import { showProblem } from '../../../src/definition/problem.ts'
import { parseSemantics, readSemantics, shippedSemantics } from '../../../src/definition/semantic-model.ts'
import { semanticSchema } from '../../../src/definition/semantic-schema.ts'
import { allMetrics } from '../../../src/semantic/query.ts'
import { additivity } from '../../../src/semantic/formula.ts'
import { loadMarts } from '../../../src/definition/marts.ts'
import { shippedDefinitions } from '../../support/definitions.ts'

const shop = `subject: shop
about: What a shop sells.
view: sales
pipeline: sales
grain: [day, shop]
time: { column: day, grains: [day, month] }
dimensions:
  shop: { about: The shop., entity: dim_shop }
metrics:
  sold:
    about: Things sold.
    sum: sold
    unit: things
`

const problemsOf = (...texts: readonly string[]): string[] =>
  parseSemantics(texts.map((text, at) => ({ file: `s${at + 1}.yaml`, text }))).problems.map(showProblem)

describe('a semantic file', () => {
  test('that is right has no problem', () => expect(problemsOf(shop)).toEqual([]))

  test.each([
    ['sum: sold', 'summ: sold', /^s1\.yaml:12:5: 'summ' is not known under metrics\.sold\. Did you mean 'sum'\?/m],
    [
      '    sum: sold\n',
      '',
      /^s1\.yaml:10:3: sold has no formula; expected one of sum, count_distinct, min, max, median, quantile, mean, ratio, derived, share, cumulative, rolling\.$/m,
    ],
    ['sum: sold', 'sum: sold\n    max: sold', /^s1\.yaml:10:3: sold has 2 formulas \(sum, max\)/m],
    [
      'sum: sold',
      'sum: "sold; drop table x"',
      /^s1\.yaml:12:10: metrics\.sold\.sum is 'sold; drop table x'; expected an SQL expression/,
    ],
    ['sum: sold', 'sum: (select 1)', /expected an SQL expression over the columns of the view, without queries/],
    [
      'unit: things',
      'unit: things\n  a: { about: a, unit: a, derived: soldd / 2 }',
      /^s1\.yaml:14:36: this subject has no sum, count, smallest or largest value 'soldd'\. Did you mean 'sold'\?/m,
    ],
    [
      'unit: things',
      'unit: things\n  a: { about: a, unit: a, share: { of: sold, over: shpo } }',
      /^s1\.yaml:14:52: the view of shop has no dimension 'shpo'\. Did you mean 'shop'\?/m,
    ],
    [
      'unit: things',
      'unit: things\n    never_over: { day: people }\n  a: { about: a, unit: a, rolling: { of: sold, periods: 3 } }',
      /^s1\.yaml:15:36: sold does not add up over day: people\./m,
    ],
    [
      'unit: things',
      'unit: things\n    adds_up_over: []\n    never_over: { shop: people }\n  a: { about: a, unit: a, share: { of: sold, over: shop } }',
      /sold does not add up over shop: people\./m,
    ],
    ['sum: sold', 'ratio: { of: solt, to: sold }', /^s1\.yaml:12:18: this subject has no sum 'solt'/m],
    [
      'unit: things',
      'unit: things\n    never_over: { shopp: people }',
      /^s1\.yaml:14:19: 'shopp' is neither a dimension nor the time of shop\. Did you mean 'shop'\?/,
    ],
    ['unit: things', 'unit: things\n    grains: [year]', /^s1\.yaml:14:14: shop has no grain 'year'; it has day, month\.$/],
    ['grain: [day, shop]', 'grain: [day, shop, till]', /^s1\.yaml:5:20: 'till' is neither the time nor a dimension/m],
    ['entity: dim_shop', 'of: till', /^s1\.yaml:8:33: 'till' is not a dimension with an entity/m],
    ['entity: dim_shop', 'whole: all, one: a', /'whole' and 'one'; keep one of the two/],
    ['view: sales\n', '', /^s1\.yaml:1:10: 'shop' is a new subject and lacks view/m],
    ['shop: {', 'period: {', /'period' is reserved for answers/],
  ])('with %s as %s says where and what', (right, wrong, message) => {
    expect(problemsOf(shop.replace(right, wrong)).join('\n')).toMatch(message)
  })

  test('of one’s own adds a metric to a known subject by one entry, and replaces one of the same name', () => {
    const own =
      'subject: shop\nmetrics:\n  most_sold: { about: Most in a row., max: sold, unit: things }\n  sold: { about: Half., sum: sold / 2, unit: things }\n'
    const { model, problems } = parseSemantics([
      { file: 'a.yaml', text: shop },
      { file: 'b.yaml', text: own },
    ])
    expect(problems).toEqual([])
    const metrics = model.subjects.get('shop')?.metrics
    expect([...(metrics?.keys() ?? [])]).toEqual(['sold', 'most_sold'])
    expect(metrics?.get('sold')).toMatchObject({ formula: { kind: 'sum', of: 'sold / 2' }, at: { file: 'b.yaml', line: 4 } })
  })

  test('cannot take a metric’s name that another subject has', () => {
    expect(problemsOf(shop, shop.replace('subject: shop', 'subject: till'))).toEqual([
      "s2.yaml:10:3: 'sold' is a metric of shop already; give one of the two another name.",
    ])
  })
})

describe('the shipped files', () => {
  test('are right, and each names its schema first', async () => {
    const { problems } = await readSemantics([])
    expect(problems.map(showProblem)).toEqual([])
    for (const file of readdirSync(shippedSemantics).filter((name) => name.endsWith('.yaml')))
      expect(readFileSync(join(shippedSemantics, file), 'utf8').split('\n')[0], file).toBe(
        '# yaml-language-server: $schema=./schema.json',
      )
  })

  test('semantic/schema.json is what the checks are made of', async () => {
    const made = { ...jsonSchemaOf(semanticSchema), description: 'What figures mean: docs/metrics.md' }
    await expect(`${JSON.stringify(made, null, 2)}\n`).toMatchFileSnapshot('../../../semantic/schema.json')
  })

  test('know every reason of a change that figure_changes names', async () => {
    const { model } = await readSemantics([])
    const mart = (await loadMarts([])).find(({ name }) => name === 'figure_changes')
    const named = mart?.columns
      .get('why')
      ?.replaceAll(/ \([^)]*\)|\.$/g, '')
      .split(', ')
    expect(model.subjects.get('figure_changes')?.dimensions.get('why')?.values).toEqual(named)
  })

  test('speak of every pipeline, and of views that ship', async () => {
    const { model } = await readSemantics([])
    const views = [
      ...(await shippedDefinitions()).map(({ pipeline }) => pipeline),
      ...(await loadMarts([])).map(({ name }) => name),
    ]
    const shown = [...model.subjects.values()].flatMap(({ view, shownBy }) => [view, ...shownBy])
    expect(shown.filter((view) => !views.includes(view))).toEqual([])
    for (const { pipeline } of await shippedDefinitions()) expect(shown).toContain(pipeline)
  })

  test('have the grain of their pipeline, and say of each metric whether it adds up over each dimension', async () => {
    const { model } = await readSemantics([])
    for (const definition of await shippedDefinitions()) {
      const subject = [...model.subjects.values()].find(({ view }) => view === definition.pipeline)
      expect(subject?.grain, definition.pipeline).toEqual(definition.key)
    }
    for (const { metric, subject } of allMetrics(model))
      expect(Object.keys(additivity(metric, subject)).length, metric.name).toBe(
        subject.dimensions.size + (subject.time === null ? 0 : 1),
      )
  })
})
