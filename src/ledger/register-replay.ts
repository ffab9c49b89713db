// Jobs that load answers again: made from what units hold, or from answers that are named. They ask the service for nothing.
import { type RawBuilder, sql } from 'kysely'
import type { Window } from '../core/types.ts'
import { asNumber, type Lists, type Maybe, type Numbers, query, queryOne, type Texts } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { lockPipeline } from './pipelines.ts'
import { valuesIn } from './slices.ts'
import { asDownloaded } from './transitions.ts'

/** Which units are to be loaded again. */
export interface ReplayScope {
  readonly pipelineId: number
  /** null: the whole span of each answer. */
  readonly range: Window | null
  /** Only slices with one of these values, by dimension; a dimension that the pipeline does not have matches none. */
  readonly only: ReadonlyMap<string, readonly string[]> | null
  /** For people: `replay`, `quarantine retry`. */
  readonly reason: string
}

/** Where a page of units ended. */
export type PageEnd = Texts<'windowFrom'> & Numbers<'sliceId'>

/** An answer to load again. */
export type KeptAnswer = Numbers<'answerId'> & Texts<'landing'>

/** Jobs to make for answers of one page. */
export interface ReplayPart {
  readonly answerIds: readonly number[]
  /** Priority of the first job, less one; a run takes the lowest first. */
  readonly priority: number
  /** Which units the run counts as asked for: those without a newer answer, unless another open job asks for them; or all it covers. */
  readonly counts: 'holding' | 'all'
}

/** `end` null: there are no more units. */
type AnswersPage = Lists<Record<'answers', KeptAnswer>> & Maybe<Record<'end', PageEnd>>

const unitsInPage = 5_000

/**
 * A page of the answers that units of the range have, hold back, or wait to load; each answer is on the page of its first unit. In the order of windows, so that memory stays flat.
 */
export const answersHeld = async (
  db: Db,
  scope: ReplayScope & { readonly range: Window },
  after: PageEnd | null,
): Promise<AnswersPage> => {
  const { pipelineId, range, only } = scope
  const from = after?.windowFrom ?? range.from
  const [found] = await query<AnswersPage>(db)`
    with page as (
      select u.window_from, u.slice_id, u.answer_id, u.held_answer_id, u.job_id from etl.units u
      where u.pipeline_id = ${pipelineId} and u.window_from >= ${from}::date and u.window_from < ${range.to}::date
        and (u.window_from, u.slice_id) > (${from}::date, ${after?.sliceId ?? 0})
      order by u.window_from, u.slice_id limit ${unitsInPage}
    ), last as (
      select window_from, slice_id from page order by window_from desc, slice_id desc limit 1
    ), held as (
      select x.answer_id, min(page.window_from) as window_from from page
        join etl.slices s on s.slice_id = page.slice_id
        join etl.pipelines p on p.pipeline_id = ${pipelineId}
        left join etl.jobs j on j.job_id = page.job_id and j.answer_id is not null
        cross join lateral unnest(array[page.answer_id, page.held_answer_id, j.answer_id]) as x (answer_id)
      where x.answer_id is not null and ${fits(only)} group by x.answer_id
    ), first as (
      select a.answer_id, a.landing from held join etl.answers a using (answer_id)
      where not exists (
        select 1 from etl.pipelines p cross join unnest(a.slice_ids) x (slice_id) join etl.slices s on s.slice_id = x.slice_id
          cross join lateral ${unitsOf('p', sql`s.slice_id`, sql`greatest(a.window_from, ${range.from}::date)`, sql`(${from}::date + 1)`)} v
        where p.pipeline_id = ${pipelineId} and (v.window_from, v.slice_id) <= (${from}::date, ${after?.sliceId ?? 0})
          and (v.answer_id = a.answer_id or v.held_answer_id = a.answer_id) and ${fits(only)})
    )
    select json_build_object('windowFrom', window_from, 'sliceId', slice_id) as "end",
      (select coalesce(json_agg(json_build_object('answerId', answer_id, 'landing', landing) order by answer_id), '[]') from first) as answers from last`
  return found ?? { answers: [], end: null }
}

/** Slices (s) of a pipeline (p) with one of the wanted values in each dimension named. */
const fits = (only: ReplayScope['only']): RawBuilder<boolean> =>
  only === null || only.size === 0
    ? sql<boolean>`true`
    : sql<boolean>`${sql.join(
        [...only].map(([name, values]) => sql`s."values"[array_position(p.dimensions, ${name})] = any(${[...values]}::text[])`),
        sql` and `,
      )}`

/**
 * Units of a slice between two days, each by its whole key: a range of windows is read once for each of thousands of slices. `offset 0` keeps the order of the joins
 * where there are no statistics, as after a restore. @param of alias of what has pipeline_id and window_every
 */
const unitsOf = (
  of: string,
  sliceId: RawBuilder<unknown>,
  from: RawBuilder<unknown>,
  to: RawBuilder<unknown>,
): RawBuilder<unknown> =>
  sql`(select u.* from generate_series(${from}, ${to} - 1, ('1 ' || ${sql.ref(`${of}.window_every`)})::interval) x (at)
    cross join lateral (select * from etl.units u
      where u.pipeline_id = ${sql.ref(`${of}.pipeline_id`)} and u.window_from = x.at::date and u.slice_id = ${sliceId} offset 0) u)`

/**
 * One job for each answer, over those of its units that lie in the scope; an unfinished job that covers them is opened again
 * instead. A unit's own pointer to the newest job that asks for it stays as it is. Takes the pipeline's lock.
 */
