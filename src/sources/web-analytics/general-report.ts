// The general batch report (interface 4.3): any vtable, for lists of domains and countries.
import { z } from 'zod'
import type { Source } from '../../extract/source.ts'
import { type BatchDataset, estimateReport, extractReport, listReports, metricsOf, monthsOf, valuesOf } from './batch.ts'
import { forBatch, spellings } from './spelling.ts'
import { country, domain } from './dimensions.ts'
import { dimensionTables } from './dimension-tables.ts'
import { delivery, deliveryParams, period, periodProblems, spanOfReport } from './delivery.ts'
import { reportFields } from './fields.ts'

const dataset: BatchDataset = {
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
          filters: {
            domains: valuesOf(box, 'domain'),
            countries: valuesOf(box, 'country').map(forBatch),
            include_subdomains: definition.params['include_subdomains'],
          },
          metrics: metricsOf(definition),
          ...monthsOf(box),
        },
      ],
    },
  }),
}

/** Any dataset of the batch service: definitions name it in `params.vtable`. */
export const generalReport: Source = {
  name: 'web-analytics.report',
  kind: 'report',
  description: 'A general batch report: one dataset (vtable), bought, polled and downloaded.',
  windowSizes: ['month', 'week'],
  params: z.strictObject({
    vtable: z.string().regex(/^[a-z][a-z0-9_]*$/, 'expected the name of a dataset, see `millrace describe`'),
    granularity: z.enum(['daily', 'weekly', 'monthly']).default('monthly'),
    include_subdomains: z.boolean().default(true),
    ...delivery,
  }),
  deliveryParams,
  dimensions: { domain: { ...domain, mostPerRequest: 100 }, country: { ...country, mostPerRequest: 250 } },
  packing: { windows: 60 },
  period,
  dimensionTables,
  datasetOf: ({ params }) => String(params['vtable']),
  spanOf: spanOfReport,
  problems: periodProblems,
  fields: reportFields,
  openFields: true,
  spellings,
  extract: (request, context) => extractReport(dataset, request, context),
  listReports,
  estimate: (request, context) => estimateReport(dataset, request, context),
}
