// The query that fills a summary, or a part of it: over rows of its pipeline, and over what is loaded of it, with or without rows.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Mart } from '../core/mart.ts'
import type { Definition } from '../core/types.ts'

export interface SummedUp {
  /** A whole table expression. */
  readonly facts: RawBuilder<unknown>
  /** True for the units `u` of pipelines `p` whose rows these are. */
  readonly units: RawBuilder<unknown>
}

/** @param definition the mart's pipeline */
export const summaryQuery = (
  mart: Pick<Mart, 'sql'>,
  definition: Definition,
  { facts, units }: SummedUp,
): RawBuilder<unknown> => {
  const tables = new Map([
    ['{{facts}}', sql`${facts} as facts`],
    ['{{loaded}}', sql`(${loadedCells(definition, units)}) as loaded`],
  ])
  // A line of its own for what follows: the query may end with a comment.
  return sql.join([...mart.sql.split(/(\{\{\w+\}\})/).map((part) => tables.get(part) ?? sql.raw(part)), sql.raw('\n')], sql` `) // biome-ignore format: one look
}

/** The first day that another pipeline's rows stand for the pipeline's own in bi, as it is on record; infinity: there is none. */
export const ownBefore = ({ pipeline }: Pick<Definition, 'pipeline'>): RawBuilder<string> =>
  sql`coalesce((select case when h.successor is not null then h.starts_on end from etl.hand_overs h
    where h.pipeline = ${sql.lit(pipeline)} order by h.since desc limit 1), 'infinity'::date)`

/** Without what another pipeline continues: a summary has no rows of that one, and these are no longer read. @param period column of the facts */
export const ownPart = (definition: Definition, period: string, { facts, units }: SummedUp): SummedUp => ({
  facts: sql`(select own.* from ${facts} as own where ${sql.ref(`own.${period}`)} < ${ownBefore(definition)})`,
  units: sql`(${units}) and u.window_from < ${ownBefore(definition)}`,
})

/** The columns of the key that tell units apart, of each unit that has an answer and all of them; in one line, so that those of the mart keep their numbers. */
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

/** Of a row over more than was loaded only what came last would be left. @param day a row's that lies outside of it */
export const isWider = ({ file, name }: Pick<Mart, 'file' | 'name'>, day: string): EtlError =>
  new EtlError(
    'DEFINITION',
    `${file}: its query gives a row of ${day}, outside what was loaded. Let it keep the period of the rows, or write bi.${name} as a view (\`-- reads:\`); then \`millrace migrate\`.`,
  )
