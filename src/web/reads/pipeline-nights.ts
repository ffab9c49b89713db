// What each night did to the rows of each pipeline, as its run kept it: no load is read.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import type { Row } from '../../db/typed-row.ts'

/** One run and pipeline. */
export interface PipelineNight extends Row<'etl.pipelines', 'pipeline'> {
  readonly finished_at: string
  /** The day (UTC) on which the run ended. */
  readonly day: string
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  /** Months, `2026-01`, in which rows of an earlier load changed or ended. */
  readonly restated: readonly string[]
}

/** Oldest first. A run at work is not in it. @param fromDay the first one, `YYYY-MM-DD` */
export const pipelineNights = async (db: Db, fromDay: string): Promise<PipelineNight[]> => {
  const { rows } = await sql<PipelineNight>`
    select p.key as pipeline, r.finished_at, to_char(r.finished_at at time zone 'UTC', 'YYYY-MM-DD') as day,
      coalesce((p.value ->> 'inserted')::float8, 0) as inserted, coalesce((p.value ->> 'updated')::float8, 0) as updated,
      coalesce((p.value ->> 'ended')::float8, 0) as ended, coalesce(p.value -> 'restated', '[]') as restated
    from etl.runs r cross join lateral jsonb_each(r.summary -> 'pipelines') p
    where r.finished_at >= ${fromDay}::date order by r.finished_at, r.run_id`.execute(db)
  return rows
}

/** The newest restatement of a pipeline, and every month that was restated since `fromDay` of the rows given. */
export const restatedOf = (
  nights: readonly PipelineNight[],
): { readonly at: string | null; readonly newest: readonly string[]; readonly months: ReadonlySet<string> } => {
  const changed = nights.filter(({ restated }) => restated.length > 0)
  const last = changed.at(-1)
  return {
    at: last?.finished_at ?? null,
    newest: last?.restated ?? [],
    months: new Set(changed.flatMap(({ restated }) => restated)),
  }
}
