// Dimensions: every domain, country, category and keyword that facts speak of, added in the transaction that brings it.
import { type Kysely, type RawBuilder, sql } from 'kysely'
import type { Definition, Unit } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'
import { dataTable, scopeOf } from './table-columns.ts'

type Db = Kysely<Tables>

let regionNames: Intl.DisplayNames | null = null

/** Made when first needed: it takes longer than all else a command loads of this folder. */
const regionName = (code: string): string | undefined => {
  regionNames ??= new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })
  return regionNames.of(code.toUpperCase())
}

const countryName = (code: string): string | null => (code === 'world' ? 'Worldwide' : (regionName(code) ?? null))

const valuesOf = (unit: Unit, name: string): readonly string[] => {
  const value = unit.slice[name]
  return value === undefined ? [] : typeof value === 'string' ? [value] : [...value].sort()
}

/**
 * Adds what is new, in one statement and in one order everywhere, so that two loads never wait for each other in a circle. Rows that
 * changed or ended brought their values when they were inserted.
 */
export const addDimensions = async (trx: Db, definition: Definition, unit: Unit, rowsInserted: number): Promise<void> => {
  if (rowsInserted === 0) return
  const inserts = [domains(unit), countries(unit), categories(unit), keywords(definition, unit)].filter((one) => one !== null)
  if (inserts.length === 0) return
  const named = inserts.map((insert, index) => sql`${sql.raw(`d${index}`)} as (${insert})`)
  await sql`with ${sql.join(named)} select 1`.execute(trx)
}

type Insert = RawBuilder<unknown> | null

const domains = (unit: Unit): Insert => {
  const values = valuesOf(unit, 'domain')
  if (values.length === 0) return null
  return sql`insert into bi.dim_domain (domain) select v from unnest(${[...values]}::text[]) v
    where not exists (select 1 from bi.dim_domain d where d.domain = v) order by v on conflict do nothing`
}

const countries = (unit: Unit): Insert => {
  const values = valuesOf(unit, 'country')
  if (values.length === 0) return null
  return sql`insert into bi.dim_country (country, name) select v.country, v.name
    from unnest(${[...values]}::text[], ${values.map(countryName)}::text[]) as v (country, name)
    where not exists (select 1 from bi.dim_country d where d.country = v.country) order by 1 on conflict do nothing`
}

const categories = (unit: Unit): Insert => {
  const values = valuesOf(unit, 'category_id')
  if (values.length === 0) return null
  return sql`insert into bi.dim_category (category_id) select v from unnest(${[...values]}::bigint[]) v
    where not exists (select 1 from bi.dim_category d where d.category_id = v) order by v on conflict do nothing`
}

const keywords = (definition: Definition, unit: Unit): Insert => {
  if (!definition.columns.some(({ name, isKey }) => name === 'keyword' && isKey)) return null
  return sql`insert into bi.dim_keyword (keyword, words)
    select keyword, array_length(regexp_split_to_array(btrim(keyword), '\\s+'), 1)
    from (select distinct keyword from ${dataTable(definition)} t where ${scopeOf(definition, unit, 't')}) seen
    where not exists (select 1 from bi.dim_keyword d where d.keyword = seen.keyword) order by keyword on conflict do nothing`
}
