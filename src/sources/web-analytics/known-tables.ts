// How a table of the batch service is requested: by a definition's own parameters, else by known-tables.yaml. An unknown one is as most are.
import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { z } from 'zod'
import { shipped } from '../../core/shipped.ts'
import type { DatasetLimits, DimensionSpec, SpecProblem } from '../../core/source-spec.ts'
import { country, domain } from './service-dimensions.ts'

const schema = z.record(
  z.string(),
  z.strictObject({
    filters: z.array(z.string()),
    split: z.string().optional(),
    rows: z.enum(['one', 'many']).optional(),
    values: z.int().positive(),
    months: z.int().positive().optional(),
    granularities: z.array(z.string()).optional(),
    until: z.string().optional(),
    successor: z.string().optional(),
  }),
)
type KnownTable = z.infer<typeof schema>[string]

let known: z.infer<typeof schema> | null = null

/** Read when first asked for. */
const tables = (): z.infer<typeof schema> =>
  (known ??= schema.parse(parse(readFileSync(shipped('src', 'sources', 'web-analytics', 'known-tables.yaml'), 'utf8'))))

const unknownTable: KnownTable = { filters: ['domains', 'countries', 'include_subdomains'], rows: 'many', values: 100 }

type Params = Readonly<Record<string, unknown>>

/** Parameters in which a definition describes its table itself. */
export const tableParams = {
  filters: z.exactOptional(
    z.array(z.string().regex(/^[a-z][a-z0-9_]*$/, 'expected the name of a filter, see `millrace describe`')),
  ),
  rows: z.exactOptional(z.enum(['one', 'many'])),
  most_values: z.exactOptional(z.int().min(1).max(1_000_000)),
  most_months: z.exactOptional(z.int().min(1).max(1_000)),
}

const texts = z.array(z.string())

/** The table as a definition with these parameters, as they were written, describes it. */
export const tableOf = (params: Params): KnownTable => {
  const table = tables()[String(params['vtable'])] ?? unknownTable
  const { filters, rows, most_values: values, most_months: months } = params
  return {
    ...table,
    ...(texts.safeParse(filters).success ? { filters: texts.parse(filters) } : {}),
    ...(rows === 'one' || rows === 'many' ? { rows } : {}),
    ...(typeof values === 'number' ? { values } : {}),
    ...(typeof months === 'number' ? { months } : {}),
  }
}

/** Rows a domain that a table of many rows returns by default (54). Only `params.limit` requests more: rows cost. */
const usualRows = 100

const hasMany = ({ rows, split }: KnownTable): boolean => (rows ?? (split === undefined ? 'one' : 'many')) === 'many'

/** A filter that is no list. */
const flag = 'include_subdomains'

/** Lists that a report of the table names. */
export const listsOf = ({ filters }: KnownTable): readonly string[] => filters.filter((name) => name !== flag)

/** The dimension of a pipeline for a filter, as in known-tables.yaml: `countries` is `country`, `segment_ids` is `segment_id`. */
export const dimensionOf = (filter: string): string => filter.replace(/ies$/, 'y').replace(/s$/, '')

const mostCountries = 250

export const tableLimits = (params: Params): DatasetLimits => {
  const table = tableOf(params)
  const [first, ...others] = listsOf(table).map(dimensionOf)
  const values = {
    ...Object.fromEntries(others.map((name) => [name, name === 'country' ? mostCountries : 100])),
    ...(first === undefined ? {} : { [first]: table.values }),
  }
  const { limit, top } = params
  const rows = typeof limit === 'number' ? limit : hasMany(table) ? usualRows : undefined
  return {
    values,
    ...(table.months === undefined ? {} : { months: table.months }),
    // Only the first rows are wanted, so none of them was cut.
    ...(typeof top === 'number' ? { top } : rows === undefined ? {} : { rows }),
  }
}

/** The limit as a report names it; nothing for a table of few rows, and for one that was not seen to take it. */
export const pagingOf = (params: Params): { paging?: { limit: number } } => {
  const { top, rows = top } = tableLimits(params)
  const isKnown =
    String(params['vtable']) in tables() || params['rows'] !== undefined || params['limit'] !== undefined || top !== undefined
  return rows === undefined || !isKnown ? {} : { paging: { limit: rows } }
}

/** What a pipeline of the table runs for: whatever it filters by. */
export const tableDimensions = (params: Params): Readonly<Record<string, DimensionSpec>> => {
  const { values = {} } = tableLimits(params)
  return Object.fromEntries(
    listsOf(tableOf(params)).map((filter): [string, DimensionSpec] => {
      const name = dimensionOf(filter)
      const part = { domain, country }[name] ?? { description: `A value of the filter ${filter}`, required: true }
      return [name, { ...part, mostPerRequest: values[name] ?? 1 }]
    }),
  )
}

/** The parameters with the defaults of the table. */
export const withDefaults = <Given extends Params>(params: Given): Given =>
  tableOf(params).filters.includes(flag) && params[flag] === undefined ? { ...params, [flag]: true } : params

/** `filters` of a report. @param listOf values of a dimension as the service writes them */
export const filtersOf = (params: Params, listOf: (dimension: string) => readonly (string | number)[]): object =>
  Object.fromEntries(
    tableOf(params).filters.map((filter) => [filter, filter === flag ? params[flag] : listOf(dimensionOf(filter))]),
  )

/** Columns that identify a row beside the filters; null: unknown. */
export const splitOf = (table: string): readonly string[] | null => {
  const found = tables()[table]
  return found === undefined ? null : [found.split ?? []].flat()
}

const wrong = (param: string, message: string): SpecProblem => ({ path: ['params', param], message })

/** A definition may lower a known limit of its table, not raise it. @param most undefined: unknown */
const tooMany = (
  params: Params,
  table: string,
  param: 'most_values' | 'most_months',
  most: number | undefined,
  what: string,
): SpecProblem[] => {
  const asked = params[param]
  if (most === undefined || typeof asked !== 'number' || asked <= most) return []
  return [wrong(param, `the table ${table} takes ${most} ${what}s a report; write a number from 1 to ${most}.`)]
}

export const tableProblems = ({ params }: { readonly params: Params }): readonly SpecProblem[] => {
  const { filters, granularities } = tableOf(params)
  const name = String(params['vtable'])
  const { values, months } = tables()[name] ?? {}
  const granularity = String(params['granularity'])
  return [
    ...(params[flag] === undefined || filters.includes(flag)
      ? []
      : [wrong(flag, `the table ${name} does not filter by ${flag}; it filters by ${filters.join(', ')}.`)]),
    ...(granularities === undefined || granularities.includes(granularity)
      ? []
      : [wrong('granularity', `the table ${name} has no ${granularity} rows; write one of ${granularities.join(', ')}.`)]),
    ...tooMany(params, name, 'most_values', values, dimensionOf(listsOf(tableOf(params))[0] ?? 'values')),
    ...tooMany(params, name, 'most_months', months, 'month'),
  ]
}
