// Dimensions: every domain, country, category and keyword that facts speak of, added in the transaction that brings it.
import { type Kysely, sql } from 'kysely'
import type { Definition, Unit } from '../core/types.ts'
import type { Tables } from '../db/tables.ts'
import { dataTable, scopeOf } from './table-columns.ts'

type Db = Kysely<Tables>

const regionNames = new Intl.DisplayNames(['en'], { type: 'region', fallback: 'none' })

const countryName = (code: string): string | null =>
  code === 'world' ? 'Worldwide' : (regionNames.of(code.toUpperCase()) ?? null)

const valuesOf = (unit: Unit, name: string): readonly string[] => {
  const value = unit.slice[name]
  return value === undefined ? [] : typeof value === 'string' ? [value] : [...value].sort()
}

/** Adds what is new; in one order everywhere, so that two loads never wait for each other in a circle. */
export const addDimensions = async (trx: Db, definition: Definition, unit: Unit, rowsInserted: number): Promise<void> => {
  const domains = valuesOf(unit, 'domain')
  if (domains.length > 0)
    await sql`insert into bi.dim_domain (domain) select v from unnest(${[...domains]}::text[]) v
      where not exists (select 1 from bi.dim_domain d where d.domain = v) order by v on conflict do nothing`.execute(trx)
  const countries = valuesOf(unit, 'country')
  if (countries.length > 0)
    await sql`insert into bi.dim_country (country, name) select v.country, v.name
      from unnest(${[...countries]}::text[], ${countries.map(countryName)}::text[]) as v (country, name)
      where not exists (select 1 from bi.dim_country d where d.country = v.country) order by 1 on conflict do nothing`.execute(
      trx,
    )
  const categories = valuesOf(unit, 'category_id')
  if (categories.length > 0)
    await sql`insert into bi.dim_category (category_id) select v from unnest(${[...categories]}::bigint[]) v
      where not exists (select 1 from bi.dim_category d where d.category_id = v) order by v on conflict do nothing`.execute(trx)
  if (rowsInserted > 0 && definition.columns.some(({ name, isKey }) => name === 'keyword' && isKey))
    await sql`insert into bi.dim_keyword (keyword, words)
      select keyword, array_length(regexp_split_to_array(btrim(keyword), '\\s+'), 1)
      from (select distinct keyword from ${dataTable(definition)} t where ${scopeOf(definition, unit, 't')}) seen
      where not exists (select 1 from bi.dim_keyword d where d.keyword = seen.keyword) order by keyword on conflict do nothing`.execute(
      trx,
    )
}
