// What Superset 6.1 takes in the bodies of its REST API: fields it does not know are refused, and what hangs together is checked.
import { z } from 'zod'

const externally = { is_managed_externally: z.boolean().optional() }

export const databaseBody = z.strictObject({
  database_name: z.string().min(1).max(250),
  sqlalchemy_uri: z.string().max(1024),
  expose_in_sqllab: z.boolean().optional(),
  allow_ctas: z.boolean().optional(),
  allow_cvas: z.boolean().optional(),
  allow_dml: z.boolean().optional(),
  allow_file_upload: z.boolean().optional(),
  uuid: z.uuid().optional(),
  ...externally,
})

const words = z.string().nullish()
const importedMetric = z.strictObject({
  metric_name: z.string().min(1).max(255),
  verbose_name: words,
  metric_type: words,
  expression: z.string().min(1),
  description: words,
  d3format: words,
  extra: z.record(z.string(), z.unknown()).nullish(),
  warning_text: words,
})
const importedColumn = z.strictObject({
  column_name: z.string().min(1).max(255),
  extra: z.record(z.string(), z.unknown()).nullish(),
  verbose_name: words,
  is_dttm: z.boolean().nullish(),
  is_active: z.boolean().nullish(),
  type: words,
  groupby: z.boolean().optional(),
  filterable: z.boolean().optional(),
  expression: words,
  description: words,
  python_date_format: words,
})
const imported = { uuid: z.uuid(), version: z.literal('1.0.0') }

/** Files of a bundle, by the folder they stand in. */
export const bundleSchemas = {
  metadata: z.strictObject({
    version: z.literal('1.0.0'),
    type: z.string().optional(),
    timestamp: z.iso.datetime({ offset: true }),
  }),
  datasets: z.strictObject({
    table_name: z.string().min(1).max(250),
    schema: z.literal('bi'),
    description: words,
    main_dttm_col: words,
    always_filter_main_dttm: z.boolean().optional(),
    database_uuid: z.uuid(),
    columns: z.array(importedColumn),
    metrics: z.array(importedMetric),
    ...imported,
  }),
  charts: z.strictObject({
    slice_name: z.string().min(1).max(250),
    description: words,
    viz_type: z.enum(['big_number', 'echarts_timeseries_line', 'echarts_timeseries_bar', 'table']),
    params: z.record(z.string(), z.unknown()),
    query_context: z.string(),
    dataset_uuid: z.uuid(),
    is_managed_externally: z.literal(true),
    ...imported,
  }),
  dashboards: z.strictObject({
    dashboard_title: z.string().max(500),
    slug: z
      .string()
      .max(255)
      .regex(/^[a-z0-9-]+$/),
    published: z.boolean(),
    css: z.string(),
    is_managed_externally: z.literal(true),
    position: z.record(z.string(), z.unknown()),
    metadata: z.record(z.string(), z.unknown()),
    ...imported,
  }),
} as const

/** A chart that a person makes. */
export const chartBody = z.strictObject({
  slice_name: z.string().min(1).max(250),
  description: z.string(),
  viz_type: z.enum(['big_number', 'echarts_timeseries_line', 'echarts_timeseries_bar', 'table']),
  datasource_id: z.int(),
  datasource_type: z.literal('table'),
  params: z.string(),
  query_context: z.string(),
  dashboards: z.array(z.int()).optional(),
  ...externally,
})

/** A dashboard that a person makes. */
export const dashboardBody = z.strictObject({ dashboard_title: z.string().max(500), slug: z.string().max(255) })

interface Dataset {
  readonly [key: string]: unknown
}

