// The oracle of rows: what the service has for each unit that is wanted, against what the data tables hold.
import type { TableQuery } from '../../src/sandbox/report-query.ts'
import type { SoldRow } from '../../src/sandbox/sandbox-server.ts'
import { type Pipeline, pipelines, type World } from './world.ts'

/** Rows as texts, sorted, by unit: `pipeline 2026-01 domain place`. */
export type Rows = Map<string, string[]>

const keywordColumns =
  'keyword top_url clicks traffic_share difficulty competition primary_intent secondary_intent volume cpc cpc_low_bid cpc_high_bid zero_clicks_share position serp_features'.split(
    ' ',
  )
/** The interface's declared default for a field that is not there. */
const zeroIfAbsent = new Set(
  'clicks traffic_share difficulty volume cpc cpc_low_bid cpc_high_bid zero_clicks_share position'.split(' '),
)
const trafficColumns =
  'all_traffic_visits mobile_visits desktop_visits desktop_unique_visitors mobile_unique_visitors all_page_views'.split(' ')
const shopperColumns = 'product_views units_sold revenue cvr'.split(' ')

export const measures: Readonly<Record<Pipeline, readonly string[]>> = {
  keywords: keywordColumns,
  traffic_and_engagement: trafficColumns,
  shopper_category_performance: shopperColumns,
}
export const placeColumn = (pipeline: Pipeline): string =>
  pipeline === 'shopper_category_performance' ? 'category_id' : 'country'
export const dateColumn = (pipeline: Pipeline): string => (pipeline === 'keywords' ? 'month' : 'date')

export const unitName = (pipeline: Pipeline, month: string, domain: string, place: string): string =>
  `${pipeline} ${month.slice(0, 7)} ${domain} ${place === 'WW' ? 'world' : place.toLowerCase()}`

const textOf = (values: readonly unknown[]): string => JSON.stringify(values)

/** A report's row as the warehouse's columns have it. */
export const reportText = (pipeline: Pipeline, row: SoldRow): string => {
  const prefix = pipeline === 'shopper_category_performance' ? 'category_sales_performance_' : ''
  return textOf(measures[pipeline].map((name) => row[prefix + name] ?? null))
}

/** As the service writes it: at most ten digits after the point, no exponent. */
const decimal = (value: number): string => (String(value).includes('e') ? value.toFixed(10).replace(/\.?0+$/, '') : String(value))

const keywordText = (record: Readonly<Record<string, unknown>>): string =>
  textOf(
    keywordColumns.map((name) => {
      const value = record[name]
      if (value === undefined) return zeroIfAbsent.has(name) ? '0' : null
      return typeof value === 'number' ? decimal(value) : value
    }),
  )

/** The one-table query a report pipeline of the shipped definitions asks. */
export const tableOf = (pipeline: Pipeline, domains: string[], places: string[], months: readonly string[]): TableQuery => {
  const isShopper = pipeline === 'shopper_category_performance'
  return {
    vtable: isShopper ? null : 'traffic_and_engagement',
    granularity: 'monthly',
    domains,
    places: isShopper ? places : places.map((place) => (place === 'world' ? 'WW' : place.toUpperCase())),
    includeSubdomains: true,
    metrics: isShopper ? shopperColumns.map((name) => `category_sales_performance_${name}`) : trafficColumns,
    dates: months.map((month) => `${month}-01`),
  }
}

const slicesOf = ({ lists }: World, pipeline: Pipeline): { domains: string[]; places: string[] } =>
  pipeline === 'shopper_category_performance'
    ? { domains: lists.shops, places: lists.categories }
    : { domains: lists.domains, places: lists.countries }

/** Every unit that is wanted now. */
export const wantedUnits = (world: World, pipeline: Pipeline): string[] => {
  const { domains, places } = slicesOf(world, pipeline)
  return world.months.flatMap((month) =>
    domains.flatMap((domain) => places.map((place) => unitName(pipeline, month, domain, place))),
  )
}

/** What the service has now for every unit that is wanted now; units without a row are there, empty. */
export const wantedTruth = (world: World): Rows => {
  const rows: Rows = new Map(pipelines.flatMap((pipeline) => wantedUnits(world, pipeline)).map((unit) => [unit, []]))
  for (const pipeline of pipelines) {
    const { domains, places } = slicesOf(world, pipeline)
    if (pipeline === 'keywords') {
      for (const month of world.months)
        for (const domain of domains)
          for (const country of places)
            rows.set(unitName(pipeline, month, domain, country), keywordTruth(world, domain, country, month))
      continue
    }
    for (const row of world.sandbox.truth.report(tableOf(pipeline, domains, places, world.months)))
      rows.get(unitOfRow(pipeline, row))?.push(reportText(pipeline, row))
  }
  return sorted(rows)
}

export const keywordTruth = (world: World, domain: string, country: string, month: string): string[] =>
  world.sandbox.truth
    .keywords({ domain, country, from: month, to: month, trafficSource: 'All', webSource: 'Total', brandedType: 'All' })
    .map(keywordText)
    .sort()

export const unitOfRow = (pipeline: Pipeline, row: SoldRow): string =>
  unitName(pipeline, row['date'] ?? '', row['domain'] ?? '', row[placeColumn(pipeline)] ?? '')

export const sorted = (rows: Rows): Rows => {
  for (const list of rows.values()) list.sort()
  return rows
}
