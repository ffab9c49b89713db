// Small sources for the tests of definitions; the real ones live under src/sources.
import { z } from 'zod'
import type { DimensionSpec, FieldSpec, SourceSpec } from '../../../src/core/source-spec.ts'
import { spellings } from '../../../src/sources/web-analytics/spelling.ts'

const domain: DimensionSpec = {
  description: 'Domain',
  required: true,
  mostPerRequest: 1,
  normalize: 'domain',
  example: 'example.com',
}
const country: DimensionSpec = { description: 'Country', required: true, mostPerRequest: 1, normalize: 'country', example: 'us' }

const number = (type: 'bigint' | 'numeric'): FieldSpec => ({ type, description: 'A figure', ifAbsent: '0' })

export const keywordsSpec: SourceSpec = {
  name: 'web-analytics.keywords',
  kind: 'walk',
  description: 'Keywords',
  params: z.strictObject({
    traffic_source: z.enum(['Organic', 'Paid', 'All']).default('All').describe('Clicks counted'),
    web_source: z.enum(['Desktop', 'MobileWeb', 'Total']).default('Total'),
    branded_type: z.enum(['Branded', 'NonBranded', 'All']).default('All'),
  }),
  dimensions: { domain, country },
  fields: {
    keyword: { type: 'text', description: 'The search term', nullable: false },
    top_url: { type: 'text', description: 'Landing page', nullable: false, unit: 'URL without scheme' },
    clicks: number('bigint'),
    traffic_share: number('numeric'),
    difficulty: { ...number('bigint'), nullable: true },
    competition: { type: 'numeric', description: 'Competition', nullable: true },
    primary_intent: { type: 'text', description: 'Intent', nullable: true },
    secondary_intent: { type: 'text', description: 'Other intent', nullable: true },
    volume: number('bigint'),
    cpc: number('numeric'),
    cpc_low_bid: number('numeric'),
    cpc_high_bid: number('numeric'),
    zero_clicks_share: number('numeric'),
    position: number('bigint'),
    serp_features: { type: 'text[]', description: 'Features' },
  },
  openFields: false,
  spellings,
  windowSizes: ['month'],
}

export const reportSpec: SourceSpec = {
  name: 'web-analytics.report',
  kind: 'report',
  description: 'General batch report',
  params: z.strictObject({
    vtable: z.string().min(1),
    granularity: z.enum(['daily', 'weekly', 'monthly']).default('monthly'),
    include_subdomains: z.boolean().default(true),
  }),
  dimensions: { domain: { ...domain, mostPerRequest: 100 }, country: { ...country, required: false, mostPerRequest: 250 } },
  fields: {
    domain: { type: 'text', description: 'Domain', normalize: 'domain', aliases: ['site'] },
    country: { type: 'text', description: 'Country', normalize: 'country' },
    date: { type: 'date', description: 'Period', normalize: 'period_start' },
  },
  openFields: true,
  spellings,
}

export const shopperSpec: SourceSpec = {
  name: 'web-analytics.shopper-report',
  kind: 'report',
  description: 'Shopper report',
  params: z.strictObject({ granularity: z.enum(['monthly']).default('monthly') }),
  dimensions: {
    domain: { ...domain, mostPerRequest: 100 },
    category_id: { description: 'Category', required: true, mostPerRequest: 100, pattern: /^\d{1,18}$/, expected: 'a number' },
  },
  fields: {
    domain: { type: 'text', description: 'Domain', normalize: 'domain' },
    category_id: { type: 'bigint', description: 'Category' },
    date: { type: 'date', description: 'Period', normalize: 'period_start' },
  },
  openFields: true,
  spellings,
}

export const specs: ReadonlyMap<string, SourceSpec> = new Map(
  [keywordsSpec, reportSpec, shopperSpec].map((spec) => [spec.name, spec]),
)