export const registerReplay = async (
  trx: Db,
  runId: number,
  scope: ReplayScope,
  { answerIds, priority, counts }: ReplayPart,
): Promise<Numbers<'jobs' | 'units'>> => {
  if (answerIds.length === 0) return { jobs: 0, units: 0 }
  const { pipelineId, range, only, reason } = scope
  await lockPipeline(trx, pipelineId)
  return queryOne<Numbers<'jobs' | 'units'>>(trx)`
    with wanted as materialized (
      select w.place, a.answer_id, a.ask_number, coalesce(asked.kind, 'walk') as kind, p.account, p.pipeline_id, p.window_every, u.*
      from unnest(${[...answerIds]}::bigint[]) with ordinality as w (answer_id, place)
        join etl.answers a on a.answer_id = w.answer_id join etl.pipelines p on p.pipeline_id = ${pipelineId}
        left join etl.jobs asked on asked.job_id = a.job_id
        cross join lateral (
          -- An answer that another version requested names that version's slices, and may span units that this version never had.
          select min(u.window_from) as window_from, etl.window_end(max(u.window_from), p.window_every) as window_to,
            array_agg(distinct u.slice_id order by u.slice_id) as slice_ids, count(*) as cells
          from etl.slices o join etl.pipelines f on f.pipeline_id = o.pipeline_id
            cross join lateral (select * from etl.slices s
              where s.pipeline_id = p.pipeline_id and s."values" = ${valuesIn('o', 'f', 'p')} offset 0) s
            cross join lateral ${unitsOf('p', sql`s.slice_id`, sql`greatest(a.window_from, ${range?.from ?? null}::date)`, sql`least(a.window_to, ${range?.to ?? null}::date)`)} u
          where o.slice_id = any(a.slice_ids) and ${fits(only)}) u
    ), unfinished as materialized (
      select j.job_id, j.answer_id, j.state, j.holder, j.slice_ids = w.slice_ids and j.window_from = w.window_from
        and j.window_to = w.window_to as whole
      from wanted w join etl.jobs j on j.answer_id = w.answer_id and j.pipeline_id = ${pipelineId}
        and j.state in ('open', 'held', 'failed') and j.slice_ids @> w.slice_ids
        and j.window_from <= w.window_from and j.window_to >= w.window_to
      order by j.job_id for update of j
    ), known as (
      select distinct on (answer_id) * from unfinished order by answer_id, job_id
    ), opened as (
      update etl.jobs set state = 'open', attempts = 0, not_before = null, error_code = null, error_message = null, forced = true,
        report_state = ${asDownloaded}, updated_at = clock_timestamp()
      where job_id in (select job_id from known where holder is null)
    ), made as (
      insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, forced, run_id, ask_number, answer_id, account)
      select ${pipelineId}, kind, ${reason}, window_from, window_to, slice_ids, cells, true, ${runId}::bigint, ask_number, answer_id, account
      from wanted where cells > 0 and answer_id not in (select answer_id from known) order by place
      returning job_id, answer_id
    ), jobs as (
      select job_id, answer_id, true as whole from made union all select job_id, answer_id, whole from known
    ), joined as (
      insert into etl.run_jobs (run_id, job_id, priority, units, slice_ids, window_from, window_to)
      select ${runId}::bigint, j.job_id, ${priority} + w.place, (
          select count(*) from unnest(w.slice_ids) s (slice_id) cross join lateral ${unitsOf('w', sql`s.slice_id`, sql`w.window_from`, sql`w.window_to`)} u
          where ${counts === 'all'} or coalesce(u.held_answer_id, u.answer_id) = w.answer_id or u.job_id = j.job_id
            or coalesce(u.held_answer_id, u.answer_id, 0) < w.answer_id and not exists (
              select from etl.jobs o where o.job_id = u.job_id and o.state = 'open')),
        case when not j.whole then w.slice_ids end, case when not j.whole then w.window_from end, case when not j.whole then w.window_to end
      from jobs j join wanted w using (answer_id) order by w.place
      on conflict (run_id, job_id) do nothing returning units
    )
    select count(*)::float8 as jobs, coalesce(sum(units), 0)::float8 as units from joined`
}

/** An answer with the pipeline whose units it is to be loaded into. */
type OwnedAnswer = KeptAnswer & Numbers<'pipelineId'>

/** The answer of that number; null: there is none. */
export const landedAnswer = async (db: Db, answerId: number): Promise<OwnedAnswer | null> =>
  (await db
    .selectFrom('etl.answers')
    .select([asNumber('answer_id').as('answerId'), 'pipeline_id as pipelineId', 'landing'])
    .where('answer_id', '=', String(answerId))
    .executeTakeFirst()) ?? null

/** Answers of those pipelines with open rows in quarantine, oldest first. */
export const answersInQuarantine = (db: Db, pipelineIds: readonly number[]): Promise<OwnedAnswer[]> =>
  db
    .selectFrom('etl.quarantine as q')
    .innerJoin('etl.answers as a', 'a.answer_id', 'q.answer_id')
    .leftJoin('etl.jobs as j', 'j.job_id', 'q.job_id')
    .select((eb) => [
      asNumber('a.answer_id').as('answerId'),
      'a.landing',
      eb.fn.coalesce('j.pipeline_id', 'a.pipeline_id').as('pipelineId'),
    ])
    .distinct()
    .where('q.state', '=', 'open')
    .where((eb) => eb(eb.fn.coalesce('j.pipeline_id', 'a.pipeline_id'), '=', eb.fn.any(eb.val([...pipelineIds]))))
    .orderBy('answerId')
    .execute()
