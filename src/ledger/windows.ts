// The state of a pipeline's windows: closed or open, and when a sample last showed that the service had released nothing new for them.
import { type RawBuilder, sql } from 'kysely'
import type { Fingerprint, IsoDate } from '../core/types.ts'
import { databaseNow } from '../db/database-clock.ts'
import type { Db } from '../db/tables.ts'
import { countRows, type Flags, type Numbers, query, queryColumn, queryOne, queryValue, type Row } from '../db/typed-row.ts'
import { fingerprintOf } from './answers.ts'
import { type FullCheck, isOfTonight, type WantedTop } from './candidates.ts'

/** What is stored of a window; `closedUnits`: loaded units, as counted when it was closed. */
export type WindowState = Numbers<'closedUnits'> & Record<'closedGeneration' | 'lookedAtMs', number | null>

/** By first day; windows without a record are not in it. */
export const windowStates = async (db: Db, pipelineId: number): Promise<ReadonlyMap<IsoDate, WindowState>> => {
  const rows = await db
    .selectFrom('etl.windows')
    .select(['window_from', 'closed_generation as closedGeneration'])
    .select(sql<number>`coalesce(closed_units, 0)::float8`.as('closedUnits'))
    .select(sql<number | null>`floor(extract(epoch from looked_at) * 1000)::float8`.as('lookedAtMs'))
    .where('pipeline_id', '=', pipelineId)
    .execute()
  return new Map(rows.map(({ window_from, ...state }) => [window_from, state]))
}

/**
 * CTE `whole`: the windows whose every wanted unit is loaded, with as many first rows as are wanted now, while none is asked for or held. One scan of the units. Laterals with
 * `offset 0` read units of slices no longer wanted, and answers, only where there are any: a plan made without statistics would join them all.
 */
const whole = (pipelineId: number, windows: readonly IsoDate[], top: WantedTop): RawBuilder<unknown> => {
  const these = sql`u.pipeline_id = ${pipelineId} and u.window_from = any(${[...windows]}::date[])`
  return sql`
    seen as materialized (
      select u.window_from, count(u.answer_id) as loaded, bool_or(u.job_id is not null or u.held_answer_id is not null) as busy
      from etl.units u where ${these} group by 1
    ), left_over as materialized (
      select u.window_from, count(u.answer_id) as loaded from etl.slices s
        cross join lateral (select u.window_from, u.answer_id from etl.units u where ${these} and u.slice_id = s.slice_id offset 0) u
      where s.pipeline_id = ${pipelineId} and s.wanted_until is not null group by 1
    ), wanted as (
      select count(*) as slices from etl.slices where pipeline_id = ${pipelineId} and wanted_until is null
    ), other_top as materialized (
      select distinct o.window_from from (select where ${top !== undefined} offset 0) x cross join lateral (
        select u.window_from from etl.units u join etl.slices s using (slice_id) join etl.answers t using (answer_id)
        where ${these} and s.wanted_until is null and t.top_rows is distinct from ${top ?? null}::integer offset 0) o
    ), whole as materialized (
      select seen.window_from, wanted.slices as units from seen left join left_over using (window_from) cross join wanted
      where not seen.busy and seen.loaded - coalesce(left_over.loaded, 0) = wanted.slices
        and not exists (select from other_top o where o.window_from = seen.window_from)
    )`
}

/**
 * Closes the windows whose every wanted unit is loaded while none is asked for or held, at the generation. Returns how many. Only under the pipeline's
 * lock: a process that makes a unit unfinished opens its window in the same statement.
 */
export const closeWindows = async (
  trx: Db,
  pipelineId: number,
  windows: readonly IsoDate[],
  generation: number,
  top: WantedTop,
): Promise<number> => {
  if (windows.length === 0) return 0
  return countRows(trx)`
    with ${whole(pipelineId, windows, top)}, filled as (
      select l.window_from, sum(l.rows_inserted - l.rows_ended) as rows from etl.loads l
      where l.pipeline_id = ${pipelineId} and l.window_from in (select window_from from whole) group by 1
    )
    insert into etl.windows (pipeline_id, window_from, closed_generation, closed_at, closed_units, closed_rows)
    select ${pipelineId}, window_from, ${generation}, clock_timestamp(), units, coalesce(rows, 0) from whole left join filled using (window_from)
    order by window_from
    on conflict (pipeline_id, window_from) do update set closed_generation = excluded.closed_generation, closed_at = excluded.closed_at,
      closed_units = excluded.closed_units, closed_rows = excluded.closed_rows
    returning window_from`
}

