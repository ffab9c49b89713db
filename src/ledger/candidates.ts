// What each wanted cell of a window needs: a new job, the job it has, or nothing. Planning and the preview share this one statement.
import { type RawBuilder, sql } from 'kysely'
import type { IsoDate } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { type Maybe, query } from '../db/typed-row.ts'
import { isKnownSlice, type UsualRule, type WantedBy } from './guard-usual.ts'
import {
  type Decision,
  hasLostReusedAnswer,
  isAskedAfter,
  isDoneByUnfinishedForce,
  isCancelledWalk,
  jobDecision,
  transientCodes,
  type Policy,
} from './job-decision.ts'
import { inFlightSisterJob, type ReuseScope, reusable } from './reuse-answers.ts'

/** So many consecutive slices are checked in the same night. */
export const slicesPerBlock = 32

/** The units of this night, one of `nights`, whose answer was asked for, or found unchanged, before `before`. */
export interface FullCheck {
  /** ISO time. */
  readonly before: string
  readonly nights: number
  readonly night: number
  /** A sample found some of them restated: asking for the others is beyond the usual. */
  readonly isRestated?: boolean
}

/** Which loaded units are asked for again. */
export interface Refresh {
  readonly all: boolean
  readonly sliceIds: readonly number[]
  /** ISO time: those whose answer is older. */
  readonly restatedAt: string | null
  readonly fullCheck: FullCheck | null
  /** `last_updated` of units that have changed: a newer answer of another version or pipeline that says the same serves them. */
  readonly releases: readonly string[]
}

/** Loaded units are left alone. */
export const noRefresh: Refresh = { all: false, sliceIds: [], restatedAt: null, fullCheck: null, releases: [] }

/** One window as planning asks about it. */
export interface WindowQuery {
  readonly from: IsoDate
  readonly isPublished: boolean
  /** Only slices that are wanted since a later generation. */
  readonly since: number
  readonly refresh: Refresh
}

/** How many first rows are wanted now. null: all; undefined: no pipeline has ever asked for first rows only. */
export type WantedTop = number | null | undefined

/** Which units are decided about, and by which rules. */
export interface CellScope {
  readonly pipelineId: number
  readonly policy: Policy
  /** Values by index of their dimension; a dimension without an entry is not narrowed. */
  readonly only: ReadonlyMap<number, readonly string[]>
  readonly reuse: ReuseScope | null
  readonly top?: WantedTop
  /** Tells what nights always buy from what is beyond the usual; null: not judged, all of it is `new`. */
  readonly usual: UsualRule | null
  readonly asker: 'night' | 'range' | 'force'
}

/**
 * Why a cell is asked for. The last three are beyond the usual of a night: a value that came to a list, a month before those a night is for, and
 * anything of a new version or of other key parameters.
 */
const askReasons = [
  'new',
  'unfinished',
  'forced',
  'look-back',
  'full check',
  'new value',
  'older month',
  'changed definition',
] as const
/** As people see it in a plan. */
export type AskReason = (typeof askReasons)[number]

/** Beyond the usual: these wait for a person where a night would cost more than its guard. */
const beyondReasons = sql`('new value', 'older month', 'changed definition')`

/**
 * Job `j` is a walk that a person cancelled, and a night with a guard asks: a new job continues from its pages, and the guard judges it as beyond the usual.
 * @param isLoaded its unit has an answer
 */
export const isReplannedByNight = ({ asker, usual }: CellScope, isLoaded: RawBuilder<unknown>): RawBuilder<boolean> =>
  asker === 'night' && usual !== null
    ? sql<boolean>`(j.state = 'failed' and j.error_code = 'CANCELLED' and j.wanted_by = 'beyond' and not (${isLoaded}))`
    : sql<boolean>`false`

