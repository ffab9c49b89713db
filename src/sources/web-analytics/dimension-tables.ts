// Tables of bi that this service's facts join to (migrations/0005_dimensions.ts), and what it calls their values.
import type { DimensionTableSpec } from '../../core/dimension-table.ts'

let regionNames: Intl.DisplayNames | null = null

/** Made when first needed: it takes longer than all else a command loads of this folder. */
const regionName = (code: string): string | undefined => {
  regionNames ??= new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })
  return regionNames.of(code.toUpperCase())
}

const countryName = (code: string): string | null => (code === 'world' ? 'Worldwide' : (regionName(code) ?? null))

/** By the key column of facts. */
export const dimensionTables: Readonly<Record<string, DimensionTableSpec>> = {
  domain: { name: 'dim_domain', description: 'Every domain that facts speak of.', key: 'Domain, without www.' },
  country: {
    name: 'dim_country',
    description: 'Every country that facts speak of.',
    key: 'Two-letter ISO code in lower case, or world.',
    columns: { name: { description: 'Its name in English.', textOf: countryName } },
  },
  category_id: {
    name: 'dim_category',
    description: 'Every product category that facts speak of.',
    key: "The service's number of the category.",
    columns: {
      name: { description: 'Its name, where somebody wrote it in; the service gives none. NULL means unknown.' },
    },
  },
  keyword: {
    name: 'dim_keyword',
    description: 'Every keyword that facts speak of.',
    key: 'The search term.',
    columns: { words: { description: 'Words in it, split at blanks. Unit: words.' } },
  },
}
