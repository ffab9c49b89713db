// Purchases and answers that receipts and landings prove and this ledger does not know: their jobs are made anew, as the ledger that had them would have them.
import { sql } from 'kysely'
import type { Slice } from '../core/types.ts'
import { type Counts, type Flags, query, type Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { isLandingKnown } from './answers.ts'
import { databaseNow } from '../db/database-clock.ts'
import { note } from './events.ts'
import { type LostWork, insertFoundJob, type KnownPipeline, type PipelineWords, pointUnits } from './adopted-job.ts'
import { mayBegin, reportTransitions, setJob } from './transitions.ts'

/** `known`: the ledger has it. `other shape`: its pipeline has other dimensions or windows here. */
export type Adopted = 'taken up' | 'known' | 'other shape'

/** Locked until the transaction ends, as its planner would; null: the ledger has no such pipeline. */
export const knownPipeline = async (
  trx: Db,
  { pipeline, pipeline_version: version, parameters }: Pick<PipelineWords, 'pipeline' | 'pipeline_version' | 'parameters'>,
): Promise<KnownPipeline | null> => {
  const row = await trx
    .selectFrom('etl.pipelines')
    .select(['pipeline_id as pipelineId', 'window_every as windowEvery', 'dimensions', 'generation'])
    .where('pipeline', '=', pipeline)
    .where('version', '=', version)
    .where(sql<boolean>`parameters = ${JSON.stringify(parameters)}::jsonb`)
    .forNoKeyUpdate()
    .executeTakeFirst()
  return row ?? null
}

/** The pipeline as the receipt has it where the ledger has none: its lists are taken in when it is planned. */
export const pipelineOf = async (trx: Db, words: PipelineWords): Promise<KnownPipeline> => {
  const known = await knownPipeline(trx, words)
  if (known !== null) return known
  await trx
    .insertInto('etl.pipelines')
    .values({
      pipeline: words.pipeline,
      version: words.pipeline_version,
      parameters: JSON.stringify(words.parameters),
      source: words.source,
      account: words.account,
      window_every: words.window_every,
      dimensions: [...words.dimensions],
      definition: JSON.stringify(words.definition),
    })
    .onConflict((on) => on.columns(['pipeline', 'version', 'parameters']).doNothing())
    .execute()
  return pipelineOf(trx, words)
}

/** In a transaction that has locked the pipeline. */
export const adoptWork = async (
  trx: Db,
  pipeline: KnownPipeline,
  windowEvery: PipelineWords['window_every'],
  work: LostWork,
): Promise<Adopted> => {
  const names = Object.keys(work.slice).sort().join()
  if (pipeline.windowEvery !== windowEvery || [...pipeline.dimensions].sort().join() !== names) return 'other shape'
  if (await isOnRecord(trx, work)) return 'known'
  const sliceIds = await slicesOf(trx, pipeline, work.slice)
  if (work.report_id !== null && (await idOfKnownJob(trx, pipeline, sliceIds, work, work.report_id))) return 'taken up'
  if (work.report_id === null && work.answer === null && (await isAskedHere(trx, pipeline, work))) return 'known'
  const { askNumber, isNew } = await freeAskNumber(trx, work.ask_number)
  const numbered = { ...work, ask_number: askNumber }
  const jobId = await insertFoundJob(trx, pipeline, sliceIds, numbered, isNew ? 'renumbered' : 'restored')
  if (isNew && (await holdsAnswers(trx, jobId)))
    // On record and nothing more: a person may adopt its report.
    await setJob(trx, jobId, { state: 'replaced' })
  else await pointUnits(trx, pipeline, jobId, askNumber)
  const what = work.report_id === null ? (work.answer === null ? 'A submission' : 'An answer') : `Report ${work.report_id}`
  const message = `${what} of ${work.asked_at} that this ledger did not know was taken up as job ${jobId}, by what lies beside the landings.`
  await note(trx, { kind: 'taken up', pipelineId: pipeline.pipelineId, jobId: Number(jobId), message })
  return 'taken up'
}

const isOnRecord = async (
  trx: Db,
  { account, report_id: reportId, ask_number: askNumber, answer }: LostWork,
): Promise<boolean> => {
  const byId =
    reportId === null
      ? undefined
      : await trx
          .selectFrom('etl.jobs')
          .select('job_id')
          .where('account', '=', account)
          .where('report_id', '=', reportId)
          .executeTakeFirst()
  if (byId !== undefined) return true
  return answer !== null && (await isLandingKnown(trx, { locator: answer.locator, askNumber }))
}

/** An intent of that number is on record here. */
const isAskedHere = async (trx: Db, { pipelineId }: KnownPipeline, { ask_number: askNumber }: LostWork): Promise<boolean> => {
  const job = await trx
    .selectFrom('etl.jobs')
    .select('job_id')
    .where('pipeline_id', '=', pipelineId)
    .where('ask_number', '=', askNumber)
    .where('report_state', 'is not', null)
    .executeTakeFirst()
  return job !== undefined
}

/** The backup was taken between the intent and the id: the job is there and waits for it. */
const idOfKnownJob = async (
  trx: Db,
  { pipelineId }: KnownPipeline,
  sliceIds: readonly number[],
  { ask_number: askNumber, window }: LostWork,
  reportId: string,
): Promise<boolean> => {
  const rows = await trx
    .updateTable('etl.jobs')
    .set({
      state: 'open',
      report_state: 'submitted',
      report_id: reportId,
      submitted_at: sql<string>`coalesce(submitted_at, asked_at)`,
      ...{ holder: null, not_before: null, error_code: null, error_message: null, next_poll_at: null, deadline_at: null },
      fence: sql<string>`fence + 1`,
      updated_at: databaseNow,
    })
    .where('pipeline_id', '=', pipelineId)
    .where('ask_number', '=', askNumber)
    .where('report_id', 'is', null)
    .where('window_from', '=', window.from)
    .where('window_to', '=', window.to)
    .where(sql<boolean>`slice_ids @> ${[...sliceIds]}::integer[] and slice_ids <@ ${[...sliceIds]}::integer[]`)
    .where(mayBegin('report_state', reportTransitions['id adopted']))
    .returning('job_id')
    .execute()
  return rows.length > 0
}

/** Values that have left the lists, or that these never held, are not wanted for it. */
const slicesOf = async (trx: Db, { pipelineId, dimensions, generation }: KnownPipeline, slice: Slice): Promise<number[]> => {
  const values = dimensions.map((name) => [slice[name] ?? ''].flat())
  const lists = values.map((list, place) => sql`unnest(${[...list]}::text[]) as ${sql.ref(`d${place}`)} (v)`)
  const columns = values.map((_, place) => sql.ref(`d${place}.v`))
  const product =
    lists.length === 0
      ? sql`select '{}'::text[] as v`
      : sql`select array[${sql.join(columns)}] as v from ${sql.join(lists, sql` cross join `)}`
  const rows = await query<Row<'etl.slices', 'slice_id'>>(trx)`
    with wanted as (${product}), made as (
      insert into etl.slices (pipeline_id, "values", wanted_since, wanted_until)
      select ${pipelineId}::integer, v, ${generation}::integer, ${generation}::integer from wanted
      on conflict (pipeline_id, "values") do nothing returning slice_id
    )
    select slice_id from made union all
    select s.slice_id from etl.slices s join wanted on s."values" = wanted.v where s.pipeline_id = ${pipelineId}::integer order by 1`
  return rows.map((row) => row.slice_id)
}

/** Two clones count on from one number. One that is taken here gives way to a new one, which says nothing of its age. */
const freeAskNumber = async (trx: Db, askNumber: string): Promise<{ askNumber: string; isNew: boolean }> => {
  const rows = await query<Flags<'taken'>>(trx)`
    select exists (select from etl.answers where ask_number = ${askNumber}::bigint)
      or exists (select from etl.jobs where ask_number = ${askNumber}::bigint and report_state is not null) as taken`
  if (rows[0]?.taken !== true) return { askNumber, isNew: false }
  const next = await sql<Counts<'ask'>>`select nextval('etl.ask_numbers') as ask`.execute(trx)
  return { askNumber: next.rows[0]?.ask ?? askNumber, isNew: true }
}

/** Units of its box have answers, and whether they are newer is unknown. */
const holdsAnswers = async (trx: Db, jobId: string): Promise<boolean> => {
  const row = await trx
    .selectFrom('etl.jobs as j')
    .innerJoin('etl.units as u', 'u.pipeline_id', 'j.pipeline_id')
    .select('u.unit_id')
    .where('j.job_id', '=', jobId)
    .whereRef('u.window_from', '>=', 'j.window_from')
    .whereRef('u.window_from', '<', 'j.window_to')
    .where(sql<boolean>`u.slice_id = any(j.slice_ids)`)
    .where('u.ask_number', 'is not', null)
    .limit(1)
    .executeTakeFirst()
  return row !== undefined
}