/** In a window that is not published yet, a purchase that was asked for is finished and nothing else begins. */
const unlessUnpublished = (decision: RawBuilder<unknown>, isPublished: boolean): RawBuilder<Decision> =>
  isPublished
    ? sql<Decision>`${decision}`
    : sql<Decision>`case when ${decision} = 'ask' or ${decision} = 'join' and j.state = 'failed' and j.report_state is null
        then 'not-published' else ${decision} end`

const refreshed = ({ all, sliceIds, restatedAt, fullCheck }: Refresh): RawBuilder<boolean> => {
  if (all) return sql<boolean>`true`
  const conditions = [
    ...(sliceIds.length === 0 ? [] : [sql`s.slice_id = any(${[...sliceIds]}::integer[])`]),
    ...(restatedAt === null ? [] : [sql`a.stood_at < ${restatedAt}::timestamptz`]),
    ...(fullCheck === null ? [] : [inTurn(fullCheck)]),
  ]
  return conditions.length === 0 ? sql<boolean>`false` : sql<boolean>`(${sql.join(conditions, sql` or `)})`
}

const inTurn = (check: FullCheck): RawBuilder<unknown> => sql`${isOfTonight(check)} and a.stood_at < ${check.before}::timestamptz`

/**
 * Slices `s` of this night. Consecutive slices have the same night, since they and their answers mostly lie on the same pages of the disk. More at a
 * time would spread a short list over too few nights.
 */
export const isOfTonight = ({ nights, night }: FullCheck): RawBuilder<boolean> =>
  sql<boolean>`s.slice_id / ${sql.lit(slicesPerBlock)} % ${sql.lit(nights)} = ${sql.lit(night)}`

/** The full check, where it is the only refresh; null: other loaded units are due, too. */
const onlyChecked = ({ all, sliceIds, restatedAt, fullCheck }: Refresh): FullCheck | null =>
  all || sliceIds.length > 0 || restatedAt !== null ? null : fullCheck

/** The reason for a cell that was never asked for. */
const newReason = (pipelineId: number, rule: UsualRule | null, from: RawBuilder<unknown>): RawBuilder<unknown> => {
  if (rule === null) return sql.lit('new')
  if (rule.isNewVersion) return sql.lit('changed definition')
  return sql`case when not ${isKnownSlice(pipelineId, rule)} then 'new value'
    when ${from} >= ${rule.recentFrom}::date or s.night_from <= ${from} then 'new' else 'older month' end`
}

/** Unit `u` continues with its job `j`. A loaded unit whose walk a person cancelled is decided like any other loaded unit. */
const continuesWithJob = (policy: Policy): RawBuilder<boolean> =>
  sql<boolean>`(j.state in ('open', 'held', 'failed') and ${isCancelledWalk(policy, sql`u.answer_id is not null`)} is not true)`

/** Who first wanted what job `j` did not bring, else who asks now. A person's order stays a person's; a night's becomes a person's where a person asks now. */
const wantedBy = ({ asker, policy }: CellScope, { fullCheck }: Refresh, reason: RawBuilder<unknown>): RawBuilder<WantedBy> => {
  const words = asker === 'night' ? sql`` : sql`and j.wanted_by in ('range', 'force', 'approval')`
  const anew =
    asker === 'night'
      ? sql`case when ${reason} in ${beyondReasons} or ${reason} = 'full check' and ${sql.lit(fullCheck?.isRestated === true)} then 'beyond' else 'night' end`
      : sql.lit(asker)
  return sql<WantedBy>`case when ${continuesWithJob(policy)} ${words} then j.wanted_by else ${anew} end`
}

