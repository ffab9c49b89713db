// The warehouse as an analyst or operator reads it: rows and revisions from the data tables, states from the ledger. Plain SQL.
import type { WorldDatabase } from './databases.ts'
import { dateColumn, measures, placeColumn, type Rows, sorted, unitName } from './truth.ts'
import { type Pipeline, pipelines } from './world.ts'

type Pool = WorldDatabase['pool']

interface DataRow {
  readonly month: string
  readonly domain: string
  readonly place: string
  readonly values: (string | null)[]
  readonly features: string[] | null
}

const listed = 'serp_features'

const selected = (pipeline: Pipeline): string => {
  const plain = measures[pipeline].filter((name) => name !== listed)
  const features = pipeline === 'keywords' ? `to_json(${listed})` : 'null::json'
  return `to_char(${dateColumn(pipeline)}, 'YYYY-MM') as month, domain, ${placeColumn(pipeline)}::text as place,
    array[${plain.map((name) => `${name}::text`).join(', ')}] as values, ${features} as features`
}

const textOf = (pipeline: Pipeline, { values, features }: DataRow): string =>
  JSON.stringify(pipeline === 'keywords' ? [...values, features] : values)

const unitOf = (pipeline: Pipeline, { month, domain, place }: DataRow): string => unitName(pipeline, month, domain, place)

/** Current rows by unit; a unit without rows is not there. */
export const currentRows = async (pool: Pool): Promise<Rows> => {
  const found: Rows = new Map()
  for (const pipeline of pipelines) {
    const { rows } = await pool.query<DataRow>(`select ${selected(pipeline)} from data.${pipeline}_v1`)
    for (const row of rows) {
      const unit = unitOf(pipeline, row)
      found.set(unit, [...(found.get(unit) ?? []), textOf(pipeline, row)])
    }
  }
  return sorted(found)
}

export interface Revision {
  readonly text: string
  readonly isCurrent: boolean
}

/** Every revision of the rows of a report pipeline, oldest first, by unit: there a unit has one row. */
export const revisions = async (pool: Pool, pipeline: Pipeline): Promise<Map<string, Revision[]>> => {
  const { rows } = await pool.query<DataRow & { current: boolean }>(
    `select * from (
       select ${selected(pipeline)}, _loaded_at as at, true as current from data.${pipeline}_v1
       union all select ${selected(pipeline)}, _loaded_at, false from data.${pipeline}_v1_history) as x order by at`,
  )
  const found = new Map<string, Revision[]>()
  for (const row of rows) {
    const unit = unitOf(pipeline, row)
    found.set(unit, [...(found.get(unit) ?? []), { text: textOf(pipeline, row), isCurrent: row.current }])
  }
  return found
}

export interface HeldUnit {
  readonly unit: string
  readonly unitId: number
  readonly pipeline: Pipeline
  readonly domain: string
  readonly month: string
  readonly state: string
  readonly code: string | null
}

/** Numbers of the units that wait for a person because they would lose rows, also those whose value has left the lists. */
export const shrunkUnits = async (pool: Pool): Promise<string[]> => {
  const { rows } = await pool.query<{ unit_id: string }>(
    `select unit_id from etl.unit_list where state = 'held' and error_code = 'SHRUNK' order by unit_id`,
  )
  return rows.map(({ unit_id }) => unit_id)
}

/** Units that are wanted and not loaded, by what the ledger says of them. */
export const unfinishedUnits = async (pool: Pool): Promise<HeldUnit[]> => {
  const { rows } = await pool.query<{
    unit_id: string
    pipeline: Pipeline
    month: string
    slice: Record<string, string>
    state: string
    error_code: string | null
  }>(
    `select unit_id, pipeline, to_char(window_from, 'YYYY-MM') as month, slice, state, error_code from etl.unit_list
     where wanted and state <> 'loaded' order by unit_key`,
  )
  return rows.map(({ unit_id, pipeline, month, slice, state, error_code }) => {
    const domain = slice['domain'] ?? ''
    const place = slice[placeColumn(pipeline)] ?? ''
    return {
      unit: unitName(pipeline, month, domain, place),
      unitId: Number(unit_id),
      pipeline,
      domain,
      month,
      state,
      code: error_code,
    }
  })
}

/** Moves every moment of the warehouse into the past, as if so much time had gone by. No command may be running. */
export const age = async (pool: Pool, days: number): Promise<void> => {
  const { rows } = await pool.query<{ place: string; names: string[] }>(
    `select format('%I.%I', n.nspname, c.relname) as place, array_agg(quote_ident(a.attname)) as names
     from pg_class c join pg_namespace n on n.oid = c.relnamespace join pg_attribute a on a.attrelid = c.oid
     where n.nspname in ('etl', 'data') and c.relkind in ('r', 'p') and not c.relispartition
       and a.attnum > 0 and not a.attisdropped and a.atttypid = 'timestamptz'::regtype group by 1`,
  )
  for (const { place, names } of rows) {
    const moved = names.map((name) => `${name} = ${name} - interval '${days} days'`)
    await pool.query(`update ${place} set ${moved.join(', ')}`)
  }
}
