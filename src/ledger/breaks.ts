// What runs found restated, window by window, and breaks: months from which on the service counts by another method.
import { type RawBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type Counts, type Flags, type Lists, type Maybe, type Numbers, query, type Row, type Texts } from '../db/typed-row.ts'

/** Commands of runs that are judged: a replay, or a load by hand, says nothing about a night of the service. */
const nightly = sql`('run', 'schedule', 'demo')`
/** How far back loads of a run that ended before it was judged are judged with a later run. */
const unjudged = '3 days'
/** How long restatements are remembered as usual. */
const remembered = '400 days'

/**
 * Sums up how ended runs, and this one, changed rows that existed; leaves out runs that are summed up already. Call after the run's last load.
 * Returns pipelines and runs with a window of which more than half changed, and those of runs that are not nightly.
 */
export const sumRestated = (db: Db, runId: number): Promise<readonly RestatedRun[]> =>
  query<RestatedRun>(db)`
    with runs as (
      select distinct l.run_id from etl.loads l join etl.runs r on r.run_id = l.run_id
      where l.rows_updated + l.rows_ended > 0 and l.loaded_at > clock_timestamp() - ${unjudged}::interval and l.changes is not null
        and r.command <> 'replay' and (r.run_id = ${runId}::bigint or r.state <> 'running')
        and not exists (select from etl.restated x where x.run_id = l.run_id)
    ), windows as (
      select l.pipeline_id, l.run_id, l.window_from, max(l.loaded_at) as seen_at, sum(l.rows_updated + l.rows_unchanged) as compared,
        sum(l.units) as units
      from runs join etl.loads l on l.run_id = runs.run_id where l.rows_updated + l.rows_unchanged > 0 group by 1, 2, 3
    ), changes as (
      select l.pipeline_id, l.run_id, l.window_from, x.key as column_name, sum((x.value ->> 'rows')::float8) as rows,
        sum((x.value ->> 'size')::float8) as size, sum((x.value ->> 'shift')::float8) as shift
      from runs join etl.loads l on l.run_id = runs.run_id cross join lateral jsonb_each(l.changes) as x group by 1, 2, 3, 4
    ), added as (
      insert into etl.restated (pipeline_id, run_id, window_from, column_name, seen_at, age, rows_compared, units, share, size, shift)
      select c.pipeline_id, c.run_id, c.window_from, c.column_name, w.seen_at, ${ageOf(sql`w.seen_at`)}, w.compared, w.units,
        c.rows / w.compared * least(1, w.units::float8 / greatest(1, (select count(*) from etl.units u
          where u.pipeline_id = c.pipeline_id and u.window_from = c.window_from and u.answer_id is not null))), c.size / c.rows, c.shift / c.rows
      from changes c join windows w using (pipeline_id, run_id, window_from) join etl.pipelines p using (pipeline_id)
      on conflict do nothing returning pipeline_id, run_id, share
    )
    select a.pipeline_id, a.run_id::float8 as run_id, bool_and(r.command in ${nightly}) as nightly from added a join etl.runs r using (run_id)
    group by 1, 2 having max(a.share) > 0.5 or not bool_and(r.command in ${nightly}) order by 1, 2`

/** Whole windows between the window's end and the moment. */
const ageOf = (
  moment: RawBuilder<unknown>,
): RawBuilder<unknown> => sql`greatest(0, least(3, floor((${moment}::date - etl.window_end(c.window_from, p.window_every))
  / case p.window_every when 'day' then 1.0 when 'week' then 7.0 else 31.0 end)))::integer`

type RestatedRun = Row<'etl.pipelines', 'pipeline_id'> & Numbers<'run_id'> & Flags<'nightly'>

/** What a run found changed of one column in one window. */
export interface Restated extends Texts<'windowFrom' | 'column'>, Numbers<'runId' | 'seenMs'> {
  /** How many windows have ended since this one did, 3 at most: young windows still settle, so they are compared with young ones. */
  readonly age: number
  /** Rows that existed before the run and after it, and how many units they belong to: a service may restate whole units. */
  readonly rows: number
  readonly units: number
  /** Changed rows as a share of the window; units that the run did not ask for count as unchanged. */
  readonly share: number
  /** Mean change of the changed rows without its sign, relative to the larger value: from 0 to 1. */
  readonly size: number
  /** The same with the sign. */
  readonly shift: number
}

/** A version younger than this has no usual yet: none of its windows has settled. */
const youth = sql`interval '45 days'`

