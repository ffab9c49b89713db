// One chart in Superset's words: what its own pages read (form data) and what its data request asks for (query context).
import type { Chart, NumberFormat } from '../definition/dashboard.ts'

/** A view of `bi` as Superset knows it. */
export interface SupersetDataset {
  readonly id: number
  readonly columns: readonly string[]
}

/** A column that has the one value in every chart of a pipeline: the pipeline's own parameters. */
export interface FixedColumn {
  readonly column: string
  readonly value: string | number | boolean
}

/** Body of a request to `/api/v1/chart/`. */
export interface SupersetChart {
  readonly slice_name: string
  readonly description: string
  readonly viz_type: string
  readonly datasource_id: number
  readonly datasource_type: 'table'
  /** JSON text, both. */
  readonly params: string
  readonly query_context: string
  readonly is_managed_externally: true
}

const vizTypes = { trend: 'big_number', line: 'echarts_timeseries_line', bar: 'echarts_timeseries_bar', table: 'table' } as const
const formats: Readonly<Record<NumberFormat, string>> = { count: ',d', decimal: ',.2f', share: '.1%', money: '$,.0f' }
const grain = 'P1M'
const seriesRows = 10_000

interface Metric {
  readonly expressionType: 'SQL'
  readonly sqlExpression: string
  readonly label: string
  readonly optionName: string
}

/** Pure: the same chart and dataset give the same texts. */
export const supersetChart = (chart: Chart, dataset: SupersetDataset, fixed: readonly FixedColumn[]): SupersetChart => {
  const held = fixed.filter(({ column }) => dataset.columns.includes(column))
  const form = { ...commonForm(chart, dataset, held), ...formOf(chart, dataset) }
  return {
    slice_name: chart.name,
    description: chart.about,
    viz_type: vizTypes[chart.kind],
    datasource_id: dataset.id,
    datasource_type: 'table',
    params: JSON.stringify(form),
    query_context: JSON.stringify({
      datasource: { id: dataset.id, type: 'table' },
      force: false,
      queries: [queryOf(chart, dataset, held)],
      form_data: form,
      result_format: 'json',
      result_type: 'full',
    }),
    is_managed_externally: true,
  }
}

/** Where rows of several values meet that do not add up, the measure is NULL instead of a wrong sum. */
const guarded = (chart: Chart, { columns }: SupersetDataset, expression: string): string => {
  const alone = chart.neverAcross.filter((column) => columns.includes(column) && !chart.by.includes(column))
  if (alone.length === 0) return expression
  return `case when ${alone.map((column) => `count(distinct ${column}) = 1`).join(' and ')} then ${expression} end`
}

const metricsOf = (chart: Chart, dataset: SupersetDataset): Metric[] =>
  [...chart.measures].map(([label, expression], at) => ({
    expressionType: 'SQL',
    sqlExpression: guarded(chart, dataset, expression),
    label,
    optionName: `metric_${at + 1}`,
  }))

const commonForm = (chart: Chart, dataset: SupersetDataset, held: readonly FixedColumn[]): Record<string, unknown> => ({
  datasource: `${dataset.id}__table`,
  viz_type: vizTypes[chart.kind],
  adhoc_filters: [
    ...(chart.period === null ? [] : [{ ...simple('period', chart.period, 'TEMPORAL_RANGE', 'No filter') }]),
    ...held.map(({ column, value }) => simple(column, column, '==', value)),
    ...(chart.where === null
      ? []
      : [{ expressionType: 'SQL', clause: 'WHERE', sqlExpression: chart.where, filterOptionName: 'filter_where' }]),
  ],
  time_range: 'No filter',
  extra_form_data: {},
})

const simple = (key: string, subject: string, operator: string, comparator: unknown): Record<string, unknown> => ({
  expressionType: 'SIMPLE',
  clause: 'WHERE',
  subject,
  operator,
  ...(operator === '==' ? { operatorId: 'EQUALS' } : {}),
  comparator,
  filterOptionName: `filter_${key}`,
})

const formOf = (chart: Chart, dataset: SupersetDataset): Record<string, unknown> => {
  const metrics = metricsOf(chart, dataset)
  if (chart.kind === 'table') return tableForm(chart, metrics)
  const axis = {
    x_axis: chart.period,
    time_grain_sqla: grain,
    granularity_sqla: chart.period,
    y_axis_format: formats[chart.format],
  }
  if (chart.kind === 'trend')
    return {
      ...axis,
      metric: metrics[0],
      compare_lag: 1,
      compare_suffix: 'on the month before',
      show_timestamp: true,
      time_format: '%B %Y',
      show_trend_line: true,
      start_y_axis_at_zero: true,
      header_font_size: 0.3,
      subheader_font_size: 0.125,
    }
  return {
    ...axis,
    metrics,
    groupby: chart.by,
    row_limit: seriesRows,
    order_desc: true,
    x_axis_sort_asc: true,
    x_axis_time_format: '%b %Y',
    show_legend: true,
    legendType: 'scroll',
    legendOrientation: 'top',
    rich_tooltip: true,
    truncate_metric: true,
    show_empty_columns: true,
    comparison_type: 'values',
    tooltipTimeFormat: '%B %Y',
    ...(chart.kind === 'bar'
      ? { stack: 'Stack', orientation: 'vertical' }
      : { seriesType: 'line', markerEnabled: true, markerSize: 5 }),
  }
}

const tableForm = (chart: Chart, metrics: readonly Metric[]): Record<string, unknown> => {
  const common = {
    row_limit: chart.rows,
    server_page_length: chart.rows,
    page_length: 0,
    table_timestamp_format: '%Y-%m-%d',
    show_cell_bars: false,
    column_config: Object.fromEntries([...chart.formats].map(([name, format]) => [name, { d3NumberFormat: formats[format] }])),
  }
  if (chart.columns.length > 0)
    return {
      ...common,
      query_mode: 'raw',
      all_columns: chart.columns,
      order_by_cols: chart.order.map(({ name, descending }) => JSON.stringify([name, !descending])),
    }
  const [first] = chart.order
  return {
    ...common,
    query_mode: 'aggregate',
    groupby: chart.by,
    metrics,
    timeseries_limit_metric: metrics.find(({ label }) => label === first?.name),
    order_desc: first?.descending ?? true,
  }
}

const queryOf = (chart: Chart, dataset: SupersetDataset, held: readonly FixedColumn[]): Record<string, unknown> => {
  const metrics = metricsOf(chart, dataset)
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
