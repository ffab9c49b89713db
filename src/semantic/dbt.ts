// dbt's project: what is published as sources with freshness and tests, thin models over it that make nothing in the warehouse, tests of the definitions.
import { readFileSync } from 'node:fs'
import type { Mart } from '../core/mart.ts'
import { shipped } from '../core/shipped.ts'
import type { Definition } from '../core/types.ts'
import type { SemanticModel, Subject } from '../definition/semantic.ts'
import { columnComment, grainOf } from '../publish/comments.ts'
import { describedViews } from '../publish/view-columns.ts'
import { attributeModels, attributeTables, fiscalModel, metricsOfSubject, semanticModel } from './dbt-metrics.ts'
import { madeBy, yamlFile, type YamlMap } from './yaml-text.ts'

/** Every file of the project by its path in it, the same for the same input. */
export const dbtFiles = (model: SemanticModel, definitions: readonly Definition[], marts: readonly Mart[]) => {
  const published = definitions.filter(({ publish }) => publish)
  const subjects = [...model.subjects.values()]
  const views = [...new Set([...subjects.map(({ view }) => view), ...attributeTables(subjects).keys()])].sort()
  return new Map([
    ['dbt_project.yml', yamlFile(project)],
    // A view of dbt's over a mart would keep `millrace migrate` from changing the mart, and its login would have to write.
    ['macros/published.sql', fixed('published.sql')],
    ...views.map((view): [string, string] => [`models/millrace/${modelOf(view)}.sql`, modelSql(view)]),
    ['models/millrace/millrace_days.sql', modelSql('dim_date')],
    ['tests/generic/unique_rows.sql', fixed('unique_rows.sql')],
    ['models/semantic.yml', yamlFile(semanticYaml(subjects, views))],
    ['models/sources.yml', yamlFile(sourcesYaml(published, marts))],
    ...published.flatMap(dataTests),
  ])
}

const project: YamlMap = {
  name: 'millrace',
  version: '1.0.0',
  'config-version': 2,
  profile: 'millrace',
  'model-paths': ['models'],
  'macro-paths': ['macros'],
  models: { millrace: { '+materialized': 'published', '+schema': 'bi' } },
}

const sqlComment = madeBy.replace('#', '--')
const modelOf = (view: string): string => `millrace_${view}`
const refTo = (view: string): string => `ref('${modelOf(view)}')`

/** The model is the view itself, under dbt's own name for it. */
const modelSql = (view: string): string =>
  `${sqlComment}\n{{ config(alias='${view}') }}\nselect * from {{ source('millrace', '${view}') }}\n`

/** SQL of dbt that no definition changes. */
const fixed = (name: string): string => readFileSync(shipped('templates', 'dbt', name), 'utf8')

const semanticYaml = (subjects: readonly Subject[], views: readonly string[]): YamlMap => ({
  version: 2,
  models: [
    {
      name: 'millrace_days',
      description: 'Every day, for periods without rows.',
      time_spine: { standard_granularity_column: 'date' },
      columns: [{ name: 'date', granularity: 'day' }],
    },
    ...views.map((view) => modelTests(view, subjects)),
  ],
  semantic_models: [
    ...subjects.map((subject) => semanticModel(subject, refTo(subject.view))),
    ...attributeModels(subjects, refTo),
    fiscalModel(`ref('millrace_days')`),
  ],
  metrics: subjects.flatMap(metricsOfSubject),
})

/** Rows of months that were loaded lately, also by what continues a pipeline: all others were tested when they were. `dbt build --vars 'changed_days: 10000'` tests every row. */
const lately = `>= now() - interval '{{ var("changed_days", 3) }} days'`
const changedMonths = (pipeline: string): string =>
  `(select month from bi.coverage_months where (pipeline = '${pipeline}' or pipeline in (select continued_by from bi.breaks)) and last_loaded_at ${lately})`

/** What a test of the view reads; undefined: every row. */
const changedRows = ({ time, pipeline, view, dimensions }: Subject): YamlMap | undefined => {
  if (time === null || pipeline === null) return undefined
  const chosen = [...dimensions.values()].flatMap(({ overlap, column }) =>
    overlap.kind === 'one' && view !== pipeline && /^\d+$/.test(overlap.value) ? [` and ${column} = ${overlap.value}`] : [],
  )
  return { where: `date_trunc('month', ${time.column}::timestamp)::date in ${changedMonths(pipeline)}${chosen.join('')}` }
}

