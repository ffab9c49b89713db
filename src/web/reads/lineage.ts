// From a row, current or ended, to the bytes that brought it: answer, landing, job and requests.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { wholeAs, wholeOrNullAs } from './first-row.ts'
import { jobRequests, type RequestLine } from './unit-detail.ts'

export interface RowLineage {
  readonly load_id: number
  readonly run_id: number | null
  readonly answer_id: number
  readonly ask_number: number
  readonly asked_at: string
  /** Where the raw bytes lie, as a name under the landing folder or bucket. */
  readonly landing: string
  readonly sha256: string
  readonly job_id: number
  readonly requests: readonly RequestLine[]
}

/** @param unitId the row's `_unit_id` @param loadedAt its `_loaded_at`, also of a row of the history. null: no load is on record for it */
export const rowLineage = async (db: Db, unitId: number, loadedAt: string): Promise<RowLineage | null> => {
  const row = await db
    .selectFrom('etl.units as u')
    .innerJoin('etl.loads as l', (join) =>
      join
        .onRef('l.pipeline_id', '=', 'u.pipeline_id')
        .onRef('l.window_from', '=', 'u.window_from')
        .on('l.outcome', '=', 'loaded')
        .on('l.loaded_at', '=', loadedAt),
    )
    .innerJoin('etl.answers as a', 'a.answer_id', 'l.answer_id')
    .select([
      wholeAs('l', 'load_id'),
      wholeOrNullAs('l', 'run_id'),
      wholeAs('a', 'answer_id'),
      wholeAs('a', 'ask_number'),
      'a.asked_at',
    ])
    .select(['a.landing', 'a.sha256', wholeAs('a', 'job_id')])
    .where('u.unit_id', '=', String(unitId))
    .where(sql<boolean>`u.slice_id = any(a.slice_ids)`)
    .executeTakeFirst()
  return row === undefined ? null : { ...row, requests: await jobRequests(db, [row.job_id]) }
}
