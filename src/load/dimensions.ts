// Dimensions: every domain, country, category and keyword that facts speak of, added in the transaction that brings it.
import { type RawBuilder, sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { MergeScope } from './merge-scope.ts'
import { dataTable, scopeOf, stagedRows } from './table-columns.ts'

let regionNames: Intl.DisplayNames | null = null

/** Made when first needed: it takes longer than all else a command loads of this folder. */
const regionName = (code: string): string | undefined => {
  regionNames ??= new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })
  return regionNames.of(code.toUpperCase())
}

/** What a country is called; null where nobody knows. */
export const countryName = (code: string): string | null => (code === 'world' ? 'Worldwide' : (regionName(code) ?? null))

/** The scope's values of a dimension as a table of one column, `v`; null where it has no such dimension. */
const valuesOf = (scope: MergeScope, name: string, type: 'text' | 'bigint'): RawBuilder<unknown> | null => {
  if (scope.kind === 'many' && scope.accepted.columns.some((column) => column.name === name))
    return sql`(select distinct ${sql.ref(name)}::${sql.raw(type)} as v from ${scope.accepted.name} where _outcome = 'accepted') wanted`
  const value = scope.slice[name]
  return value === undefined ? null : sql`unnest(${[value].flat()}::${sql.raw(type)}[]) v`
}

/**
 * Adds what is new, in one statement and in one order everywhere, so that two loads never wait for each other in a circle. Rows that
 * changed or ended brought their values when they were inserted.
 * @param staging quoted name of the table that holds the answer's rows, whose keywords are read sooner than the loaded ones; default the latter
 */
export const addDimensions = async (
  trx: Db,
  definition: Definition,
  scope: MergeScope,
  rowsInserted: number,
  staging: string | null = null,
): Promise<void> => {
  if (rowsInserted === 0) return
  const inserts = dimensionInserts(definition, scope, {
    nameOf: countryName,
    rows: rowsOf(definition, scope, staging),
    when: sql`true`,
    areFew: false,
  })
  if (inserts.length > 0) await sql`with ${sql.join(inserts)} select 1`.execute(trx)
}

/** The staged rows have statistics; the month may be so new that it has none, and then each keyword would be looked up by itself. */
const rowsOf = (definition: Definition, scope: MergeScope, staging: string | null): RawBuilder<unknown> => {
  const isStaged = definition.columns.some(({ name, origin }) => name === 'keyword' && origin === 'response')
  if (staging !== null && isStaged) return sql`(select keyword from ${stagedRows(definition, scope, staging)} s)`
  return sql`(select keyword from ${dataTable(definition)} t where ${scopeOf(definition, scope, 't')})`
}

export interface DimensionOptions {
  readonly nameOf: (country: string) => string | null
  /** The rows loaded, as far as their keywords go. */
  readonly rows: RawBuilder<unknown>
  /** Nothing is added where it does not hold. */
  readonly when: RawBuilder<unknown>
  /** Few values are cheaper looked up one by one, by the insert itself; many are joined with what is there. */
  readonly areFew: boolean
}

/** One entry of a WITH for each dimension of the scope, always in the same order. */
export const dimensionInserts = (definition: Definition, scope: MergeScope, options: DimensionOptions): RawBuilder<unknown>[] =>
  [domains(scope, options), countries(scope, options), categories(scope, options), keywords(definition, options)]
    .filter((one) => one !== null)
    .map((insert, index) => sql`${sql.raw(`d${index}`)} as (${insert})`)

type Insert = RawBuilder<unknown> | null

const unless = ({ when, areFew }: DimensionOptions, there: RawBuilder<unknown>): RawBuilder<unknown> =>
  areFew ? when : sql`not exists (${there}) and ${when}`

const domains = (scope: MergeScope, options: DimensionOptions): Insert => {
  const values = valuesOf(scope, 'domain', 'text')
  if (values === null) return null
  return sql`insert into bi.dim_domain (domain) select v from ${values}
    where ${unless(options, sql`select 1 from bi.dim_domain d where d.domain = v`)} order by v on conflict do nothing`
}

/** Their names come from here, hence the list of all the scope may have. */
const countries = (scope: MergeScope, options: DimensionOptions): Insert => {
  const values = valuesOf(scope, 'country', 'text')
  if (values === null) return null
  const all = [scope.slice['country'] ?? []].flat()
  return sql`insert into bi.dim_country (country, name) select named.country, named.name from ${values}
      join unnest(${all}::text[], ${all.map(options.nameOf)}::text[]) as named (country, name) on named.country = v
    where ${unless(options, sql`select 1 from bi.dim_country d where d.country = v`)} order by 1 on conflict do nothing`
}

const categories = (scope: MergeScope, options: DimensionOptions): Insert => {
  const values = valuesOf(scope, 'category_id', 'bigint')
  if (values === null) return null
  return sql`insert into bi.dim_category (category_id) select v from ${values}
    where ${unless(options, sql`select 1 from bi.dim_category d where d.category_id = v`)} order by v on conflict do nothing`
}

/** Of plain words with a blank between them, as nearly all are, the blanks are counted: a regular expression takes ten times as long. */
const words = sql.raw(`case when keyword ~ '[^ -~]|  |^ | $' then array_length(regexp_split_to_array(btrim(keyword), '\\s+'), 1)
      else length(keyword) - length(replace(keyword, ' ', '')) + 1 end`)

const keywords = (definition: Definition, options: DimensionOptions): Insert => {
  if (!definition.columns.some(({ name, isKey }) => name === 'keyword' && isKey)) return null
  return sql`insert into bi.dim_keyword (keyword, words)
    select keyword, ${words} from (select distinct keyword from ${options.rows} loaded) seen
    where ${unless(options, sql`select 1 from bi.dim_keyword d where d.keyword = seen.keyword`)} order by keyword on conflict do nothing`
}