const adhoc = z.strictObject({
  expressionType: z.literal('SQL'),
  sqlExpression: z.string().min(1),
  label: z.string().min(1),
  optionName: z.string(),
})
const axis = z.strictObject({
  timeGrain: z.enum(['P1M', 'P3M', 'P1Y']),
  columnType: z.literal('BASE_AXIS'),
  sqlExpression: z.string(),
  label: z.string(),
  expressionType: z.literal('SQL'),
})
const none = z.strictObject({})
const query = z.strictObject({
  filters: z.array(
    z.strictObject({
      col: z.string(),
      op: z.enum(['TEMPORAL_RANGE', '==', 'IN', 'NOT IN', 'ILIKE', '<=', '>=']),
      val: z.union([z.string(), z.number(), z.boolean(), z.array(z.string())]),
    }),
  ),
  extras: z.strictObject({ having: z.literal(''), where: z.string() }),
  columns: z.array(z.union([z.string(), axis])),
  metrics: z.array(z.union([z.string(), adhoc])).optional(),
  orderby: z.array(z.tuple([z.union([z.string(), adhoc]), z.boolean()])),
  row_limit: z.int().max(10_000),
  series_columns: z.array(z.string()).optional(),
  series_limit: z.literal(0).optional(),
  order_desc: z.boolean().optional(),
  annotation_layers: z.array(z.never()),
  applied_time_extras: none,
  url_params: none,
  custom_params: none,
  custom_form_data: none,
})

export const contextSchema = z.strictObject({
  datasource: z.strictObject({ id: z.int(), type: z.literal('table') }),
  force: z.boolean(),
  queries: z.array(query).length(1),
  form_data: z.record(z.string(), z.unknown()),
  result_format: z.literal('json'),
  result_type: z.literal('full'),
})

export type Queries = z.infer<typeof contextSchema>['queries']

const columnsOf = (dataset: Dataset): string[] =>
  z
    .array(z.object({ column_name: z.string() }))
    .parse(dataset['columns'])
    .map(({ column_name }) => column_name)

/** The queries of a data request, with every column they name present in the dataset. Throws. */
export const queriesOf = <T extends Dataset>(body: unknown, datasets: readonly T[]): { dataset: T; queries: Queries } => {
  const context = contextSchema.parse(body)
  const dataset = datasets.find((one) => one['id'] === context.datasource.id)
  if (dataset === undefined) throw new Error('Datasource does not exist')
  const columns = columnsOf(dataset)
  const saved = metricNames(dataset)
  for (const one of context.queries) {
    const labels = (one.metrics ?? []).map((metric) => (typeof metric === 'string' ? metric : metric.label))
    const asked = [
      ...one.columns.map((column) => (typeof column === 'string' ? column : column.sqlExpression)),
      ...one.filters.map(({ col }) => col),
      ...one.orderby.flatMap(([by]) => (typeof by === 'string' && !labels.includes(by) ? [by] : [])),
    ]
    const missing = asked.find((name) => !columns.includes(name))
    if (missing !== undefined) throw new Error(`Columns missing in dataset ${String(dataset['table_name'])}: ${missing}`)
    const unknown = (one.metrics ?? []).find((metric) => typeof metric === 'string' && !saved.includes(metric))
    if (unknown !== undefined) throw new Error(`Metric '${String(unknown)}' does not exist`)
  }
  return { dataset, queries: context.queries }
}

const metricNames = (dataset: Dataset): string[] =>
  z
    .array(z.object({ metric_name: z.string() }))
    .parse(dataset['metrics'] ?? [])
    .map(({ metric_name }) => metric_name)

