// The units that an answer is for. A load reads them once before its rows; after its rows it locks them and skips those with a newer answer.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Box, IsoDate, Window } from '../core/types.ts'
import { windowsBetween } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import {
  asNumber,
  type Counts,
  type Flags,
  type Lists,
  type Maybe,
  type Numbers,
  numberOf,
  prepared,
  query,
  queryColumn,
  queryValue,
  type Row,
  type Texts,
} from '../db/typed-row.ts'
import { fingerprintOf } from './answers.ts'
import type { ClaimedJob, LoadedAnswer } from './claim.ts'
import { sliceValues, valuesIn } from './slices.ts'

/** The part of a claim that says which units its job is for. */
export type UnitsOfJob = Pick<ClaimedJob, 'jobId' | 'pipelineId' | 'sliceIds' | 'box' | 'windowEvery' | 'cells'>

/** A unit's place: the index of its window times the number of slices, plus the index of its slice. */
export interface AnswerUnits {
  readonly windows: readonly Window[]
  readonly sliceIds: readonly number[]
  readonly values: ReadonlyMap<number, readonly string[]>
  /** Unit numbers by place; 0: the answer is for the unit, the job is not. */
  readonly numbers: Float64Array
  /** Units of the job that the answer is not for: the job that served it has lost a value since. They are planned again. */
  readonly outside: readonly number[]
  /** Whether an answer was ever loaded into a unit of the job, or found unchanged for it. */
  readonly hasEarlierAnswer: boolean
}

/** @param asked what the answer was asked for, where that is more than the job covers */
export const readAnswerUnits = async (
  db: Db,
  job: UnitsOfJob,
  { answerId, box }: { readonly answerId: number; readonly box: Box },
): Promise<AnswerUnits> => {
  const isWhole = box.key === job.box.key
  const values = isWhole ? await valuesOf(db, job) : await slicesOfAnswer(db, answerId, job)
  const sliceIds = isWhole ? job.sliceIds : [...values.keys()]
  const windows = windowsBetween(box.window.from, box.window.to, job.windowEvery)
  const rows = await prepared<
    Row<'etl.units', 'window_from'> & Lists<Numbers<'slices'>> & Lists<Texts<'units'>> & Flags<'known'>
  >(db)`
    select u.window_from, array_agg(u.slice_id) as slices, array_agg(u.unit_id) as units, bool_or(u.ask_number is not null) as known
    from etl.units u where ${isUnitOf(job)} group by u.window_from`
  const numbers = new Float64Array(windows.length * sliceIds.length)
  const places = new Map(sliceIds.map((id, place) => [id, place]))
  const windowPlaces = new Map<IsoDate, number>(windows.map(({ from }, place) => [from, place]))
  const outside: number[] = []
  for (const { window_from, slices, units } of rows) {
    const window = windowPlaces.get(window_from)
    for (const [at, sliceId] of slices.entries()) {
      const slice = places.get(sliceId)
      if (window === undefined || slice === undefined) outside.push(Number(units[at]))
      else numbers[window * sliceIds.length + slice] = Number(units[at])
    }
  }
  const found = numbers.reduce((sum, number) => sum + (number > 0 ? 1 : 0), 0)
  // More units: the job is older than some of them. Fewer: the job loads another job's answer again, and planned units were dissolved since.
  if (found + outside.length < job.cells && (await isOwnAnswer(db, answerId, job))) throw unitsMissing(job, found)
  return { windows, sliceIds, values, numbers, outside, hasEarlierAnswer: rows.some(({ known }) => known) }
}

/** Units `u` of the job. A single unit is named by its key: a generic plan is as good for it, and PostgreSQL keeps that plan. */
export const isUnitOf = ({ pipelineId, box: { window }, sliceIds, cells }: UnitsOfJob): RawBuilder<boolean> =>
  cells === 1
    ? sql<boolean>`u.pipeline_id = ${pipelineId} and u.window_from = ${window.from}::date and u.slice_id = ${sliceIds[0]}`
    : sql<boolean>`u.pipeline_id = ${pipelineId} and u.window_from >= ${window.from}::date and u.window_from < ${window.to}::date
        and u.slice_id = any(${[...sliceIds]}::integer[])`

/** The answer's slices in its order, as slices of the job's pipeline where that has them: another version may have asked, with its dimensions in another order. */
const slicesOfAnswer = async (db: Db, answerId: number, { pipelineId }: Pick<UnitsOfJob, 'pipelineId'>) => {
  const rows = await query<Row<'etl.slices', 'slice_id' | 'values'>>(db)`
    select coalesce(m.slice_id, s.slice_id) as slice_id, v."values"
    from etl.answers a join etl.pipelines p on p.pipeline_id = a.pipeline_id cross join unnest(a.slice_ids) with ordinality as x (slice_id, place)
      join etl.slices s on s.slice_id = x.slice_id join etl.pipelines o on o.pipeline_id = ${pipelineId}
      cross join lateral (select ${valuesIn('s', 'p', 'o')} as "values") v
      left join etl.slices m on m.pipeline_id = o.pipeline_id and m."values" = v."values"
    where a.answer_id = ${answerId} order by x.place`
  return new Map(rows.map(({ slice_id, values }) => [slice_id, values]))
}

