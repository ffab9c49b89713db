// The dbt project: published views as sources with freshness and tests, thin models that create nothing in the warehouse, and the definitions' tests.
import { readFileSync } from 'node:fs'
import type { Mart } from '../core/mart.ts'
import { shipped } from '../core/shipped.ts'
import type { Definition } from '../core/types.ts'
import type { SemanticModel, Subject } from '../definition/semantic.ts'
import { columnComment, grainOf } from '../publish/comments.ts'
import { describedViews } from '../publish/view-columns.ts'
import { attributeModels, attributeTables, fiscalModel, metricsOfSubject, semanticModel } from './dbt-metrics.ts'
import { generatedMark, yamlFile, type YamlMap } from './yaml-text.ts'

/** All files of the project by path; the same input gives the same files. */
export const dbtFiles = (model: SemanticModel, definitions: readonly Definition[], marts: readonly Mart[]) => {
  const published = definitions.filter(({ publish }) => publish)
  const subjects = [...model.subjects.values()]
  const views = [...new Set([...subjects.map(({ view }) => view), ...attributeTables(subjects).keys()])].sort()
  return new Map([
    ['dbt_project.yml', yamlFile(project)],
    // Models create no views: a view over a mart would block `millrace migrate` from changing the mart, and dbt's login would need write rights.
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

const sqlComment = generatedMark.replace('#', '--')
const modelOf = (view: string): string => `millrace_${view}`
const refTo = (view: string): string => `ref('${modelOf(view)}')`

/** The model stands for the view itself, under a dbt name. */
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

/** Tests read only months loaded recently, also by a pipeline's successor: older ones were tested after their load. `dbt build --vars 'changed_days: 10000'` tests every row. */
const lately = `>= now() - interval '{{ var("changed_days", 3) }} days'`
const changedMonths = (pipeline: string): string =>
  `(select month from bi.coverage_months where (pipeline = '${pipeline}' or pipeline in (select continued_by from bi.breaks)) and last_loaded_at ${lately})`

/** The condition on rows that a test reads; undefined: every row. */
const changedRows = ({ time, pipeline, view, dimensions }: Subject): YamlMap | undefined => {
  if (time === null || pipeline === null) return undefined
  const chosen = [...dimensions.values()].flatMap(({ overlap, column }) =>
    overlap.kind === 'one' && view !== pipeline && /^\d+$/.test(overlap.value) ? [` and ${column} = ${overlap.value}`] : [],
  )
  return { where: `date_trunc('month', ${time.column}::timestamp)::date in ${changedMonths(pipeline)}${chosen.join('')}` }
}

/** Tests that rows are unique by their grain, and that columns with a table find their row in it. */
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

/** Separates `{{`, `{%` and `{#`, which dbt would run as a template. */
const plainWords = (text: string): string => text.replaceAll(/\{(?=[{%#])/g, '{ ')
const columnOf = (name: string, text: string): YamlMap => ({ name, description: plainWords(text) })

/** Freshness: a load each month after its publication, with some days for a late night. bi.freshness has the time of the last load, so no rows are read. */
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

/** A dbt test for each test of a definition: it fails or warns while units fail the definition's test. */
const dataTests = ({ pipeline, version, tests }: Definition): [string, string][] =>
  tests.map(({ name, onFailure }) => [
    `tests/${pipeline}_v${version}_${name}.sql`,
    `-- Made by millrace docs from pipelines/${pipeline}.yaml; do not edit.
{{ config(severity='${onFailure === 'hold' ? 'error' : 'warn'}') }}
select window_from, slice, outcome, message from {{ source('millrace', 'test_failures') }}
where pipeline = '${pipeline}' and version = ${version} and test = '${name}' and outcome <> 'released'
`,
  ])
