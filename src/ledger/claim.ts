// Claims jobs for a process, each under a new fence: those of one run in the order of its list, or those of every run in turn.
import { type RawBuilder, sql } from 'kysely'
import type { Box, Fingerprint, JobKind, Window, WindowSize } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import type { Db } from '../db/tables.ts'
import { prepared, type Row } from '../db/typed-row.ts'
import { fingerprintOf } from './answers.ts'
import { type ClaimCursor, createCursor, type Place } from './claim-cursor.ts'
import type { Claim } from './claim-fence.ts'
import { isRowOf, databaseReplaced, type OwnProcess } from './processes.ts'
import { isUnserved, servingAnswer } from './serving.ts'
import { type Claimable, isWaitedFor, mayTake } from './wait-list.ts'

/** The answer that a unit's rows come from now. */
export interface LoadedAnswer {
  readonly answerId: number
  readonly sha256: string
  readonly fingerprint: Fingerprint
  /** How many first rows were requested; null: all. */
  readonly top: number | null
}

/** A job held by this process until it is settled. */
export interface ClaimedJob extends Claim {
  readonly jobId: number
  readonly holder: number
  readonly kind: JobKind
  readonly reason: string
  readonly pipelineId: number
  readonly pipeline: string
  readonly version: number
  /** The key parameters that it was planned with. */
  readonly parameters: unknown
  readonly windowEvery: WindowSize
  readonly box: Box
  readonly sliceIds: readonly number[]
  readonly cells: number
  /** The run it was taken for; of an orphan the one that planned it. */
  readonly runId: number
  /** No run waits for it any more: it was asked for and is finished all the same. */
  readonly orphan: boolean
  /** Number of this try, from 1. */
  readonly attempts: number
  /** Error message of the try before where the report was ready by then; else null. */
  readonly formerError: string | null
  readonly forced: boolean
  /** A person has landed answers loaded again: the service is not called for it. */
  readonly isReplay: boolean
  /** A person has seen its answer, and allowed it. */
  readonly released: boolean
  /** null: a report that was not asked for yet. */
  readonly askNumber: string | null
  /** Its answer was incomplete and is downloaded again; the one on record stays until the next has come. */
  readonly fetchesAgain: boolean
  /** Landings of the pages of a walk that was stopped, the newest first. */
  readonly begun: readonly string[]
  /** Why this warehouse may buy nothing; null: it may. */
  readonly mayNotBuy: string | null
  /** An answer that has landed and is not loaded, or not wholly. */
  readonly answer: { readonly answerId: number; readonly landing: string } | null
  /** The answer that its only unit is loaded from; null also where it has several units, which are read when needed. */
  readonly loaded: LoadedAnswer | null
  readonly account: string
}

/** Which process claims jobs, and from which list. */
interface ClaimOptions {
  readonly process: OwnProcess
  /** null: from the list of every live run in turn, then orphans. */
  readonly runId: number | null
  readonly claimable: Claimable
  readonly count: number
  /** Remembers the place in the lists between claims; left out: each claim begins at the top. */
  readonly cursor?: ClaimCursor
}

/** Due jobs (polls, downloads, retries) come before jobs not begun; a run's list goes strictly by priority. Empty: nothing can be claimed now. */
export const claimJobs = async (db: Db, options: ClaimOptions): Promise<ClaimedJob[]> => {
  const { runId, count, claimable, cursor = createCursor() } = options
  if (claimable.load.length + claimable.fetch.length === 0 || count <= 0) return []
  if (runId !== null) return claimOfRun(db, options, runId, count, cursor.of(runId))
  const taken: ClaimedJob[] = []
  for (const [index, id] of cursor.turn(await livingRuns(db)).entries()) {
    if (taken.length >= count) break
    // The first run in turn gets half; each later one may take all that is left.
    const share = index === 0 ? Math.ceil(count / 2) : count - taken.length
    taken.push(...(await claimOfRun(db, options, id, share, cursor.of(id))))
  }
  if (taken.length < count && cursor.orphans.isTime()) {
    const orphans = await take(db, options, orphanJobs(options, count - taken.length))
    cursor.orphans.found(orphans.length > 0)
    taken.push(...orphans)
  }
  return taken
}

