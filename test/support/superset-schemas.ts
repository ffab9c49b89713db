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
  ...externally,
})

export const datasetPost = z.strictObject({
  database: z.int(),
  schema: z.string().max(250),
  table_name: z.string().min(1).max(250),
})

export const datasetPut = z.strictObject({ main_dttm_col: z.string().nullish(), description: z.string().nullish() })

export const chartBody = z.strictObject({
  slice_name: z.string().min(1).max(250),
  description: z.string(),
  viz_type: z.enum(['big_number', 'handlebars', 'echarts_timeseries_line', 'echarts_timeseries_bar', 'table']),
  datasource_id: z.int(),
  datasource_type: z.literal('table'),
  params: z.string(),
  query_context: z.string(),
  dashboards: z.array(z.int()).optional(),
  ...externally,
})

export const dashboardBody = z.strictObject({
  dashboard_title: z.string().max(500),
  slug: z
    .string()
    .max(255)
    .regex(/^[a-z0-9-]+$/),
  published: z.boolean(),
  position_json: z.string().optional(),
  json_metadata: z.string().optional(),
  ...externally,
})

interface Dataset {
  readonly [key: string]: unknown
}

const metric = z.strictObject({
  expressionType: z.literal('SQL'),
  sqlExpression: z.string().min(1),
  label: z.string().min(1),
  optionName: z.string(),
})
const axis = z.strictObject({
  timeGrain: z.literal('P1M'),
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
      op: z.enum(['TEMPORAL_RANGE', '==']),
      val: z.union([z.string(), z.number(), z.boolean()]),
    }),
  ),
  extras: z.strictObject({ having: z.literal(''), where: z.string() }),
  columns: z.array(z.union([z.string(), axis])),
  metrics: z.array(metric).optional(),
  orderby: z.array(z.tuple([z.union([z.string(), metric]), z.boolean()])),
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

/** The queries of a chart's body or of a data request, with every column they name present in the dataset. Throws. */
export const queriesOf = (body: unknown, datasets: readonly Dataset[]): { dataset: Dataset; queries: Queries } => {
  const chart = chartBody.safeParse(body)
  const context = contextSchema.parse(chart.success ? JSON.parse(chart.data.query_context) : body)
  const dataset = datasets.find(({ id }) => id === context.datasource.id)
  if (dataset === undefined) throw new Error('Datasource does not exist')
  const columns = columnsOf(dataset)
  const known = (name: string, labels: readonly string[] = []): void => {
    if (!columns.includes(name) && !labels.includes(name))
      throw new Error(`Columns missing in dataset ${String(dataset['table_name'])}: ${name}`)
  }
  for (const one of context.queries) {
    for (const column of one.columns) known(typeof column === 'string' ? column : column.sqlExpression)
    for (const { col } of one.filters) known(col)
    for (const [by] of one.orderby) if (typeof by === 'string') known(by)
  }
  if (chart.success) assertForm(chart.data, context, known)
  return { dataset, queries: context.queries }
}

/** The form data that pages read must ask for the same as the data request. */
const assertForm = (
  chart: z.infer<typeof chartBody>,
  context: z.infer<typeof contextSchema>,
  known: (name: string) => void,
): void => {
  const form = z
    .object({
      datasource: z.literal(`${chart.datasource_id}__table`),
      viz_type: z.literal(chart.viz_type),
      adhoc_filters: z.array(
        z.object({ clause: z.literal('WHERE'), subject: z.string().optional(), sqlExpression: z.string().optional() }),
      ),
      x_axis: z.string().optional(),
      groupby: z.array(z.string()).optional(),
      all_columns: z.array(z.string()).optional(),
      metric: metric.optional(),
      metrics: z.array(metric).optional(),
    })
    .parse(JSON.parse(chart.params))
  const [asked] = context.queries
  if (asked === undefined || context.datasource.id !== chart.datasource_id)
    throw new Error('the data request is for another dataset')
  for (const name of [...(form.x_axis === undefined ? [] : [form.x_axis]), ...(form.groupby ?? []), ...(form.all_columns ?? [])])
    known(name)
  const shown = [...(form.x_axis === undefined ? [] : [form.x_axis]), ...(form.groupby ?? []), ...(form.all_columns ?? [])]
  const same =
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
  meta: z.object({ chartId: z.int().optional(), width: z.int().optional(), height: z.int().optional() }).optional(),
})

/** The layout holds each chart of the dashboard once, in rows of twelve columns; the filters point at columns that are there. Throws. */
export const assertDashboard = (
  body: z.infer<typeof dashboardBody>,
  id: number,
  charts: readonly Dataset[],
  datasets: readonly Dataset[],
): void => {
  const { DASHBOARD_VERSION_KEY: version, ...rest } = z
    .record(z.string(), z.unknown())
    .parse(JSON.parse(body.position_json ?? '{}'))
  if (version !== 'v2') throw new Error('the layout has no version')
  const nodes = z.record(z.string(), node).parse(rest)
  for (const one of Object.values(nodes))
    for (const child of one.children ?? [])
      if (nodes[child]?.parents?.at(-1) !== one.id) throw new Error(`${child} does not stand under ${one.id}`)
  for (const row of Object.values(nodes).filter(({ type }) => type === 'ROW'))
    if ((row.children ?? []).reduce((sum, child) => sum + (nodes[child]?.meta?.width ?? 13), 0) > 12)
      throw new Error(`${row.id} is too wide`)
  const placed = Object.values(nodes).flatMap(({ meta }) => meta?.chartId ?? [])
  const linked = charts.filter(({ dashboards }) => Array.isArray(dashboards) && dashboards.includes(id)).map((one) => one['id'])
  if (!placed.every((one) => linked.includes(one)) || new Set(placed).size !== placed.length)
    throw new Error('the layout holds charts of others')
  const scope = { scope: z.object({ excluded: z.array(z.int()) }), chartsInScope: z.array(z.int()) }
  const filter = z.union([
    z.object({
      filterType: z.literal('filter_select'),
      targets: z.array(z.object({ datasetId: z.int(), column: z.object({ name: z.string() }) })).length(1),
      ...scope,
    }),
    z.object({ filterType: z.literal('filter_time'), targets: z.array(z.strictObject({})).length(1), ...scope }),
  ])
  const { native_filter_configuration: filters } = z
    .object({ native_filter_configuration: z.array(filter), color_scheme: z.string() })
    .parse(JSON.parse(body.json_metadata ?? '{}'))
  for (const { chartsInScope, scope: left } of filters)
    if ([...chartsInScope, ...left.excluded].sort().join() !== [...placed].sort().join())
      throw new Error('a filter forgets charts')
  for (const { targets } of filters.filter((one) => one.filterType === 'filter_select'))
    for (const { datasetId, column } of targets) {
      const dataset = datasets.find((one) => one['id'] === datasetId)
      if (dataset === undefined || !columnsOf(dataset).includes(column.name))
        throw new Error(`filter on ${column.name}, which is not there`)
    }
}
