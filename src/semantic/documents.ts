// Every file that is made from the semantic files, by its path; those of Lightdash here: a file a subject, its metrics NULL where rows do not add up.
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'
import {
  type FigureFormat,
  isFiscal,
  type SemanticDimension,
  type SemanticModel,
  type Subject,
  windowOf,
  withFiscal,
} from '../definition/semantic.ts'
import { metricsChapter } from './assistants.ts'
import { dataContract } from './data-contract.ts'
import { dbtFiles } from './dbt.ts'
import { guardedSql } from './formula.ts'
import { yamlFile } from './yaml-text.ts'

/** Below the folder of documents. */
export const semanticDocuments = (
  model: SemanticModel,
  definitions: readonly Definition[],
  marts: readonly Mart[],
): ReadonlyMap<string, string> => {
  const below = (folder: string, files: ReadonlyMap<string, string>): [string, string][] =>
    [...files].map(([path, text]) => [`${folder}/${path}`, text])
  return new Map([
    ['metrics-dictionary.md', metricsChapter(model)],
    ['data-contract.yaml', dataContract(definitions)],
    ...below('dbt', dbtFiles(model, definitions, marts)),
    ...below('lightdash', lightdashFiles(model)),
  ])
}

/** Files by their path in a Lightdash project. */
const lightdashFiles = ({ subjects }: SemanticModel): ReadonlyMap<string, string> =>
  new Map([
    ['lightdash.config.yml', yamlFile({ warehouse: { type: 'postgres' }, spotlight: { default_visibility: 'show' } })],
    ...[...subjects.values()].map((subject): [string, string] => [
      `lightdash/models/${subject.name}.yml`,
      yamlFile(modelOf(subject)),
    ]),
  ])

const column = (name: string): string => `\${TABLE}.${name}`

const modelOf = (subject: Subject) => {
  const { name, view, about, time, dimensions, metrics } = subject
  return {
    type: 'model',
    name,
    description: about,
    sql_from: `bi.${view}`,
    dimensions: [
      ...(time === null
        ? []
        : [
            {
              name: time.column,
              type: 'date',
              sql: column(time.column),
              time_intervals: time.grains.map((grain) => grain.toUpperCase()),
            },
          ]),
      ...(time === null ? [] : withFiscal(time.grains).filter(isFiscal)).map((grain) => ({
        name: grain,
        type: 'string',
        sql: found('dim_date', 'date', `${grain}_name`, time?.column ?? ''),
        description: 'By bi.dim_date, which knows the first month of the fiscal year.',
      })),
      ...[...dimensions.values()].filter(({ column: own }) => own !== time?.column).map((one) => dimensionOf(one, dimensions)),
    ],
    metrics: Object.fromEntries(
      [...metrics.values()]
        .filter((metric) => windowOf(metric) === null)
        .map((metric) => [
          metric.name,
          {
            type: 'number',
            sql: guardedSql(metric, subject),
            description: `${metric.about} Unit: ${metric.unit}.`,
            format: formats[metric.format],
          },
        ]),
    ),
  }
}

/** What a table has for a column. No join: formulas name columns of the view alone. */
const found = (table: string, key: string, attribute: string, own: string): string =>
  `(select of.${attribute} from bi.${table} as of where of.${key} = ${column(own)})`

const dimensionOf = ({ name, column: own, about, type, of, table }: SemanticDimension, dimensions: Subject['dimensions']) => ({
  name,
  type: type === 'number' ? 'number' : 'string',
  sql: sqlOf(dimensions.get(of ?? ''), own, table),
  description: about === '' ? undefined : about,
})

const sqlOf = (root: SemanticDimension | undefined, own: string, table: string | null): string =>
  root?.entity == null ? column(own) : found(table ?? root.entity.table, root.entity.key, own, root.column)

const formats: Readonly<Record<FigureFormat, string | undefined>> = {
  count: '#,##0',
  decimal: '#,##0.00',
  share: '0.0%',
  money: '[$$]#,##0',
}
