// All files generated from the semantic files, by path. Here: Lightdash (one file a subject; its metrics are NULL where rows do not add up), and the data
// contract of bi in the Open Data Contract Standard (ODCS 3.0.2).
import { columnTypes } from '../core/column-types.ts'
import type { Mart } from '../core/mart.ts'
import type { Column, Definition } from '../core/types.ts'
import {
  type FigureFormat,
  isFiscal,
  plainMetrics,
  type SemanticDimension,
  type SemanticModel,
  type Subject,
  withFiscal,
} from '../definition/semantic.ts'
import { columnComment, grainOf } from '../publish/comments.ts'
import { metricsChapter } from './explain.ts'
import { dbtFiles } from './dbt.ts'
import { guardedSql } from './formula.ts'
import { yamlFile, type YamlMap } from './yaml-text.ts'

/** Files by path below the folder of documents. */
export const semanticDocuments = (model: SemanticModel, definitions: readonly Definition[], marts: readonly Mart[]) => {
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
  const { name, view, about, time, dimensions } = subject
  return {
    type: 'model',
    name,
    description: about,
    sql_from: `bi.${view}`,
    dimensions: [
      ...(time === null ? [] : timeDimensions(time)),
      ...[...dimensions.values()].filter(({ column: own }) => own !== time?.column).map((one) => dimensionOf(one, dimensions)),
    ],
    metrics: Object.fromEntries(
      plainMetrics(subject).map((metric) => [
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

const timeDimensions = ({ column: own, grains }: NonNullable<Subject['time']>) => [
  { name: own, type: 'date', sql: column(own), time_intervals: grains.map((grain) => grain.toUpperCase()) },
  ...withFiscal(grains)
    .filter(isFiscal)
    .map((grain) => ({
      name: grain,
      type: 'string',
      sql: found('dim_date', 'date', `${grain}_name`, own),
      description: 'By bi.dim_date, which has the first month of the fiscal year.',
    })),
]

/** A subquery for a column's attribute in a table. No join, because formulas may name only columns of the view. */
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

/** One contract for all published pipelines; the same definitions give the same text. */
export const dataContract = (definitions: readonly Definition[]): string => {
  const published = definitions.filter(({ publish }) => publish)
  return yamlFile({
    apiVersion: 'v3.0.2',
    kind: 'DataContract',
    id: 'millrace-bi',
    name: 'Views of bi',
    version: published.map(({ pipeline, version }) => `${pipeline}-${version}`).join('.') || '0',
    status: 'active',
    description: {
      purpose: 'What was loaded from the sources of the definitions: complete by period, with every former value kept.',
      usage: 'Read the views of the schema bi. A period that is not loaded is not zero: see bi.coverage.',
    },
    schema: published.map(tableOf),
    slaProperties: published.flatMap(promises),
  })
}

const tableOf = (definition: Definition): YamlMap => ({
  name: definition.pipeline,
  physicalName: `bi.${definition.pipeline}`,
  physicalType: 'view',
  logicalType: 'object',
  description: `${definition.description} ${grainOf(definition)}`,
  properties: definition.columns.map((column) => propertyOf(column, definition.key.indexOf(column.name))),
})

/** @param place of the column in the key; -1: it is not in the key */
const propertyOf = (column: Column, place: number): YamlMap => ({
  name: column.name,
  logicalType: columnTypes[column.type].contract,
  physicalType: column.type,
  description: columnComment(column),
  required: place >= 0 || !column.nullable,
  ...(place < 0 ? {} : { primaryKey: true, primaryKeyPosition: place + 1 }),
  ...(columnTypes[column.type].isList ? { items: { name: column.name, logicalType: 'string' } } : {}),
})

const promises = ({ pipeline, expect, schedule }: Definition): YamlMap[] =>
  [
    expect && {
      property: 'latency',
      value: expect.monthBy,
      unit: 'd',
      element: `${pipeline}._loaded_at`,
      description: `A month is loaded by day ${expect.monthBy} of the next one.`,
    },
    schedule && {
      property: 'frequency',
      value: 1,
      unit: 'd',
      element: pipeline,
      scheduler: 'cron',
      schedule: schedule.cron,
      description: `Checked for new and restated values at these times of ${schedule.timeZone}.`,
    },
  ].filter((one) => one !== null)
