// The files of a bundle that Superset's own commands import: connection, datasets with metrics, charts, dashboards with the layout of
// their charts.
import type { Definition } from '../../core/types.ts'
import type { Chart, DashboardFilter } from '../../definition/dashboard.ts'
import type { Dashboard } from '../../definition/dashboards.ts'
import type { SemanticModel } from '../../definition/semantic.ts'
import type { DescribedView } from '../../publish/view-columns.ts'
import { type YamlMap, type YamlValue, yamlFile } from '../yaml-text.ts'
import { type FixedColumn, supersetChart } from './superset-chart.ts'
import { datasetOf, idOf, additive, subjectsOf, version } from './superset-dataset.ts'

/** The input of a bundle. */
export interface BundleWork {
  /** Name of the connection in Superset. */
  readonly connection: string
  readonly views: readonly DescribedView[]
  readonly model: SemanticModel
  readonly definitions: readonly Definition[]
  readonly dashboards: readonly Dashboard[]
  /** uuid of an existing connection. Default: made from its name. */
  readonly databaseId?: string
  /** uuid of a view's dataset. Default: made from the names. */
  readonly datasetId?: (view: string) => string
  /** Changes a dataset before it is written. Default: as it is. */
  readonly adapt?: (dataset: ReturnType<typeof datasetOf>) => YamlMap
}

/** `files` by their path in the bundle, without the connection; `skipped`: dashboards that were left out, and why. */
export type Bundle = ReturnType<typeof supersetBundle>

/** Dashboards of any other connection have its name in title and address. */
export const defaultConnection = 'Millrace'

/** Without `type`, so that Superset's commands for datasets, for dashboards and for all assets accept the same bundle. */
const metadata = { version, timestamp: '2026-01-01T00:00:00+00:00' }

/** Pure: the same work gives the same files, and the same ids. */
export const supersetBundle = (work: BundleWork) => {
  const { connection, model, adapt = (one) => one, datasetId = (view) => idOf(connection, view) } = work
  const databaseId = work.databaseId ?? idOf(connection, 'connection')
  const shown = work.dashboards.map((whole) => {
    const dashboard = ofPipelines(whole, work.definitions)
    return { dashboard, reason: whyNot(work, dashboard, whole) }
  })
  const made = shown.filter(({ reason }) => reason === null).map(({ dashboard }) => dashboard)
  const files = new Map([['metadata.yaml', yamlFile(metadata)]])
  for (const view of work.views) {
    const dataset = datasetOf(additive(view, model, made), datasetId(view.name), databaseId, subjectsOf(model, view.name))
    files.set(`datasets/${fileName(connection)}/${view.name}.yaml`, yamlFile(adapt(dataset)))
  }
  const dashboards = made.map((dashboard) => addDashboard(files, { ...work, datasetId }, dashboard))
  const skipped = shown.flatMap(({ dashboard, reason }) => (reason === null ? [] : [`${dashboard.title}: ${reason}`]))
  return { files, dashboards, skipped }
}

/** Superset's settings of a read-only connection. */
export const readsOnly = { allow_ctas: false, allow_cvas: false, allow_dml: false, allow_file_upload: false }

/** The connection's file, for a Superset without a connection of this name. It has no password: `superset set-database-uri` sets it. */
export const connectionFile = (connection: string): readonly [path: string, text: string] => [
  `databases/${fileName(connection)}.yaml`,
  yamlFile({
    database_name: connection,
    sqlalchemy_uri: 'postgresql+psycopg2://superset@localhost:5432/warehouse',
    expose_in_sqllab: true,
    allow_run_async: false,
    ...readsOnly,
    extra: {},
    uuid: idOf(connection, 'connection'),
    version,
  }),
]

const fileName = (text: string): string => slugOf(text) || 'x'
const slugOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')

/** The dashboard without charts of pipelines that are not published, and without filters that only such charts use. */
const ofPipelines = (dashboard: Dashboard, definitions: readonly Definition[]): Dashboard => {
  const charts = dashboard.charts.filter(
    ({ pipeline }) => pipeline === null || definitions.some((one) => one.pipeline === pipeline && one.publish),
  )
  const isThere = (name: string): boolean => charts.some((chart) => chart.name === name)
  return {
    ...dashboard,
    charts,
    filters: dashboard.filters.filter((one) => one.kind === 'time' || (one.charts?.some(isThere) ?? true)),
  }
}

