// Lists that definitions read from the database: the one that is obeyed, one that is held for a person, and what each run found.
import type { Insertable } from 'kysely'
import { type Numbers, query, type Texts } from '../db/typed-row.ts'
import type { Db, ListReadsTable } from '../db/tables.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { lockPipeline } from './pipelines.ts'

export type ListOf = Numbers<'pipelineId'> & Texts<'dimension'>

/** The newest one of that state; null: there is none. */
export const newestList = async (db: Db, { pipelineId, dimension }: ListOf, state: 'taken' | 'held') =>
  (await db
    .selectFrom('etl.lists')
    .select(['list_id as listId', 'values'])
    .where((eb) => eb.and({ pipeline_id: pipelineId, dimension, state }))
    .orderBy('list_id', 'desc')
    .limit(1)
    .executeTakeFirst()) ?? null

export type KnownList = NonNullable<Awaited<ReturnType<typeof newestList>>>

type NewList = ListOf & Texts<'query'> & Numbers<'came' | 'gone'> & Pick<KnownList, 'values'>

/** Records the list; a list that was held before no longer waits. Call under the pipeline's lock. */
export const keepList = async (trx: Db, list: NewList, state: 'taken' | 'held'): Promise<string> => {
  await dissolveHeldList(trx, list)
  const { pipelineId: pipeline_id, dimension, query, values, came, gone } = list
  const { list_id } = await trx
    .insertInto('etl.lists')
    .values({ pipeline_id, dimension, query, values: [...values], state, came, gone })
    .returning('list_id')
    .executeTakeFirstOrThrow()
  return list_id
}

export const dissolveHeldList = async (trx: Db, { pipelineId, dimension }: ListOf): Promise<void> => {
  await trx
    .updateTable('etl.lists')
    .set({ state: 'dissolved', decided_at: databaseNow })
    .where((eb) => eb.and({ pipeline_id: pipelineId, dimension, state: 'held' }))
    .execute()
}

/** One row a run and list: a second reading in the same run replaces the first. */
export const noteReading = async (trx: Db, reading: Insertable<ListReadsTable>): Promise<void> => {
  const { list_id, outcome, values, message } = reading
  await trx
    .insertInto('etl.list_reads')
    .values(reading)
    .onConflict((on) =>
      on.columns(['run_id', 'pipeline_id', 'dimension']).doUpdateSet({ list_id, outcome, values, message, read_at: databaseNow }),
    )
    .execute()
}

/** Lists that the run read and did not obey: held for a person, or their query failed. */
export const listsNotObeyed = async (db: Db, runId: number): Promise<number> => {
  const { lists } = await db
    .selectFrom('etl.list_reads')
    .select((eb) => eb.fn.countAll<string>().as('lists'))
    .where('run_id', '=', String(runId))
    .where('outcome', 'in', ['held', 'failed'])
    .executeTakeFirstOrThrow()
  return Number(lists)
}

export type HeldList = Texts<'pipeline' | 'dimension' | 'heldSince'> & Numbers<'values' | 'came' | 'gone'>

/** Lists that wait for a person. @param pipelines only these; empty: all */
export const heldLists = (db: Db, pipelines: readonly string[]): Promise<HeldList[]> =>
  query<HeldList>(db)`
    select p.pipeline, l.dimension, cardinality(l."values") as values, l.came, l.gone, l.read_at as "heldSince"
    from etl.lists l join etl.pipelines p using (pipeline_id)
    where l.state = 'held' and (${pipelines.length === 0} or p.pipeline = any(${[...pipelines]}::text[])) order by 1, 2`

/** A person approves the held lists: they are obeyed from the next run on. Each pipeline is a transaction of its own. */
export const approveLists = async (db: Db, pipelines: readonly string[], by: string): Promise<HeldList[]> => {
  const held = await heldLists(db, pipelines)
  for (const pipeline of new Set(held.map((one) => one.pipeline)))
    await db.transaction().execute(async (trx) => {
      const lists = await trx
        .selectFrom('etl.lists as l')
        .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'l.pipeline_id')
        .select(['l.list_id', 'l.pipeline_id as pipelineId', 'l.dimension'])
        .where((eb) => eb.and({ 'p.pipeline': pipeline, 'l.state': 'held' }))
        .orderBy('l.pipeline_id')
        .execute()
      for (const { list_id, pipelineId, dimension } of lists) {
        await lockPipeline(trx, pipelineId)
        await trx
          .updateTable('etl.lists')
          .set({ state: 'taken', decided_at: databaseNow, decided_by: by })
          .where((eb) => eb.and({ list_id, state: 'held' }))
          .execute()
        const message = `The list of ${dimension} as its query gives it was approved by a person (${by}).`
        await note(trx, { kind: 'approved', pipelineId, message })
      }
    })
  return held
}
