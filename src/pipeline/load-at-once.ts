// The first load of a small answer in one statement: rows, dimensions, summaries, ledger and queue, or nothing at all.
import { sql } from 'kysely'
import type { RowCounts } from '../core/types.ts'
import type { Database } from '../db/connect.ts'
import { sqlStateOf } from '../db/database-error.ts'
import { loadedStatement } from '../ledger/loads.ts'
import { closeQuarantine } from '../ledger/quarantine.ts'
import { insertRequests } from '../ledger/requests.ts'
import { isHeldBy, landedColumns } from '../ledger/units.ts'
import { slot, type Template, template } from '../db/prepared.ts'
import type { Session } from '../db/session.ts'
import { countryName } from '../load/dimensions.ts'
import { ensurePartitions } from '../load/partition.ts'
import { insertAtOnce, insertedRows, isTaken, type RowsText, slotsOf, textOfRows, unitOfSlots } from '../load/rows-at-once.ts'
import { publishedAmong, summariesOf } from '../load/summaries.ts'
import { driftOf, type LoadInput } from './load-input.ts'
import type { UnitWork } from './unit-work.ts'

/**
 * Loads what `staging` still holds; null, with nothing written, where the unit needs the long way: rows of it are or were loaded, the
 * answer is large, not whole, or not all good. Each condition is looked at in the statement itself.
 */
export const loadAtOnce = async (work: UnitWork, session: Session, input: LoadInput): Promise<RowCounts | null> => {
  const { runtime, definition, claim } = work
  const rows = smallAnswer(work, input)
  if (rows === null || (await isCluster(runtime.database))) return null
  const known = await knownOf(work)
  if (known === null) return null
  await ensurePartitions({ ...session, kysely: runtime.database.kysely }, definition, claim.unit)
  try {
    const done = await known.load(session.kysely, valuesOf(work, input, rows))
    if (done.length > 0) {
      work.requests.splice(0)
      return {
        read: input.parsed.read,
        inserted: input.parsed.read,
        updated: 0,
        ended: 0,
        unchanged: 0,
        quarantined: 0,
        duplicates: 0,
      }
    }
  } catch (error) {
    if (!isAboutRows(error)) throw error
  }
  // A summary may have been published since it was looked for.
  knownByRuntime.get(runtime.database)?.delete(definition)
  return null
}

/** A value that is none of its column, or a key that is there: the long way says which. */
const isAboutRows = (error: unknown): boolean => ['22', '23'].includes(sqlStateOf(error).slice(0, 2))

const smallAnswer = ({ definition, claim }: UnitWork, { staging, parsed, completeness }: LoadInput): RowsText | null => {
  const held = staging.held()
  if (held === null || claim.loaded !== null || parsed.rejects > 0 || parsed.read !== staging.rows()) return null
  if (completeness.expectedRows !== null && completeness.expectedRows !== parsed.read) return null
  return textOfRows(definition, held)
}

/** Tables that are spread over several servers are not written in one statement with those that are not. */
const isCluster = (database: Database): Promise<boolean> => {
  const known = clusters.get(database) ?? askCluster(database)
  clusters.set(database, known)
  return known
}

const clusters = new WeakMap<Database, Promise<boolean>>()

const askCluster = async ({ kysely }: Database): Promise<boolean> =>
  (await sql`select 1 from pg_extension where extname = 'citus'`.execute(kysely)).rows.length > 0

interface Known {
  readonly load: Template<{ unit_id: string }>
}

const knownByRuntime = new WeakMap<Database, Map<UnitWork['definition'], Known>>()

const knownOf = async (work: UnitWork): Promise<Known | null> => {
  const { runtime, definition } = work
  const byDefinition = knownByRuntime.get(runtime.database) ?? new Map<UnitWork['definition'], Known>()
  knownByRuntime.set(runtime.database, byDefinition)
  const existing = byDefinition.get(definition)
  if (existing !== undefined) return existing
  const load = await statementOf(work)
  if (load === null) return null
  byDefinition.set(definition, { load })
  return { load }
}

const statementOf = async ({ runtime, definition, claim }: UnitWork): Promise<Template<{ unit_id: string }> | null> => {
  const unit = unitOfSlots(claim.unit)
  if (unit === null) return null
  const { marts, database, queue } = runtime
  const hold = { unitId: slot('unit_id'), fence: slot('fence'), edition: slot('edition') }
  const landing = { sha256: slot('sha256'), bytes: slot('bytes') }
  const summaries = summariesOf(definition, marts)
  const { rows } = await sql<{ names: string[] }>`select ${publishedAmong(summaries)} as names`.execute(database.kysely)
  const inserted = insertAtOnce({
    definition,
    unit,
    marts,
    published: rows[0]?.names ?? [],
    locked: { table: sql`etl.units`, where: isHeldBy(hold) },
  })
  const loaded = loadedStatement(
    hold,
    {
      ...landing,
      landing: slot('landing'),
      runId: slot('run_id'),
      read: slot('row_count'),
      inserted: insertedRows,
      rowsNow: insertedRows,
      updated: 0,
      ended: 0,
      unchanged: 0,
      quarantined: 0,
      duplicates: 0,
      lastUpdated: slot('last_updated'),
      count: slot('count'),
      drift: slot('drift'),
      milliseconds: sql`(extract(epoch from clock_timestamp() - statement_timestamp()) * 1000)`,
    },
    { when: isTaken, set: sql`, ${landedColumns(hold, landing)}` },
  )
  return template(sql<{ unit_id: string }>`
    with ${inserted},
      quarantine as (${closeQuarantine(hold.unitId, isTaken)}),
      requests as (${insertRequests(slot('requests'), isTaken)}),
      job as (${queue.removal({ id: slot('job'), attempt: slot('attempt') }, isTaken)}),
      ${loaded.tables}
    ${loaded.mark}`)
}

const valuesOf = (work: UnitWork, { parsed, landing, completeness }: LoadInput, rows: RowsText) => {
  const { claim, job } = work
  const drift = driftOf(parsed)
  return {
    ...slotsOf(claim.unit, countryName),
    ...rows,
    row_count: parsed.read,
    unit_id: claim.unitId,
    run_id: job.runId,
    fence: claim.fence,
    edition: claim.edition,
    landing: landing.locator,
    sha256: landing.sha256,
    bytes: landing.bytes,
    last_updated: completeness.fingerprint.lastUpdated,
    count: completeness.fingerprint.count,
    drift: drift === null ? null : JSON.stringify(drift),
    requests: JSON.stringify(work.requests),
    job: job.id,
    attempt: job.attempt,
  }
}
