// Units by the answers they hold: what all units of a job were loaded from, and the one unit an answer is for.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob, LoadedAnswer } from './claim.ts'

/** The answer that every unit of the job has its rows from; null: there is none that is all of theirs, or some wait for a person with another. */
export const answerOfAll = async (
  db: Db,
  { pipelineId, box, sliceIds }: Pick<ClaimedJob, 'pipelineId' | 'box' | 'sliceIds'>,
  cells: number,
): Promise<LoadedAnswer | null> => {
  const these = db
    .selectFrom('etl.units')
    .select((eb) => [
      eb.fn.min('answer_id').as('first'),
      eb.fn.max('answer_id').as('last'),
      eb.fn.count('answer_id').as('loaded'),
      eb.fn.count('held_answer_id').as('held'),
    ])
    .where('pipeline_id', '=', pipelineId)
    .where('window_from', '>=', box.window.from)
    .where('window_from', '<', box.window.to)
    .where((eb) => eb('slice_id', '=', eb.fn.any(eb.val([...sliceIds]))))
    .as('u')
  const row = await db
    .selectFrom(these)
    .innerJoin('etl.answers as a', 'a.answer_id', 'u.first')
    .select(['a.answer_id', 'a.sha256', 'a.source_last_updated', 'a.source_count'])
    .whereRef('u.last', '=', 'u.first')
    .where('u.loaded', '=', String(cells))
    .where('u.held', '=', '0')
    .executeTakeFirst()
  if (row === undefined) return null
  const { answer_id, sha256, source_last_updated, source_count } = row
  const count = source_count === null ? null : Number(source_count)
  return { answerId: Number(answer_id), sha256, fingerprint: { lastUpdated: source_last_updated, count } }
}

/** The unit that the answer is for; null where it is for several. */
export const unitOfAnswer = async (db: Db, answerId: number): Promise<number | null> => {
  const row = await db
    .selectFrom('etl.answers as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .innerJoin('etl.units as u', (join) =>
      join.onRef('u.pipeline_id', '=', 'a.pipeline_id').onRef('u.window_from', '=', 'a.window_from'),
    )
    .select('u.unit_id')
    .where('a.answer_id', '=', String(answerId))
    .where(sql<boolean>`a.slice_ids = array[u.slice_id] and a.window_to = etl.window_end(a.window_from, p.window_every)`)
    .executeTakeFirst()
  return row === undefined ? null : Number(row.unit_id)
}
