// What requests cost that are paid for one by one: added up by day, pipeline and tags in the transaction that records them.
import { type RawBuilder, sql } from 'kysely'
import type { SentRequest } from '../core/sent-request.ts'
import type { Db } from '../db/tables.ts'

/** Requests of one day, run and job. */
export interface Charge {
  readonly day: string
  readonly account: string
  readonly pipelineId: number
  readonly runId: number
  /** null: planning asked. */
  readonly jobId: number | null
  readonly requests: number
  readonly credits: number
  /** Of the requests, those whose price nobody knows. */
  readonly unpriced: number
  /** Of the credits, those the service may not have charged. */
  readonly uncertain: number
}

interface Charged extends Pick<SentRequest, 'paidFor'> {
  readonly account: string
  readonly pipelineId: number | null
  readonly runId: number
  readonly jobId: number | null
  readonly credits: number | null
  readonly isUncertain: boolean
  readonly startedAt: string
}

/** Those that cost something, added up; in the order in which their sums are locked. */
export const chargesOf = (records: readonly Charged[]): Charge[] => {
  const paid = records.filter(({ credits, paidFor }) => (credits === null ? paidFor !== null : credits > 0))
  const groups = Map.groupBy(paid, ({ startedAt, account, pipelineId, runId, jobId }) =>
    JSON.stringify([startedAt.slice(0, 10), account, pipelineId, runId, jobId]),
  )
  return [...groups]
    .sort(([left], [right]) => (left < right ? -1 : 1))
    .flatMap(([, group]) => {
      const [first] = group
      if (first === undefined || first.pipelineId === null) return []
      const { startedAt, account, pipelineId, runId, jobId } = first
      const sumOf = (some: readonly Charged[]): number => some.reduce((sum, { credits }) => sum + (credits ?? 0), 0)
      const uncertain = sumOf(group.filter(({ isUncertain }) => isUncertain))
      return [
        {
          day: startedAt.slice(0, 10),
          account,
          pipelineId,
          runId,
          jobId,
          requests: group.length,
          credits: sumOf(group),
          uncertain,
          unpriced: group.filter(({ credits }) => credits === null).length,
        },
      ]
    })
}

/** Rows of one day that backends add to, each to its own: two that write at the same time do not wait for each other. */
const slots = 1024

/** @param charges JSON of a list of them */
export const countCredits = (charges: string): RawBuilder<unknown> => sql`
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
    select x.day, x.account, x."pipelineId", p.tag_set_id,
      coalesce((select j.wanted_by = 'night' from etl.jobs j where j.job_id = x."jobId"),
        (select r.command in ('run', 'schedule') from etl.runs r where r.run_id = x."runId"), false), pg_backend_pid() % ${sql.lit(slots)},
      sum(x.requests), sum(x.credits), sum(x.uncertain), sum(x.unpriced)
    from jsonb_to_recordset(${charges}::jsonb) as x(day date, account text, "pipelineId" integer, "runId" bigint, "jobId" bigint, requests bigint, credits numeric,
        uncertain numeric, unpriced bigint) join etl.pipelines p on p.pipeline_id = x."pipelineId"
    group by 1, 2, 3, 4, 5
    on conflict (day, account, pipeline_id, tag_set_id, is_night, slot) do update
      set requests = c.requests + excluded.requests, credits = c.credits + excluded.credits, uncertain = c.uncertain + excluded.uncertain,
        unpriced = c.unpriced + excluded.unpriced`

/** Adds the rows of days that are over up to one each. Two at once do nothing twice. */
export const addUpCredits = async (db: Db): Promise<void> => {
  await sql`
    with gone as (
      delete from etl.request_credits where slot >= 0 and day < (clock_timestamp() at time zone 'UTC')::date - 1 returning *
    )
    insert into etl.request_credits as c (day, account, pipeline_id, tag_set_id, is_night, slot, requests, credits, uncertain, unpriced)
    select day, account, pipeline_id, tag_set_id, is_night, -1, sum(requests), sum(credits), sum(uncertain), sum(unpriced) from gone group by 1, 2, 3, 4, 5
    on conflict (day, account, pipeline_id, tag_set_id, is_night, slot) do update
      set requests = c.requests + excluded.requests, credits = c.credits + excluded.credits, uncertain = c.uncertain + excluded.uncertain,
        unpriced = c.unpriced + excluded.unpriced`.execute(db)
}
