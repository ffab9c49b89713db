// Which landings are still needed: an answer that rows come from, that is held back or not loaded yet, or that is only just arriving.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'

export interface LandingToCheck {
  readonly locator: string
  /** Of the question it answers; null where its name does not say. */
  readonly askNumber: string | null
}

/** Those of `landings` that must stay. */
export const landingsNeeded = async (db: Db, landings: readonly LandingToCheck[]): Promise<ReadonlySet<string>> => {
  if (landings.length === 0) return new Set()
  const locators = landings.map(({ locator }) => locator)
  const askNumbers = landings.map(({ askNumber }) => askNumber)
  const { rows } = await sql<{ landing: string }>`
    select l.landing from unnest(${locators}::text[], ${askNumbers}::bigint[]) as l (landing, ask_number)
    where l.ask_number in (select ask_number from etl.jobs where state = 'open' and ask_number is not null)
      or exists (select 1 from etl.answers a where a.landing = l.landing and (
        exists (select 1 from etl.jobs j where j.answer_id = a.answer_id and j.state in ('open', 'held', 'failed'))
        or exists (select 1 from etl.units u where u.held_answer_id = a.answer_id)
        -- Another version of the pipeline may have loaded it too, whose slices have numbers of their own.
        or exists (
          select 1 from etl.loads d join etl.slices o on o.slice_id = any(a.slice_ids)
            join etl.slices s on s.pipeline_id = d.pipeline_id and s."values" = o."values"
            join etl.units u on u.pipeline_id = d.pipeline_id and u.window_from = d.window_from and u.slice_id = s.slice_id
          where d.answer_id = a.answer_id and u.answer_id = a.answer_id)))`.execute(db)
  return new Set(rows.map(({ landing }) => landing))
}