const whyNot = ({ views }: BundleWork, { charts, filters }: Dashboard, whole: Dashboard): string | null => {
  if (charts.length === 0) return `the pipeline ${whole.charts[0]?.pipeline} is not defined here`
  const columnsOf = (name: string): string[] | undefined =>
    views.find((view) => view.name === name)?.columns.map((column) => column.name)
  const asked = [
    ...charts.map(({ name, view, period, by, columns }) => ({
      name,
      view,
      asks: [...(period === null ? [] : [period]), ...by, ...columns],
    })),
    ...filters.flatMap((one) => (one.kind === 'time' ? [] : [{ name: one.name, view: one.view, asks: [one.column] }])),
  ]
  for (const { name, view, asks } of asked) {
    const columns = columnsOf(view)
    if (columns === undefined) return `bi.${view} does not exist; run \`millrace migrate\``
    const unknown = asks.find((column) => !columns.includes(column))
    if (unknown !== undefined)
      return `'${name}' reads bi.${view}.${unknown}, which does not exist; correct the file, or the header of the mart`
  }
  return null
}

/** The pipeline's parameters that are in its key: rows with other values do not belong to its charts. */
const fixedColumns = (definition: Definition | undefined): FixedColumn[] =>
  (definition?.columns ?? [])
    .filter(({ origin, isKey }) => origin === 'param' && isKey)
    .flatMap(({ name }) => {
      const value = definition?.params[name]
      return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? [{ column: name, value }] : []
    })

const addDashboard = (
  files: Map<string, string>,
  { connection, definitions, views, datasetId }: BundleWork & Pick<Required<BundleWork>, 'datasetId'>,
  asWritten: Dashboard,
) => {
  const fixedOf = (pipeline: string | null): FixedColumn[] =>
    pipeline === null ? [] : fixedColumns(definitions.find((one) => one.pipeline === pipeline))
  const fixed = asWritten.charts.flatMap(({ pipeline }) => fixedOf(pipeline))
  const open = withoutFixed(asWritten, fixed)
  const title = connection === defaultConnection ? open.title : `${open.title} (${connection})`
  const slug = slugOf(`${connection} ${open.name}`)
  const dashboard = { ...open, title }
  const placed = dashboard.charts.map((chart, at): PlacedChart => {
    const columns = views.find(({ name }) => name === chart.view)?.columns.map(({ name }) => name) ?? []
    const made = { ...supersetChart(chart, columns, fixedOf(chart.pipeline)), version, dataset_uuid: datasetId(chart.view) }
    // Superset's import command never changes an existing chart, so a changed chart gets a new uuid.
    const uuid = idOf(connection, dashboard.name, chart.name, JSON.stringify(made))
    files.set(`charts/${slug}/${chartFile(chart, at)}.yaml`, yamlFile({ ...made, uuid }))
    return { id: at + 1, uuid, chart }
  })
  files.set(
    `dashboards/${slug}.yaml`,
    yamlFile({
      dashboard_title: title,
      slug,
      uuid: idOf(connection, 'dashboard', dashboard.name),
      published: true,
      is_managed_externally: true,
      position: positionOf(dashboard, placed),
      css: arrows,
      metadata: dashboardMetadata(dashboard, placed, datasetId),
      version,
    }),
  )
  return { title, slug, charts: placed.length }
}

const chartFile = ({ name }: Chart, at: number): string => `${String(at + 1).padStart(2, '0')}-${fileName(name).slice(0, 80)}`

/** A chart with its id in the bundle, which Superset replaces with its own id. */
interface PlacedChart {
  readonly id: number
  readonly uuid: string
  readonly chart: Chart
}

const columnsOfGrid = 12
/** Superset marks a rise or fall of a big number only by a CSS class, that is by colour; this adds an arrow. */
const arrows = `.superset-legacy-chart-big-number.positive .subheader-line::before { content: '▲ '; }
.superset-legacy-chart-big-number.negative .subheader-line::before { content: '▼ '; }
`
const aboutHeight = 8

/** Charts in their order, side by side as far as they fit. */
export const positionOf = (dashboard: Dashboard, charts: readonly PlacedChart[]): YamlMap => {
  const rows = rowsOf(charts)
  const nodes: Record<string, YamlValue> = {
    DASHBOARD_VERSION_KEY: 'v2',
    ROOT_ID: { type: 'ROOT', id: 'ROOT_ID', children: ['GRID_ID'] },
    HEADER_ID: { type: 'HEADER', id: 'HEADER_ID', meta: { text: dashboard.title } },
    GRID_ID: {
      type: 'GRID',
      id: 'GRID_ID',
      parents: ['ROOT_ID'],
      children: [...(dashboard.about === '' ? [] : ['ROW-about']), ...rows.map((_, at) => `ROW-${at + 1}`)],
    },
    'ROW-about': rowNode('ROW-about', ['MARKDOWN-about']),
    'MARKDOWN-about': leafNode('MARKDOWN', 'about', 'ROW-about', {
      ...{ code: `${dashboard.about} NULL and gaps mean no data, never 0.`.trim(), width: columnsOfGrid, height: aboutHeight },
    }),
  }
  rows.forEach((row, at) => {
    const rowId = `ROW-${at + 1}`
    const leaves = row.map(({ id, uuid, chart: { name, width, height } }) =>
      leafNode('CHART', String(id), rowId, { chartId: id, uuid, sliceName: name, width, height }),
    )
    const ids = leaves.map(({ id }) => id)
    nodes[rowId] = rowNode(rowId, ids)
    for (const leaf of leaves) nodes[leaf.id] = leaf
  })
  return nodes
}

