// The shopper report (interface 4.2): category sales of shops, for lists of domains and categories.
import { z } from 'zod'
import { metricsOf } from '../../core/asks.ts'
import type { Source } from '../../extract/source.ts'
import { type BatchDataset, estimateReport, extractReport, listReports, monthsOf, valuesOf } from './batch.ts'
import { dimensionTables } from './dimension-tables.ts'
import { delivery, deliveryParams, period, periodProblems, spanOfReport } from './delivery.ts'
import { categoryId, domain } from './dimension-spelling.ts'
import { shopperFields } from './fields.ts'
import { spellings } from './spelling.ts'

const dataset: BatchDataset = {
  endpoint: 'shopper',
  body: (definition, box) => ({
    domains: valuesOf(box, 'domain'),
    ...(box.slice['brand'] === undefined
      ? { category_ids: valuesOf(box, 'category_id').map(Number) }
      : { brands: valuesOf(box, 'brand') }),
    metrics: metricsOf(definition),
    ...monthsOf(box),
    granularity: definition.params['granularity'],
    response_format: definition.params['response_format'],
  }),
}

/** Sold by domain and category; proved complete by `data_points_count`. */
export const shopperReport: Source = {
  name: 'web-analytics.shopper-report',
  kind: 'report',
  description: 'Consumer demand and sales by product category for shops.',
  windowSizes: ['month', 'week'],
  params: z.strictObject({ granularity: z.enum(['monthly', 'weekly', 'daily']).default('monthly'), ...delivery }),
  deliveryParams,
  dimensions: { domain: { ...domain, mostPerRequest: 100 }, category_id: { ...categoryId, mostPerRequest: 100 } },
  // Categories or brands (api-facts 41): whichever the pipeline runs for.
  dimensionsOf: (_, forEach) => ({
    domain: { ...domain, mostPerRequest: 100 },
    ...(forEach.includes('brand') && !forEach.includes('category_id')
      ? { brand: { description: "The service's name of a brand", required: true, mostPerRequest: 100 } }
      : { category_id: { ...categoryId, mostPerRequest: 100 } }),
  }),
  packing: { windows: 60 },
  period,
  dimensionTables,
  spanOf: spanOfReport,
  problems: periodProblems,
  fields: shopperFields,
  openFields: true,
  spellings,
  extract: (request, context) => extractReport(dataset, request, context),
  listReports,
  estimate: (request, context) => estimateReport(dataset, request, context),
}