/** Windows before that day into which the run loaded something and that are not closed; with the generation of the pipeline's lists. */
export const windowsLoadedBy = (
  db: Db,
  runId: number,
  { pipeline, version, before }: { readonly pipeline: string; readonly version: number; readonly before: IsoDate },
) =>
  db
    .selectFrom('etl.loads as l')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'l.pipeline_id')
    .leftJoin('etl.windows as w', (join) =>
      join.onRef('w.pipeline_id', '=', 'l.pipeline_id').onRef('w.window_from', '=', 'l.window_from'),
    )
    .select(['l.pipeline_id as pipelineId', 'l.window_from as windowFrom', 'p.generation'])
    .distinct()
    .where((eb) => eb.and({ 'l.run_id': String(runId), 'p.pipeline': pipeline, 'p.version': version }))
    .where('l.window_from', '<', before)
    .where('w.closed_generation', 'is', null)
    .orderBy('l.pipeline_id')
    .orderBy('l.window_from')
    .execute()

/** A window whose every wanted unit is loaded while none is asked for or held; found faster than cell by cell. `stoodAtMs`: when its oldest answer was asked for, or found unchanged. */
export type WholeWindow = Numbers<'units' | 'stoodAtMs'>

/** null: it is not whole. @param withAge false: the age of its answers is not read, and `stoodAtMs` is 0 */
export const wholeWindow = async (
  db: Db,
  pipelineId: number,
  windowFrom: IsoDate,
  { withAge, top }: { readonly withAge: boolean; readonly top: WantedTop },
): Promise<WholeWindow | null> => {
  const oldest = withAge
    ? sql`(select min(greatest(a.asked_at, a.stood_at)) from etl.answers a where a.answer_id in (
        select u.answer_id from etl.units u where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date))`
    : sql`null::timestamptz`
  const [row] = await query<WholeWindow>(db)`
    with ${whole(pipelineId, [windowFrom], top)}
    select units::float8 as units, coalesce(floor(extract(epoch from ${oldest}) * 1000), 0)::float8 as "stoodAtMs" from whole`
  return row ?? null
}

/** Records that, as far as a sample tells, the service has released nothing new for the window. */
export const noteUnchangedWindow = async (db: Db, pipelineId: number, windowFrom: IsoDate): Promise<void> => {
  await db
    .insertInto('etl.windows')
    .values({ pipeline_id: pipelineId, window_from: windowFrom, looked_at: databaseNow })
    .onConflict((on) => on.columns(['pipeline_id', 'window_from']).doUpdateSet({ looked_at: databaseNow }))
    .execute()
}

/** Records that, by the service, nothing of these loaded units has changed. */
export const noteUnchangedUnits = async (
  db: Db,
  pipelineId: number,
  windowFrom: IsoDate,
  sliceIds: readonly number[],
): Promise<void> => {
  await query(db)`
    with locked as (select answer_id from etl.answer_rows where answer_id in (select u.answer_id from etl.units u
      where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and u.slice_id = any(${[...sliceIds]}::integer[])) order by 1 for update)
    update etl.answer_rows set stood_at = clock_timestamp() where answer_id in (select answer_id from locked)`
}

/**
 * The windows with a loaded unit of this night that was not checked for too long. A window without an old load has no old answer; in the others only units of
 * this night are read, in the order of their key.
 */
export const windowsOverdue = async (
  db: Db,
  pipelineId: number,
  windows: readonly IsoDate[],
  check: FullCheck,
): Promise<ReadonlySet<IsoDate>> => {
  const { before } = check
  const overdue = await queryColumn<Row<'etl.windows', 'window_from'>>(db)`
    with turn as materialized (
      select slice_id from etl.slices s where pipeline_id = ${pipelineId} and wanted_until is null and ${isOfTonight(check)}
      order by slice_id
    )
    select w.window_from from unnest(${[...windows]}::date[]) as w (window_from)
      cross join lateral (select from etl.loads l where l.pipeline_id = ${pipelineId} and l.window_from = w.window_from
        and l.outcome in ('loaded', 'unchanged') and l.loaded_at < ${before}::timestamptz limit 1) old
      cross join lateral (
        select from turn join etl.units u on u.pipeline_id = ${pipelineId} and u.window_from = w.window_from and u.slice_id = turn.slice_id
          join etl.answers a on a.answer_id = u.answer_id
        where greatest(a.asked_at, a.stood_at) < ${before}::timestamptz limit 1) overdue`
  return new Set(overdue)
}

/** No job asks for unit `u`, but for a walk that a person cancelled, and it holds no answer back. */
const isFree = sql<boolean>`(u.held_answer_id is null and (u.job_id is null or (select j.state = 'failed' and j.error_code = 'CANCELLED' from etl.jobs j where j.job_id = u.job_id)))`

/**
 * Loaded units that an interrupted or partial refresh left behind: no job asks for them, and since they were last found unchanged another unit of the window was
 * seen to have a newer release.
 */
