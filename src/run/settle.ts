// Decides what becomes of a job whose work threw: given back, parked, split, left waiting, held or failed.
import type { Clock } from '../core/clock.ts'
import { EtlError, type Follows, errorCodes, isEtlError, messageOf, isUnanswered, type SplitReason } from '../core/errors.ts'
import type { Limits } from '../core/limits.ts'
import type { IsoDate, Window, WindowSize } from '../core/types.ts'
import { databaseError, isDatabaseError, isTransient } from '../db/database-error.ts'
import { isSameFault } from '../extract/proved-shape.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import { redact } from '../core/redact.ts'
import { addWindows, windowsBetween } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { dropAnswer } from '../ledger/answers.ts'
import { type JobPart, keepUpTo, parkMade, refusedInARow, replaceJob } from '../ledger/replace-job.ts'
import { withBegunLandings, failJob, holdJob, isIdKnown, parkJob, returnJob, setClaimed } from '../ledger/claim-fence.ts'
import { halvesOfSlices, sliceValues } from '../ledger/slices.ts'
import { type Unrecorded, withRequests } from './job-work.ts'
import { type Runtime, definitionOf } from './runtime.ts'

type Settlement =
  /** Another process has the job; nothing of it may be written. */
  | { readonly kind: 'leave' }
  /** Tried again so many milliseconds from now. `final`: the runs that wait for the job wait no longer. */
  | { readonly kind: 'park'; readonly notBeforeMs: number; readonly countsAttempt: boolean; readonly final: boolean }
  | { readonly kind: 'hold' }
  | { readonly kind: 'fail' }
  /** Put back as if it had not been claimed, for the next process. */
  | { readonly kind: 'return' }
  /** A new job asks for the same once more: at once, or after so long, by a later run. */
  | { readonly kind: 'again'; readonly notBeforeMs: number }
  /** New jobs ask for its parts. */
  | { readonly kind: 'split' }
  /** Loads its answer into the windows before that day; the other windows wait in a new job that requests them later. */
  | { readonly kind: 'load up to'; readonly day: IsoDate }

/** Waits longer than this are left to the next run. A report's own deadline ends earlier waits. */
const longestWaitMs = 12 * 3_600_000
/** The wait for windows that are not published: as long as after the service's own refusal, so that an approved job is not tried again and again. */
const unpublishedWaitMs = 24 * 3_600_000
const shortestWaitMs = 1_000
const longestBackoffMs = 30_000
const longestRefusalMs = 60_000

/** Turns any thrown value into an EtlError; an error that comes neither from us nor from the database is a defect. */
export const asEtlError = (error: unknown): EtlError => {
  if (isEtlError(error)) return error
  if (isDatabaseError(error)) return databaseError(error, 'refused a statement')
  return new EtlError('INTERNAL', `${messageOf(error)}; please report this defect.`, { cause: error })
}

/** What `settle` needs of a claim. */
export type Tried = Pick<ClaimedJob, 'attempts' | 'cells' | 'kind'> & Partial<Pick<ClaimedJob, 'sliceIds' | 'formerError'>>