/** A job of one slice needs no query: its box has the values. */
const valuesOf = async (db: Db, { box: { slice }, sliceIds }: UnitsOfJob): Promise<AnswerUnits['values']> => {
  const [only, ...others] = sliceIds
  if (only === undefined || others.length > 0) return sliceValues(db, sliceIds)
  return new Map([[only, Object.values(slice).map((value) => (typeof value === 'string' ? value : (value[0] ?? '')))]])
}

const isOwnAnswer = (db: Db, answerId: number, { jobId }: UnitsOfJob): Promise<boolean> =>
  queryValue<Flags<'own'>>(db)`select job_id = ${jobId} as own from etl.answers where answer_id = ${answerId}::bigint`

const unitsMissing = ({ box, cells }: UnitsOfJob, found: number): EtlError =>
  new EtlError(
    'INTERNAL',
    `${box.key}: of its ${cells} units the ledger has ${found}; please report this defect. Nothing was loaded.`,
  )

/** The job's units under lock. */
export interface LockedUnits {
  /** Numbers of those that hold a newer answer. */
  readonly skipped: readonly number[]
  /** See `AnswerUnits`; it may have changed since they were read. */
  readonly hasEarlierAnswer: boolean
  /** When rows of their windows were written last; null: never. A later load's moment must follow it, so that a row's moment names its load. */
  readonly lastLoad: string | null
  /** Whether `lastLoad` is before the transaction began; true where there is none. */
  readonly isLater: boolean
}

/** Locks the job's units in their order for the rest of the transaction. Skips units with an answer that was asked for later than this one. */
export const lockUnits = async (db: Db, job: UnitsOfJob, answerId: number): Promise<LockedUnits> => {
  const { from, to } = job.box.window
  const [row] = await prepared<
    Lists<Texts<'skipped'>> & Maybe<Flags<'known'> & Texts<'last_load'>> & Flags<'later'> & Counts<'n'>
  >(db)`
    with locked as materialized (
      select u.unit_id, u.ask_number, u.answer_id from etl.units u where ${isUnitOf(job)} order by u.window_from, u.slice_id for update
    ), taken as (
      -- The id of an answer is its ask number. A unit that has this answer already takes it again, although a later check may have raised the
      -- unit's ask number.
      select unit_id, ask_number is not null as known, ask_number is not null and ask_number > ${answerId}::bigint
        and answer_id is distinct from ${answerId}::bigint as newer from locked
    ), last as (
      -- Window by window: each takes one index lookup, however many loads it has. Planning a query on the view etl.loads alone takes a millisecond.
      select max(m.at) as at from generate_series(${from}::date, ${to}::date - 1, ${`1 ${job.windowEvery}`}::interval) as w (at)
        cross join lateral (select greatest(
          (select max(loaded_at) from etl.load_rows where pipeline_id = ${job.pipelineId} and window_from = w.at::date and outcome = 'loaded'),
          (select max(loaded_at) from etl.answer_rows where pipeline_id = ${job.pipelineId} and window_from = w.at::date)) as at) m
    )
    select count(*) as n, coalesce(array_agg(unit_id) filter (where newer), '{}') as skipped, bool_or(known) as known,
      (select at::text from last) as last_load, coalesce((select at from last) < transaction_timestamp(), true) as later from taken`
  if (row === undefined) throw unitsMissing(job, 0)
  return { skipped: row.skipped.map(Number), hasEarlierAnswer: row.known === true, lastLoad: row.last_load, isLater: row.later }
}

/** Whether a unit has, or had, the number. */
export const isUsedUnitNumber = (db: Db, number: number): Promise<boolean> => {
  const last = sql`pg_sequence_last_value(pg_get_serial_sequence('etl.units', 'unit_id')::regclass)`
  return queryValue<Flags<'given'>>(db)`select ${String(number)}::bigint <= coalesce(${last}, 0) as given`
}

/** The job no longer asks for units that it skipped. */
export const detachSkipped = async (db: Db, { jobId }: UnitsOfJob, units: readonly number[]): Promise<void> => {
  if (units.length === 0) return
  await db
    .updateTable('etl.units')
    .set({ job_id: null })
    .where((eb) => eb('unit_id', '=', eb.fn.any(eb.val(units.map(String)))))
    .where('job_id', '=', String(jobId))
    .execute()
}

