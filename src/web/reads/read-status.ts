// The ledger as one answer, for the command line: units by state, coverage, freshness, open reports, quota, quarantine.

import { sql } from 'kysely'
import type { JobState, ReportState, UnitState } from '../../core/types.ts'
import type { Db } from '../../db/tables.ts'
import { type BoxColumns, boxColumns, boxKey } from './boxes.ts'
import { type Standing, standingWords, type WaitingWord, waitingWords } from './read-approvals.ts'
import { countQuarantined } from './read-quarantine.ts'
import { type QuotaMonth, quotaDays, quotaMonths } from './read-quota.ts'
import { openReports } from './read-reports.ts'
import {
  type CoverageMonth,
  coverageMonths,
  type PipelineCounts,
  pipelineCounts,
  readWindows,
  type Windows,
} from './read-windows.ts'
import { troubledLines, type UnitLine, unitLines } from './unit-lines.ts'
import { wholeAs } from './whole-columns.ts'

interface PipelineStatus extends PipelineCounts {
  readonly quarantined: number
  /** How its newest answer differed from the definition; null: it did not. */
  readonly drift: unknown
}

interface TroubledUnit {
  readonly unit_id: number
  readonly unit: string
  readonly state: UnitState
  readonly code: string | null
  readonly message: string | null
  readonly not_before: string | null
}

interface OpenReport {
  /** Key of what it is bought for. */
  readonly box: string
  readonly units: number
  readonly report_id: string | null
  readonly state: ReportState
  readonly status_word: string | null
  readonly age_seconds: number
  readonly next_poll_at: string | null
}

export interface Status {
  readonly pipelines: readonly PipelineStatus[]
  readonly coverage: readonly CoverageMonth[]
  readonly troubled: readonly TroubledUnit[]
  readonly troubled_replays: readonly TroubledReplay[]
  readonly open_reports: readonly OpenReport[]
  readonly runs: Awaited<ReturnType<typeof lastRuns>>
  readonly quota: readonly QuotaMonth[]
  /** What waits for a person's word. */
  readonly needs_approval: readonly WaitingWord[]
  /** What has it, or was named by a person, and is not bought yet. */
  readonly approved: readonly Standing[]
}

const mostTroubled = 200
const mostReplays = 20
const mostReports = 50
const mostRuns = 5

/** @param pipelines only these; empty: all. At most 200 troubled units, 20 replays, 50 open reports and 5 runs are listed; quota of the last year. */
export const readStatus = async (db: Db, pipelines: readonly string[]): Promise<Status> => {
  const windows = await readWindows(db, { pipelines })
  const among = ({ pipeline }: { readonly pipeline: string }): boolean => pipelines.length === 0 || pipelines.includes(pipeline)
  return {
    pipelines: await pipelineStatus(db, windows),
    coverage: coverageMonths(windows.states),
    troubled: await troubled(db, windows, pipelines),
    troubled_replays: await troubledReplays(db, pipelines, mostReplays),
    open_reports: (await openReports(db, mostReports, pipelines)).map((report) => ({
      box: boxKey(report),
      units: report.cells,
      report_id: report.report_id,
      state: report.state,
      status_word: report.status_word,
      age_seconds: report.age_seconds,
      next_poll_at: report.next_poll_at,
    })),
    runs: await lastRuns(db),
    quota: quotaMonths((await quotaDays(db)).filter(among)),
    needs_approval: await waitingWords(db, pipelines),
    approved: await standingWords(db, pipelines),
  }
}

const pipelineStatus = async (db: Db, windows: Windows): Promise<PipelineStatus[]> => {
  const quarantine = await countQuarantined(db)
  const drifts = await db.selectFrom('etl.last_loads as l').select(['l.pipeline', 'l.drift']).execute()
  return pipelineCounts(windows).map((counts) => ({
    ...counts,
    quarantined: quarantine.find(({ pipeline }) => pipeline === counts.pipeline)?.rows ?? 0,
    drift: drifts.find(({ pipeline, drift }) => pipeline === counts.pipeline && drift !== null)?.drift ?? null,
  }))
}

/** Held, failed, then waiting units. */
const troubled = async (db: Db, { states }: Windows, pipelines: readonly string[]): Promise<TroubledUnit[]> => {
  const found: UnitLine[] = []
  for (const pipeline of pipelines.length === 0 ? [undefined] : pipelines) {
    const own = pipeline === undefined ? {} : { pipeline }
    found.push(...(await troubledLines(db, own, mostTroubled)))
    if (states.some(({ state }) => state === 'waiting'))
      found.push(...(await unitLines(db, states, { ...own, state: 'waiting' }, { limit: mostTroubled })))
  }
  return found.slice(0, mostTroubled).map(({ unit_id, unit_key, state, error_code, error_message, not_before }) => ({
    unit_id,
    unit: unit_key,
    state,
    code: error_code,
    message: error_message,
    not_before,
  }))
}

const lastRuns = (db: Db) =>
  db
    .selectFrom('etl.runs as r')
    .select([wholeAs('r', 'run_id'), 'r.command', 'r.state', 'r.started_at', 'r.finished_at', 'r.summary'])
    .orderBy('r.run_id', 'desc')
    .limit(mostRuns)
    .execute()

/** An answer that was to be loaded again and could not be: its job is one that no unit points to. */
interface TroubledReplay {
  readonly job_id: number
  readonly answer_id: number
  /** Why it was to be loaded again: `replay`, `quarantine retry`. */
  readonly reason: string
  /** Key of the units it was to be loaded into. */
  readonly box: string
  readonly units: number
  readonly state: JobState
  readonly code: string | null
  readonly message: string | null
}

/** Some unit of the job `b` still holds the answer, or holds it back. */
const isInUse = sql<boolean>`exists (select from etl.units u where u.pipeline_id = b.pipeline_id and u.window_from >= b.window_from
  and u.window_from < b.window_to and u.slice_id = any(b.slice_ids) and (u.answer_id = b.answer_id or u.held_answer_id = b.answer_id))`

/** Failed and held ones, newest first, as long as units hold their answer. @param pipelines only these; empty: all */
const troubledReplays = async (db: Db, pipelines: readonly string[], limit: number): Promise<TroubledReplay[]> => {
  const rows = await db
    .selectFrom('etl.jobs as b')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select([
      wholeAs('b', 'job_id'),
      wholeAs('b', 'answer_id'),
      'b.reason',
      'b.cells',
      'b.state',
      'b.error_code',
      'b.error_message',
    ])
    .where('b.state', 'in', ['held', 'failed'])
    .where('b.answer_id', 'is not', null)
    .where((eb) => eb.not(eb.exists(eb.selectFrom('etl.units as u').select('u.unit_id').whereRef('u.job_id', '=', 'b.job_id'))))
    .where(isInUse)
    .$if(pipelines.length > 0, (query) => query.where('p.pipeline', 'in', pipelines))
    .orderBy('b.job_id', 'desc')
    .limit(limit)
    .execute()
  return rows.map(({ job_id, answer_id, reason, cells, state, error_code, error_message, ...box }) => ({
    ...{ job_id, answer_id, reason, box: boxKey(box satisfies BoxColumns), units: cells },
    ...{ state, code: error_code, message: error_message },
  }))
}