const reasonOf = (scope: CellScope, { from, refresh }: WindowQuery, decision: RawBuilder<unknown>): RawBuilder<AskReason> => {
  const { pipelineId, usual } = scope
  const { force } = scope.policy
  const loaded = force ? 'forced' : onlyChecked(refresh) === null ? 'look-back' : 'full check'
  // A job of --force without an answer is forced again: then rows are compared also where the bytes are the loaded ones.
  const begun = sql`case when ${sql.lit(force)} or j.forced and j.answer_id is null and ${decision} = 'ask' then 'forced' else 'unfinished' end`
  return sql<AskReason>`case when ${continuesWithJob(scope.policy)} then ${begun}
    when u.answer_id is null then case when ${decision} = 'ask' then ${newReason(pipelineId, usual, sql`${from}::date`)} else 'new' end
    when ${sql.lit(!force)} and ${hasOtherTop(scope)} then 'changed definition' else ${sql.lit(loaded)} end`
}

/**
 * The window's wanted cells: slice_id and decision; of cells to ask for also the reason, who wants them, the job of the purchase before, the job they leave, and the
 * answer, or the job of another version, that serves instead. Lateral limits force the indexes: a plan from before the tables grew would read the tables whole.
 */
const cellsOf = (scope: CellScope, window: WindowQuery, among: readonly number[] | null): RawBuilder<unknown> => {
  const { pipelineId, policy, only, reuse } = scope
  const { restatedAt, fullCheck, all } = window.refresh
  const needsAnswer = !all && (restatedAt !== null || fullCheck !== null)
  const usual = policy.kind === 'walk' ? sql`case when u.held_code in ${transientCodes} then 'ask' else 'held' end` : sql`'held'`
  // --force wants another answer than the held one.
  const passes = policy.force ? sql`'ask'` : usual
  const own = sql`case when u.held_answer_id is not null then ${passes} when u.answer_id is null then 'ask'
    ${policy.taken === undefined ? sql`` : sql`when ${isDoneByUnfinishedForce(policy.taken)} then 'done'`}
    when ${sql.lit(policy.force)} or ${refreshed(window.refresh)} or ${hasOtherTop(scope)} then 'ask' else 'done' end`
  const isLoaded = sql`u.answer_id is not null or u.held_answer_id is not null`
  const isLost = reuse === null || policy.force ? sql`false` : hasLostReusedAnswer(pipelineId, isLoaded)
  const decided = sql`case when ${isReplannedByNight(scope, isLoaded)} then 'ask' when ${isCancelledWalk(policy, isLoaded)} or ${isLost} then ${own} else coalesce(${jobDecision(policy)}, ${own}) end`
  const decision = unlessUnpublished(decided, window.isPublished)
  const narrowed = [...only].map(([place, values]) => sql`and s."values"[${sql.lit(place + 1)}] = any(${[...values]}::text[])`)
  const check = onlyChecked(window.refresh)
  return sql`
    select s.slice_id, f.decision, d.reason, case when f.decision = 'ask' then ${wantedBy(scope, window.refresh, sql`d.reason`)} end as wanted_by, u.job_id as left_job_id,
      case when j.state is not null and (j.ask_number is not null or j.report_state is not null) and (j.report_state = 'rejected' and j.used_quota = 0) is not true
        then u.job_id end as former_job_id, -- Of parts that were rejected for free nothing was bought: they are asked for together.
      ${reuse === null ? sql`null::bigint` : sql`r.answer_id`} as answer_id, ${reuse === null ? sql`null::bigint` : sql`case when r.answer_id is null then w.job_id end`} as served_by
    from etl.slices s
      left join lateral (select u.job_id, u.answer_id, u.ask_number, u.held_answer_id, u.held_code from etl.units u
        where u.pipeline_id = ${pipelineId} and u.window_from = ${window.from}::date and u.slice_id = s.slice_id limit 1) u on true
      left join lateral (select j.job_id, j.state, j.ask_number, j.asked_at, j.answer_id, j.report_state, j.reason, j.error_code, j.error_message, j.forced, j.wanted_by, j.run_id, j.used_quota
        from etl.jobs j where j.job_id = u.job_id limit 1) j on true
      ${needsAnswer ? sql`left join lateral (select greatest(a.asked_at, a.stood_at) as stood_at from etl.answers a where a.answer_id = u.answer_id limit 1) a on true` : sql``}
      cross join lateral (select ${decision} as decision) o
      cross join lateral (select o.decision, ${reasonOf(scope, window, sql`o.decision`)} as reason) d
      ${
        reuse === null
          ? sql``
          : sql`left join lateral (${reusable(reuse, window.from)}) r on d.decision = 'ask' and ${isNews(policy, window.refresh)}
        left join lateral (${inFlightSisterJob(reuse, window.from, policy.resubmitUncertain)}) w on d.decision = 'ask' and ${isOnTime(policy, window.refresh)}`
      }
      cross join lateral (select ${reuse === null ? sql`d.decision` : sql`case when d.decision = 'ask' and ${isLost} and w.job_id is null and coalesce(r.answer_id = j.answer_id, true) then 'join' else d.decision end`} as decision) f
    where s.pipeline_id = ${pipelineId} and s.wanted_until is null and s.wanted_since > ${window.since}
      ${among === null ? sql`` : sql`and s.slice_id = any(${[...among]}::integer[])`} ${check === null ? sql`` : sql`and ${isOfTonight(check)}`}
      ${sql.join(narrowed, sql` `)}`
}

