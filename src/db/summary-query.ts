// The query that fills a summary or a part of it, from the rows of its pipeline and from its loaded cells (with or without rows).
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'

export interface SummaryInput {
  /** A whole table expression. */
  readonly facts: RawBuilder<unknown>
  /** A condition on units `u` and pipelines `p`: true for the units that the rows belong to. */
  readonly units: RawBuilder<unknown>
}

/** @param definition the mart's pipeline */
export const summaryQuery = (
  mart: Pick<Mart, 'sql'>,
  definition: Definition,
  { facts, units }: SummaryInput,
): RawBuilder<unknown> => {
  const tables = new Map([
    ['{{facts}}', sql`${facts} as facts`],
    ['{{loaded}}', sql`(${loadedCells(definition, units)}) as loaded`],
  ])
  // A line of its own for what follows: the query may end with a comment.
  return sql.join([...mart.sql.split(/(\{\{\w+\}\})/).map((part) => tables.get(part) ?? sql.raw(part)), sql.raw('\n')], sql` `) // biome-ignore format: one look
}

/** The first day from which bi shows a successor's rows instead of the pipeline's own, as recorded; infinity: no successor. */
export const successorFrom = ({ pipeline }: Pick<Definition, 'pipeline'>): RawBuilder<string> =>
  sql`coalesce((select case when h.successor is not null then h.starts_on end from etl.hand_overs h
    where h.pipeline = ${sql.lit(pipeline)} order by h.since desc limit 1), 'infinity'::date)`

/** Only the part before a successor takes over: a summary has no rows of the successor, and bi no longer reads the pipeline's own. @param period column of the facts */
export const beforeSuccessor = (definition: Definition, period: string, { facts, units }: SummaryInput): SummaryInput => ({
  facts: sql`(select own.* from ${facts} as own where ${sql.ref(`own.${period}`)} < ${successorFrom(definition)})`,
  units: sql`(${units}) and u.window_from < ${successorFrom(definition)}`,
})

/** `{{loaded}}`: the key columns that identify a unit, for each unit with an answer and without NULLs. One line of SQL, so that the mart's lines keep their numbers. */
const loadedCells = ({ columns, dimensions }: Definition, units: RawBuilder<unknown>): RawBuilder<unknown> => {
  const own = columns.filter(
    ({ name, isKey, origin }) => isKey && (origin !== 'response' || dimensions.some((one) => one.name === name)),
  )
  const cells = own.map(({ name, type, origin }) =>
    origin === 'window'
      ? sql`u.window_from as ${sql.ref(name)}`
      : sql`coalesce(s."values"[array_position(p.dimensions, ${sql.lit(name)})], p.parameters ->> ${sql.lit(name)})::${sql.raw(type)} as ${sql.ref(name)}`,
  )
  return sql`select c.* from (select ${sql.join(cells)} from etl.units u join etl.pipelines p on p.pipeline_id = u.pipeline_id join etl.slices s on s.slice_id = u.slice_id where u.answer_id is not null and (${units})) c where c is not null`
}

/** A summary row that covers more than this load would keep only the last load's values. @param day of a row outside of this load */
export const tooWideError = ({ file, name }: Pick<Mart, 'file' | 'name'>, day: string): EtlError =>
  new EtlError(
    'DEFINITION',
    `${file}: its query returns a row of ${day}, outside the loaded windows. Keep the period of the rows in it, or make bi.${name} a view (\`-- reads:\`); then \`millrace migrate\`.`,
  )