const leafNode = (type: string, name: string, rowId: string, meta: YamlMap) => ({
  ...{ type, id: `${type}-${name}`, children: [], parents: ['ROOT_ID', 'GRID_ID', rowId], meta },
})

const rowNode = (id: string, children: readonly string[]): YamlMap => ({
  type: 'ROW',
  id,
  children,
  parents: ['ROOT_ID', 'GRID_ID'],
  meta: { background: 'BACKGROUND_TRANSPARENT' },
})

const rowsOf = (charts: readonly PlacedChart[]): PlacedChart[][] => {
  const rows: PlacedChart[][] = []
  let used = columnsOfGrid
  for (const placed of charts) {
    if (used + placed.chart.width > columnsOfGrid) {
      rows.push([])
      used = 0
    }
    rows.at(-1)?.push(placed)
    used += placed.chart.width
  }
  return rows
}

/** Filters and colours. @param datasetId uuid by view */
export const dashboardMetadata = (dashboard: Dashboard, charts: readonly PlacedChart[], datasetId: (view: string) => string) => ({
  native_filter_configuration: dashboard.filters.map((filter, at) => nativeFilter(filter, at, charts, datasetId)),
  chart_configuration: {},
  global_chart_configuration: { scope: { rootPath: ['ROOT_ID'], excluded: [] } },
  color_scheme: 'echarts5Colors',
  cross_filters_enabled: true,
  refresh_frequency: 0,
  expanded_slices: {},
  timed_refresh_immune_slices: [],
})

/** The dashboard without filters for columns that have one value in the pipeline; measures need no guard against further values. */
export const withoutFixed = (dashboard: Dashboard, fixed: readonly { readonly column: string }[]): Dashboard => {
  const isOpen = (name: string): boolean => !fixed.some(({ column }) => column === name)
  return {
    ...dashboard,
    filters: dashboard.filters.filter((one) => one.kind === 'time' || isOpen(one.column)),
    charts: dashboard.charts.map((chart) => ({ ...chart, neverAcross: chart.neverAcross.filter(isOpen) })),
  }
}

const nativeFilter = (
  filter: DashboardFilter,
  at: number,
  charts: readonly PlacedChart[],
  datasetId: (view: string) => string,
): YamlMap => {
  const isMeant = ({ chart }: PlacedChart): boolean =>
    filter.kind === 'time'
      ? chart.period !== null && !/\bis_newest\b/.test(chart.where ?? '')
      : filter.charts === null || filter.charts.includes(chart.name)
  const excluded = charts.filter((one) => !isMeant(one))
  return {
    id: `NATIVE_FILTER-millrace-${at + 1}`,
    type: 'NATIVE_FILTER',
    name: filter.name,
    description: '',
    defaultDataMask: { extraFormData: {}, filterState: {}, ownState: {} },
    cascadeParentIds: [],
    scope: { rootPath: ['ROOT_ID'], excluded: excluded.map(({ id }) => id) },
    tabsInScope: [],
    ...(filter.kind === 'time' ? timeFilter : valueFilter(filter, datasetId)),
  }
}

const timeFilter = { filterType: 'filter_time', targets: [{}], controlValues: { enableEmptyFilter: false } }

const valueFilter = (
  { view, column, one }: Extract<DashboardFilter, { kind: 'value' }>,
  datasetId: (view: string) => string,
): YamlMap => ({
  filterType: 'filter_select',
  // Charts wait for the first choice, else Superset would query all of them before it.
  requiredFirst: one !== null,
  targets: [{ datasetUuid: datasetId(view), column: { name: column } }],
  controlValues: {
    enableEmptyFilter: one !== null,
    defaultToFirstItem: one !== null,
    multiSelect: one === null,
    searchAllOptions: false,
    inverseSelection: false,
    sortAscending: one !== 'last',
  },
})
