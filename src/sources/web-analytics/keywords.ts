// Keyword research (interface 2.1, 2.2, 4.1): one domain, country and month a unit, read page by page.
import { z } from 'zod'
import type { SourceOrder } from '../../core/completeness.ts'
import { walkPages } from '../../extract/paged.ts'
import type { Source } from '../../extract/source.ts'
import { spellings } from './spelling.ts'
import { dialectV4, dialectV5 } from './service-dialect.ts'
import { country, dimensionTables, domain, oneOf } from './service-dimensions.ts'
import { topOf, topRows } from './delivery.ts'
import { keywordFields } from './fields.ts'
import { balance } from './discovery.ts'
import { fetchPage, pagingOf, seenPrices } from './keyword-page.ts'

const filters = {
  traffic_source: ['Organic', 'Paid', 'All'],
  web_source: ['Desktop', 'MobileWeb', 'Total'],
  branded_type: ['Branded', 'NonBranded', 'All'],
} as const

/** Proved complete by `keywords_count`, seen unchanged on every page. */
export const keywords: Source = {
  name: 'web-analytics.keywords',
  kind: 'walk',
  description: 'Keywords that bring search clicks to a domain, by country and month.',
  windowSizes: ['month'],
  params: z.strictObject({
    traffic_source: z.enum(filters.traffic_source).default('All'),
    web_source: z.enum(filters.web_source).default('Total'),
    branded_type: z.enum(filters.branded_type).default('All'),
    top: z.exactOptional(topRows),
  }),
  limitsOf: ({ top }) => (typeof top === 'number' ? { top, shareField: 'traffic_share' } : {}),
  dimensions: {
    domain: { ...domain, mostPerRequest: 1 },
    country: { ...country, mostPerRequest: 1 },
    // A parameter for all units, or a dimension with a value for each unit. All and Total include the other values.
    traffic_source: oneOf('Clicks counted', filters.traffic_source),
    web_source: oneOf('Devices counted', filters.web_source),
    branded_type: oneOf('Keywords counted', filters.branded_type),
  },
  dimensionTables,
  fields: keywordFields,
  openFields: true,
  recordsIn: dialectV4.keywords.list,
  dialects: { v5: { ...dialectV5.keywords, recordsIn: dialectV5.keywords.list } },
  spellings,
  extract: async function* (request, context) {
    const { limits } = request.definition
    let order: SourceOrder | null = null
    const result = yield* walkPages({
      unitKey: request.box.key,
      pageSize: limits.pageSize,
      maxPages: limits.maxPages,
      concurrency: limits.concurrency,
      keepPart: context.keepPart,
      ...pagingOf(request, context),
      ...topOf(request.definition.params),
      fetch: async (offset, limit, part, arrived) => {
        const page = await fetchPage(request, context, offset, limit, part, arrived)
        if (offset === 0) order = page?.said ?? null
        return page
      },
    })
    if (result.expectedRows === 0)
      context.notice(
        'NO_DATA',
        `${request.box.key}: the service has no data for it; it is recorded as empty. Check the spelling of the domain if that surprises.`,
      )
    return { ...result, order }
  },
  probe: async (request, context) => {
    const page = await fetchPage(request, context, 0, 1, 1)
    return page === null
      ? { lastUpdated: null, count: 0 }
      : { lastUpdated: page.lastUpdated, count: page.total, dataVersion: page.dataVersion }
  },
  balance,
  billing: { seen: seenPrices },
  estimate: async () => ({ requests: null, rows: null, quota: null }),
}
