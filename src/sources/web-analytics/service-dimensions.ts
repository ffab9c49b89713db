// What a pipeline of this service can run for, and the tables of bi that its facts join to (migrations/0005_dimensions.ts).
import type { DimensionTableSpec } from '../../core/dimension-table.ts'
import type { DimensionSpec } from '../../core/source-spec.ts'

type Part = Omit<DimensionSpec, 'mostPerRequest'>

/** As requests and answers name it; api-facts A 38. */
export const domain: Part = {
  description: 'Domain without www. and without a scheme',
  required: true,
  normalize: 'domain',
  example: 'example.com',
  pattern: /^(?!www\.)(?=.{1,253}$)([\p{L}\p{N}_]([\p{L}\p{N}_-]{0,61}[\p{L}\p{N}_])?\.)+[\p{L}\p{N}][\p{L}\p{N}-]{0,61}$/u,
  expected: 'a domain such as example.com, without www. and without https://',
}

/** The keyword endpoint wants it in lower case, batch in upper case: spelling.ts. */
export const country: Part = {
  description: 'Two-letter ISO code in lower case, or world',
  required: true,
  normalize: 'country',
  example: 'us',
  pattern: /^([a-z]{2}|world)$/,
  expected: 'a two-letter ISO country code in lower case, or world',
}

/** The service gives no list of them, so any whole number is allowed. */
export const categoryId: Part = {
  description: "The service's number of a product category",
  required: true,
  pattern: /^\d{1,18}$/,
  expected: 'a whole number',
}

/** A parameter that a definition may also run for; each value is asked for on its own. */
export const oneOf = (what: string, values: readonly string[]): DimensionSpec => ({
  description: `${what}: ${values.join(', ')}`,
  required: false,
  mostPerRequest: 1,
  pattern: new RegExp(`^(${values.join('|')})$`),
  expected: `one of ${values.join(', ')}`,
})

let regionNames: Intl.DisplayNames | null = null

/** Made when first needed: it takes longer than all else a command loads of this folder. */
const regionName = (code: string): string | undefined => {
  regionNames ??= new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })
  return regionNames.of(code.toUpperCase())
}

const countryName = (code: string): string | null => (code === 'world' ? 'Worldwide' : (regionName(code) ?? null))

/** By the key column of facts. */
export const dimensionTables: Readonly<Record<string, DimensionTableSpec>> = {
  domain: { name: 'dim_domain', description: 'Every domain that was loaded, with rows or without.', key: 'Domain, without www.' },
  country: {
    name: 'dim_country',
    description: 'Every country that was loaded, with rows or without.',
    key: 'Two-letter ISO code in lower case, or world.',
    columns: { name: { description: 'Its name in English.', textOf: countryName } },
  },
  category_id: {
    name: 'dim_category',
    description: 'Every product category that was loaded, with rows or without.',
    key: "The service's number of the category.",
    columns: {
      name: { description: 'Its name, where a person entered it; the service gives none. NULL means unknown.' },
    },
  },
  keyword: {
    name: 'dim_keyword',
    description: 'Every keyword in the facts.',
    key: 'The search term.',
    columns: { words: { description: 'Words in it, split at blanks. Unit: words.' } },
  },
}
