// What a unit's job means for a planner, and what a resumed `--force` need not ask for again.
import { type RawBuilder, sql } from 'kysely'
import type { JobKind } from '../core/types.ts'
import { ended, isWaitedFor, live } from './wait-list.ts'

/** What a planner may do by itself. */
export interface Policy {
  readonly kind: JobKind
  readonly force: boolean
  /** With force: what the stopped forced run has asked for since then is not asked for again. Default: nothing. */
  readonly taken?: UnfinishedForce | undefined
  /** With force: the ask number at which the run began; what another version asked for since serves this one. null: it is only previewed. */
  readonly begunAt?: string | null
  /** Submissions whose answer was lost may be sent again. */
  readonly resubmitUncertain: boolean
  /** Reports that the service could not make may be bought again; --force does so anyway. */
  readonly resubmitFailed: boolean
}

/** What a forced run that did not finish has asked for. */
interface UnfinishedForce {
  /** The ask number at which it began; no time, since clocks may be set back. */
  readonly since: string
  /** What is asked, and by which metrics: an answer to another question does not count. */
  readonly asks: string
  readonly metrics: readonly string[]
}

/** What becomes of a unit in planning. */
export type Decision = 'ask' | 'join' | 'held' | 'not-published' | 'done'

/** Codes of holds that end by themselves: the service may have credits again, or its pages may be stable by now. */
export const transientCodes = sql`('QUOTA_EXHAUSTED', 'UNSTABLE', 'INCOMPLETE', 'WAREHOUSE_COPY')`

/** What a unit's job `j` means for it; null: the job is over. A walk starts again under the same job; what was bought is used. */
export const jobDecision = ({ kind, force, taken, resubmitUncertain, resubmitFailed }: Policy): RawBuilder<Decision | null> => {
  const again = (allowed: boolean, otherwise: string): RawBuilder<unknown> => sql.lit(allowed ? 'ask' : otherwise)
  const mayBuy = force || resubmitFailed
  // An interrupted command left a forced job that no run waits for: it is joined. So is a job asked for since the stopped run began: another process may still work on it.
  const isRecent = taken === undefined ? sql`` : sql`or j.ask_number > ${taken.since}::bigint and j.reason <> 'renumbered'`
  const open = force
    ? sql`case when j.ask_number is null or j.forced and not ${isWaitedFor(sql`j.job_id`)} ${isRecent} then 'join' else 'ask' end`
    : sql`'join'`
  // With --force a unit whose answer cannot be loaded is asked for anew, or whose kept first page announces too many; other pages are gone on from.
  const refusedAnswer = force
    ? sql`when j.answer_id is not null and j.state in ('failed', 'held') or j.state = 'held' and j.error_code = 'UNUSABLE'
        or ${sql.lit(kind === 'walk')} and j.state = 'failed' and j.error_code = 'TOO_MANY_PAGES' then 'ask'`
    : sql``
  if (kind === 'walk')
    return sql<Decision | null>`case ${refusedAnswer} when j.state = 'open' then ${open} when j.state = 'failed' then 'join'
      when j.state = 'held' then case when coalesce(j.error_code, '') not in ${transientCodes} then 'held' when j.answer_id is null then 'join' else 'ask' end end`
  return sql<Decision | null>`case ${refusedAnswer} when j.state = 'open' then ${open}
    when j.state = 'failed' then case when j.answer_id is not null or j.report_state in ${live} then 'join'
      when j.report_state in ${ended} then ${again(mayBuy, 'join')}
      when j.report_state is not null then ${again(resubmitUncertain, 'join')} else 'ask' end
    when j.state = 'held' then case when j.answer_id is not null then 'held' when j.report_state in ${ended} then ${again(mayBuy, 'held')}
      when j.report_state in ('intent', 'uncertain') then ${again(resubmitUncertain, 'held')} when coalesce(j.error_code, '') not in ${transientCodes} then 'held'
      else 'join' end end`
}

/**
 * A person cancelled walk `j` of a loaded unit: its pages serve the next --force, and are no reason to ask. A unit without an answer is asked for anyway, and
 * continues; so does a walk that a night wanted, since that night saw that the unit was restated.
 */
export const isCancelledWalk = ({ force }: Policy, isLoaded: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`(${sql.lit(!force)} and j.state = 'failed' and j.error_code = 'CANCELLED' and j.wanted_by <> 'night' and (${isLoaded}))`

/** Job `j` of an unloaded unit was to load another version's answer, whose bytes are lost. That version may get another answer; until then nothing is asked for. */
export const hasLostReusedAnswer = (pipelineId: number, isLoaded: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`(j.state = 'failed' and j.error_code = 'LANDING_MISSING' and not (${isLoaded})
    and exists (select from etl.answers a where a.answer_id = j.answer_id and a.pipeline_id <> ${pipelineId}))`

/** Loaded unit `u` has an answer to the same question that the stopped forced run asked for. */
export const isDoneByUnfinishedForce = ({ since, asks, metrics }: UnfinishedForce): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.answers t where t.answer_id = u.answer_id and ${isAskedAfter(since)}
    and t.asks = ${asks} and t.metrics @> ${[...metrics]}::text[])`

/** Answer `t` was asked for after that number. Not a renumbered one, which another ledger had bought: its new number says nothing. */
export const isAskedAfter = (since: string | RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`t.ask_number > ${since}::bigint and not exists (select from etl.jobs f where f.job_id = t.job_id and f.reason = 'renumbered')`
