// What people do in a Superset that is theirs as well: a chart on our dashboard, our chart on theirs, a metric, a column and a label of their own.
import { expect } from 'vitest'
import { z } from 'zod'
import { type Api, chartsOf, dashboardOf } from './superset-api.ts'

const made = z.object({ id: z.int() })
const detailsSchema = z.object({
  result: z.object({
    metrics: z.array(z.looseObject({ metric_name: z.string(), expression: z.string() })),
    columns: z.array(
      z.looseObject({ column_name: z.string(), verbose_name: z.string().nullish(), expression: z.string().nullish() }),
    ),
  }),
})
const pick = (one: Record<string, unknown>, names: readonly string[]): Record<string, unknown> =>
  Object.fromEntries(names.flatMap((name) => (one[name] === undefined ? [] : [[name, one[name]]])))

const datasetId = async (api: Api, view: string): Promise<number> => {
  const path = `/api/v1/dataset/?q=(filters:!((col:schema,opr:eq,value:'bi')),page:0,page_size:100)`
  const entry = z.object({ result: z.array(z.object({ id: z.int(), table_name: z.string() })) })
  const { result } = entry.parse(await api('GET', path))
  return result.find(({ table_name }) => table_name === view)?.id ?? 0
}
const details = async (api: Api, id: number) => detailsSchema.parse(await api('GET', `/api/v1/dataset/${id}`)).result

/** Returns the id of a dashboard of their own, which shows our chart `Clicks by intent`. */
export const addOwn = async (api: Api): Promise<number> => {
  const id = await datasetId(api, 'keyword_months')
  const { metrics, columns } = await details(api, id)
  await api('PUT', `/api/v1/dataset/${id}`, {
    metrics: [
      ...metrics.map((one) => pick(one, ['id', 'metric_name', 'expression', 'description', 'd3format', 'verbose_name', 'extra'])),
      { metric_name: 'my_clicks', expression: 'sum(clicks) * 2' },
    ],
    columns: [
      ...columns.map((one) => ({
        ...pick(one, ['id', 'column_name', 'type', 'is_dttm', 'groupby', 'filterable', 'is_active', 'description']),
        ...(one.column_name === 'domain' ? { verbose_name: 'Site' } : {}),
      })),
      { column_name: 'my_month', expression: 'extract(month from month)', type: 'NUMERIC', groupby: true, filterable: true },
    ],
  })
  const ours = await dashboardOf(api, 'millrace-keywords')
  const charts = await chartsOf(api, 'millrace-keywords')
  const intent = charts.find(({ slice_name }) => slice_name === 'Clicks by intent')
  const { result } = z
    .object({ result: z.object({ params: z.string(), query_context: z.string() }) })
    .parse(await api('GET', `/api/v1/chart/${intent?.id}`))
  const mine = {
    ...result,
    slice_name: 'Mine',
    viz_type: 'echarts_timeseries_bar',
    description: '',
    datasource_id: id,
    datasource_type: 'table',
    dashboards: [ours],
  }
  await api('POST', '/api/v1/chart/', mine)
  const own = made.parse(await api('POST', '/api/v1/dashboard/', { dashboard_title: 'Ours alone', slug: 'ours-alone' })).id
  await api('PUT', `/api/v1/chart/${intent?.id}`, { dashboards: [ours, own] })
  return own
}

/** All of it is still there. */
export const ownIsThere = async (api: Api): Promise<void> => {
  const { metrics, columns } = await details(api, await datasetId(api, 'keyword_months'))
  expect(metrics.filter(({ metric_name }) => metric_name === 'my_clicks')).toMatchObject([{ expression: 'sum(clicks) * 2' }])
  expect(columns.filter(({ column_name }) => column_name === 'my_month')).toMatchObject([
    { expression: 'extract(month from month)' },
  ])
  expect(columns.find(({ column_name }) => column_name === 'domain')?.verbose_name).toBe('Site')
  expect((await chartsOf(api, 'ours-alone')).map(({ slice_name }) => slice_name)).toEqual(['Clicks by intent'])
  const all = z
    .object({ count: z.int() })
    .parse(await api('GET', `/api/v1/chart/?q=(filters:!((col:slice_name,opr:eq,value:'Mine')),page:0,page_size:10)`))
  expect(all.count).toBe(1)
}

const slugs = ['keywords', 'operations', 'shopper-category-performance', 'summary', 'traffic-and-engagement'].map(
  (name) => `millrace-${name}`,
)

/** Our charts and dashboards as Superset has them, without the moments of their changes. */
export const everythingOurs = async (api: Api): Promise<unknown[]> => {
  const found: unknown[] = []
  const chart = z.object({ result: z.object({ slice_name: z.string(), params: z.string(), query_context: z.string() }) })
  const dashboard = z.object({
    result: z.object({ dashboard_title: z.string(), position_json: z.string(), json_metadata: z.string() }),
  })
  for (const slug of slugs) {
    const id = await dashboardOf(api, slug)
    const charts = (await chartsOf(api, slug)).map((one) => one.id).sort((a, b) => a - b)
    for (const one of charts) found.push({ one, ...chart.parse(await api('GET', `/api/v1/chart/${one}`)).result })
    found.push({ id, ...dashboard.parse(await api('GET', `/api/v1/dashboard/${id}`)).result })
  }
  return found
}
