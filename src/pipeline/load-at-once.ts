// The first load of a walk's small answer in one statement: answer, rows, dimensions, summaries, unit and job, or nothing at all.
import { type RawBuilder, sql } from 'kysely'
import type { Definition, RowCounts } from '../core/types.ts'
import { isCluster } from '../db/cluster.ts'
import type { Database } from '../db/connect.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { slot, type Template, template } from '../db/prepared.ts'
import type { Session } from '../db/session.ts'
import { isHeldBy } from '../ledger/hold.ts'
import { insertLoad } from '../ledger/loads.ts'
import { closeQuarantine } from '../ledger/quarantine.ts'
import { chargesOf, countCredits } from '../ledger/request-credits.ts'
import { insertRequests } from '../ledger/requests.ts'
import { settleWaiting } from '../ledger/run-jobs.ts'
import { finished } from '../ledger/settle-job.ts'
import { pointed } from '../ledger/units.ts'
import { ensurePartitions } from '../load/partition.ts'
import { insertAtOnce, insertedRows, isTaken, type RowsText, slotsOf, textOfRows, unitOfSlots } from '../load/rows-at-once.ts'
import { publishedSummaries } from '../load/summaries.ts'
import { asksOf, metricsOf } from '../core/asks.ts'
import type { JobWork } from './job-work.ts'
import { driftOf, type LoadInput } from './load-input.ts'
import type { Row } from '../db/row.ts'

/**
 * Loads what `staging` still holds; null, with nothing written, where the unit needs staging and merge: it is or was loaded, the answer is
 * large, not whole, or not all good. Each condition is checked in the statement itself.
 */
export const loadAtOnce = async (work: JobWork, session: Session, input: LoadInput): Promise<RowCounts | null> => {
  const { runtime, definition, claim, requests } = work
  const rows = smallAnswer(work, input)
  // Tables that are spread over several servers are not written in one statement with those that are not.
  if (rows === null || (await isCluster(runtime.database))) return null
  const load = await statementFor(work)
  if (load === null) return null
  await ensurePartitions({ ...session, kysely: runtime.database.kysely }, definition, claim.box.window)
  const known = [...requests]
  try {
    const done = await load(session.kysely, valuesOf(work, input, rows))
    if (done.length > 0) {
      requests.splice(0, known.length)
      const { read } = input.parsed
      return { read, inserted: read, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 }
    }
  } catch (error) {
    if (!isAboutRows(error)) throw error
  }
  // A summary may have been published since it was looked for.
  statements.get(runtime.database)?.delete(definition)
  return null
}

/** A value that is none of its column, or a key that is there: staging and merge say which. */
const isAboutRows = (error: unknown): boolean => ['22', '23'].includes(sqlStateOf(error).slice(0, 2))

const smallAnswer = ({ definition, claim }: JobWork, input: LoadInput): RowsText | null => {
  const { staging, parsed, completeness, box } = input
  const held = staging.held()
  if (held === null || claim.kind !== 'walk' || claim.loaded !== null || box.key !== claim.box.key) return null
  if (parsed.rejects > 0 || parsed.read !== staging.rows()) return null
  if (completeness.expectedRows !== null && completeness.expectedRows !== parsed.read) return null
  return textOfRows(definition, held)
}

type Statement = Template<Row<'etl.units', 'unit_id'>>

const statements = new WeakMap<Database, Map<Definition, Statement>>()

const statementFor = async (work: JobWork): Promise<Statement | null> => {
  const { runtime, definition } = work
  const byDefinition = statements.get(runtime.database) ?? new Map<Definition, Statement>()
  statements.set(runtime.database, byDefinition)
  const existing = byDefinition.get(definition)
  if (existing !== undefined) return existing
  const made = await makeStatement(work)
  if (made !== null) byDefinition.set(definition, made)
  return made
}

const hold = { jobId: slot('job_id'), fence: slot('fence'), holder: slot('holder') }

const isUnit = sql`pipeline_id = ${slot('pipeline_id')}::integer and window_from = ${slot('from')}::date and slice_id = ${slot('slice_id')}::integer`

const jobColumns = sql.raw('job_id, pipeline_id, window_from, window_to, slice_ids, ask_number, asked_at')

