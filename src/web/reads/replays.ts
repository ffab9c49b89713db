// Answers that were to be loaded again and could not be: jobs that no unit points to.
import { sql } from 'kysely'
import type { JobState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { type BoxColumns, boxColumns, boxKey } from './boxes.ts'
import { wholeAs } from './first-row.ts'

export interface TroubledReplay {
  readonly job_id: number
  readonly answer_id: number
  /** Why it was to be loaded again: `replay`, `quarantine retry`. */
  readonly reason: string
  /** Key of the units it was to be loaded into. */
  readonly box: string
  readonly units: number
  readonly state: JobState
  readonly code: string | null
  readonly message: string | null
}

/** Some unit of the job `b` still holds the answer, or holds it back. */
const isInUse = sql<boolean>`exists (select from etl.units u where u.pipeline_id = b.pipeline_id and u.window_from >= b.window_from
  and u.window_from < b.window_to and u.slice_id = any(b.slice_ids) and (u.answer_id = b.answer_id or u.held_answer_id = b.answer_id))`

/** Failed and held ones, newest first, as long as units hold their answer. @param pipelines only these; empty: all */
export const troubledReplays = async (db: Db, pipelines: readonly string[], limit: number): Promise<TroubledReplay[]> => {
  const rows = await db
    .selectFrom('etl.jobs as b')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select([
      wholeAs('b', 'job_id'),
      wholeAs('b', 'answer_id'),
      'b.reason',
      'b.cells',
      'b.state',
      'b.error_code',
      'b.error_message',
    ])
    .where('b.state', 'in', ['held', 'failed'])
    .where('b.answer_id', 'is not', null)
    .where((eb) => eb.not(eb.exists(eb.selectFrom('etl.units as u').select('u.unit_id').whereRef('u.job_id', '=', 'b.job_id'))))
    .where(isInUse)
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', pipelines))
    .orderBy('b.job_id', 'desc')
    .limit(limit)
    .execute()
  return rows.map(({ job_id, answer_id, reason, cells, state, error_code, error_message, ...box }) => ({
    ...{ job_id, answer_id, reason, box: boxKey(box satisfies BoxColumns), units: cells },
    ...{ state, code: error_code, message: error_message },
  }))
}
