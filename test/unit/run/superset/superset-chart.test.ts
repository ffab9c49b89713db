// A chart in Superset's words: never a sum over what does not add up, only rows of the pipeline's own parameters, values that cannot break out.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { loadDashboards, parseDashboard } from '../../../../src/definition/dashboards.ts'
import { risonOf } from '../../../../src/semantic/superset/superset-client.ts'
import { supersetChart } from '../../../../src/semantic/superset/superset-chart.ts'
import { dashboardMetadata, positionOf, withoutFixed } from '../../../../src/semantic/superset/superset-bundle.ts'
import { readRison } from '../../../support/read-rison.ts'

const head = 'dashboard: D\npipeline: keywords\nnever_across: [country]\ncharts:\n'
const chartOf = (lines: string) => {
  const { dashboard, problems } = parseDashboard('d.yaml', `${head}  - chart: C\n    view: v\n${lines}`)
  const [chart] = dashboard?.charts ?? []
  if (chart === undefined) throw new Error(JSON.stringify(problems))
  return chart
}
const sqlOf = (lines: string, columns: readonly string[]): string => {
  const context = JSON.parse(supersetChart(chartOf(lines), columns, []).query_context)
  return context.queries[0].metrics[0].sqlExpression
}

test('where several values meet that do not add up, the measure is NULL; where they are told apart or absent, it is as written', () => {
  const line = '    kind: line\n    period: month\n    measures: { Clicks: sum(clicks) }\n'
  expect(sqlOf(line, ['month', 'country', 'clicks'])).toBe('case when count(distinct country) = 1 then sum(clicks) end')
  expect(sqlOf(`${line}    by: [country]\n`, ['month', 'country', 'clicks'])).toBe('sum(clicks)')
  expect(sqlOf(line, ['month', 'clicks'])).toBe('sum(clicks)')
  expect(sqlOf(`${line}    never_across: [month]\n`, ['month', 'country'])).toBe(
    'case when count(distinct country) = 1 and count(distinct month) = 1 then sum(clicks) end',
  )
})

test("the pipeline's parameters are conditions of the page and of the data request, where the view has the column", () => {
  const chart = chartOf('    kind: table\n    columns: [month]\n    where: clicks > 1\n')
  const fixed = [
    { column: 'web_source', value: 'Total' },
    { column: 'elsewhere', value: 'x' },
  ]
  const { params, query_context } = supersetChart(chart, ['month', 'web_source'], fixed)
  const { filters, extras } = JSON.parse(query_context).queries[0]
  expect([filters, extras.where]).toEqual([[{ col: 'web_source', op: '==', val: 'Total' }], '(clicks > 1)'])
  expect(params.adhoc_filters).toMatchObject([{ subject: 'web_source', comparator: 'Total' }, { sqlExpression: 'clicks > 1' }])
})

test('rows of the layout are never wider than twelve columns and keep the order of the file', async () => {
  for (const dashboard of await loadDashboards([])) {
    const placed = dashboard.charts.map((chart, id) => ({ id, uuid: `of ${id}`, chart }))
    const nodes = JSON.parse(JSON.stringify(positionOf(dashboard, placed)))
    const rows = nodes.GRID_ID.children
      .filter((row: string) => row !== 'ROW-about')
      .map((row: string) => nodes[row].children.map((id: string) => nodes[id].meta))
    for (const row of rows)
      expect(row.reduce((sum: number, { width }: { width: number }) => sum + width, 0)).toBeLessThanOrEqual(12)
    expect(rows.flat().map(({ sliceName }: { sliceName: string }) => sliceName)).toEqual(dashboard.charts.map(({ name }) => name))
  }
})

test('charts wait for a filter that always has a value, so that none asks before it is chosen', async () => {
  const [dashboard] = (await loadDashboards([])).filter(({ name }) => name === 'keywords')
  if (dashboard === undefined) throw new Error('no dashboard')
  const filtersOf = (shown: typeof dashboard) =>
    JSON.parse(JSON.stringify(dashboardMetadata(shown, [], (view) => view))).native_filter_configuration
  expect(filtersOf(dashboard).map(({ name }: { name: string }) => name)).toContain('Keywords counted')
  const fixed = ['traffic_source', 'web_source', 'branded_type'].map((column) => ({ column }))
  const open = withoutFixed(dashboard, fixed)
  expect(open.charts.map(({ neverAcross }) => neverAcross)).not.toContainEqual(expect.arrayContaining(['branded_type']))
  expect(filtersOf(open)).toMatchObject([
    { name: 'Time', filterType: 'filter_time' },
    { name: 'Country', requiredFirst: true, controlValues: { defaultToFirstItem: true, multiSelect: false } },
    { name: 'Domain', requiredFirst: false, controlValues: { defaultToFirstItem: false, multiSelect: true } },
    { name: 'Group', requiredFirst: false },
    { name: 'Own or competitor', requiredFirst: false },
    { name: 'Domain of the lists', requiredFirst: true },
    { name: 'Another domain', requiredFirst: true },
  ])
})