const livingRuns = async (db: Db): Promise<number[]> => {
  const rows = await prepared<Row<'etl.runs', 'run_id'>>(db)`
    select run_id from etl.runs where state = 'running' and cancel_requested_at is null order by run_id`
  return rows.map((row) => Number(row.run_id))
}

const claimOfRun = async (
  db: Db,
  options: ClaimOptions,
  runId: number,
  count: number,
  cursor: ReturnType<ClaimCursor['of']>,
): Promise<ClaimedJob[]> => {
  const taken: ClaimedJob[] = []
  if (cursor.due.isTime()) {
    taken.push(...(await take(db, options, dueJobs(options, runId, count))))
    cursor.due.found(taken.length > 0)
  }
  const place = taken.length < count ? cursor.list.place() : null
  if (place === null) return taken
  const wanted = count - taken.length
  const listed = await take(db, options, listedJobs(options, runId, wanted, place))
  cursor.list.went(listed.at(-1)?.place ?? null, listed.length < wanted)
  return [...taken, ...listed]
}

const pipelinesOf = ({ load, fetch }: Claimable): RawBuilder<unknown> =>
  sql`j.pipeline_id = any(${[...new Set([...load, ...fetch])]}::integer[])`

const lives = (runId: number): RawBuilder<boolean> =>
  sql<boolean>`exists (select from etl.runs r where r.run_id = ${runId}::bigint and r.state = 'running' and r.cancel_requested_at is null)`

/** A subselect is read once, so that an index serves the comparison; PostgreSQL would read a plain clock for each row. */
const now = sql`(select clock_timestamp())`

const isOf = (runId: number, { processId }: OwnProcess): RawBuilder<unknown> =>
  sql`(select r.process_id = ${processId} from etl.runs r where r.run_id = ${runId}::bigint)`

// Limits below are part of the text, so that PostgreSQL keeps one plan for every claim: planning takes longer than claiming.

/** Searches by what is due, not by the run's list: that list may be long and nearly all of it not begun. */
const dueJobs = ({ claimable, process }: ClaimOptions, runId: number, count: number): RawBuilder<unknown> => sql`
  select j.job_id, ${runId}::bigint as run_id, false as orphan, 0 as priority from etl.jobs j
  where ${pipelinesOf(claimable)} and j.state = 'open' and j.holder is null and j.not_before is not null and j.not_before <= ${now}
    and ${mayTake(claimable, isOf(runId, process))} and ${lives(runId)}
    and (select true from etl.run_jobs w where w.run_id = ${runId}::bigint and w.job_id = j.job_id and w.outcome is null)
  order by j.not_before limit ${sql.lit(count)} for update of j skip locked`

/** The run's list after the given place. The lock inside keeps PostgreSQL's planner from reading the ready jobs of all runs first. */
const listedJobs = ({ claimable, process }: ClaimOptions, runId: number, count: number, after: Place): RawBuilder<unknown> => sql`
  select j.job_id, ${runId}::bigint as run_id, false as orphan, w.priority from etl.run_jobs w cross join lateral (
    select j.job_id from etl.jobs j where j.job_id = w.job_id and j.state = 'open' and j.holder is null and j.not_before is null
      and ${mayTake(claimable, isOf(runId, process))} and not ${isUnserved} for update of j skip locked) j
  where w.run_id = ${runId}::bigint and w.outcome is null and (w.priority, w.job_id) > (${after.priority}::integer, ${after.jobId}::bigint)
    and ${lives(runId)}
  order by w.priority, w.job_id limit ${sql.lit(count)}`

const orphanJobs = ({ claimable }: ClaimOptions, count: number): RawBuilder<unknown> => sql`
  select j.job_id, j.run_id, true as orphan, 0 as priority from etl.jobs j
  where ${pipelinesOf(claimable)} and j.state = 'open' and j.ask_number is not null and j.holder is null and j.run_id is not null
    and coalesce(j.not_before <= ${now}, true) and ${mayTake(claimable)} and not ${isWaitedFor(sql`j.job_id`)}
  order by j.job_id limit ${sql.lit(count)} for update of j skip locked`