/** @param limits null: the definition is not here. */
export const settle = (
  error: EtlError,
  { attempts, cells, kind, sliceIds, formerError }: Tried,
  limits: Limits | null,
  clock: Clock,
): Settlement => {
  const spec = errorCodes[error.code]
  if (error.code === 'FENCED') return { kind: 'leave' }
  if (error.code === 'INTERRUPTED' || error.code === 'CANCELLED') return { kind: 'return' }
  const { follows } = error
  if (follows?.next === 'ask again')
    return { kind: 'again', notBeforeMs: error.notBefore === null ? 0 : error.notBefore - clock.now() }
  if (follows?.next === 'load up to') return { kind: 'load up to', day: follows.day }
  if (follows?.next === 'fetch again') return parked(shortestWaitMs, false)
  // A window is not published for all its values alike, unless the source names the dimension (`by`) whose values differ.
  const isOfWindow =
    error.code === 'NOT_PUBLISHED' || (error.code === 'REPORT_REJECTED' && follows?.next === 'split' && follows.about === 'dates')
  const isWholeWindow = isOfWindow && cells === sliceIds?.length && !(follows?.next === 'split' && follows.by !== undefined)
  if (kind === 'report' && cells > 1 && follows?.next === 'split' && !isWholeWindow) return { kind: 'split' }
  // A budget is renewed at a known time: a later run continues then.
  if (follows?.next === 'split' && follows.elseInMs !== undefined) return parked(Math.max(follows.elseInMs, shortestWaitMs), true)
  if (follows?.next === 'retry') return parked(Math.max(follows.inMs, shortestWaitMs), follows.isFinal)
  if (spec.state === 'held') return { kind: 'hold' }
  // A retry would parse the same bytes again.
  if (follows?.next === 'keep the answer') return { kind: 'fail' }
  // The service is in trouble for all requests, so this counts as no attempt of the job.
  if (follows?.next === 'wait for the service') return putOff(error, follows, clock)
  // The same unusable bytes twice are no accident: only the next run downloads them again.
  const isSame = error.code === 'BAD_RESPONSE' && isSameFault(error, formerError ?? null)
  const isLast = isSame || attempts >= (limits?.attempts ?? defaultAttempts)
  if (follows?.next === 'count the try') return afterRefusal(error, follows.leftMs, { attempts, isLast }, clock)
  if (spec.retry === 'later') return putOff(error, follows, clock)
  if ((spec.retry === 'now' || isClosed(error)) && !isLast) return parked(backoffMs(attempts, clock), false, true)
  return { kind: 'fail' }
}

/** Whether the database refuses all work for a while: it is read-only, or takes no logins. */
const isClosed = (error: EtlError): boolean =>
  (error.code === 'DATABASE_READ_ONLY' || error.code === 'CONFIGURATION') && isTransient(error)

/** For a job that gets 429 while others do not: backs off from attempt to attempt. After the last attempt or the deadline the next run goes on. */
const afterRefusal = (
  error: EtlError,
  leftMs: number,
  { attempts, isLast }: { readonly attempts: number; readonly isLast: boolean },
  clock: Clock,
): Settlement => {
  const askedMs = (error.notBefore ?? 0) - clock.now()
  const ownMs = Math.min(longestRefusalMs, shortestWaitMs * 3 ** (attempts - 1))
  const notBeforeMs = Math.max(askedMs, ownMs)
  return parked(notBeforeMs, isLast || notBeforeMs >= leftMs, true)
}

const defaultAttempts = 5

const parked = (notBeforeMs: number, final: boolean, countsAttempt = false): Settlement => ({
  ...{ kind: 'park', notBeforeMs, countsAttempt, final },
})

/** The kinds that `settle` has not handled before: the compiler finds a kind that it forgot. */
type Left = Extract<Follows, { next: 'wait' | 'wait for the service' | 'split' | 'as its code says' }>

const putOff = (error: EtlError, follows: Left | null, clock: Clock): Settlement => {
  const waitMs = (error.notBefore ?? 0) - clock.now()
  const notBeforeMs = Math.max(waitMs, error.code === 'REPORT_PENDING' ? 0 : shortestWaitMs)
  // Without the definition this is not final: each run finds out by itself that it cannot go on (ledger/wait-list.ts), and another run may.
  const isFinal = follows !== null && 'isFinal' in follows && follows.isFinal
  const final = error.code === 'NOT_PUBLISHED' || notBeforeMs > longestWaitMs || isFinal
  return parked(notBeforeMs, final)
}

/** Exponential with full jitter. */
const backoffMs = (attempt: number, clock: Clock): number =>
  Math.max(200, clock.random() * Math.min(longestBackoffMs, shortestWaitMs * 2 ** attempt))

