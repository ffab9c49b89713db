// Answers that are here already: what another version or pipeline has loaded for the same question is not bought again.
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import type { RegisteredPipeline } from './pipelines.ts'

/** A pipeline of the same source; for each of our dimensions the place of its value there. */
interface Sister {
  readonly pipelineId: number
  readonly places: readonly number[]
}

/** Other versions of the pipeline whose answers may serve this one. */
export interface ReuseScope {
  readonly sisters: readonly Sister[]
  /** What is asked, see asksOf. */
  readonly asks: string
  /** Metrics the answer must hold. */
  readonly metrics: readonly string[]
}

/** null: no other pipeline could have asked the same. */
export const reuseScope = async (
  db: Db,
  { pipelineId, dimensions }: RegisteredPipeline,
  { asks, metrics, source }: Omit<ReuseScope, 'sisters'> & { readonly source: string },
): Promise<ReuseScope | null> => {
  const rows = await db
    .selectFrom('etl.pipelines')
    .select(['pipeline_id', 'dimensions'])
    .where('source', '=', source)
    .where('pipeline_id', '<>', pipelineId)
    .execute()
  const sisters = rows
    .filter((row) => [...row.dimensions].sort().join() === [...dimensions].sort().join())
    .map((row) => ({ pipelineId: row.pipeline_id, places: dimensions.map((name) => row.dimensions.indexOf(name)) }))
  return sisters.length === 0 ? null : { sisters, asks, metrics }
}

/**
 * The newest answer that holds the cell of slice `s` in the window, as a subquery of one row: answer_id. `limit 1` keeps a planner that knows nothing yet
 * of a table that has just grown from reading the sister's whole window for each slice.
 */
export const reusable = ({ sisters, asks, metrics }: ReuseScope, windowFrom: string): RawBuilder<unknown> => {
  const each = sisters.map(({ pipelineId, places }) => {
    // The sister's order of values, from ours.
    const values = places.map((_, place) => sql`s."values"[${sql.lit(places.indexOf(place) + 1)}]`)
    return sql`select a.answer_id, a.ask_number
      from etl.slices o cross join lateral (select u.answer_id from etl.units u
          where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and u.slice_id = o.slice_id limit 1) v
        join etl.answers a on a.answer_id = v.answer_id
      where o.pipeline_id = ${pipelineId} and o."values" = array[${sql.join(values)}]::text[]
        and a.asks = ${asks} and a.metrics @> ${[...metrics]}::text[] and coalesce(a.verdict, 'good') = 'good'`
  })
  return sql`select x.answer_id from (${sql.join(each, sql` union all `)}) x order by x.ask_number desc limit 1`
}
