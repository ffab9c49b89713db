// Keeps the job slots of this process filled until it is stopped, and aborts jobs that were lost or cancelled.
import { EtlError, messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import { inSpan } from '../core/trace.ts'
import type { Db } from '../db/tables.ts'
import { cancelledJobs } from '../ledger/cancel-request.ts'
import { createCursor } from '../ledger/claim-cursor.ts'
import { type ClaimedJob, claimJobs } from '../ledger/claim.ts'
import { type Claim, failJob, giveBackJobs, jobsClaimedBy, lostJobs, parkJob } from '../ledger/claim-fence.ts'
import { type OwnProcess, reapDead } from '../ledger/processes.ts'
import { cancelOn } from '../db/stoppable.ts'
import { workJob } from './job.ts'
import { recordNoted } from './unrecorded-work.ts'
import type { Runtime } from './runtime.ts'
import { createBackoff } from '../db/retry-while-away.ts'
import { asEtlError } from './settle.ts'

/** Resolves when `done` says so or the signal aborts; by then no job is in hand. */
export const workLoop = async (runtime: Runtime, options: LoopOptions): Promise<void> => {
  const abandoned = () =>
    recordNoted(runtime).catch((error: unknown) =>
      runtime.log.warn({ error: messageOf(error) }, 'notes are left to the next run'),
    )
  // A loop that helps every run must first take in what dead processes left: else it begins with the list of a dead run, or buys its pages again.
  if (options.runId === null) {
    await abandoned()
    await reapDead(runtime.database.kysely, runtime.process)
  }
  const takenIn = { ...options, abandoned }
  await workInSlots(runtime, takenIn, (claim, signal) => workJob(runtime, claim, signal))
}

/** What keeping slots filled needs of a runtime. */
export type SlotRuntime = Pick<Runtime, 'database' | 'process' | 'claimable' | 'clock' | 'log'>

export interface LoopOptions {
  /** The run whose list is worked on; null: every living run's in turn, then requested jobs that no run waits for. */
  readonly runId: number | null
  /** Jobs worked on at once; 0: none, others work on them. */
  readonly concurrency: number
  /** Aborts the loop: no new job is taken, jobs in hand are given back. */
  readonly signal: AbortSignal
  /** Called when no job is in hand; true ends the loop. */
  readonly done: () => Promise<boolean>
  /** Called once the database accepts that a job is put off which could not be settled. */
  readonly abandoned?: () => Promise<void>
}

/** Works on one job until it is settled. */
export type Work = (claim: ClaimedJob, signal: AbortSignal) => Promise<void>

const idleMs = 100
const watchEveryMs = 300
/** Claimable pipelines are read again after so long: some may come while the loop works. */
const claimableForMs = 2_000

interface ActiveJob {
  readonly claim: ClaimedJob
  readonly abort: AbortController
  readonly finished: Promise<void>
}

interface Loop {
  readonly runtime: SlotRuntime
  readonly options: LoopOptions
  readonly work: Work
  readonly active: Set<ActiveJob>
  readonly claim: (count: number) => Promise<ClaimedJob[]>
  readonly restart: () => void
  /** Aborted when the loop is stopped. */
  readonly stop: AbortController
}

const stopped = (): EtlError => new EtlError('INTERRUPTED', 'Stopped; run the same command again to resume.')

/** Resolves when `done` says so or the signal aborts; by then no job is in hand. */
export const workInSlots = async (runtime: SlotRuntime, options: LoopOptions, work: Work): Promise<void> => {
  const stop = new AbortController()
  const onAbort = (): void => stop.abort(stopped())
  if (options.signal.aborted) onAbort()
  options.signal.addEventListener('abort', onAbort, { once: true })
  const loop: Loop = { runtime, options, work, active: new Set(), ...claimer(runtime, options), stop }
  const endWatch = startWatch(loop)
  try {
    await cancelOn(stop.signal, () => takeUntilDone(loop))
  } finally {
    stop.abort(stopped())
    await Promise.allSettled([...loop.active].map((job) => job.finished))
    endWatch()
    options.signal.removeEventListener('abort', onAbort)
  }
}

const takeUntilDone = async (loop: Loop): Promise<void> => {
  const { runtime, options, active } = loop
  const { signal } = loop.stop
  const patience = createBackoff(runtime)
  while (!signal.aborted) {
    try {
      const taken = await takeJobs(loop)
      if (active.size === 0 && taken === 0 && (await options.done())) return
      patience.reset()
      const finished = [...active].map((job) => job.finished)
      if (finished.length > 0 && finished.length >= options.concurrency) await Promise.race(finished)
      else if (taken === 0) await Promise.race([idle(runtime, signal), ...finished])
    } catch (error) {
      await patience.spend(error, signal)
    }
  }
}

const idle = (runtime: SlotRuntime, signal: AbortSignal): Promise<void> =>
  runtime.clock.sleep(idleMs, signal).catch(() => undefined)

const claimer = ({ database, process, claimable }: SlotRuntime, { runId }: LoopOptions): Pick<Loop, 'claim' | 'restart'> => {
  const cursor = createCursor()
  let known: Awaited<ReturnType<typeof claimable>> | null = null
  let askedAt = 0
  const claim = async (count: number): Promise<ClaimedJob[]> => {
    if (known === null || performance.now() - askedAt > claimableForMs) {
      known = await claimable()
      askedAt = performance.now()
    }
    const wanted = { process, runId, claimable: known, count, cursor }
    return trackClaim(process, () => claimJobs(database.kysely, wanted))
  }
  return { claim, restart: cursor.restart }
}

const takeJobs = async (loop: Loop): Promise<number> => {
  const room = loop.options.concurrency - loop.active.size
  if (room <= 0) return 0
  const claims = await loop.claim(room)
  for (const claim of claims) begin(loop, claim)
  return claims.length
}

const begin = (loop: Loop, claim: ClaimedJob): void => {
  const { runtime, work, active, stop } = loop
  const abort = new AbortController()
  const onStop = (): void => abort.abort(stopped())
  if (stop.signal.aborted) onStop()
  stop.signal.addEventListener('abort', onStop, { once: true })
  const finished = inSpan('job', { 'millrace.job_id': claim.jobId, 'millrace.run_id': claim.runId }, () =>
    cancelOn(abort.signal, () => work(claim, abort.signal)),
  )
    .catch((error) => cancelOn(stop.signal, () => abandon(loop, claim, error)))
    .finally(() => {
      stop.signal.removeEventListener('abort', onStop)
      active.delete(job)
      forgetClaims(runtime.process, [claim])
      // A refused report may leave parts, which come first in the list.
      if (claim.kind === 'report') loop.restart()
    })
  const job: ActiveJob = { claim, abort, finished }
  active.add(job)
}

/** Pauses between tries to put a job off that could not be settled. */
const abandonPausesMs = [0, 1_000, 5_000, 15_000]
const abandonForMs = 5_000
/** After so many attempts the cause lies in the job itself, and it fails. */
const mostAbandoned = 5

/**
 * The job could not even be settled: the database is away, or a row breaks an invariant. This living process's lease would keep it from all others, so the
 * job is put off as soon as the database accepts that. In the end this job fails with a message, and only this one.
 */
const abandon = async ({ runtime, options, stop }: Loop, claim: ClaimedJob, error: unknown): Promise<void> => {
  const { code } = asEtlError(error)
  const reason = { code, message: redact(messageOf(error)) }
  runtime.log.warn({ job_id: claim.jobId, error: reason.message }, 'job not settled')
  const put = (): Promise<void> =>
    claim.attempts >= mostAbandoned
      ? failJob(runtime.database.kysely, claim, reason)
      : parkJob(runtime.database.kysely, claim, { notBeforeMs: abandonForMs, countsAttempt: true, final: false, ...reason })
  for (const pause of abandonPausesMs) {
    if (pause > 0 && stop.signal.aborted) return
    await runtime.clock.sleep(pause, stop.signal).catch(() => undefined)
    const isOver = await put().then(
      () => true,
      (refused) => asEtlError(refused).code === 'FENCED',
    )
    if (isOver) return options.abandoned?.()
  }
}

const startWatch = (loop: Loop): (() => void) =>
  watchEvery(watchEveryMs, () =>
    cancelOn(loop.stop.signal, () => watch(loop)).catch((error: unknown) =>
      loop.runtime.log.warn({ error: messageOf(error) }, 'jobs at hand not checked'),
    ),
  )

/** Calls `look` every `ms`, never twice at once. @param look must not throw */
export const watchEvery = (ms: number, look: () => Promise<void>): (() => void) => {
  let isLooking = false
  const timer = setInterval(async () => {
    if (isLooking) return
    isLooking = true
    await look()
    isLooking = false
  }, ms)
  return () => clearInterval(timer)
}

/** Ends jobs that were taken over or cancelled. */
const watch = async ({ runtime, active }: Loop): Promise<void> => {
  const db = runtime.database.kysely
  const before = [...active]
  const claims = before.map(({ claim }) => claim)
  const lost = new Set(await lostJobs(db, claims))
  for (const { claim, abort } of before)
    if (lost.has(claim)) abort.abort(new EtlError('FENCED', `Job ${claim.jobId} was taken over by another process.`))
  const cancelled = new Set(await cancelledJobs(db, claims))
  for (const { claim, abort } of before)
    if (cancelled.has(claim)) abort.abort(new EtlError('CANCELLED', `Run ${claim.runId} was cancelled.`))
}

/**
 * The jobs that this process has claimed and not let go of, over all its loops. The reply to a claim may be lost with the connection: then by the ledger
 * this process holds jobs that none of its loops works on, and its lease would keep them from all others for as long as it lives.
 */
interface Claims {
  /** Claims sent so far, and those of them that are not answered yet. */
  sent: number
  underWay: number
  readonly known: Set<string>
}

const claimsOf = new WeakMap<OwnProcess, Claims>()

const claimsBy = (own: OwnProcess): Claims => {
  const claims = claimsOf.get(own) ?? { sent: 0, underWay: 0, known: new Set() }
  claimsOf.set(own, claims)
  return claims
}

const nameOf = ({ jobId, fence }: Claim): string => `${jobId}.${fence}`

/** Remembers what `claim` brings. */
export const trackClaim = async (own: OwnProcess, claim: () => Promise<ClaimedJob[]>): Promise<ClaimedJob[]> => {
  const claims = claimsBy(own)
  claims.sent += 1
  claims.underWay += 1
  try {
    const jobs = await claim()
    for (const job of jobs) claims.known.add(nameOf(job))
    return jobs
  } finally {
    claims.underWay -= 1
  }
}

/** Call when the jobs are settled, given back or taken over. */
export const forgetClaims = (own: OwnProcess, jobs: readonly Claim[]): void => {
  const { known } = claimsBy(own)
  for (const job of jobs) known.delete(nameOf(job))
}

/** Gives back jobs that this process holds by the ledger and no loop knows of. How many; none while a claim is in flight, since its reply may name them. */
export const freeStrays = async (db: Db, own: OwnProcess): Promise<number> => {
  const claims = claimsBy(own)
  const { sent } = claims
  if (claims.underWay > 0) return 0
  const held = await jobsClaimedBy(db, own.processId)
  if (claims.sent !== sent) return 0
  const strays = held.filter((claim) => !claims.known.has(nameOf(claim)))
  await giveBackJobs(db, strays)
  return strays.length
}
