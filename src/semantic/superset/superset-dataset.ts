// A dataset for Superset's import: columns of one view of bi and metrics of the semantic files, guarded against wrong sums.
import { createHash } from 'node:crypto'
import type { Dashboard } from '../../definition/dashboards.ts'
import { type Metric, plainMetrics, type SemanticModel, type Subject } from '../../definition/semantic.ts'
import type { DescribedView } from '../../publish/view-columns.ts'
import { guardedSql } from '../formula.ts'
import type { YamlMap } from '../yaml-text.ts'
import { formats } from './superset-chart.ts'

/** Version of the format of each file. */
export const version = '1.0.0'

/** Our metrics have this as `certified_by`, which distinguishes them from a person's metrics. */
export const certifiedBy = 'Millrace'

/** A uuid made from names: stable, so that a second import replaces the objects of the first. */
export const idOf = (...words: readonly string[]): string => {
  const hex = createHash('sha256')
    .update(`millrace/superset/${words.join('/')}`)
    .digest('hex')
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-5${hex.slice(13, 16)}-8${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}

/** @param databaseId the connection's uuid in Superset */
export const datasetOf = (view: DescribedView, id: string, databaseId: string, subjects: readonly Subject[]) => {
  const time = subjects.find((subject) => subject.time !== null)?.time?.column ?? null
  const period = time ?? ['month', 'date'].find((name) => view.columns.some((column) => column.name === name)) ?? null
  const metrics = subjects.flatMap((subject) => plainMetrics(subject).map((metric) => metricOf(metric, subject)))
  return {
    table_name: view.name,
    schema: 'bi',
    description: subjects[0]?.about ?? view.about,
    main_dttm_col: period,
    uuid: id,
    database_uuid: databaseId,
    version,
    columns: view.columns.map(columnOf),
    metrics,
  } satisfies YamlMap
}

const columnOf = ({ name, type, about }: DescribedView['columns'][number]) => ({
  column_name: name,
  description: about,
  type: type?.toUpperCase() ?? null,
  is_dttm: type !== null && /^(date|timestamp)/i.test(type),
  is_active: true,
  groupby: true,
  filterable: true,
})

const metricOf = (metric: Metric, subject: Subject) => ({
  metric_name: metric.name,
  verbose_name: metric.name.replaceAll('_', ' '),
  expression: guardedSql(metric, subject),
  description: `${metric.about} Unit: ${metric.unit}.`,
  d3format: formats[metric.format],
  extra: { certification: { certified_by: certifiedBy, details: `The subject ${subject.name} in semantic/*.yaml` } },
})

/** Subjects that query the view. */
export const subjectsOf = ({ subjects }: SemanticModel, view: string): Subject[] =>
  [...subjects.values()].filter((subject) => subject.view === view)

/** The view without columns that do not add up, since Superset offers every column for SUM; keeps columns that a dashboard lists. */
export const additive = (view: DescribedView, { subjects }: SemanticModel, dashboards: readonly Dashboard[]): DescribedView => {
  const shows = (subject: Subject): boolean => [subject.view, `${subject.view}_history`, ...subject.shownBy].includes(view.name)
  const guarded = [...subjects.values()].filter(shows).flatMap(({ metrics }) => [...metrics.values()].flatMap(guardedColumn))
  const listed = dashboards.flatMap(({ charts }) => charts.flatMap((chart) => (chart.view === view.name ? chart.columns : [])))
  const columns = view.columns.filter(({ name }) => !guarded.includes(name) || listed.includes(name))
  return { ...view, columns }
}

const guardedColumn = ({ formula, neverOver }: Metric): string[] =>
  formula.kind === 'sum' && neverOver.size > 0 && /^[a-z_]\w*$/.test(formula.of) ? [formula.of] : []
