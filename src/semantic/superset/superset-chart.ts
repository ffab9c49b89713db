// One chart for Superset: the form data that Superset's pages read, and the query context of its data request.
import type { Chart, NumberFormat } from '../../definition/dashboard.ts'
import type { YamlMap, YamlValue } from '../yaml-text.ts'

/** A chart as its file in a bundle has it; Superset adds the dataset's id to both texts. Pure: the same chart gives the same texts. @param columns of the view */
export const supersetChart = (chart: Chart, columns: readonly string[], fixed: readonly FixedColumn[]) => {
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
  } satisfies YamlMap
}

const queryOf = (chart: Chart, viewColumns: readonly string[], held: readonly FixedColumn[]): Record<string, unknown> => {
  const metrics = chartMetrics(chart, viewColumns)
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
    return { ...common, columns: [period], metrics, orderby: [[newestOf(chart), false]], row_limit: chart.rows, order_desc: true }
  if (period !== null)
    return {
      ...common,
      columns: [axis, ...chart.by],
      metrics,
      orderby: [period, ...chart.by].map((name) => [name, true]),
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

/** A column with one value in every chart of a pipeline: a parameter of the pipeline. */
export interface FixedColumn {
  readonly column: string
  readonly value: string | number | boolean
}

/** Superset's names for the kinds of charts. */
const vizTypes = {
  trend: 'big_number',
  // Not handlebars: Superset's own content security policy keeps a browser from compiling its templates.
  tile: 'table',
  line: 'echarts_timeseries_line',
  bar: 'echarts_timeseries_bar',
  table: 'table',
} as const
/** Number formats of d3, which draws the charts. */
export const formats: Readonly<Record<NumberFormat, string>> = {
  count: ',d',
  decimal: ',.2f',
  share: '.1%',
  change: '+.1%',
  points: '+.1f',
  money: '$,.0f',
}
/** Charts show months; ISO 8601, as Superset requires. */
const grain = 'P1M'
/** Points of a chart at most. */
const seriesRows = 10_000

type Metric = ReturnType<typeof metricOf>

const metricOf = (label: string, sqlExpression: string, optionName: string) => ({
  ...{ expressionType: 'SQL', sqlExpression, label, optionName },
})

/** Makes the measure NULL instead of a wrong sum where rows of several values that do not add up are combined. */
const guarded = (chart: Chart, columns: readonly string[], expression: string): string => {
  const alone = chart.neverAcross.filter((column) => columns.includes(column) && !chart.by.includes(column))
  if (alone.length === 0) return expression
  return `case when ${alone.map((column) => `count(distinct ${column}) = 1`).join(' and ')} then ${expression} end`
}

/** Measures as SQL over the view. @param columns of the view */
const chartMetrics = (chart: Chart, columns: readonly string[]): Metric[] =>
  [...chart.measures].map(([label, expression], at) => metricOf(label, guarded(chart, columns, expression), `metric_${at + 1}`))

/** Form data of every kind of chart. @param held columns with the one value they have in this pipeline */
const commonForm = (chart: Chart, held: readonly FixedColumn[]): YamlMap => ({
  viz_type: vizTypes[chart.kind],
  adhoc_filters: [
    ...(chart.period === null ? [] : [simple('period', chart.period, 'TEMPORAL_RANGE', 'No filter')]),
    ...held.map(({ column, value }) => simple(column, column, '==', value)),
    ...(chart.where === null
      ? []
      : [{ expressionType: 'SQL', clause: 'WHERE', sqlExpression: chart.where, filterOptionName: 'filter_where' }]),
  ],
  time_range: 'No filter',
  extra_form_data: {},
})

const simple = (key: string, subject: string, operator: string, comparator: YamlValue): YamlMap => ({
  expressionType: 'SIMPLE',
  clause: 'WHERE',
  subject,
  operator,
  ...(operator === '==' ? { operatorId: 'EQUALS' } : {}),
  comparator,
  filterOptionName: `filter_${key}`,
})

/** Further form data by kind of chart. */
const formOf = (chart: Chart, columns: readonly string[]): YamlMap => {
  const metrics = chartMetrics(chart, columns)
  if (chart.kind === 'table') return tableForm(chart, metrics)
  if (chart.kind === 'tile') return tileForm(chart, metrics)
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
    // Sorted by name: names of buckets are chosen so that this is the right order.
    sort_series_type: 'name',
    sort_series_ascending: true,
    ...(chart.isRank ? { truncateYAxis: true, y_axis_bounds: [1, null], echart_options: rankAxis } : {}),
    ...(chart.kind === 'bar'
      ? { stack: 'Stack', orientation: 'vertical' }
      : { seriesType: 'line', markerEnabled: true, markerSize: 5 }),
  }
}

/** Superset has no control for an inverted axis, but passes these options on to ECharts. */
const rankAxis = '{ yAxis: { inverse: true, min: 1 } }'

/** A tile: the newest period as one row of texts side by side. */
const tileForm = (chart: Chart, metrics: readonly Metric[]): YamlMap => ({
  query_mode: 'aggregate',
  groupby: [chart.period],
  metrics,
  timeseries_limit_metric: newestOf(chart),
  order_desc: true,
  row_limit: chart.rows,
  server_page_length: chart.rows,
  page_length: 0,
  show_cell_bars: false,
  column_config: { [chart.period ?? '']: { customColumnName: 'Newest', d3TimeFormat: '%b %Y' } },
})

/** A measure that sorts a tile's periods; descending means newest first. */
const newestOf = ({ period }: Chart): Metric => metricOf('Newest', `max(${period})`, 'metric_newest')

/** `clicks_before` as a heading: Clicks before. */
const heading = (column: string): string => column.charAt(0).toUpperCase() + column.slice(1).replaceAll('_', ' ')

const columnConfig = (chart: Chart): YamlMap => {
  const months = chart.columns.filter((name) => ['month', 'date', 'period', 'window_from', 'starts_on'].includes(name))
  const all = [...chart.columns, ...chart.by, ...chart.formats.keys()]
  return Object.fromEntries(
    [...new Set(all)].map((name) => [
      name,
      {
        ...(chart.measures.has(name) ? {} : { customColumnName: heading(name) }),
        ...(chart.formats.has(name) ? { d3NumberFormat: formats[chart.formats.get(name) ?? 'count'] } : {}),
        ...(months.includes(name) ? { d3TimeFormat: '%b %Y' } : {}),
      },
    ]),
  )
}

const tableForm = (chart: Chart, metrics: readonly Metric[]): YamlMap => {
  const common = {
    table_timestamp_format: '%Y-%m-%d',
    show_cell_bars: false,
    column_config: columnConfig(chart),
  }
  if (chart.columns.length > 0)
    return {
      ...common,
      // Paging instead of a row limit: Superset shows a warning when a limit is reached.
      server_pagination: true,
      server_page_length: chart.rows,
      query_mode: 'raw',
      all_columns: chart.columns,
      order_by_cols: chart.order.map(({ name, descending }) => JSON.stringify([name, !descending])),
    }
  const [first] = chart.order
  return {
    ...common,
    row_limit: chart.rows,
    page_length: 0,
    ...(chart.hasTotal ? { show_totals: true } : {}),
    query_mode: 'aggregate',
    groupby: chart.by,
    metrics,
    timeseries_limit_metric: metrics.find(({ label }) => label === first?.name),
    order_desc: first?.descending ?? true,
  }
}
