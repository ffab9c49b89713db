// A bundle that `superset import-datasources` takes: the connection without its password, a dataset a subject, its metrics guarded.
import { createHash } from 'node:crypto'
import type { FigureFormat, SemanticModel, Subject } from '../definition/semantic.ts'
import { guardedSql } from './formula.ts'
import { yamlFile } from './yaml-text.ts'

const connection = 'Millrace'
const version = '1.0.0'
const formats: Readonly<Record<FigureFormat, string>> = { count: ',d', decimal: ',.2f', share: '.1%', money: '$,.0f' }

/** The same name gives the same id, so that a second import replaces the first. */
const idOf = (name: string): string => {
  const hex = createHash('sha256').update(`millrace/superset/${name}`).digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** Files by their path in the folder that is zipped. */
export const supersetFiles = ({ subjects }: SemanticModel): ReadonlyMap<string, string> => {
  const views = new Map([...subjects.values()].map((subject) => [subject.view, subject]))
  return new Map([
    ['metadata.yaml', yamlFile({ version, type: 'SqlaTable', timestamp: '2026-01-01T00:00:00+00:00' })],
    [`databases/${connection}.yaml`, yamlFile(database)],
    ...[...views].map(([view, subject]): [string, string] => [
      `datasets/${connection}/${view}.yaml`,
      yamlFile(datasetOf(subject)),
    ]),
  ])
}

const database = {
  database_name: connection,
  sqlalchemy_uri: 'postgresql+psycopg2://superset:XXXXXXXXXX@localhost:5432/warehouse',
  expose_in_sqllab: true,
  allow_run_async: false,
  allow_ctas: false,
  allow_cvas: false,
  allow_dml: false,
  allow_file_upload: false,
  extra: {},
  uuid: idOf('connection'),
  version,
}

const datasetOf = (subject: Subject) => {
  const { view, about, time, dimensions, metrics } = subject
  const own = [...dimensions.values()].filter(({ of, column }) => of === null && column !== time?.column)
  return {
    table_name: view,
    schema: 'bi',
    description: about,
    main_dttm_col: time?.column ?? null,
    uuid: idOf(view),
    database_uuid: idOf('connection'),
    version,
    columns: [
      ...(time === null
        ? []
        : [{ column_name: time.column, is_dttm: true, is_active: true, groupby: true, filterable: true, type: 'DATE' }]),
      ...own.map((one) => ({
        column_name: one.column,
        verbose_name: null,
        description: one.about,
        is_dttm: false,
        is_active: true,
        groupby: true,
        filterable: true,
        type: null,
      })),
    ],
    metrics: [...metrics.values()].map((metric) => ({
      metric_name: metric.name,
      verbose_name: metric.name.replaceAll('_', ' '),
      expression: guardedSql(metric, subject),
      description: `${metric.about} Unit: ${metric.unit}.`,
      d3format: formats[metric.format],
    })),
  }
}