/** Versions that are too young for breaks to be noticed, with the day from which breaks are. */
export const tooYoung = (db: Db) =>
  query<Row<'etl.pipelines', 'pipeline_id' | 'pipeline'> & Texts<'noticed_from'>>(db)`
    select pipeline_id, pipeline, (known_since + ${youth})::date::text as noticed_from from etl.pipelines
    where known_since > clock_timestamp() - ${youth}`

/** All that is remembered of the pipeline; null: it is too young for any of its windows to have settled. */
export const restatedBefore = async (db: Db, pipelineId: number): Promise<readonly Restated[] | null> => {
  if ((await tooYoung(db)).some((young) => young.pipeline_id === pipelineId)) return null
  return query<Restated>(db)`
    select window_from::text as "windowFrom", column_name as "column", run_id::float8 as "runId", extract(epoch from seen_at)::float8 * 1000 as "seenMs",
      age, rows_compared::float8 as rows, units::float8 as units, share, size, shift
    from etl.restated where pipeline_id = ${pipelineId} and seen_at > clock_timestamp() - ${remembered}::interval order by run_id`
}

/** A break on record. */
export type KnownBreak = Texts<'startsOn'> & Numbers<'breakId' | 'change' | 'runId' | 'noticedMs'> & Lists<Texts<'columns'>>

export const breaksOf = (db: Db, pipelineId: number): Promise<readonly KnownBreak[]> =>
  query<KnownBreak>(db)`
    select break_id::float8 as "breakId", run_id::float8 as "runId", starts_on::text as "startsOn", columns, change,
      extract(epoch from noticed_at)::float8 * 1000 as "noticedMs"
    from etl.breaks where pipeline_id = ${pipelineId} order by break_id`

/** From the window that begins on `startsOn`, the columns (most changed first) follow another method. `change`: relative to the former value, with its sign: 0.12 is 12 % more. */
export type MethodBreak = Texts<'startsOn'> & Numbers<'share' | 'change' | 'usualShare' | 'usualSize'> & Lists<Texts<'columns'>>

/** Does nothing where the run's break with its columns is recorded; a break that `recordVersions` recorded gets the columns. */
export const recordBreak = async (db: Db, pipelineId: number, runId: number, found: MethodBreak): Promise<void> => {
  await query(db)`
    with came as (
      select min(a.ask_number) as first, min(a.dialect) as dialect from etl.loads l join etl.answers a on a.answer_id = l.answer_id
      where l.run_id = ${runId}::bigint and l.pipeline_id = ${pipelineId} and l.outcome = 'loaded'
    )
    insert into etl.breaks (pipeline_id, run_id, kind, starts_on, seen_back_to, columns, share, change, usual_share, usual_size, ask_number)
    select ${pipelineId}, ${runId}::bigint, case when c.dialect <> (select a.dialect from etl.answers a
        where a.pipeline_id = ${pipelineId} and a.ask_number < c.first order by a.ask_number desc limit 1) then 'dialect' else 'method' end,
      ${found.startsOn}::date, ${found.startsOn}::date, ${[...found.columns]}::text[], ${found.share}::float8, ${found.change}::float8,
      ${found.usualShare}::float8, ${found.usualSize}::float8, c.first
    from came c where c.first is not null
    on conflict (pipeline_id, run_id) do update set columns = excluded.columns, share = excluded.share, change = excluded.change,
      usual_share = excluded.usual_share, usual_size = excluded.usual_size where breaks.columns = '{}'`
}

/**
 * Records breaks that the service names itself: the newest answer of a night has another version than those before, however little figures changed. Call before
 * `recordBreak`. Where a person's run for older months got the new version first, the next night records the break.
 */
