// Units of which only the first rows came: cut at a limit, or wanted so. What is known of the rest goes on record with the load.
import { type RawBuilder, sql } from 'kysely'
import { query } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import type { Loading } from './loading.ts'
import type { TestedUnit } from './test-units.ts'

/** Rows that were asked for of each combination and period; null: all there are. */
export const mostRowsOf = ({ work: { source, definition } }: Loading): number | null =>
  source.limitsOf?.(definition.params).rows ?? null

/** Records that came for a unit: those that can be loaded, and those that cannot. */
interface Came extends TestedUnit {
  readonly rows: number
  readonly refused: number
}

/** Periods of a window are cut each by itself. */
export const isCut = (mostRows: number | null, { rows, refused }: Pick<Came, 'rows' | 'refused'>): boolean =>
  mostRows !== null && rows + refused > 0 && (rows + refused) % mostRows === 0

/** Call in the load's transaction. @param rows the answer's, as a table with `_unit_id` */
export const keepCut = async (db: Db, loading: Loading, loaded: readonly Came[], rows: RawBuilder<unknown>): Promise<void> => {
  const { source, definition } = loading.work
  const { rows: mostRows, top, shareField } = source.limitsOf?.(definition.params) ?? {}
  if (loaded.length === 0 || (mostRows ?? top) === undefined) return
  const numbers = loaded.map(({ number }) => number)
  await query(db)`delete from etl.cut_units where unit_id = any(${numbers}::bigint[])`
  const capped = loaded.filter((unit) => isCut(mostRows ?? null, unit)).map(({ number }) => number)
  const answer = sql`${loading.answer.answerId}::bigint`
  if (capped.length > 0)
    await query(db)`insert into etl.cut_units (unit_id, answer_id, row_limit)
      select unit_id, ${answer}, ${mostRows ?? null}::integer from unnest(${capped}::bigint[]) as x (unit_id)`
  const share = definition.columns.find(({ name, from }) => [...from, name].includes(shareField ?? ''))
  if (top === undefined || share === undefined) return
  // A sum beyond the whole says nothing of it.
  await query(db)`insert into etl.cut_units (unit_id, answer_id, share)
    select _unit_id, ${answer}, least(sum(${sql.ref(share.name)}), 1) from ${rows} r where _unit_id = any(${numbers}::bigint[])
    group by _unit_id having count(*) >= ${top} and sum(${sql.ref(share.name)}) between 0 and 1.001`
}
