// Which readings of "data points" fit a dataset, by its answers: answers that agree narrow them, nothing widens them. And reports that wait for that.
import { sql, type UpdateObject } from 'kysely'
import type { DataPointReading } from '../core/data-point-counts.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition, Window } from '../core/types.ts'
import type { Db, Tables } from '../db/tables.ts'
import { countRows, type Row, type Texts } from '../db/typed-row.ts'
import { lockPipeline } from './pipelines.ts'
import { openAgain, reportTransitions } from './transitions.ts'

/** Whose count is read. */
type CountedDataset = Texts<'account' | 'dataset'>

/** The readings that are not ruled out; null: no answer of the dataset has agreed with its count yet. */
export const knownReadings = async (
  db: Db,
  { account, dataset }: CountedDataset,
): Promise<readonly DataPointReading[] | null> => {
  const row = await db
    .selectFrom('etl.data_point_readings')
    .select('readings')
    .where((eb) => eb.and({ account, dataset }))
    .executeTakeFirst()
  return row?.readings ?? null
}

/** Keeps only the readings by which the answer agrees. False, with nothing written: another answer, judged meanwhile, has ruled all of them out. */
export const narrowReadings = async (
  db: Db,
  { account, dataset }: CountedDataset,
  readings: readonly DataPointReading[],
  answerId: number,
): Promise<boolean> => {
  const both = sql`array(select r from unnest(known.readings) r where r = any(excluded.readings))`
  const isSettled = sql`known.readings <@ excluded.readings`
  const written = await countRows(db)`
    insert into etl.data_point_readings as known (account, dataset, readings, answer_id)
    values (${account}, ${dataset}, ${[...readings]}::text[], ${answerId}::bigint)
    on conflict (account, dataset) do update set readings = ${both},
      updated_at = case when ${isSettled} then known.updated_at else clock_timestamp() end,
      answer_id = case when ${isSettled} then known.answer_id else excluded.answer_id end
    where cardinality(${both}) > 0 returning 1`
  return written > 0
}

/**
 * Judges held reports of the pipeline again where the definition, or what is known of the dataset, has changed since: the doubt may be settled. Also where
 * another job bought the report and it has become complete. Reports that came short are downloaded again, which is free, until they are complete. Locks
 * the pipeline.
 * @param span windows of the run: only their reports are downloaded again
 */
export const judgeHeldAgain = async (
  trx: Db,
  pipelineId: number,
  { account, dataset }: CountedDataset,
  span: Window,
): Promise<void> => {
  await lockPipeline(trx, pipelineId)
  const held = trx
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'j.pipeline_id')
    .innerJoin('etl.answers as a', 'a.answer_id', 'j.answer_id')
    .leftJoin('etl.jobs as b', 'b.job_id', 'a.job_id')
    .leftJoin('etl.data_point_readings as r', (join) =>
      join.on('r.account', '=', (eb) => eb.fn.coalesce('b.account', eb.val(account))).on('r.dataset', '=', dataset),
    )
    .select('j.job_id')
    .where((eb) => eb.and({ 'j.pipeline_id': pipelineId, 'j.state': 'held', 'j.error_code': 'INCOMPLETE' }))
    .orderBy('j.job_id')
    .forUpdate('j')
  const inDoubt = held
    .where('j.kind', '=', 'report')
    .where((eb) =>
      eb.or([
        eb('p.updated_at', '>', eb.ref('j.updated_at')),
        eb('r.updated_at', '>', eb.ref('j.updated_at')),
        eb.and([eb('a.job_id', '<>', eb.ref('j.job_id')), eb('a.verdict', 'is distinct from', 'INCOMPLETE')]),
      ]),
    )
  await openJobs(trx, await inDoubt.execute(), openAgain)
  const short = held
    .where('j.report_id', 'is not', null)
    .where('j.window_from', '<', span.to)
    .where('j.window_to', '>', span.from)
    .where('j.report_state', 'in', [...reportTransitions['bytes unusable'].from, 'ready'])
  await openJobs(trx, await short.execute(), { ...openAgain, report_state: 'ready', next_poll_at: null })
}

const openJobs = async (trx: Db, jobs: readonly Row<'etl.jobs', 'job_id'>[], set: UpdateObject<Tables, 'etl.jobs'>) => {
  const ids = jobs.map((job) => job.job_id)
  if (ids.length > 0) await trx.updateTable('etl.jobs').set(set).where('job_id', 'in', ids).execute()
}

/** The dataset as the ledger and people name it: `web-analytics.report/traffic_and_engagement`. */
export const datasetOf = (definition: Definition, { datasetOf: own }: Pick<SourceSpec, 'datasetOf'>): CountedDataset => {
  const { account, source } = definition
  return { account, dataset: own === undefined ? source : `${source}/${own(definition)}` }
}
