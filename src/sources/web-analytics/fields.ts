// Fields of the answers known beforehand (interface 2.1, api-facts B): a definition may leave out their type and description.
import type { FieldSpec } from '../../core/source-spec.ts'

/** The interface declares a default of 0 for these, used only where the field is absent. */
const number = (description: string, unit?: string): FieldSpec => ({
  type: 'numeric',
  description,
  ifAbsent: '0',
  nullable: true,
  ...(unit === undefined ? {} : { unit }),
})

/** Fields of a keyword record (interface 2.1); defaults as interface 4.1 declares them. */
export const keywordFields: Readonly<Record<string, FieldSpec>> = {
  keyword: { type: 'text', description: 'The search term', nullable: false },
  top_url: { type: 'text', description: 'Landing page the clicks went to', unit: 'URL without scheme', nullable: false },
  clicks: number('Clicks from the keyword to the domain in the month', 'clicks per month'),
  traffic_share: number("The keyword's share", "fraction of the domain's search clicks"),
  difficulty: number('How hard it is to rank for the keyword', 'points from 0 to 100'),
  competition: {
    type: 'numeric',
    description: 'How strongly advertisers compete for the keyword',
    unit: 'points',
    nullable: true,
  },
  primary_intent: { type: 'text', description: 'What most searchers want', nullable: true },
  secondary_intent: { type: 'text', description: 'What other searchers want', nullable: true },
  volume: number('Average number of searches for the keyword', 'searches per month'),
  cpc: number('Average price of an ad click', 'US dollars per click'),
  cpc_low_bid: number('Lower end of the bids for the top of the page', 'US dollars per click'),
  cpc_high_bid: number('Upper end of the bids for the top of the page', 'US dollars per click'),
  zero_clicks_share: number('Searches that end without a click', 'fraction of searches'),
  position: number('Average position of the domain for the keyword', 'rank in the results'),
  serp_features: { type: 'text[]', description: 'Features shown on the results page', nullable: true },
}

/** A key column, with the other names of its field. */
const key = (type: FieldSpec['type'], description: string, normalize: string | null, aliases: readonly string[]): FieldSpec => ({
  ...{ type, description, nullable: false, aliases },
  ...(normalize === null ? {} : { normalize }),
})
const date = key('date', 'First day of the period', 'period_start', ['month', 'period', 'Date'])
const domain = key('text', 'Domain, without www.', 'domain', ['site', 'Domain'])
const country = key('text', 'Country: two-letter ISO code in lower case, or world', 'country', ['Country'])
const category = key('bigint', "The service's number of the product category", null, ['category', 'categoryId'])

/** Columns that every general report has; its metrics are an open set. */
export const reportFields: Readonly<Record<string, FieldSpec>> = { date, domain, country }

/** Columns that every shopper report has; its metrics are an open set. */
export const shopperFields: Readonly<Record<string, FieldSpec>> = { date, domain, category_id: category }
