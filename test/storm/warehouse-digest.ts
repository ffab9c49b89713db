// What a warehouse holds, unit by unit: rows and ended revisions without what names the run and the moment.
import type { DatabasePool } from '../../src/db/connect.ts'
import { stormPipelines } from './storm-world.ts'

export interface UnitDigest {
  readonly rows: number
  readonly current: string
  readonly history: string
}

export interface LedgerUnit {
  readonly key: string
  readonly state: string
  readonly edition: number
  /** Of the answer that is loaded; null: none is. */
  readonly loadedEdition: number | null
  readonly errorCode: string | null
}

const asideNames = ['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id']

const digestOf = async (pool: DatabasePool, table: string): Promise<Map<string, { rows: number; digest: string }>> => {
  const line = `(to_jsonb(t) - $1::text[])::text`
  const { rows } = await pool.query<{ key: string; rows: number; digest: string }>(
    `select coalesce(u.unit_key, 'unit ' || t._unit_id) as key, count(*)::int as rows,
       md5(string_agg(${line}, E'\\n' order by ${line} collate "C")) as digest
     from ${table} t left join etl.units u on u.unit_id = t._unit_id group by 1`,
    [asideNames],
  )
  return new Map(rows.map(({ key, ...rest }) => [key, rest]))
}

const nothing = '-'

/** By unit key; units without rows are not there. */
export const digestWarehouse = async (pool: DatabasePool): Promise<Map<string, UnitDigest>> => {
  const units = new Map<string, UnitDigest>()
  for (const pipeline of stormPipelines) {
    const current = await digestOf(pool, `data.${pipeline}_v1`)
    const history = await digestOf(pool, `data.${pipeline}_v1_history`)
    for (const key of new Set([...current.keys(), ...history.keys()])) {
      const now = current.get(key)
      units.set(key, {
        rows: now?.rows ?? 0,
        current: now?.digest ?? nothing,
        history: history.get(key)?.digest ?? nothing,
      })
    }
  }
  return units
}

export const ledgerUnits = async (pool: DatabasePool): Promise<LedgerUnit[]> => {
  const { rows } = await pool.query<LedgerUnit>(
    `select unit_key as key, state, edition, loaded_edition as "loadedEdition", error_code as "errorCode" from etl.units order by 1`,
  )
  return rows
}

/** Keys in one duplicated by another row: the data tables' own key says there are none; asked all the same, over partitions. */
export const sameDigest = (left: UnitDigest | undefined, right: UnitDigest | undefined): boolean =>
  left?.current === right?.current && left?.history === right?.history
