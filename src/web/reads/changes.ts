// What the service changed after the fact: loads that restated rows, and answers of another shape than the definition says.
import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { boxColumns } from './boxes.ts'
import { wholeOrNullAs, wholes } from './whole-columns.ts'

// One load of an answer into a window, with the answer's slices: what `boxColumns` wants of `b`.
const loadBoxes = (db: Db) =>
  db
    .selectFrom('etl.loads as l')
    .innerJoin('etl.answers as a', 'a.answer_id', 'l.answer_id')
    .innerJoin('etl.pipelines as q', 'q.pipeline_id', 'l.pipeline_id')
    .select(['l.load_id', 'l.pipeline_id', 'l.window_from', 'a.slice_ids', 'l.loaded_at', 'l.drift'])
    .select(['l.rows_updated', 'l.rows_ended', 'l.rows_inserted', 'l.rows_read'])
    .select(sql<string>`etl.window_end(l.window_from, q.window_every)`.as('window_to'))

// The unit, where the answer was for one alone.
const onlyUnit = sql`b.slice_ids[1]`

/** Loads that changed or ended rows of an earlier load, the largest first. @param fromDay the first one, `YYYY-MM-DD` */
export const restatements = (db: Db, fromDay: string, limit: number) =>
  db
    .selectFrom(
      loadBoxes(db)
        .where(sql<boolean>`l.rows_updated + l.rows_ended > 0`)
        .where('l.loaded_at', '>=', fromDay)
        .orderBy(sql`l.rows_updated + l.rows_ended`, 'desc')
        .orderBy('l.load_id', 'desc')
        .limit(limit)
        .as('b'),
    )
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .leftJoin('etl.units as u', (join) =>
      join
        .onRef('u.pipeline_id', '=', 'b.pipeline_id')
        .onRef('u.window_from', '=', 'b.window_from')
        .on('u.slice_id', '=', sql<number>`case when cardinality(b.slice_ids) = 1 then ${onlyUnit} end`),
    )
    .select(boxColumns)
    // Without a unit where the answer was for several.
    .select([
      wholeOrNullAs('u', 'unit_id'),
      'b.loaded_at',
      ...wholes('b', 'rows_read', 'rows_updated', 'rows_ended', 'rows_inserted'),
    ])
    .orderBy(sql`b.rows_updated + b.rows_ended`, 'desc')
    .orderBy('b.load_id', 'desc')
    .execute()

export type Restatement = Awaited<ReturnType<typeof restatements>>[number]

/** One line a pipeline and version: its last load since `fromDay` that saw another shape. */
export const lastDrifts = (db: Db, fromDay: string) =>
  db
    .selectFrom('etl.pipelines as p')
    .innerJoinLateral(
      loadBoxes(db)
        .whereRef('l.pipeline_id', '=', sql<number>`p.pipeline_id`)
        .where('l.drift', 'is not', null)
        .where('l.loaded_at', '>=', fromDay)
        .orderBy('l.loaded_at', 'desc')
        .limit(1)
        .as('b'),
      (join) => join.onTrue(),
    )
    .select(boxColumns)
    .select(['b.loaded_at', 'b.drift'])
    .orderBy('p.pipeline')
    .execute()