export const recordVersions = async (db: Db, runId: number): Promise<void> => {
  const rows = await query<Numbers<'breakId'>>(db)`
    with came as (
      select distinct on (l.pipeline_id) l.pipeline_id, a.data_version, coalesce(p.data_version, (
          select b.data_version from etl.answers b where b.pipeline_id = l.pipeline_id and b.ask_number < a.ask_number and b.data_version is not null
            and not exists (select from etl.loads o where o.answer_id = b.answer_id and o.run_id = l.run_id) order by b.ask_number desc limit 1)) as former
      from etl.loads l join etl.answers a on a.answer_id = l.answer_id join etl.pipelines p on p.pipeline_id = l.pipeline_id
        join etl.runs r on r.run_id = l.run_id
      where l.run_id = ${runId}::bigint and l.outcome = 'loaded' and a.data_version is not null and r.command in ${nightly}
      order by l.pipeline_id, a.ask_number desc
    ), named as (
      update etl.pipelines p set data_version = c.data_version from came c where p.pipeline_id = c.pipeline_id and c.former is distinct from c.data_version
    )
    insert into etl.breaks (pipeline_id, run_id, kind, starts_on, seen_back_to, columns, share, change, usual_share, usual_size, ask_number, data_version)
    select c.pipeline_id, ${runId}::bigint, 'version', max(l.window_from), min(l.window_from), '{}', 0, 0, 0, 0, f.first, c.data_version
    from came c cross join lateral (
        select min(b.ask_number) as first from etl.answers b where b.pipeline_id = c.pipeline_id and b.data_version = c.data_version and b.ask_number > coalesce(
          (select max(o.ask_number) from etl.answers o where o.pipeline_id = c.pipeline_id and o.data_version <> c.data_version), 0)
      ) f
      join etl.loads l on l.pipeline_id = c.pipeline_id and l.run_id = ${runId}::bigint and l.outcome = 'loaded'
      join etl.answers a on a.answer_id = l.answer_id and a.ask_number >= f.first
    where c.former <> c.data_version group by c.pipeline_id, f.first, c.data_version
    on conflict do nothing returning break_id::float8 as "breakId"`
  for (const { breakId } of rows) await extendBack(db, breakId, null)
  const older = await query<Numbers<'breakId'> & Texts<'windowFrom'>>(db)`
    select b.break_id::float8 as "breakId", min(l.window_from)::text as "windowFrom"
    from etl.loads l join etl.answers a on a.answer_id = l.answer_id
      join etl.breaks b on b.pipeline_id = l.pipeline_id and b.data_version = a.data_version and l.window_from < b.starts_on
    where l.run_id = ${runId}::bigint and l.outcome = 'loaded' group by 1`
  for (const { breakId, windowFrom } of older) await extendBack(db, breakId, windowFrom)
}

/**
 * Cells of the window changed as the break has it. The start of the break moves back over the windows right before it, as long as every unit of them was asked for
 * since the break: earlier windows were not. @param windowFrom null: no window beyond those known
 */
export const extendBack = async (db: Db, breakId: number, windowFrom: IsoDate | null): Promise<void> => {
  await query(db)`
    update etl.breaks set seen_back_to = least(seen_back_to, ${windowFrom}::date) where break_id = ${breakId}::bigint`
  await query(db)`
    with older as (
      select u.window_from, bool_and(u.ask_number >= b.ask_number) as is_new, b.seen_back_to
      from etl.breaks b join etl.units u on u.pipeline_id = b.pipeline_id and u.window_from < b.starts_on and u.window_from >= b.seen_back_to
      where b.break_id = ${breakId}::bigint and u.answer_id is not null group by 1, 3
    )
    update etl.breaks b set starts_on = m.moved from (select min(o.window_from) as moved from older o
      where not exists (select from older e where not e.is_new and e.window_from >= o.window_from)) m
    where b.break_id = ${breakId}::bigint and m.moved is not null`
}

/** What alarms and plans say of a break. */
export type BreakLine = Texts<'pipeline' | 'startsOn' | 'seenBackTo' | 'noticedOn' | 'kind'> &
  Numbers<'breakId' | 'version' | 'runId' | 'share' | 'change'> &
  Maybe<Texts<'oldest' | 'last' | 'dataVersion'>> &
  Counts<'olderUnits' | 'olderWindows'> & { readonly columns: readonly string[] }

/** Of published versions. `olderUnits`: loaded units from the first to the last earlier window with a unit not asked for since. @param within PostgreSQL interval: noticed so recently */
export const breakLines = (db: Db, within: string): Promise<readonly BreakLine[]> =>
  query<BreakLine>(db)`
    select b.break_id::float8 as "breakId", p.pipeline, p.version, b.run_id::float8 as "runId", b.kind, b.starts_on::text as "startsOn",
      b.seen_back_to::text as "seenBackTo", b.noticed_at::date::text as "noticedOn", b.share, b.change, b.columns, b.data_version as "dataVersion",
      o.oldest::text, o.last::text, n.units as "olderUnits", n.windows as "olderWindows"
    from etl.breaks b join etl.pipelines p using (pipeline_id)
      cross join lateral (select min(u.window_from) as oldest, max(u.window_from) as last from etl.units u
        where u.pipeline_id = b.pipeline_id and u.window_from < b.starts_on and u.answer_id is not null and u.ask_number < b.ask_number) o
      cross join lateral (select count(*) as units, count(distinct u.window_from) as windows from etl.units u
        where u.pipeline_id = b.pipeline_id and u.answer_id is not null and u.window_from between o.oldest and o.last) n
    where b.noticed_at > clock_timestamp() - ${within}::interval
      and not exists (select from etl.published_now n where n.pipeline = p.pipeline and n.version <> p.version)
    order by b.break_id`