test('rison says what was meant, whatever stands in the text', () => {
  for (const value of ["it's (all), !right: 1", 7]) expect(readRison(`(value:${risonOf(value)})`)).toEqual({ value })
})

test('every mistake of a dashboard file is told at once with its place', () => {
  const { problems } = parseDashboard(
    'd.yaml',
    `${head}  - chart: A\n    view: v\n    kind: line\n    measures: { X: sum(x) }\n    order: [Y desc]\n` +
      '  - chart: A\n    view: v\n    kind: table\n    columns: [a]\n    measures: { X: sum(x) }\n',
  )
  expect(problems.map(({ line, message }) => [line, message.split(';')[0]?.split(',')[0]])).toEqual([
    [7, "a line needs 'period'"],
    [9, "'Y desc' is neither a column nor a measure of this chart."],
    [10, "'A' appears twice"],
    [13, "a table has either 'columns' (plain rows) or 'measures'"],
  ])
  expect(
    parseDashboard('d.yaml', `${head}  - chart: A\n    veiw: v\n    kind: pie\n`).problems.map(({ message }) => message),
  ).toEqual([
    expect.stringContaining('charts.0.view is missing'),
    expect.stringContaining('expected one of trend, tile, line, bar, table'),
    expect.stringContaining("Did you mean 'view'"),
  ])
})

test('the example in docs/superset.md is one', () => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', '..', '..', 'docs', 'superset.md'), 'utf8')
  const { dashboard, problems } = parseDashboard('docs/superset.md', /```yaml\n([\s\S]+?)```/.exec(page)?.[1] ?? '')
  expect([dashboard?.charts.length, problems]).toEqual([3, []])
})

test('a tile asks for the newest period alone and shows its texts, and a line of ranks begins with 1 at the top', () => {
  const tile = chartOf('    kind: tile\n    period: month\n    measures: { Clicks: max(a), Before: max(b) }\n')
  const { viz_type, params, query_context } = supersetChart(tile, ['month'], [])
  const [query] = JSON.parse(query_context).queries
  expect([viz_type, query.columns, query.row_limit]).toEqual(['table', ['month'], 1])
  expect(query.orderby).toEqual([[expect.objectContaining({ sqlExpression: 'max(month)' }), false]])
  expect(params).toMatchObject({
    groupby: ['month'],
    row_limit: 1,
    metrics: [{ label: 'Clicks' }, { label: 'Before' }],
  })
  const line = chartOf('    kind: line\n    period: month\n    axis: rank\n    measures: { Position: max(p) }\n')
  expect(supersetChart(line, ['month'], []).params).toMatchObject({
    y_axis_bounds: [1, null],
    echart_options: expect.stringContaining('inverse: true'),
  })
})

test('months can be read, columns have labels, buckets are in order, parts change by points with a sign, and series have colours that differ', async () => {
  const dashboards = await loadDashboards([])
  const charts = dashboards.flatMap((dashboard) => dashboard.charts)
  const formOf = (kind: string) =>
    charts.filter((chart) => chart.kind === kind).map((chart) => supersetChart(chart, [...chart.columns, ...chart.by], []).params)
  for (const form of [...formOf('line'), ...formOf('bar')])
    expect(form).toMatchObject({
      x_axis_time_format: '%b %Y',
      sort_series_type: 'name',
      sort_series_ascending: true,
      show_legend: true,
    })
  const tables = charts.filter(({ kind }) => kind === 'table')
  for (const chart of tables)
    for (const name of chart.columns) {
      const { column_config: config } = z
        .object({
          column_config: z.record(z.string(), z.object({ customColumnName: z.string(), d3TimeFormat: z.string().optional() })),
        })
        .parse(supersetChart(chart, chart.columns, []).params)
      expect(config[name]?.customColumnName, `${chart.name}: ${name}`).toMatch(/^[A-Z][^_]*$/)
      if (['month', 'date', 'period', 'window_from'].includes(name)) expect(config[name]?.d3TimeFormat).toBe('%b %Y')
    }
  // Positions as text are in the order of the positions.
  const buckets = ['01-03', '04-10', '11-20', '21+']
  expect([...buckets].sort()).toEqual(buckets)
  for (const chart of charts.filter(({ kind }) => kind === 'tile'))
    for (const [label, sql] of chart.measures)
      if (/Before|Year/.test(label) && /^Part of|^Searches without|^Conversion/.test(chart.name))
        expect(sql, `${chart.name}: ${label}`).toMatch(/FMSG.* percentage points on/)
  for (const dashboard of dashboards) {
    if (dashboard.name === 'operations' || dashboard.name === 'summary') continue
    expect(dashboard.filters[0]).toMatchObject({ kind: 'time' })
    expect(dashboard.charts.some(({ where }) => /months_back (?:= 12|in \(1, 12\))/.test(where ?? ''))).toBe(true)
    expect(dashboardMetadata(dashboard, [], (view) => view)).toMatchObject({ color_scheme: 'echarts5Colors' })
  }
  expect(charts.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['Share of voice', 'Keywords that another domain has', 'Restatements', 'Visits as restated']),
  )
})