/** A row is unique by its grain; columns that lead to a table find their row there. */
const modelTests = (view: string, subjects: readonly Subject[]): YamlMap => {
  const subject = subjects.find((one) => one.view === view)
  const config = subject === undefined ? undefined : changedRows(subject)
  const test = (name: string, values: YamlMap): YamlMap[] => [{ [name]: { arguments: values, ...(config && { config }) } }]
  return {
    name: modelOf(view),
    description: subject?.about ?? '',
    data_tests: subject && test('unique_rows', { columns: [...subject.grain] }),
    columns: [...(subject?.dimensions.values() ?? [])]
      .filter(({ of }) => of === null)
      .map(({ column, about, entity }) => ({
        name: column,
        description: about,
        data_tests:
          entity === null ? undefined : test('relationships', { to: `source('millrace', '${entity.table}')`, field: entity.key }),
      })),
  }
}

/** Freshness by the publication calendar, tests by key and nullability, the marts as exposures. */
const sourcesYaml = (published: readonly Definition[], marts: readonly Mart[]): YamlMap => {
  const known = [
    ...published.map(({ pipeline }) => pipeline),
    ...marts.flatMap((one) => (one.summaryOf === null ? [] : [one.name])),
  ]
  return {
    version: 2,
    sources: [
      {
        name: 'millrace',
        description: 'What Millrace publishes. NULL means no data, never 0.',
        schema: 'bi',
        tables: [
          ...published.map(factTable),
          ...describedViews(published, marts)
            .filter(({ of }) => of === 'dimension' || of === 'mart')
            .map(({ of, name, about, columns }) => ({
              name,
              description: plainWords(about),
              columns: columns.map((column, at) => ({
                ...columnOf(column.name, column.about),
                data_tests: of === 'dimension' && at === 0 ? ['unique', 'not_null'] : undefined,
              })),
            })),
        ],
      },
    ],
    exposures: marts
      .filter(({ summaryOf }) => summaryOf === null)
      .map((mart) => {
        const reads = mart.reads.filter((name) => known.includes(name)).map((name) => `source('millrace', '${name}')`)
        return {
          name: mart.name,
          type: 'analysis',
          description: plainWords(`${mart.purpose} ${mart.grain} For example: ${mart.question}`),
          owner: { name: 'Millrace' },
          depends_on: reads.length === 0 ? undefined : reads,
        }
      }),
  }
}

/** dbt would read `{{` in it as a template. */
const plainWords = (text: string): string => text.replaceAll(/\{(?=[{%#])/g, '{ ')
const columnOf = (name: string, text: string): YamlMap => ({ name, description: plainWords(text) })

/** A month after its publication, with some days for a late night. bi.freshness knows when the last load was, so that no row is read. */
const factTable = (definition: Definition): YamlMap => ({
  name: definition.pipeline,
  description: plainWords(`${definition.description} ${grainOf(definition)}`),
  loaded_at_query: `select max(last_loaded_at) from bi.freshness where pipeline = '${definition.pipeline}'`,
  freshness: { warn_after: { count: 40, period: 'day' }, error_after: { count: 70, period: 'day' } },
  columns: definition.columns.map((column) => ({
    ...columnOf(column.name, columnComment(column)),
    data_tests: column.nullable ? undefined : [{ not_null: { config: { where: `_loaded_at ${lately}` } } }],
  })),
})

/** A test of dbt for each test of a definition: it fails, or warns, with the units that fail the definition's own now. */
const dataTests = ({ pipeline, version, tests }: Definition): [string, string][] =>
  tests.map(({ name, onFailure }) => [
    `tests/${pipeline}_v${version}_${name}.sql`,
    `-- Made by millrace docs from pipelines/${pipeline}.yaml; do not edit.
{{ config(severity='${onFailure === 'hold' ? 'error' : 'warn'}') }}
select window_from, slice, outcome, message from {{ source('millrace', 'test_failures') }}
where pipeline = '${pipeline}' and version = ${version} and test = '${name}' and outcome <> 'released'
`,
  ])
