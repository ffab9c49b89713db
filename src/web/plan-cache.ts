// The dry run of the next run, shared by all visitors and kept for a while: it takes seconds and requests to the service.
import { setTimeout } from 'node:timers/promises'
import type { Clock } from '../core/clock.ts'
import { groupedBy, sum, sums } from '../core/counted.ts'
import { isEtlError } from '../core/errors.ts'
import type { PreviewJob, PreviewPipeline } from '../plan/dry-run.ts'

/**
 * Jobs of one version of a pipeline with the same reason. `from`, `to`: the first and the last window, as people read them; `rows`, `credits` null: not
 * known before the requests; `held`: the jobs would need approval.
 */
export type PlannedReason = ReturnType<typeof reasonsOf>[number]

type Version = Pick<PreviewPipeline, 'pipeline' | 'version'>

export const isVersion =
  ({ pipeline, version }: Version) =>
  (other: Version): boolean =>
    other.pipeline === pipeline && other.version === version

export const reasonsOf = (jobs: readonly PreviewJob[]) => {
  const nameOf = ({ reason, approved }: PreviewJob): string => (approved ? 'approved' : reason)
  const keyOf = (job: PreviewJob): string => `${job.pipeline}/v${job.version}/${nameOf(job)}/${job.held}`
  return groupedBy(jobs, keyOf, (first, group) => {
    const spans = group.flatMap(({ window }) => window.split('..')).sort()
    const known = (name: 'rows' | 'quota'): number | null => (group.every((job) => job[name] === null) ? null : sum(group, name))
    return {
      ...{ pipeline: first.pipeline, version: first.version, reason: nameOf(first), held: first.held },
      ...{ from: spans[0] ?? '', to: spans.at(-1) ?? '' },
      ...sums(group, 'units', 'reports', 'requests'),
      ...{ rows: known('rows'), credits: known('quota') },
    }
  })
}

export type PlannedPipeline = Pick<
  PreviewPipeline,
  'pipeline' | 'version' | 'name' | 'done' | 'held' | 'notPublished' | 'seconds' | 'changes'
>

export interface NightPlan {
  readonly reasons: readonly PlannedReason[]
  readonly pipelines: readonly PlannedPipeline[]
  /** Free requests that the dry run sent. */
  readonly asked: number
}

/** The newest plan (null: none yet), made at `atMs`. `busy`: another one is being made; `problem`: why the last attempt failed. */
export interface CachedPlan {
  readonly plan: NightPlan | null
  readonly atMs: number
  readonly busy: boolean
  readonly problem: string | null
}

export type PlanCache = ReturnType<typeof createPlanCache>

/** An older plan is made again when a visitor asks. */
const goodForMs = 10 * 60_000
/** After a failure a visit starts no new attempt for so long. */
const retryMs = 30_000
const patienceMs = 1_500
const unread = 'The ledger could not be read just now; the log says why.'

/** @param plan spends nothing and writes nothing @param onError gets errors that visitors must not see */
export const createPlanCache = (
  plan: (signal: AbortSignal) => Promise<NightPlan>,
  clock: Clock,
  onError: (error: unknown) => void,
) => {
  const stop = new AbortController()
  let known: CachedPlan = { plan: null, atMs: 0, busy: false, problem: null }
  let triedMs = Number.NEGATIVE_INFINITY
  let work: Promise<void> = Promise.resolve()
  const begin = async (): Promise<void> => {
    triedMs = clock.now()
    known = { ...known, busy: true }
    try {
      known = { plan: await plan(stop.signal), atMs: clock.now(), busy: false, problem: null }
    } catch (error) {
      known = { ...known, busy: false, problem: isEtlError(error) ? error.message : unread }
      if (!isEtlError(error) && !stop.signal.aborted) onError(error)
    }
  }
  /** Makes the plan again, unless that is in progress. */
  const renew = (): void => {
    if (!known.busy && !stop.signal.aborted) work = begin()
  }
  return {
    /** Makes a plan where there is none or an old one, and waits a moment for it. @param changedMs when a run last ended */
    look: async (changedMs: number): Promise<CachedPlan> => {
      const nowMs = clock.now()
      const isOld = known.plan === null || nowMs - known.atMs > goodForMs || changedMs > known.atMs
      if (isOld && nowMs - triedMs > retryMs) renew()
      if (known.busy) await Promise.race([work, setTimeout(patienceMs, undefined, { ref: false })])
      return known
    },
    renew,
    close: () => stop.abort(),
  }
}