test('a filter narrows the charts it names, one of time those with a period, and one that names no chart is refused with its line', () => {
  const text = (filters: string): string =>
    `dashboard: D\npipeline: keywords\nfilters:\n${filters}charts:\n  - { chart: A, view: v, kind: table, columns: [x] }\n  - { chart: B, view: v, kind: line, period: month, measures: { M: max(x) } }\n`
  const { dashboard } = parseDashboard(
    'd.yaml',
    text(
      '  - { filter: When, time: true }\n  - { filter: One, view: v, column: x, charts: [A] }\n  - { filter: All, view: v, column: x }\n',
    ),
  )
  if (dashboard === null) throw new Error('the file is right')
  const placed = dashboard.charts.map((chart, at) => ({ id: at + 1, uuid: '', chart }))
  const { native_filter_configuration: filters } = JSON.parse(
    JSON.stringify(dashboardMetadata(dashboard, placed, (view) => view)),
  )
  const scopes = filters.map((one: { filterType: string; scope: { excluded: number[] } }) => [one.filterType, one.scope.excluded]) // biome-ignore format: one look
  expect(scopes).toEqual([
    ['filter_time', [1]],
    ['filter_select', [2]],
    ['filter_select', []],
  ])
  const { problems } = parseDashboard('d.yaml', text('  - { filter: One, view: v, column: x, charts: [C] }\n'))
  expect(problems).toMatchObject([{ line: 4, message: expect.stringContaining("this dashboard has no chart 'C'") }])
})

test('the summary fits a screen of 900 pixels, operators have a page of their own, and no table or tile asks for so many rows that Superset warns of a limit', async () => {
  const dashboards = await loadDashboards([])
  const [summary] = dashboards.filter(({ name }) => name === 'summary')
  if (summary === undefined) throw new Error('no summary')
  const rows = z.record(
    z.string(),
    z.object({ children: z.array(z.string()).optional(), meta: z.object({ height: z.number().optional() }).optional() }),
  )
  const placed = summary.charts.map((chart, id) => ({ id, uuid: `of ${id}`, chart }))
  const { DASHBOARD_VERSION_KEY: _version, ...nodes } = positionOf(summary, placed)
  const layout = rows.parse(nodes)
  const heights = (layout['GRID_ID']?.children ?? []).map((row) =>
    Math.max(...(layout[row]?.children ?? []).map((id) => (layout[id]?.meta?.height ?? 0) * 8)),
  )
  // Superset's own head of a page is about 130 pixels, and 16 stand between two rows.
  expect(heights.reduce((sum, one) => sum + one + 16, 130)).toBeLessThanOrEqual(900)
  expect(new Set(summary.charts.map(({ pipeline }) => pipeline)).size).toBe(3)
  for (const { name, charts } of dashboards)
    for (const chart of charts) {
      expect(['coverage', 'coverage_months', 'restatements'].includes(chart.view), chart.name).toBe(name === 'operations')
      const { params } = supersetChart(chart, [...chart.columns, ...chart.by], [])
      if (chart.kind === 'table')
        expect([params['server_pagination'], params['row_limit']], chart.name).toEqual(
          chart.columns.length > 0 ? [true, undefined] : [undefined, 1_000],
        )
      if (chart.kind === 'tile')
        expect([params['row_limit'], chart.where], chart.name).toEqual([2, expect.stringContaining('is_newest')])
    }
})