export const unrefreshedUnits = (db: Db, pipelineId: number, windowFrom: IsoDate): Promise<number[]> =>
  queryValue<Row<'etl.jobs', 'slice_ids'>>(db)`
    with loaded as materialized (
      select u.slice_id, ${isFree} as is_free, a.source_last_updated as release, a.asked_at, greatest(a.asked_at, a.stood_at) as stood_at
      -- An answer is for one window and may be of any pipeline: by pipeline and window an index finds it; by answer_id alone all answers would be read.
      from etl.units u join etl.answers a on a.answer_id = u.answer_id
        and a.pipeline_id = any(array(select pipeline_id from etl.pipelines)) and a.window_from = u.window_from
      where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and a.source_last_updated is not null
    ), releases as materialized (
      select release, min(min(asked_at)) over (order by release rows between 1 following and unbounded following) as followed_at
      from loaded group by release
    )
    select coalesce(array_agg(l.slice_id order by l.slice_id), '{}') as slice_ids from loaded l join releases r on r.release = l.release
      join etl.slices s on s.slice_id = l.slice_id and s.wanted_until is null
    where l.is_free and l.stood_at < r.followed_at`

/** A loaded unit with what the service said of its answer. */
export type SampledUnit = Row<'etl.slices', 'values'> & Numbers<'sliceId' | 'stoodAtMs'> & { readonly fingerprint: Fingerprint }

/**
 * Up to `most` loaded units of the window that no job asks for, spread over the slices; all of them where there are no more.
 * @param turn 0 to 1: another turn picks other units
 * @param check null: of all units. Else the first units that are due for the check
 */
export const sampleUnits = async (
  db: Db,
  pipelineId: number,
  windowFrom: IsoDate,
  { most, turn, check = null }: { readonly most: number; readonly turn: number; readonly check?: FullCheck | null },
): Promise<{ readonly units: readonly SampledUnit[]; readonly isWhole: boolean }> => {
  const loadedFrom = (places: readonly number[], atEach: number) => query<SampledUnit>(db)`
    select distinct on (x."sliceId") x.* from unnest(${[...places]}::integer[]) as p (place) cross join lateral (
      select u.slice_id as "sliceId", s."values", ${fingerprintOf('a')} as fingerprint,
        floor(extract(epoch from greatest(a.asked_at, a.stood_at)) * 1000)::float8 as "stoodAtMs"
      from etl.units u join etl.slices s on s.slice_id = u.slice_id join etl.answers a on a.answer_id = u.answer_id
      where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and u.slice_id >= p.place and ${isFree} and s.wanted_until is null
        ${check === null ? sql`` : sql`and ${isOfTonight(check)} and greatest(a.asked_at, a.stood_at) < ${check.before}::timestamptz`}
      order by u.slice_id limit ${atEach}) x order by x."sliceId"`
  const first = await loadedFrom([0], most + 1)
  if (first.length <= most) return { units: first, isWhole: true }
  if (check !== null) return { units: first.slice(0, most), isWhole: false }
  const { low, high } = await db
    .selectFrom('etl.slices')
    .select(({ fn }) => [fn.min('slice_id').as('low'), fn.max('slice_id').as('high')])
    .where((eb) => eb.and({ pipeline_id: pipelineId, wanted_until: null }))
    .executeTakeFirstOrThrow()
  const places = Array.from({ length: most }, (_, index) => low + Math.floor((((index + turn) % most) / most) * (high - low + 1)))
  const units = await loadedFrom(places, 1)
  return { units: units.length > 0 ? units : first.slice(0, most), isWhole: false }
}

/** How many units `sampleUnits` picks from. */
export const countSettled = (db: Db, pipelineId: number, windowFrom: IsoDate): Promise<number> =>
  queryValue<Numbers<'units'>>(db)`
    select count(*)::float8 as units from etl.units u join etl.slices s on s.slice_id = u.slice_id
    where u.pipeline_id = ${pipelineId} and u.window_from = ${windowFrom}::date and u.answer_id is not null and ${isFree} and s.wanted_until is null`

/** Windows that the service refused as not published and of which no answer or release has come since. @param released last day that is known to be published */
export const windowsNotYet = async (db: Db, pipelineId: number, released: IsoDate | null): Promise<ReadonlySet<IsoDate>> => {
  const windows = await queryColumn<Row<'etl.jobs', 'window_from'>>(db)`
    select distinct j.window_from from etl.jobs j
    where j.pipeline_id = ${pipelineId} and j.state = 'open' and j.error_code = 'NOT_PUBLISHED'
      and j.window_to > coalesce(${released}::date + 1, j.window_from)
      and not exists (select from etl.units u where u.pipeline_id = j.pipeline_id and u.window_from = j.window_from and u.answer_id is not null)`
  return new Set(windows)
}

/** When the answer was asked for, and whether any unit of that window or a later one has had an answer. */
export const windowsAnswered = (db: Db, pipelineId: number, from: IsoDate, answerId: number) =>
  queryOne<Numbers<'asked_ms'> & Flags<'is_answered'>>(db)`
    select floor(extract(epoch from a.asked_at) * 1000)::float8 as asked_ms, exists (select from etl.units u where u.pipeline_id = ${pipelineId}
      and u.window_from >= ${from}::date and coalesce(u.answer_id, u.held_answer_id) is not null) as is_answered
    from etl.answers a where a.answer_id = ${answerId}::bigint`
