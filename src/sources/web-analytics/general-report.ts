// The general batch report (interface 4.3): any vtable, for lists of domains and countries.
import { z } from 'zod'
import { metricsOf } from '../../core/asks.ts'
import type { Source } from '../../extract/source.ts'
import { type BatchDataset, estimateReport, extractReport, listReports, monthsOf, valuesOf } from './batch.ts'
import { forBatch, spellings } from './spelling.ts'
import { dimensionTables } from './dimension-tables.ts'
import { topRows, delivery, deliveryParams, period, periodProblems, spanOfReport } from './delivery.ts'
import { reportFields } from './fields.ts'
import {
  filtersOf,
  ownWords,
  pagingOf,
  splitOf,
  tableDimensions,
  tableLimits,
  tableProblems,
  withDefaults,
} from './known-tables.ts'

/** Countries in upper case, ids as the numbers they are (interface 4.2, 4.3). */
const spelled = (dimension: string, value: string): string | number => {
  if (dimension === 'country') return forBatch(value)
  return dimension.endsWith('_id') && /^\d{1,15}$/.test(value) ? Number(value) : value
}

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
  name: 'web-analytics.report',
  kind: 'report',
  description: 'A general batch report: one dataset (vtable), bought, polled and downloaded.',
  windowSizes: ['month', 'week'],
  params: z.strictObject({
    vtable: z.string().regex(/^[a-z][a-z0-9_]*$/, 'expected the name of a dataset, see `millrace describe`'),
    granularity: z.enum(['daily', 'weekly', 'monthly']).default('monthly'),
    include_subdomains: z.exactOptional(z.boolean()),
    limit: z.exactOptional(topRows),
    top: z.exactOptional(topRows),
    ...ownWords,
    ...delivery,
  }),
  deliveryParams,
  dimensions: tableDimensions({}),
  dimensionsOf: tableDimensions,
  withDefaults,
  splitOf,
  packing: { windows: 60 },
  limitsOf: tableLimits,
  period,
  dimensionTables,
  datasetOf: ({ params }) => String(params['vtable']),
  spanOf: spanOfReport,
  problems: (definition) => [...periodProblems(definition), ...tableProblems(definition)],
  fields: reportFields,
  openFields: true,
  spellings,
  extract: (request, context) => extractReport(dataset, request, context),
  listReports,
  estimate: (request, context) => estimateReport(dataset, request, context),
}
