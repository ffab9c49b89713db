// Units of a window by the values of their dimensions, for whoever tells rows apart before they reach the database.
import { sql } from 'kysely'
import type { Window } from '../core/types.ts'
import type { Counts, Flags, Maybe, Texts } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from './claim.ts'

/** As COPY writes it: backslash, tab and line ends. */
const escaped = (value: ReturnType<typeof sql>) =>
  sql`replace(replace(replace(replace(${value}, ${'\\'}, ${'\\\\'}), ${'\t'}, ${'\\t'}), ${'\n'}, ${'\\n'}), ${'\r'}, ${'\\r'})`

/**
 * The job's units in the window, a line each: their values of the dimensions asked for in COPY's text format, then their number. One text, since objects for
 * each would be most of what the process holds. null where the window has other units too, or one of them is or was loaded. Locks nothing.
 */
export const unitsNeverLoaded = async (
  db: Db,
  { pipelineId, sliceIds }: Pick<ClaimedJob, 'pipelineId' | 'sliceIds'>,
  { from }: Window,
  dimensions: readonly string[],
): Promise<string | null> => {
  const values = dimensions.map((name) => escaped(sql`s."values"[array_position(p.dimensions, ${name})]`))
  const { rows } = await sql<Counts<'n'> & Flags<'fit'> & Maybe<Texts<'units'>>>`
    select count(*) as n, coalesce(bool_and(fits), false) as fit, string_agg(line, ${'\n'}) as units from (
      select concat_ws(${'\t'}, ${sql.join(values)}, u.unit_id) as line,
        u.slice_id = any(${[...sliceIds]}::integer[]) and u.ask_number is null and u.answer_id is null as fits
      from etl.units u join etl.slices s on s.slice_id = u.slice_id join etl.pipelines p on p.pipeline_id = u.pipeline_id
      where u.pipeline_id = ${pipelineId} and u.window_from = ${from}::date limit ${sliceIds.length + 1}) x`.execute(db)
  const [row] = rows
  return row !== undefined && Number(row.n) === sliceIds.length && row.fit ? row.units : null
}
