// How many slices the lists of a pipeline hold: added up once a generation, which every change of the lists ends, because there may be a million.
import { sql } from 'kysely'
import type { Row } from '../../db/typed-row.ts'
import type { Db } from '../../db/tables.ts'

const counted = new WeakMap<Db, Map<string, Promise<number>>>()

/** As of the generation that the row given has. */
export const slicesWanted = (db: Db, pipeline: Row<'etl.pipelines', 'pipeline_id' | 'generation'>): Promise<number> => {
  const known = counted.get(db) ?? new Map<string, Promise<number>>()
  counted.set(db, known)
  const key = `${pipeline.pipeline_id}/${pipeline.generation}`
  const before = known.get(key)
  if (before !== undefined) return before
  const asked = countWanted(db, pipeline.pipeline_id)
  known.set(key, asked)
  // Who comes next tries again.
  asked.catch(() => known.delete(key))
  return asked
}

const countWanted = async (db: Db, pipelineId: number): Promise<number> => {
  const { wanted } = await db
    .selectFrom('etl.slices as s')
    .select(sql<number>`count(*)::float8`.as('wanted'))
    .where('s.pipeline_id', '=', pipelineId)
    .where('s.wanted_until', 'is', null)
    .executeTakeFirstOrThrow()
  return wanted
}