/** Whether the unit holds back an answer that was asked for later. */
const isNewerHeld = (answerId: number): RawBuilder<unknown> => sql`u.held_answer_id > ${answerId}::bigint`

/** Holds the answer for a person before it changes these units, each with the code that says why, and opens their windows again. A newer held answer stays held. */
export const holdUnits = async (
  db: Db,
  { jobId }: UnitsOfJob,
  answerId: number,
  held: readonly { readonly unitId: number; readonly code: string }[],
): Promise<void> => {
  if (held.length === 0) return
  const isNewer = isNewerHeld(answerId)
  await query(db)`
    with held as (
      update etl.units u set job_id = nullif(u.job_id, ${jobId}::bigint),
        held_answer_id = case when ${isNewer} then u.held_answer_id else ${answerId}::bigint end,
        held_code = case when ${isNewer} then u.held_code else x.code end
      from unnest(${held.map(({ unitId }) => String(unitId))}::bigint[], ${held.map(({ code }) => code)}::text[]) as x (unit_id, code)
      where u.unit_id = x.unit_id returning u.pipeline_id, u.window_from
    )
    update etl.windows w set closed_generation = null, closed_at = null, closed_units = null, closed_rows = null
    from (select distinct * from held) h
    where w.pipeline_id = h.pipeline_id and w.window_from = h.window_from and w.closed_generation is not null`
}

/**
 * A statement that points units at the answer that their rows come from now; a newer held answer stays held. It finds units by their numbers alone: with a
 * second condition PostgreSQL picks the wrong index while the ledger has no statistics.
 */
export const pointUnits = (
  { jobId }: Pick<ClaimedJob, 'jobId'>,
  answerId: number,
  units: readonly number[],
): RawBuilder<unknown> => {
  const isNewer = isNewerHeld(answerId)
  return sql`update etl.units u set answer_id = ${answerId}::bigint, ask_number = greatest(u.ask_number, ${answerId}::bigint),
      job_id = nullif(u.job_id, ${jobId}::bigint), held_answer_id = case when ${isNewer} then u.held_answer_id end,
      held_code = case when ${isNewer} then u.held_code end
    where u.unit_id = any(${units.map(String)}::bigint[])`
}

/** Unit numbers of the job's slices in the given windows, by window and slice. */
export const unitsOfWindows = async (
  db: Db,
  { pipelineId, sliceIds }: UnitsOfJob,
  windows: readonly IsoDate[],
): Promise<ReadonlyMap<IsoDate, ReadonlyMap<number, number>>> => {
  const rows = await db
    .selectFrom('etl.units')
    .select(['window_from', 'slice_id', 'unit_id'])
    .where('pipeline_id', '=', pipelineId)
    .where((eb) => eb('window_from', '=', eb.fn.any(sql<IsoDate[]>`${[...windows]}::date[]`)))
    .where((eb) => eb('slice_id', '=', eb.fn.any(eb.val([...sliceIds]))))
    .execute()
  const byWindow = [...Map.groupBy(rows, (row) => row.window_from)]
  return new Map(byWindow.map(([from, units]) => [from, new Map(units.map((unit) => [unit.slice_id, Number(unit.unit_id)]))]))
}

/** The answer that all units of the job have their rows from; null: they have different ones, some have none, or some hold back another. */
export const answerOfAll = async (db: Db, job: UnitsOfJob, cells: number): Promise<LoadedAnswer | null> => {
  const these = db
    .selectFrom('etl.units as u')
    .select(({ fn }) => [fn.min('answer_id').as('first'), fn.max('answer_id').as('last')])
    .select(({ fn }) => [fn.count('answer_id').as('loaded'), fn.count('held_answer_id').as('held')])
    .where(isUnitOf(job))
  const loaded = await db
    .selectFrom(these.as('u'))
    .innerJoin('etl.answers as a', 'a.answer_id', 'u.first')
    .select([asNumber('a.answer_id').as('answerId'), 'a.sha256', fingerprintOf('a').as('fingerprint'), 'a.top_rows as top'])
    .whereRef('u.last', '=', 'u.first')
    .where((eb) => eb.and({ 'u.loaded': String(cells), 'u.held': '0' }))
    .executeTakeFirst()
  return loaded ?? null
}

/** The unit that the answer is for; null where it is for several. */
export const unitOfAnswer = async (db: Db, answerId: number): Promise<number | null> => {
  const [unitId = null] = await queryColumn<Row<'etl.units', 'unit_id'>>(db)`
    select u.unit_id from etl.answers a join etl.pipelines p using (pipeline_id) join etl.units u on u.pipeline_id = a.pipeline_id
      and u.window_from = a.window_from and a.slice_ids = array[u.slice_id] and a.window_to = etl.window_end(a.window_from, p.window_every)
    where a.answer_id = ${answerId}::bigint`
  return numberOf(unitId)
}