/** Loaded unit `u` was asked for with another number of first rows than is wanted now. */
const hasOtherTop = ({ top }: CellScope): RawBuilder<boolean> =>
  top === undefined
    ? sql<boolean>`false`
    : sql<boolean>`exists (select from etl.answers t where t.answer_id = u.answer_id and t.top_rows is distinct from ${top}::integer)`

const sinceOf = ({ all, sliceIds, restatedAt, fullCheck }: Refresh): string | null =>
  all || sliceIds.length > 0 ? null : (restatedAt ?? fullCheck?.before ?? null)

/** The ask number at which the run that forced `j` began; null: it was not forced, or its answer came. Any run asks for it again. Numbers decide, since clocks are set back. */
const owedSince = sql`(select b.begun_at_ask from etl.runs b where b.run_id = j.run_id and j.forced and j.state in ('open', 'held', 'failed') and j.answer_id is null)`

/** Loaded units are asked for again, whatever job they have. */
const looksAgain = ({ all, sliceIds, restatedAt, fullCheck }: Refresh): boolean =>
  all || sliceIds.length > 0 || restatedAt !== null || fullCheck !== null

/**
 * Job `w` of another version may serve the unit. For a loaded unit it must be unsent, or asked for after the possible change and, where a --force still owes the unit, after
 * that --force began. A --force takes only forced jobs, unsent or asked for since it began.
 */
const isOnTime = ({ force, taken, begunAt = null }: Policy, refresh: Refresh): RawBuilder<boolean> => {
  const since = sinceOf(refresh)
  const begun = taken?.since ?? begunAt
  const late = since === null ? sql`false` : sql`w.asked_at >= ${since}::timestamptz`
  const isOfForce = sql`w.ask_number > ${force && begun !== null ? sql`${begun}::bigint` : owedSince}`
  const isLate =
    force && begun !== null
      ? isOfForce
      : looksAgain(refresh)
        ? sql`${late} and coalesce(${isOfForce}, true)`
        : sql`w.forced and ${isOfForce}`
  return sql<boolean>`(u.answer_id is null or w.asked_at is null or ${isLate}) and (w.forced or not ${sql.lit(force)})`
}