/** The job first, then its unit, which must never have been loaded; one row of both where everything is as it must be. */
const taken = (conditions: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  millrace_job as materialized (select ${jobColumns} from etl.jobs where ${isHeldBy(hold)} and ${conditions} for update),
  millrace_taken as materialized (
    select u.unit_id, j.ask_number, coalesce(j.asked_at, clock_timestamp()) as asked_at from etl.units u, millrace_job j
    where u.pipeline_id = j.pipeline_id and u.window_from = j.window_from and u.slice_id = j.slice_ids[1]
      and u.ask_number is null and u.answer_id is null for update of u)`

const newAnswer = sql`
  insert into etl.answers (pipeline_id, job_id, ask_number, asked_at, landing, sha256, bytes, window_from, window_to, slice_ids, asks,
    metrics, source_last_updated, source_count, data_points_count, source_order, verdict)
  select j.pipeline_id, j.job_id, j.ask_number, t.asked_at, ${slot('landing')}, ${slot('sha256')}, ${slot('bytes')}::bigint, j.window_from,
    j.window_to, j.slice_ids, ${slot('asks')}, array(select jsonb_array_elements_text(${slot('metrics')}::jsonb)), ${slot('last_updated')}, ${slot('count')}::bigint,
    ${slot('data_points')}::bigint, ${slot('source_order')}::jsonb, 'good'
  from millrace_job j, millrace_taken t returning answer_id`

const newLoad = insertLoad(
  {
    answerId: sql`(select answer_id from answer)`,
    pipelineId: slot('pipeline_id'),
    windowFrom: slot('from'),
    jobId: hold.jobId,
    runId: slot('run_id'),
    units: sql`1`,
    withoutRows: sql`case when ${slot('row_count')}::bigint = 0 then array[${slot('slice_id')}::integer] else '{}'::integer[] end`,
    read: slot('row_count'),
    inserted: insertedRows,
    updated: sql`0`,
    ended: sql`0`,
    unchanged: sql`0`,
    quarantined: sql`0`,
    duplicates: sql`0`,
    drift: slot('drift'),
    rowsProof: sql`null`,
    loadedAt: sql`null`,
    milliseconds: sql`(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)`,
  },
  isTaken,
)

/** Locks are taken in the order of all locks: the job is settled, with those who wait for it, before the unit's row is written. */
const makeStatement = async ({ runtime, definition, claim }: JobWork): Promise<Statement | null> => {
  const unit = unitOfSlots(claim.box, sql`(select unit_id from etl.units where ${isUnit})`)
  if (unit === null) return null
  const published = await publishedSummaries(runtime.database.kysely, definition, runtime.marts)
  const inserted = insertAtOnce({ definition, unit, published, taken })
  const answerId = sql`(select answer_id from answer)`
  return template(sql<Row<'etl.units', 'unit_id'>>`
    with ${inserted},
      answer as (${newAnswer}),
      settled as (update etl.jobs set answer_id = ${answerId}, ${finished} where ${isHeldBy(hold)} and ${isTaken}
        returning job_id, pipeline_id, answer_id, slice_ids, window_from, window_to),
      waiting as (${settleWaiting('settled', 'loaded', { mayPass: false })}),
      load as (${newLoad}),
      quarantine as (${closeQuarantine(sql`array(select unit_id from millrace_taken)`, isTaken)}),
      requests as (${insertRequests(slot('requests'), isTaken)}),
      credits as (${countCredits(slot('charges'), isTaken)})
    update etl.units u set ${pointed(hold.jobId, answerId, sql`(select ask_number from millrace_taken)`)}
    where ${isUnit} and ${isTaken} and (select count(*) from waiting) >= 0 returning u.unit_id`)
}

const valuesOf = (work: JobWork, { parsed, landing, completeness }: LoadInput, rows: RowsText) => {
  const { claim, definition } = work
  const drift = driftOf(parsed)
  return {
    ...slotsOf(claim.box, definition),
    ...rows,
    row_count: parsed.read,
    job_id: claim.jobId,
    fence: claim.fence,
    holder: claim.holder,
    pipeline_id: claim.pipelineId,
    slice_id: claim.sliceIds[0] ?? null,
    run_id: claim.runId,
    landing: landing.locator,
    sha256: landing.sha256,
    bytes: landing.bytes,
    asks: asksOf(definition),
    metrics: JSON.stringify(metricsOf(definition)),
    last_updated: completeness.fingerprint.lastUpdated,
    count: completeness.fingerprint.count,
    data_points: completeness.dataPoints,
    source_order: completeness.order == null ? null : JSON.stringify(completeness.order),
    drift: drift === null ? null : JSON.stringify(drift),
    requests: JSON.stringify(work.requests),
    charges: JSON.stringify(chargesOf(work.requests)),
  }
}