/** Adds what happens next to a message that does not say it itself: only the decision tells. */
const withNext = (error: EtlError, decision: Settlement, { attempts }: Tried): EtlError => {
  const saysNothingOfNext = error.retry === 'now' || error.code === 'RATE_LIMITED'
  if (!saysNothingOfNext || (decision.kind !== 'fail' && decision.kind !== 'park')) return error
  if (decision.kind === 'fail')
    return error.with(`${error.message} The next run tries again${attempts > 1 ? `, after ${attempts} tries in this one` : ''}.`)
  const again = `The same run tries again after ${Math.max(1, Math.round(decision.notBeforeMs / 1000))} s.`
  return error.with(`${error.message} ${decision.final ? 'The next run tries again.' : again}`)
}

/** After these errors the landed bytes are useless: the next attempt must fetch them again instead of reading them. */
const unusable = new Set([
  'BAD_RESPONSE',
  'TRUNCATED',
  'INCOMPLETE',
  'UNSTABLE',
  'LANDING_CORRUPT',
  'LANDING_MISSING',
  'WRONG_ECHO',
])

export const interruptedBy = (signal: AbortSignal, error: unknown): unknown =>
  asEtlError(error).code === 'FENCED'
    ? error
    : ['CANCELLED', 'FENCED'].includes(asEtlError(signal.reason).code)
      ? signal.reason
      : new EtlError('INTERRUPTED', 'Stopped; run the same command again to resume.', { cause: error })

/** What settling needs of a runtime. */
type SettlingRuntime = Pick<Runtime, 'database' | 'definitions' | 'progress' | 'log' | 'clock'>

/** Writes what became of the job and its requests in one transaction. */
export const settleJob = async (
  runtime: SettlingRuntime,
  claim: ClaimedJob,
  { requests, unnamed }: Unrecorded,
  thrown: unknown,
): Promise<void> => {
  const found = asEtlError(thrown)
  const decision = settle(found, claim, definitionOf(runtime, claim)?.limits ?? null, runtime.clock)
  const error = withNext(found, decision, claim)
  const names = { run_id: claim.runId, job_id: claim.jobId, unit: claim.box.key }
  runtime.log.info({ ...names, code: error.code, decision: decision.kind, error: error.message }, 'job settled')
  const written = await withRequests(runtime.database, requests, async (trx) => {
    if (unnamed.size > 0) await setClaimed(trx, claim, withBegunLandings([...unnamed]))
    return write(trx, claim, decision, error)
  })
  unnamed.clear()
  tell(runtime, claim, written, error)
}

/** Writes the decision. Returns what became of the job. */
const write = async (trx: Db, claim: ClaimedJob, decision: Settlement, error: EtlError): Promise<Settlement> => {
  if (decision.kind === 'leave') return decision
  // A bucket may show an object late, so a parked job keeps its answer. An answer that waits for a person stays as that person must see it.
  const isKept = error.follows?.next === 'keep the answer' || (error.code === 'LANDING_MISSING' && decision.kind === 'park')
  if (unusable.has(error.code) && !isKept && claim.askNumber !== null) await dropAnswer(trx, claim)
  // The id was recorded while this process thought it lost: the job must not be held, and nothing bought again.
  if (error.code === 'REPORT_UNCERTAIN' && (await isIdKnown(trx, claim))) {
    await returnJob(trx, claim)
    return { kind: 'return' }
  }
  const reason = { code: error.code, message: redact(error.message) }
  switch (decision.kind) {
    case 'return':
      await returnJob(trx, claim)
      break
    case 'again': {
      const { notBeforeMs } = decision
      const { window } = claim.box
      const made = await replaceJob(trx, claim, [{ sliceIds: claim.sliceIds, window }])
      if (notBeforeMs > 0) await parkMade(trx, made, window.from, { ...reason, notBeforeMs })
      break
    }
    case 'split':
      return splitJob(trx, claim, error)
    case 'load up to':
      return (await keepUpTo(trx, claim, decision.day, { ...reason, notBeforeMs: unpublishedWaitMs }))
        ? decision
        : { kind: 'split' }
    case 'park':
      await parkJob(trx, claim, { ...decision, ...reason })
      break
    case 'hold':
      await holdJob(trx, claim, reason)
      break
    case 'fail':
      await failJob(trx, claim, reason)
  }
  return decision
}

