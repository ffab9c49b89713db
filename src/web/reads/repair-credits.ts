// The cost of trying a unit again: its job's price, as plan and guard compute it; 0 where the report is already bought or the answer landed.
import type { PipelinePrice } from '../../core/learned-price.ts'
import { type Flags, type Maybe, type Numbers, query, type Row } from '../../db/typed-row.ts'
import type { WebContext } from '../context.ts'

type Price = Row<'etl.pipelines', 'pipeline'> & Numbers<'unit_id' | 'cells'> & Maybe<Numbers<'estimate'>> & Flags<'buys'>

/** By unit id, for held and failed units; null: not known. A retry requests all units of the job again. */
export const repairCredits = async (
  { kysely, priceOf }: Pick<WebContext, 'kysely' | 'priceOf'>,
  units: readonly { readonly unit_id: number; readonly state: string }[],
): Promise<Map<number, number | null>> => {
  const troubled = units.filter(({ state }) => state === 'held' || state === 'failed').map(({ unit_id }) => String(unit_id))
  if (troubled.length === 0) return new Map()
  const rows = await query<Price>(kysely)`
    select u.unit_id::float8 as unit_id, p.pipeline, coalesce(j.cells, 0)::float8 as cells, j.estimated_quota::float8 as estimate,
      coalesce(j.state in ('held', 'failed') and j.guard <> 'needs approval' and j.answer_id is null and j.report_id is null, false) as buys
    from etl.units u join etl.pipelines p using (pipeline_id) left join etl.jobs j on j.job_id = u.job_id
    where u.unit_id = any(${troubled}::bigint[])`
  const prices = new Map<string, PipelinePrice>()
  for (const { pipeline, buys } of rows) if (buys && !prices.has(pipeline)) prices.set(pipeline, await priceOf(pipeline))
  return new Map(
    rows.map(({ unit_id, pipeline, cells, estimate, buys }) => {
      const each = prices.get(pipeline)?.unit?.likely ?? null
      return [unit_id, buys ? (estimate ?? (each === null ? null : each * cells)) : 0]
    }),
  )
}