/** The form data that pages read must ask for the same as the data request. */
export const assertChart = (
  chart: z.infer<typeof bundleSchemas.charts>,
  datasetId: number,
  datasets: readonly Dataset[],
): void => {
  const form = z
    .object({
      viz_type: z.literal(chart.viz_type),
      adhoc_filters: z.array(
        z.object({ clause: z.literal('WHERE'), subject: z.string().optional(), sqlExpression: z.string().optional() }),
      ),
      x_axis: z.string().optional(),
      groupby: z.array(z.string()).optional(),
      all_columns: z.array(z.string()).optional(),
      metric: adhoc.optional(),
      metrics: z.array(adhoc).optional(),
    })
    .parse(chart.params)
  const datasource = { id: datasetId, type: 'table' }
  const { dataset, queries } = queriesOf({ ...JSON.parse(chart.query_context), datasource }, datasets)
  const [asked] = queries
  const shown = [...(form.x_axis === undefined ? [] : [form.x_axis]), ...(form.groupby ?? []), ...(form.all_columns ?? [])]
  const missing = shown.find((name) => !columnsOf(dataset).includes(name))
  if (missing !== undefined) throw new Error(`${chart.slice_name} shows ${missing}, which is not there`)
  const same =
    asked !== undefined &&
    JSON.stringify(shown) === JSON.stringify(asked.columns.map((one) => (typeof one === 'string' ? one : one.label))) &&
    JSON.stringify(form.metric === undefined ? (form.metrics ?? []) : [form.metric]) === JSON.stringify(asked.metrics ?? []) &&
    form.adhoc_filters.length === asked.filters.length + (asked.extras.where === '' ? 0 : 1)
  if (!same) throw new Error(`${chart.slice_name}: the page and the data request ask for different things`)
}

const node = z.object({
  type: z.enum(['ROOT', 'GRID', 'HEADER', 'ROW', 'CHART', 'MARKDOWN']),
  id: z.string(),
  children: z.array(z.string()).optional(),
  parents: z.array(z.string()).optional(),
  meta: z
    .object({ chartId: z.int().optional(), uuid: z.uuid().optional(), width: z.int().optional(), height: z.int().optional() })
    .optional(),
})

/**
 * The layout holds each chart once, in rows of twelve columns; the filters point at columns that are there and leave out charts that are on it.
 * Returns the uuids of its charts. Throws.
 */
export const assertDashboard = (
  { position, metadata }: z.infer<typeof bundleSchemas.dashboards>,
  charts: readonly Dataset[],
  datasets: readonly Dataset[],
): string[] => {
  const { DASHBOARD_VERSION_KEY: version, ...rest } = position
  if (version !== 'v2') throw new Error('the layout has no version')
  const nodes = z.record(z.string(), node).parse(rest)
  for (const one of Object.values(nodes))
    for (const child of one.children ?? [])
      if (nodes[child]?.parents?.at(-1) !== one.id) throw new Error(`${child} does not stand under ${one.id}`)
  for (const row of Object.values(nodes).filter(({ type }) => type === 'ROW'))
    if ((row.children ?? []).reduce((sum, child) => sum + (nodes[child]?.meta?.width ?? 13), 0) > 12)
      throw new Error(`${row.id} is too wide`)
  const placed = Object.values(nodes).flatMap(({ type, meta }) =>
    type === 'CHART' ? [{ id: meta?.chartId, uuid: meta?.uuid }] : [],
  )
  const uuids = placed.map(({ uuid }) => String(uuid))
  if (!uuids.every((uuid) => charts.some((chart) => chart['uuid'] === uuid)) || new Set(uuids).size !== uuids.length)
    throw new Error('the layout holds charts that are not there')
  const scope = { scope: z.object({ excluded: z.array(z.int()) }) }
  const filter = z.union([
    z.object({
      filterType: z.literal('filter_select'),
      targets: z.array(z.strictObject({ datasetUuid: z.uuid(), column: z.strictObject({ name: z.string() }) })).length(1),
      ...scope,
    }),
    z.object({ filterType: z.literal('filter_time'), targets: z.array(z.strictObject({})).length(1), ...scope }),
  ])
  const { native_filter_configuration: filters } = z
    .object({ native_filter_configuration: z.array(filter), color_scheme: z.string() })
    .parse(metadata)
  for (const { scope: left } of filters)
    if (!left.excluded.every((id) => placed.some((one) => one.id === id)))
      throw new Error('a filter leaves out what is not there')
  for (const { targets } of filters.filter((one) => one.filterType === 'filter_select'))
    for (const { datasetUuid, column } of targets) {
      const dataset = datasets.find((one) => one['uuid'] === datasetUuid)
      if (dataset === undefined || !columnsOf(dataset).includes(column.name))
        throw new Error(`filter on ${column.name}, which is not there`)
    }
  return uuids
}