/** Splits the job, unless the service refuses every part in the same words: then the job fails as a whole, or waits until its windows are published. */
const splitJob = async (trx: Db, claim: ClaimedJob, error: EtlError): Promise<Settlement> => {
  const { code, follows } = error
  const split = follows?.next === 'split' ? follows : null
  const about = split?.about ?? 'size'
  const isAboutSize = about === 'size'
  const refusal = isAboutSize ? null : { code, message: redact(error.message.replaceAll(claim.box.key, '')) }
  const refused = refusal === null ? null : await refusedInARow(trx, claim, refusal)
  if (refused === null) {
    await replaceJob(trx, claim, await halvesOf(trx, claim, about, split?.by), refusal)
    return { kind: 'split' }
  }
  if (code === 'NOT_PUBLISHED') return write(trx, claim, { kind: 'again', notBeforeMs: unpublishedWaitMs }, error)
  const message = `${redact(error.message)} ${refused} reports in a row were refused with this message, so this one is not split further.`
  await failJob(trx, claim, { code, message })
  return { kind: 'fail' }
}

const tell = (runtime: SettlingRuntime, claim: ClaimedJob, decision: Settlement, error: EtlError): void => {
  const { kind } = decision
  const { box, sliceIds, windowEvery } = claim
  const units =
    kind === 'load up to' ? sliceIds.length * windowsBetween(decision.day, box.window.to, windowEvery).length : claim.cells
  const isAtOnce = kind === 'again' && decision.notBeforeMs <= 0
  if (kind === 'leave' || kind === 'return' || isAtOnce || kind === 'split') return
  const state = kind === 'park' || kind === 'again' || kind === 'load up to' ? 'waiting' : kind === 'hold' ? 'held' : 'failed'
  if (kind !== 'park' || decision.final) runtime.progress.counters.unitsDone += units
  runtime.progress.emit({
    ...{ event: 'unit', run_id: claim.runId, job_id: claim.jobId, unit: box.key, units, state },
    ...{ code: error.code, message: error.message },
    ...(kind === 'park' && decision.final && isUnanswered(error) ? { left: true } : {}),
    ...(kind === 'park' ? { not_before: new Date(runtime.clock.now() + decision.notBeforeMs).toISOString() } : {}),
  })
}

/** Cuts a job that was refused for its values by values while there are several; any other by windows, and a single window by values. */
export const halvesOf = async (db: Db, claim: ClaimedJob, about: SplitReason, by?: string): Promise<readonly JobPart[]> => {
  const { window } = claim.box
  const isByValues = about === 'values' && claim.sliceIds.length > 1
  const byWindow = isByValues ? null : halvesOfSpan(window, claim.windowEvery)
  // The newer half first: it must be served first when quota runs short.
  if (byWindow !== null) return byWindow.toReversed().map((half) => ({ sliceIds: claim.sliceIds, window: half }))
  const values = await sliceValues(db, claim.sliceIds)
  const place = by === undefined ? undefined : Object.keys(claim.box.slice).indexOf(by)
  return halvesOfSlices(values, place).map((sliceIds) => ({ sliceIds, window }))
}

/** null: it is one window. */
export const halvesOfSpan = (span: Window, every: WindowSize): readonly [Window, Window] | null => {
  const count = windowsBetween(span.from, span.to, every).length
  if (count < 2) return null
  const middle = addWindows(span.from, every, Math.floor(count / 2))
  return [
    { from: span.from, to: middle },
    { from: middle, to: span.to },
  ]
}
