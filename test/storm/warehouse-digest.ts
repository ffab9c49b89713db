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
  /** Of the answer its rows come from; null: nothing is loaded. */
  readonly askNumber: string | null
  readonly errorCode: string | null
}

const asideNames = ['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id']

const digestOf = async (pool: DatabasePool, table: string): Promise<Map<string, { rows: number; digest: string }>> => {
  const line = `(to_jsonb(t) - $1::text[])::text`
  const { rows } = await pool.query<{ key: string; rows: number; digest: string }>(
    `select coalesce(u.unit_key, 'unit ' || t._unit_id) as key, count(*)::int as rows,
       md5(string_agg(${line}, E'\\n' order by ${line} collate "C")) as digest
     from ${table} t left join etl.unit_list u on u.unit_id = t._unit_id group by 1`,
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
    `select unit_key as key, state, error_code as "errorCode", ask_number as "askNumber" from etl.unit_list order by 1`,
  )
  return rows
}

/** Units that took an answer which they had taken already, or a second one where the service has changed nothing. Nobody has asked for a replay. */
export const loadsTwice = async (pool: DatabasePool): Promise<unknown[]> => {
  const { rows } = await pool.query(
    `select u.unit_key, count(*)::int as loads from etl.unit_list u
       join etl.loads l on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from and l.outcome = 'loaded'
       join etl.answers a on a.answer_id = l.answer_id and u.slice_id = any (a.slice_ids)
     group by 1 having count(*) > 1 order by 1`,
  )
  return rows
}

/** Units whose purchase nobody can tell of. */
export const uncertainUnits = async (pool: DatabasePool): Promise<number> => {
  const { rows } = await pool.query<{ units: number }>(
    `select count(*)::int as units from etl.units u join etl.jobs j on j.job_id = u.job_id
     where j.state = 'held' and j.report_state = 'uncertain'`,
  )
  return rows[0]?.units ?? 0
}

/** Keys in one duplicated by another row: the data tables' own key says there are none; asked all the same, over partitions. */
export const sameDigest = (left: UnitDigest | undefined, right: UnitDigest | undefined): boolean =>
  left?.current === right?.current && left?.history === right?.history
