// Batch reports: general ones (interface 4.3), any vtable for lists of domains and countries; and shopper ones (4.2), category sales of shops.
import { z } from 'zod'
import { metricsOf } from '../../core/request-digest.ts'
import type { Source } from '../../extract/source.ts'
import { type BatchDataset, estimateReport, extractReport, monthsOf, valuesOf } from './batch.ts'
import { listReports } from './discovery.ts'
import { forBatch, spellings } from './spelling.ts'
import { categoryId, dimensionTables, domain } from './service-dimensions.ts'
import { topRows, delivery, deliveryParams, period, periodProblems, spanOfReport } from './delivery.ts'
import { reportFields, shopperFields } from './fields.ts'
import {
  filtersOf,
  tableParams,
  pagingOf,
  splitOf,
  tableDimensions,
  tableLimits,
  tableProblems,
  withDefaults,
} from './known-tables.ts'

/** What both kinds share. */
const batchReport = (dataset: BatchDataset) =>
  ({
    kind: 'report',
    windowSizes: ['month', 'week'],
    deliveryParams,
    packing: { windows: 60 },
    period,
    dimensionTables,
    spanOf: spanOfReport,
    openFields: true,
    tableIn: ['vtable', 'table'],
    spellings,
    extract: extractReport(dataset),
    listReports,
    estimate: estimateReport(dataset),
  }) satisfies Partial<Source>

/** Countries in upper case, ids as the numbers they are (interface 4.2, 4.3). */
const spelled = (dimension: string, value: string): string | number => {
  if (dimension === 'country') return forBatch(value)
  return dimension.endsWith('_id') && /^(?:0|[1-9]\d{0,14})$/.test(value) ? Number(value) : value
}

const generalDataset: BatchDataset = {
  endpoint: 'report',
  body: (definition, box) => ({
    delivery_information: {
      response_format: definition.params['response_format'],
      delivery_method: definition.params['delivery_method'],
    },
    report_query: {
      tables: [
        {
          vtable: definition.params['vtable'],
          granularity: definition.params['granularity'],
          filters: filtersOf(definition.params, (dimension) =>
            valuesOf(box, dimension).map((value) => spelled(dimension, value)),
          ),
          metrics: metricsOf(definition),
          ...monthsOf(box),
          ...pagingOf(definition.params),
        },
      ],
    },
  }),
}

/** Any dataset of the batch service: definitions name it in `params.vtable`. */
export const generalReport: Source = {
  ...batchReport(generalDataset),
  name: 'web-analytics.report',
  description: 'A general batch report: one dataset (vtable), bought, polled and downloaded.',
  params: z.strictObject({
    vtable: z.string().regex(/^[a-z][a-z0-9_]*$/, 'expected the name of a dataset, see `millrace describe`'),
    granularity: z.enum(['daily', 'weekly', 'monthly']).default('monthly'),
    include_subdomains: z.exactOptional(z.boolean()),
    limit: z.exactOptional(topRows),
    top: z.exactOptional(topRows),
    ...tableParams,
    ...delivery,
  }),
  dimensions: tableDimensions({}),
  dimensionsOf: tableDimensions,
  withDefaults,
  splitOf,
  limitsOf: tableLimits,
  datasetOf: ({ params }) => String(params['vtable']),
  problems: (definition) => [...periodProblems(definition), ...tableProblems(definition)],
  fields: reportFields,
}

const shopperDataset: BatchDataset = {
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

/** Sales by domain and category; proved complete by `data_points_count`. */
export const shopperReport: Source = {
  ...batchReport(shopperDataset),
  name: 'web-analytics.shopper-report',
  description: 'Consumer demand and sales by product category for shops.',
  params: z.strictObject({ granularity: z.enum(['monthly', 'weekly', 'daily']).default('monthly'), ...delivery }),
  dimensions: { domain: { ...domain, mostPerRequest: 100 }, category_id: { ...categoryId, mostPerRequest: 100 } },
  // Categories or brands (api-facts 41): whichever the pipeline runs for.
  dimensionsOf: (_, forEach) => ({
    domain: { ...domain, mostPerRequest: 100 },
    ...(forEach.includes('brand') && !forEach.includes('category_id')
      ? { brand: { description: "The service's name of a brand", required: true, mostPerRequest: 100 } }
      : { category_id: { ...categoryId, mostPerRequest: 100 } }),
  }),
  problems: periodProblems,
  fields: shopperFields,
}
