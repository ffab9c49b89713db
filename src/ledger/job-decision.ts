// What the job that a unit has means for a planner, and what `--force` takes as asked for already.
import { type RawBuilder, sql } from 'kysely'
import type { JobKind } from '../core/types.ts'
import { ended, isWaitedFor, live } from './wait-list.ts'

/** What a planner may do by itself. */
export interface Policy {
  readonly kind: JobKind
  readonly force: boolean
  /** With force: what such a run has asked for since, before it was stopped, is not asked for once more. Default: nothing. */
  readonly taken?: TakenAnew | undefined
  /** With force: the ask number at which the run began; what another version asked for since serves this one. null: it is only previewed. */
  readonly begunAt?: string | null
  /** Submissions whose answer was lost may be sent again. */
  readonly resubmitUncertain: boolean
  /** Reports that the service could not make may be bought again; so does force. */
  readonly resubmitFailed: boolean
}

/** What a forced run that did not finish has asked for. */
interface TakenAnew {
  /** The ask number at which it began: clocks are set back. */
  readonly since: string
  /** What is asked, and by which metrics: an answer to another question does not count. */
  readonly asks: string
  readonly metrics: readonly string[]
}

/** What becomes of a unit in planning. */
export type Decision = 'ask' | 'join' | 'held' | 'not-published' | 'done'

/** Holds that end by themselves: the service may have credits again, the answer may hold still by now. */
export const passing = sql`('QUOTA_EXHAUSTED', 'UNSTABLE', 'INCOMPLETE', 'WAREHOUSE_COPY')`

/** What the job `j` that a unit has means for it; null: it is over. A walk is begun anew under the same job; what was bought is used. */
export const jobDecision = ({ kind, force, taken, resubmitUncertain, resubmitFailed }: Policy): RawBuilder<Decision | null> => {
  const again = (allowed: boolean, otherwise: string): RawBuilder<unknown> => sql.lit(allowed ? 'ask' : otherwise)
  const mayBuy = force || resubmitFailed
  // A forced one that no run waits for any more is what an interrupted command had begun; another process may still work on what was asked for since.
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
      when j.state = 'held' then case when coalesce(j.error_code, '') not in ${passing} then 'held' when j.answer_id is null then 'join' else 'ask' end end`
  return sql<Decision | null>`case ${refusedAnswer} when j.state = 'open' then ${open}
    when j.state = 'failed' then case when j.answer_id is not null or j.report_state in ${live} then 'join'
      when j.report_state in ${ended} then ${again(mayBuy, 'join')}
      when j.report_state is not null then ${again(resubmitUncertain, 'join')} else 'ask' end
    when j.state = 'held' then case when j.answer_id is not null then 'held' when j.report_state in ${ended} then ${again(mayBuy, 'held')}
      when j.report_state in ('intent', 'uncertain') then ${again(resubmitUncertain, 'held')} when coalesce(j.error_code, '') not in ${passing} then 'held'
      else 'join' end end`
}

/**
 * A walk `j` that a person took back, of a unit that has an answer: its pages are for who forces it again, and no reason to ask. One without is asked for
 * anyway, and goes on; so is one that a night wanted, which has seen that the unit was restated.
 */
export const isTakenBack = ({ force }: Policy, isLoaded: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`(${sql.lit(!force)} and j.state = 'failed' and j.error_code = 'CANCELLED' and j.wanted_by <> 'night' and (${isLoaded}))`

/** Job `j` of a unit that has no answer was to load what another version had bought, whose bytes are lost: that one may have another answer by now. Until it does nothing is asked for. */
export const isLostLoan = (pipelineId: number, isLoaded: RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`(j.state = 'failed' and j.error_code = 'LANDING_MISSING' and not (${isLoaded})
    and exists (select from etl.answers a where a.answer_id = j.answer_id and a.pipeline_id <> ${pipelineId}))`

/** Loaded unit `u` has an answer to the same question from such a run. */
export const isTakenAnew = ({ since, asks, metrics }: TakenAnew): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.answers t where t.answer_id = u.answer_id and ${isSince(since)}
    and t.asks = ${asks} and t.metrics @> ${[...metrics]}::text[])`

/** Answer `t`. Of one that another ledger had bought, and whose number was taken here, the new number says nothing. */
export const isSince = (since: string | RawBuilder<unknown>): RawBuilder<boolean> =>
  sql<boolean>`t.ask_number > ${since}::bigint and not exists (select from etl.jobs f where f.job_id = t.job_id and f.reason = 'renumbered')`
