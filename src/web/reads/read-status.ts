// The whole status for the command line: units by state, coverage, freshness, open reports, quota, quarantine.

import { sql } from 'kysely'
import type { Db } from '../../db/tables.ts'
import { query, type Row } from '../../db/typed-row.ts'
import { tooYoung } from '../../ledger/breaks.ts'
import { driftNow } from '../../ledger/causes.ts'
import { cappedUnits } from '../../ledger/loads.ts'
import { boxColumns, type BoxColumns, boxKey, asNumbers } from './shared-columns.ts'
import { unusedApprovals, neededApprovals } from './read-approvals.ts'
import { countQuarantined } from './read-rejects.ts'
import { quotaDays, quotaMonths } from './read-quota.ts'
import { openReports, type ReportLine } from './read-reports.ts'
import { coverageMonths, pipelineCounts, readWindows, type Windows } from './read-windows.ts'
import { troubledLines, type UnitLine, unitLines } from './unit-lines.ts'

export type Status = Awaited<ReturnType<typeof readStatus>>

const mostTroubled = 200
const mostReplays = 20
const mostReports = 50
const mostRuns = 5

/** @param pipelines only these; empty: all. At most 200 troubled units, 20 replays, 50 open reports and 5 runs are listed; quota of the last year. */
export const readStatus = async (db: Db, pipelines: readonly string[]) => {
  const windows = await readWindows(db, { pipelines })
  const among = ({ pipeline }: { readonly pipeline: string }): boolean => pipelines.length === 0 || pipelines.includes(pipeline)
  return {
    pipelines: await pipelineStatus(db, windows),
    coverage: coverageMonths(windows),
    troubled: await troubled(db, windows, pipelines),
    troubled_replays: await troubledReplays(db, pipelines, mostReplays),
    open_reports: (await openReports(db, mostReports, pipelines)).map(openReport),
    runs: await lastRuns(db),
    quota: quotaMonths((await quotaDays(db)).filter(among)),
    // Purchases that need approval; and purchases that a person approved or requested, and that are not bought yet.
    needs_approval: await neededApprovals(db, pipelines),
    approved: await unusedApprovals(db, pipelines),
  }
}

/** `box`: the key of what it is bought for. */
const openReport = ({ cells, report_id, state, status_word, age_seconds, next_poll_at, ...box }: ReportLine) => ({
  ...{ box: boxKey(box), units: cells, report_id, state, status_word, age_seconds, next_poll_at },
})

/** `capped`: units whose newest answer was truncated at a row limit. `breaks_noticed_from`: before that day history is too short to notice a new method of the service; null: it is noticed. `drift`: how the newest answer differed from the definition. */
const pipelineStatus = async (db: Db, windows: Windows) => {
  const quarantine = await countQuarantined(db)
  const young = await tooYoung(db)
  const capped = await cappedUnits(db)
  const drifts = await query<Row<'etl.last_loads', 'pipeline' | 'drift'>>(db)`select pipeline, drift from ${driftNow}`
  return pipelineCounts(windows).map((counts) => ({
    ...counts,
    quarantined: quarantine.find(({ pipeline }) => pipeline === counts.pipeline)?.rows ?? 0,
    capped: Number(capped.find(({ pipeline }) => pipeline === counts.pipeline)?.units ?? 0),
    breaks_noticed_from: young.find(({ pipeline }) => pipeline === counts.pipeline)?.noticed_from ?? null,
    drift: drifts.find(({ pipeline }) => pipeline === counts.pipeline)?.drift ?? null,
  }))
}

/** Held, failed, then waiting units. */
const troubled = async (db: Db, { states }: Windows, pipelines: readonly string[]) => {
  const found: UnitLine[] = []
  for (const pipeline of pipelines.length === 0 ? [undefined] : pipelines) {
    found.push(...(await troubledLines(db, { pipeline }, mostTroubled)))
    if (states.some(({ state }) => state === 'waiting'))
      found.push(...(await unitLines(db, states, { pipeline, state: 'waiting' }, { limit: mostTroubled })))
  }
  return found.slice(0, mostTroubled).map(({ unit_id, unit_key, state, error_code, error_message, not_before }) => ({
    ...{ unit_id, unit: unit_key, state, code: error_code, message: error_message, not_before },
  }))
}

const lastRuns = (db: Db) =>
  db
    .selectFrom('etl.runs as r')
    .innerJoin('etl.run_list as l', 'l.run_id', 'r.run_id')
    .select([...asNumbers('r', 'run_id'), 'r.command', 'r.state', 'r.started_at', 'r.finished_at', 'r.summary'])
    .select(asNumbers('l', 'held', 'failed', 'waiting'))
    .orderBy('r.run_id', 'desc')
    .limit(mostRuns)
    .execute()

/** Whether a unit of the job `b` still has the answer, loaded or held back. */
const isInUse = sql<boolean>`exists (select from etl.units u where u.pipeline_id = b.pipeline_id and u.window_from >= b.window_from
  and u.window_from < b.window_to and u.slice_id = any(b.slice_ids) and (u.answer_id = b.answer_id or u.held_answer_id = b.answer_id))`

/**
 * Failed replays, newest first: jobs that load an answer again (no unit points to such a job), while a unit still has the answer. `reason`: `replay`,
 * `quarantine retry`; `box`: the key of the units to load. @param pipelines only these; empty: all
 */
const troubledReplays = async (db: Db, pipelines: readonly string[], limit: number) => {
  const rows = await db
    .selectFrom('etl.jobs as b')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'b.pipeline_id')
    .select(boxColumns)
    .select([...asNumbers('b', 'job_id', 'answer_id'), 'b.reason', 'b.cells', 'b.state', 'b.error_code', 'b.error_message'])
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