/** Answer `r` may serve the unit. For a loaded unit it must be asked for after the possible change and, where a --force owes the unit, since that began; for a --force, since it began. */
const isNews = ({ force, taken, begunAt = null }: Policy, refresh: Refresh): RawBuilder<unknown> => {
  const begun = taken?.since ?? begunAt
  const isOfForce = (number: string | RawBuilder<unknown>) =>
    sql`exists (select from etl.answers t where t.answer_id = r.answer_id and ${isAskedAfter(number)})`
  if (force) return begun === null ? sql`false` : sql`${isOfForce(begun)} and r.ask_number > coalesce(u.ask_number, 0)`
  const since = sinceOf(refresh)
  const isNewer = [
    ...(since === null ? [] : [sql`r.asked_at >= ${since}::timestamptz`]),
    ...(refresh.releases.length === 0 ? [] : [isOfRelease(refresh.releases)]),
  ]
  const isLate = looksAgain(refresh)
    ? sql`(${sql.join([sql`false`, ...isNewer], sql` or `)}) and (${owedSince} is null or ${isOfForce(owedSince)})`
    : isOfForce(owedSince)
  return sql`(u.answer_id is null or r.ask_number > u.ask_number and ${isLate})`
}

/** The service names a release by its day (interface 2.2): only an answer asked for after that day certainly has all of it. */
const isOfRelease = (releases: readonly string[]): RawBuilder<unknown> =>
  sql`exists (select from etl.answers t where t.answer_id = r.answer_id and t.source_last_updated = any(${[...releases]}::text[])
    and t.source_last_updated < to_char(t.asked_at at time zone 'UTC', 'YYYY-MM-DD'))`

/** How many units of a window are decided alike. */
export interface CellCount {
  readonly decision: Decision
  readonly reason: AskReason
  /** null: nothing is asked for. */
  readonly wantedBy: WantedBy | null
  /** An answer that is here, or one that another version asks for, serves it: nothing is bought. */
  readonly served: boolean
  readonly cells: number
}

/** How many cells of the window need what. */
export const countCells = (db: Db, scope: CellScope, window: WindowQuery): Promise<CellCount[]> =>
  query<CellCount>(db)`
    select decision, reason, wanted_by as "wantedBy", answer_id is not null or served_by is not null as served, count(*)::float8 as cells
    from (${cellsOf(scope, window, null)}) c group by 1, 2, 3, 4`

/** Cells that are asked for together: for the same reason, with the same former purchase and the same answer or job that serves them. */
export interface NeededCells {
  readonly reason: AskReason
  readonly wantedBy: WantedBy
  readonly formerJobId: string | null
  readonly answerId: string | null
  /** A job of another version whose answer they wait for. */
  readonly servedBy: string | null
  readonly sliceIds: readonly number[]
  /** Jobs these cells have now and leave. */
  readonly leftJobIds: readonly string[]
}

/** The same, and the cells to ask for. @param among only these slices; null: all */
export const neededCells = async (db: Db, scope: CellScope, window: WindowQuery, among: readonly number[] | null) => {
  const counts = await query<CellCount & Omit<NeededCells, 'wantedBy' | 'sliceIds'> & Maybe<Pick<NeededCells, 'sliceIds'>>>(db)`
    select decision, reason, wanted_by as "wantedBy", case when decision = 'ask' then former_job_id end as "formerJobId", answer_id as "answerId",
      served_by as "servedBy", answer_id is not null or served_by is not null as served, count(*)::float8 as cells,
      array_agg(slice_id) filter (where decision = 'ask') as "sliceIds",
      coalesce(array_agg(distinct left_job_id) filter (where decision = 'ask' and left_job_id is not null), '{}') as "leftJobIds"
    from (${cellsOf(scope, window, among)}) c group by 1, 2, 3, 4, 5, 6`
  const needed = counts.flatMap(({ wantedBy, sliceIds, ...row }) =>
    wantedBy === null || sliceIds === null ? [] : [{ ...row, wantedBy, sliceIds }],
  )
  return { counts, needed }
}

/** The cells to ask for as rows of a statement: slice_id, reason, wanted_by, former_job_id, left_job_id, answer_id, served_by; at most `most`, of slices after `after`. */
export const cellsToAsk = (scope: CellScope, window: WindowQuery, after: number, most: number): RawBuilder<unknown> =>
  sql`select * from (${cellsOf(scope, window, null)} and s.slice_id > ${after}) c where c.decision = 'ask' order by c.slice_id limit ${most}`
