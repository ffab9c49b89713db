// dbt's view of bi: sources with freshness and tests, the marts as exposures, and the tests of the definitions.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import { columnComment, dimensionWords, grainOf } from './comments.ts'

/** Text quoted for YAML: JSON is YAML. dbt would read `{{` in it as a template. */
const quoted = (text: string): string => JSON.stringify(text.replaceAll(/\{(?=[{%#])/g, '{ '))

/** A month after its publication, with some days for a late night. */
const warnAfterDays = 40
const errorAfterDays = 70

/** YAML for dbt's `sources`, the same for the same input: freshness by the publication calendar, tests by key and nullability. */
export const dbtSources = (definitions: readonly Definition[], marts: readonly Mart[]): string => {
  const published = definitions.filter(({ publish }) => publish)
  const summaries = marts.filter(({ summaryOf }) => summaryOf !== null)
  return `${[
    '# Made by `millrace docs`; do not edit.',
    'version: 2',
    'sources:',
    '  - name: millrace',
    '    description: "What Millrace publishes. NULL means no data, never 0."',
    '    schema: bi',
    '    tables:',
    ...published.flatMap(factTable),
    ...dimensionWords(published).flatMap(({ name, about, columns }) => [
      `      - name: ${name}`,
      `        description: ${quoted(about)}`,
      '        columns:',
      ...Object.entries(columns).flatMap(([column, text], at) => [
        `          - name: ${column}`,
        `            description: ${quoted(text)}`,
        ...(at === 0 ? ['            data_tests: [unique, not_null]'] : []),
      ]),
    ]),
    ...marts.flatMap((mart) => [
      `      - name: ${mart.name}`,
      `        description: ${quoted(`${mart.purpose} ${mart.grain}`)}`,
      '        columns:',
      ...[...mart.columns].flatMap(([column, text]) => [
        `          - name: ${column}`,
        `            description: ${quoted(text)}`,
      ]),
    ]),
    'exposures:',
    ...marts
      .filter(({ summaryOf }) => summaryOf === null)
      .flatMap((mart) => [
        `  - name: ${mart.name}`,
        '    type: analysis',
        `    description: ${quoted(`${mart.purpose} ${mart.grain} For example: ${mart.question}`)}`,
        '    owner: { name: Millrace }',
        ...dependsOn(mart, [...published.map(({ pipeline }) => pipeline), ...summaries.map(({ name }) => name)]),
      ]),
  ].join('\n')}\n`
}

const dependsOn = (mart: Mart, sources: readonly string[]): string[] => {
  const known = mart.reads.filter((name) => sources.includes(name))
  return known.length === 0 ? [] : ['    depends_on:', ...known.map((name) => `      - source('millrace', '${name}')`)]
}

const factTable = (definition: Definition): string[] => [
  `      - name: ${definition.pipeline}`,
  `        description: ${quoted(`${definition.description} ${grainOf(definition)}`)}`,
  '        loaded_at_field: _loaded_at',
  '        freshness:',
  `          warn_after: { count: ${warnAfterDays}, period: day }`,
  `          error_after: { count: ${errorAfterDays}, period: day }`,
  '        columns:',
  ...definition.columns.flatMap((column) => [
    `          - name: ${column.name}`,
    `            description: ${quoted(columnComment(column))}`,
    ...(column.nullable ? [] : ['            data_tests: [not_null]']),
  ]),
]

/** A test of dbt for each test of a definition, by its path in the project: it fails, or warns, with the units that fail the definition's own now. */
export const dbtDataTests = (definitions: readonly Definition[]): ReadonlyMap<string, string> =>
  new Map(
    definitions
      .filter(({ publish }) => publish)
      .flatMap(({ pipeline, version, tests }) =>
        tests.map(({ name, onFailure }): [string, string] => [
          `tests/${pipeline}_v${version}_${name}.sql`,
          `-- Made by millrace docs from pipelines/${pipeline}.yaml; do not edit.
{{ config(severity='${onFailure === 'hold' ? 'error' : 'warn'}') }}
select window_from, slice, outcome, message from {{ source('millrace', 'test_failures') }}
where pipeline = '${pipeline}' and version = ${version} and test = '${name}' and outcome <> 'released'
`,
        ]),
      ),
  )
