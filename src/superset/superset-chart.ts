// One chart in Superset's words: what its own pages read (form data) and what its data request asks for (query context).
import type { Chart } from '../definition/dashboard.ts'
import type { YamlMap } from '../semantic/yaml-text.ts'
import { commonForm, type FixedColumn, formOf, grain, metricsOf, newestOf, seriesRows, vizTypes } from './superset-form.ts'

/** A chart as its file in a bundle has it; Superset adds the dataset's id to both texts. */
export interface SupersetChart extends YamlMap {
  readonly slice_name: string
  readonly description: string
  readonly viz_type: string
  readonly params: YamlMap
  /** JSON text. */
  readonly query_context: string
  readonly is_managed_externally: true
}

/** Pure: the same chart gives the same texts. @param columns of the view */
export const supersetChart = (chart: Chart, columns: readonly string[], fixed: readonly FixedColumn[]): SupersetChart => {
  const held = fixed.filter(({ column }) => columns.includes(column))
  const params = { ...commonForm(chart, held), ...formOf(chart, columns) }
  return {
    slice_name: chart.name,
    description: chart.about,
    viz_type: vizTypes[chart.kind],
    params,
    query_context: JSON.stringify({
      force: false,
      queries: [queryOf(chart, columns, held)],
      form_data: params,
      result_format: 'json',
      result_type: 'full',
    }),
    is_managed_externally: true,
  }
}

const queryOf = (chart: Chart, viewColumns: readonly string[], held: readonly FixedColumn[]): Record<string, unknown> => {
  const metrics = metricsOf(chart, viewColumns)
  const { period } = chart
  const axis = { timeGrain: grain, columnType: 'BASE_AXIS', sqlExpression: period, label: period, expressionType: 'SQL' }
  const common = {
    filters: [
      ...(period === null ? [] : [{ col: period, op: 'TEMPORAL_RANGE', val: 'No filter' }]),
      ...held.map(({ column, value }) => ({ col: column, op: '==', val: value })),
    ],
    extras: { having: '', where: chart.where === null ? '' : `(${chart.where})` },
    annotation_layers: [],
    applied_time_extras: {},
    url_params: {},
    custom_params: {},
    custom_form_data: {},
  }
  if (chart.kind === 'tile')
    return { ...common, columns: [period], metrics, orderby: [[newestOf(chart), false]], row_limit: 1, order_desc: true }
  if (period !== null)
    return {
      ...common,
      columns: [axis, ...chart.by],
      metrics,
      orderby: [...[period, ...chart.by].map((name) => [name, true])],
      row_limit: seriesRows,
      series_columns: chart.by,
      series_limit: 0,
      order_desc: true,
    }
  if (chart.columns.length > 0)
    return {
      ...common,
      columns: chart.columns,
      orderby: chart.order.map(({ name, descending }) => [name, !descending]),
      row_limit: chart.rows,
    }
  return {
    ...common,
    columns: chart.by,
    metrics,
    orderby: chart.order.map(({ name, descending }) => [metrics.find(({ label }) => label === name) ?? name, !descending]),
    row_limit: chart.rows,
    order_desc: chart.order[0]?.descending ?? true,
  }
}
