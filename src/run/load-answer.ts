// Loads a landed answer into the units of its job, in one transaction from the first row to the settled job (decision 16).
import { EtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { inSpan } from '../core/trace.ts'
import type { Definition } from '../core/types.ts'
import { isCluster } from '../db/catalog.ts'
import { violatedConstraint, sqlStateOf } from '../db/database-error.ts'
import { type Session, withSession } from '../db/session.ts'
import { readAnswerUnits } from '../ledger/job-units.ts'
import { copyRows, type RowsChunk } from '../load/copy-rows.ts'
import { beginLoad, closeStaging, openStaging, prepareStaging } from '../load/difference.ts'
import { removeRepeated } from '../load/duplicates.ts'
import {
  ensurePartitions,
  ensureStatistics,
  forgetPartitions,
  type MadeMonths,
  makeMonths,
  monthsToMake,
} from '../load/partition.ts'
import { copiedColumns, tableName } from '../load/table-columns.ts'
import { createParseReport, type ParseReport } from '../parse/parse-report.ts'
import { isVerdict, judgeAnswer, recordRefusal } from './judge.ts'
import { valuesCounted, learnWithoutDuplicates, type PointsRule, readPointsRule } from './judge-points.ts'
import { type JobWork, type LandedAnswer, type Load, type LoadResult, tinyBytes, type LoadMode } from './job-work.ts'
import { type Arrived, settleLoad } from './load-units.ts'
import { planRows, rowsOf } from './rows-of-job.ts'

/** The result of one attempt: loaded, or rolled back and to be tried another way. */
type Outcome = { readonly loaded: LoadResult } | { readonly over: LoadMode; readonly mayMake?: boolean }

/** A load starts over where others write the same rows or a key comes twice. So many times in a row mean a defect, or a lock of somebody else. */
const mostTurns = 6

/** Definitions whose last load had repeated keys: the next load searches for them from the start. */
const repeating = new WeakSet<object>()

/** For an answer of more bytes PostgreSQL's planner needs statistics of the table. */
const largeBytes = 1_000_000

/** Loads the answer into the units of the job and settles the job. Where the answer is refused as a whole, records the verdict, changes no data and throws. */
export const loadAnswer = async (work: JobWork, answer: LandedAnswer) => {
  const { claim, definition, runtime } = work
  const units = await readAnswerUnits(runtime.database.kysely, claim, answer)
  const loading: Load = { work, answer, units, conflicting: [] }
  const points = await readPointsRule(loading)
  // Where a count is compared, rows of other jobs' units count too; only a deduplicating load finds the repeated keys among them.
  const isJudgedByMore = points !== null && units.numbers.includes(0)
  let mode: LoadMode = repeating.has(definition) || isJudgedByMore ? 'deduplicate' : units.hasEarlierAnswer ? 'merge' : 'insert'
  let mayMake = !(await isCluster(runtime.database))
  for (let turn = 1; ; turn += 1) {
    const parsed = createParseReport()
    const turning = { loading, points, parsed, mode, mayMake, mayTurn: turn < mostTurns }
    try {
      const outcome = await withSession(runtime.database.pool, (session) => tryTurn(session, turning))
      if ('loaded' in outcome) return { result: outcome.loaded, parsed }
      runtime.log.debug({ job_id: claim.jobId, way: mode, over: outcome.over }, 'the load starts over')
      runtime.progress.counters.rowsRead -= parsed.rows
      mode = outcome.over
      mayMake = outcome.mayMake ?? mayMake
    } catch (error) {
      if (isVerdict(error)) await recordRefusal(work, answer.answerId, error, [...parsed.rejected, ...loading.conflicting])
      throw error
    }
  }
}

interface Turn {
  readonly loading: Load
  readonly points: PointsRule | null
  readonly parsed: ParseReport
  readonly mode: LoadMode
  /** Whether absent months may be made in the load's transaction. */
  readonly mayMake: boolean
  /** False: this is the last attempt, so an error of the database is final. */
  readonly mayTurn: boolean
}

const tryTurn = async (session: Session, turn: Turn): Promise<Outcome> => {
  const { loading, mode, mayMake } = turn
  const { definition, claim, requests } = loading.work
  const { window } = claim.box
  const months = mode === 'insert' && mayMake ? await monthsToMake(session, definition, window, loading.answer.bytes) : null
  if (months === null) await ensurePartitions(session, definition, window)
  if (months === null && loading.answer.bytes > largeBytes) await ensureStatistics(session, definition, window)
  const known = [...requests]
  const trx = await session.kysely.startTransaction().execute()
  try {
    const outcome = await load({ ...session, kysely: trx }, turn, months)
    await ('loaded' in outcome ? trx.commit() : trx.rollback()).execute()
    // After a rollback the requests stay for the process that settles the job.
    if ('loaded' in outcome) requests.splice(0, known.length)
    return outcome
  } catch (error) {
    const over = turn.mayTurn ? overAfter(session, mode, error) : null
    // An error discards the session, and its transaction with it.
    if (over === null) throw refusedByTable(definition, error) ?? error
    await trx.rollback().execute()
    return over
  }
}

/** What a database error means for the next attempt; null: another attempt would not help. */
const overAfter = (session: Session, mode: LoadMode, error: unknown): Outcome | null => {
  switch (sqlStateOf(error)) {
    // A key comes twice, or another load brought it meanwhile. A deduplicating load excludes both, so there the table has a unique rule of its own.
    case '23505':
      return mode === 'deduplicate' ? null : { over: 'deduplicate' }
    // A deadlock, or a serialization failure where an administrator made SERIALIZABLE the default.
    case '40P01':
    case '40001':
      return { over: mode === 'insert' ? 'merge' : mode }
    // PostgreSQL refuses COPY into a table with row security.
    case '0A000':
      return mode === 'insert' ? { over: 'merge' } : null
    // A month was detached, so no partition takes the row. An error with a rule's name comes from a check that a user added.
    case '23514':
      if (violatedConstraint(error) !== null) return null
      forgetPartitions(session)
      return { over: mode, mayMake: false }
    default:
      return null
  }
}

/** null: no rule of the table refused a row. */
const refusedByTable = (definition: Definition, error: unknown): EtlError | null => {
  const rule = violatedConstraint(error)
  if (rule === null) return null
  return new EtlError(
    'TABLE_DRIFT',
    `data.${tableName(definition)} refuses a row of the answer by its ${rule}: ${redact(messageOf(error))}. Nothing was loaded. The program makes no such rule: ` +
      'drop it, or correct the column in the definition; then `millrace replay` loads the answer as it was landed.',
    { cause: error },
  )
}

const load = async (session: Session, turn: Turn, months: MadeMonths['months'] | null): Promise<Outcome> => {
  const { loading, mode, points, parsed } = turn
  const { work, answer } = loading
  const { definition, claim } = work
  const scope = { window: claim.box.window, slice: claim.box.slice, leftOut: [] }
  const [isInsert, isDeduplicating] = [mode === 'insert', mode === 'deduplicate']
  const isFound = await beginLoad(session, definition, scope, { runId: claim.runId, looks: isInsert })
  if (isFound) return { over: 'merge' }
  const made = months === null ? null : await makeMonths(session, definition, months)
  if (months !== null && made === null) return { over: 'insert', mayMake: false }
  const staging = isInsert
    ? null
    : await openStaging(session, definition, { isTiny: answer.bytes <= tinyBytes, isNumbered: isDeduplicating })
  const plan = planRows(loading, { isDeduplicating, counted: valuesCounted(points) ?? (isDeduplicating ? [] : null) })
  const columns = [...copiedColumns(definition).map(({ name }) => name), '_unit_id']
  const target = staging?.name ?? made?.target ?? `data."${tableName(definition)}"`
  await inSpan('parse', { 'millrace.job': claim.box.key }, async () => {
    const written = await copyRows(session, { target, columns }, counted(work, rowsOf(loading, plan, parsed)))
    if (written !== parsed.rows) throw keptBack(target, parsed.rows, written)
  })
  if (staging !== null) await prepareStaging(session, staging, parsed.rows)
  const repeated = staging === null || !isDeduplicating ? null : await removeRepeated(session, definition, staging)
  if (repeated !== null) noteRepeats(definition, repeated.duplicates.size + repeated.conflicts.length > 0)
  const read = { parsed, mark: plan.mark, repeated }
  if ((await judgeAnswer(loading, points, read)) === 'deduplicate') return { over: 'deduplicate' }
  const arrived: Arrived = { loading, read, staging, made }
  const settled = await inSpan('load', { 'millrace.job': claim.box.key, 'millrace.rows': parsed.read }, () =>
    settleLoad(session, arrived),
  )
  if (typeof settled === 'string') return { over: settled }
  if (points !== null && repeated === null && !(await learnWithoutDuplicates(loading, points, read, settled)))
    return { over: 'deduplicate' }
  if (staging !== null) await closeStaging(session, staging)
  return { loaded: settled }
}

const noteRepeats = (definition: object, hasSome: boolean): void => {
  if (hasSome) repeating.add(definition)
  else repeating.delete(definition)
}

async function* counted({ runtime }: JobWork, chunks: AsyncIterable<RowsChunk>): AsyncGenerator<RowsChunk, void, void> {
  for await (const chunk of chunks) {
    yield chunk
    runtime.progress.counters.rowsRead += chunk.rows
  }
}

const keptBack = (target: string, rows: number, written: number): EtlError =>
  new EtlError(
    'TABLE_DRIFT',
    `${target}: ${rows} rows were sent and ${written} written, so a trigger or rule of the table dropped some. Nothing was loaded; remove it, ` +
      'or do its work in a view.',
  )
