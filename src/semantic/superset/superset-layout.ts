// Where the charts of a dashboard stand, and the filters above them, in Superset's words.
import type { Chart, Dashboard, DashboardFilter, ValueFilter } from '../../definition/dashboard.ts'
import type { YamlMap, YamlValue } from '../yaml-text.ts'

/** A chart under its id in the bundle, for which Superset puts its own. */
export interface PlacedChart {
  readonly id: number
  readonly uuid: string
  readonly chart: Chart
}

const columnsOfGrid = 12
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
      children: ['ROW-about', ...rows.map((_, at) => `ROW-${at + 1}`)],
    },
    'ROW-about': rowNode('ROW-about', ['MARKDOWN-about']),
    'MARKDOWN-about': {
      type: 'MARKDOWN',
      id: 'MARKDOWN-about',
      children: [],
      parents: ['ROOT_ID', 'GRID_ID', 'ROW-about'],
      meta: { code: `${dashboard.about} NULL and gaps mean no data, never 0.`.trim(), width: columnsOfGrid, height: aboutHeight },
    },
  }
  rows.forEach((row, at) => {
    const rowId = `ROW-${at + 1}`
    nodes[rowId] = rowNode(
      rowId,
      row.map(({ id }) => `CHART-${id}`),
    )
    for (const { id, uuid, chart } of row)
      nodes[`CHART-${id}`] = {
        type: 'CHART',
        id: `CHART-${id}`,
        children: [],
        parents: ['ROOT_ID', 'GRID_ID', rowId],
        meta: { chartId: id, uuid, sliceName: chart.name, width: chart.width, height: chart.height },
      }
  })
  return nodes
}

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
export const dashboardMetadata = (
  dashboard: Dashboard,
  charts: readonly PlacedChart[],
  datasetId: (view: string) => string,
): YamlMap => ({
  native_filter_configuration: dashboard.filters.map((filter, at) => nativeFilter(filter, at, charts, datasetId)),
  chart_configuration: {},
  global_chart_configuration: { scope: { rootPath: ['ROOT_ID'], excluded: [] } },
  color_scheme: 'echarts5Colors',
  cross_filters_enabled: true,
  refresh_frequency: 0,
  expanded_slices: {},
  timed_refresh_immune_slices: [],
})

/** What has one value in the pipeline needs no filter to choose it, and no measure is watched for a second one. */
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
    filter.kind === 'time' ? chart.period !== null : filter.charts === null || filter.charts.includes(chart.name)
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

const valueFilter = ({ view, column, one }: ValueFilter, datasetId: (view: string) => string): YamlMap => ({
  filterType: 'filter_select',
  // Charts wait for the first choice, else they would all be asked for before it.
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