type PlacedJob = ClaimedJob & { readonly place: Place }

/** A column that is a field of the claimed job has the field's name. */
type ClaimedRow = Omit<PlacedJob, 'box'> &
  Row<'etl.pipelines', 'dimensions'> & { readonly window: Window; readonly slices: readonly (readonly string[])[] | null }

const servedAnswer = sql`
      select a.answer_id, a.ask_number, a.asked_at from etl.jobs j join etl.jobs y on y.job_id = j.served_by
        join etl.answers a on a.answer_id = ${servingAnswer}
      where j.job_id = p.job_id and j.answer_id is null and j.report_state is null`

/** Locks, claims and reads in one statement. A walk without an answer gets a new ask number with each claim. */
const take = async (db: Db, { process }: ClaimOptions, picked: RawBuilder<unknown>): Promise<PlacedJob[]> => {
  const rows = await prepared<ClaimedRow>(db)`
    with picked as (${picked}), claimed as (
      update etl.jobs j set holder = ${process.processId}, fence = j.fence + 1, attempts = j.attempts + 1, not_before = null,
        answer_id = coalesce(j.answer_id, h.answer_id), ask_number = case when h.answer_id is not null then h.ask_number when j.kind = 'walk' and j.answer_id is null then nextval('etl.ask_numbers') else j.ask_number end,
        asked_at = case when h.answer_id is not null then h.asked_at when j.kind = 'walk' and j.answer_id is null then clock_timestamp() else j.asked_at end,
        updated_at = clock_timestamp()
      from picked p left join lateral (${servedAnswer}) h on true where j.job_id = p.job_id
      returning j.job_id, j.fence, j.holder, j.kind, j.reason, j.pipeline_id, j.window_from, j.window_to, j.slice_ids, j.cells, j.attempts,
        j.forced, j.released, j.ask_number, j.answer_id, j.account, j.report_state, j.error_message, j.begun_landing, p.run_id, p.orphan, p.priority
    )
    select c.job_id::float8 as "jobId", c.fence, c.holder, c.kind, c.reason, c.pipeline_id as "pipelineId", p.pipeline, p.version, p.parameters, p.window_every as "windowEvery",
      json_build_object('from', c.window_from, 'to', c.window_to) as window, p.dimensions, (select json_agg(s."values") from etl.slices s where s.slice_id = any(c.slice_ids)) as slices, c.slice_ids as "sliceIds", c.cells,
      c.run_id::float8 as "runId", c.orphan, c.attempts, c.forced, c.released and c.answer_id is not null as released, c.ask_number as "askNumber", c.account,
      exists (select from etl.runs r where r.run_id = c.run_id and r.command in ('replay', 'quarantine retry')) as "isReplay",
      case when c.report_state = 'ready' then c.error_message end as "formerError",
      c.answer_id is not null and not c.released and c.report_state is not distinct from 'ready' as "fetchesAgain", coalesce(string_to_array(c.begun_landing, ' '), '{}') as begun,
      case when a.landing is not null then json_build_object('answerId', a.answer_id, 'landing', a.landing) end as answer,
      coalesce((select coalesce(w.standing_reason, '') from etl.warehouse w where w.standing <> 'own'),
        case when not exists (select from etl.processes where ${isRowOf(process)}) then ${databaseReplaced} end) as "mayNotBuy",
      case when l.answer_id is not null then json_build_object('answerId', l.answer_id, 'sha256', l.sha256, 'fingerprint', ${fingerprintOf('l')}, 'top', l.top_rows) end as loaded,
      json_build_object('priority', c.priority, 'jobId', c.job_id::text) as place
    from claimed c join etl.pipelines p on p.pipeline_id = c.pipeline_id
      left join etl.answers a on a.answer_id = c.answer_id
      left join etl.units u on c.cells = 1 and u.pipeline_id = c.pipeline_id and u.window_from = c.window_from and u.slice_id = c.slice_ids[1]
      left join etl.answers l on l.answer_id = u.answer_id
    order by c.priority, c.job_id`
  return rows.map(({ window, dimensions, slices, ...job }) => ({
    ...job,
    box: boxOf({ ...job, window, dimensions, slices: slices ?? [] }),
  }))
}
