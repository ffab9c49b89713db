// What planning one pipeline knows: its definition, its windows, its place in the ledger, and how a step of it is committed.
import { requestDigest, requestedBy } from '../core/request-digest.ts'
import { budgetsOf, tagBudgets } from '../core/budget-scope.ts'
import { EtlError } from '../core/errors.ts'
import type { SentRequest } from '../core/sent-request.ts'
import { dataOf } from '../core/release-month.ts'
import { accountName } from '../core/source-spec.ts'
import type { Definition, IsoDate, Window } from '../core/types.ts'
import { addWindows, lastRestatementMs } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import type { UnitHttpOptions } from '../extract/http-types.ts'
import type { ProbeContext, Source } from '../extract/source.ts'
import type { Payer } from '../ledger/budget.ts'
import {
  type CellScope,
  type FullCheck,
  noRefresh,
  type Refresh,
  type WantedTop,
  type WindowQuery,
} from '../ledger/candidates.ts'
import { type UsualRule, usualRule } from '../ledger/guard-usual.ts'
import { everAskedForTop, lockPipeline, lockQuestion, type RegisteredPipeline } from '../ledger/pipelines.ts'
import type { JobFrame } from '../ledger/register-jobs.ts'
import { newestRelease } from '../ledger/data-releases.ts'
import { begunAtAsk } from '../ledger/runs.ts'
import { datasetOf } from '../ledger/data-points.ts'
import type { PriceSubject } from '../ledger/prices.ts'
import type { RequestRecord } from '../ledger/requests.ts'
import { reuseScope } from '../ledger/reuse-answers.ts'
import { windowsOverdue, type WindowState } from '../ledger/windows.ts'
import { checkCycle, lookBackStart, nightOf, type PlanWindow, type Scope, windowsInScope, checkOnly } from './frames.ts'
import { type PackLimits, mostUnitsAStep } from './pack.ts'
import type { PlanRuntime } from './plan-runtime.ts'

/** Throws DEFINITION where the source is not here. */
export const sourceOf = ({ sources }: Pick<PlanRuntime, 'sources'>, { source, file }: Definition) => {
  const found = sources.get(source)
  if (found === undefined) throw new EtlError('DEFINITION', `${file}: there is no source ${source}; correct source.`)
  return found
}

/** What a source needs to answer a question of planning. */
export const probeContext = (
  runtime: Pick<PlanRuntime, 'service' | 'log' | 'clock'>,
  definition: Definition,
  { signal, ...how }: Pick<UnitHttpOptions, 'signal' | 'lane' | 'record'> & Partial<Pick<UnitHttpOptions, 'attempts'>>,
): ProbeContext => {
  const { account, limits } = definition
  const { timeoutMs, attempts, maxBodyBytes } = limits
  const http = runtime.service(definition).forUnit({ account, signal, timeoutMs, attempts, maxBodyBytes, ...how })
  return { http, log: runtime.log, clock: runtime.clock, signal }
}

/** Records the requests of planning with the run, and counts them. */
export const recorder =
  (
    { progress }: Pick<PlanRuntime, 'progress'>,
    { runId, pipelineId }: Pick<RequestRecord, 'runId' | 'pipelineId'>,
    requests: RequestRecord[],
    subject: PriceSubject | null = null,
  ) =>
  (request: SentRequest): void => {
    progress.counters.requests += 1
    // Keeps the same object: its cost is filled in once its answer was read.
    requests.push(Object.assign(request, { jobId: null, runId, pipelineId, askNumber: null, subject }))
  }

/** `keywords`, `referrals`: as a setting of prices names what a definition asks for. */
export const priceName = (definition: Definition, source: Source): string => {
  const { dataset } = datasetOf(definition, source)
  return dataset.split(/[./]/).at(-1) ?? dataset
}

/** The price that applies to what a definition buys. */
export const priceSubject = (
  { allowance }: Pick<PlanRuntime, 'allowance'>,
  definition: Definition,
  source: Source,
): PriceSubject => {
  const stated = allowance(definition).prices?.get(priceName(definition, source)) ?? null
  return { ...datasetOf(definition, source), stated, seen: source.billing?.seen ?? [] }
}

/** Whose budgets bound what a definition buys. */
export const payerOf = ({ allowance, settings }: Pick<PlanRuntime, 'allowance' | 'settings'>, definition: Definition): Payer => ({
  account: definition.account,
  pipeline: definition.pipeline,
  budget: { perMonth: definition.limits.quotaPerMonth, perDay: definition.limits.quotaPerDay },
  accountBudget: allowance(definition).budget,
  tagBudgets: budgetsOf(tagBudgets(settings.raw), definition.tags),
})

interface PlanInput {
  readonly runtime: Pick<PlanRuntime, 'consent'>
  /** False: no lost submission is sent again now, even with consent. */
  readonly maySendAgain?: boolean
  readonly definition: Definition
  readonly source: Source
  readonly pipeline: RegisteredPipeline
  readonly runId: number
  readonly scope: Scope
  /** By the database's clock, milliseconds since the epoch. */
  readonly nowMs: number
  readonly signal: AbortSignal
  readonly step: <T>(work: (trx: Db) => Promise<T>) => Promise<T>
}

export type PlanContext = Awaited<ReturnType<typeof planContext>>

export const planContext = async (db: Db, states: ReadonlyMap<IsoDate, WindowState>, input: PlanInput) => {
  const { source, pipeline, scope, nowMs, signal, step } = input
  const definition = await withRelease(db, input.definition)
  const windows = windowsInScope(definition, scope, nowMs)
  const fullCheck = scope.mode === 'due' ? fullCheckOf(definition, source, nowMs) : null
  const days = windows.map(({ from }) => from)
  let overdue: Promise<ReadonlySet<IsoDate>> | null = null
  return {
    ...{ definition, source, pipeline, scope, nowMs, signal, step, states },
    /** A step under the locks of the question and the pipeline: planners take turns, else two at once would both buy what neither has asked for yet. */
    locked: <T>(work: (trx: Db) => Promise<T>): Promise<T> => {
      signal.throwIfAborted()
      return step(async (trx) => {
        await lockQuestion(trx, requestDigest(definition))
        await lockPipeline(trx, pipeline.pipelineId)
        return work(trx)
      })
    },
    frame: frameOf(input),
    cells: await cellScope(db, { ...input, definition }),
    limits: limitsOf(definition, source, pipeline.dimensions),
    /** Oldest first, without gaps. */
    windows,
    /** Windows before it may be closed; null: none. */
    lookBackFrom: lookBackStart(definition, nowMs),
    /** The moment the service last published or restated anything, ISO. */
    restatedAt: new Date(lastRestatementMs(definition.window.publication, nowMs)).toISOString(),
    /** Which units are checked again this night, whatever the calendar says; null: none. */
    fullCheck,
    /** Windows with units whose full check is due; read once. */
    overdue: () =>
      (overdue ??= fullCheck === null ? Promise.resolve(new Set()) : windowsOverdue(db, pipeline.pipelineId, days, fullCheck)),
  }
}

/** What the service itself said of its newest data counts beside the calendar. */
const withRelease = async (db: Db, definition: Definition): Promise<Definition> => {
  const { window } = definition
  const released = await newestRelease(db, accountName(definition), dataOf(window.every))
  return released === null
    ? definition
    : { ...definition, window: { ...window, publication: { ...window.publication, released } } }
}

export const isForced = ({ mode, force }: Scope): boolean => mode === 'range' && force === true

const frameOf = ({ definition, source, pipeline, runId, scope }: PlanInput): JobFrame => ({
  runId,
  pipelineId: pipeline.pipelineId,
  kind: source.kind,
  account: definition.account,
  every: definition.window.every,
  force: isForced(scope),
  isGuarded: definition.guard !== null,
  order: scope.order ?? 'newest-first',
})

const cellScope = async (db: Db, input: PlanInput): Promise<CellScope> => {
  const { runtime, maySendAgain = true, definition, source, pipeline, scope } = input
  // Values were checked before, against the lists of all versions.
  const only = checkOnly(definition, scope.only ?? new Map(), () => true)
  const asks = requestedBy(definition, source.kind)
  return {
    pipelineId: pipeline.pipelineId,
    policy: {
      kind: source.kind,
      force: isForced(scope),
      taken: scope.takenSince == null ? undefined : { since: scope.takenSince, ...asks },
      begunAt: isForced(scope) ? await begunAtAsk(db, input.runId) : null,
      resubmitUncertain: maySendAgain && (runtime.consent.resubmitUncertain || definition.report.resubmitUncertain),
      resubmitFailed: definition.report.resubmitFailed,
    },
    only: new Map([...only].map(([name, values]) => [pipeline.dimensions.indexOf(name), values])),
    reuse: await reuseScope(db, pipeline, { ...asks, source: source.name, runId: input.runId }),
    top: await topOf(db, input),
    usual: await usualOf(db, input),
    asker: scope.mode === 'due' ? 'night' : isForced(scope) ? 'force' : 'range',
  }
}

export const topOf = async (db: Db, { definition, source }: Pick<PlanInput, 'definition' | 'source'>): Promise<WantedTop> => {
  const top = source.limitsOf?.(definition.params).top
  return top ?? ((await everAskedForTop(db)) ? null : undefined)
}

/** null: a range, which a person named, or a night without costs or without a guard: nothing is judged as beyond the usual. */
const usualOf = async (db: Db, { definition, source, pipeline, scope, nowMs }: PlanInput): Promise<UsualRule | null> => {
  if (scope.mode === 'range' || !costsCredits(source) || definition.guard === null) return null
  const { every, lookBack } = definition.window
  const start = lookBackStart(definition, nowMs)
  if (start === null) return null
  const recentFrom = lookBack === 0 ? addWindows(start, every, -1) : start
  return usualRule(db, pipeline.pipelineId, recentFrom)
}

/** Reports always cost credits; pages only where the source has billing. */
export const costsCredits = ({ kind, billing }: Source): boolean => kind === 'report' || billing !== undefined

/** What the dataset allows, else its source, as far as the definition does not lower it; never more than one step holds. */
export const limitsOf = (
  { dimensions, params, window }: Pick<Definition, 'dimensions' | 'params' | 'window'>,
  source: Pick<Source, 'dimensions' | 'packing' | 'limitsOf'>,
  names: readonly string[],
): PackLimits => {
  const { values = {}, months } = source.limitsOf?.(params) ?? {}
  // A request may touch so many months: a week or a day begins in one month and may end in the next.
  const perMonth = { month: 1, week: 4, day: 28 }[window.every]
  const windows = source.packing?.windows ?? 1
  return {
    values: names.map((name) => {
      const bucket = dimensions.find((dimension) => dimension.name === name)?.bucket ?? null
      return Math.min(values[name] ?? source.dimensions[name]?.mostPerRequest ?? 1, bucket ?? Number.MAX_SAFE_INTEGER)
    }),
    windows:
      months === undefined
        ? windows
        : Math.min(windows, Math.max(1, window.every === 'month' ? months : (months - 1) * perMonth)),
    cells: Math.min(source.packing?.cells ?? mostUnitsAStep, mostUnitsAStep),
  }
}

const dayMs = 86_400_000

const fullCheckOf = (definition: Definition, { kind }: Source, nowMs: number): FullCheck | null => {
  const days = definition.window.fullCheckDays
  const cycle = days === null ? null : checkCycle(kind, days)
  if (cycle === null) return null
  const { nights, olderThanDays } = cycle
  return { before: new Date(nowMs - olderThanDays * dayMs).toISOString(), nights, night: nightOf(definition, nights, nowMs) }
}

/** Every wanted unit of the window is loaded, and neither --force, the look-back nor a count of some values asks about these. */
export const isClosed = ({ states, pipeline, frame, cells }: PlanContext, { from, isInLookBack }: PlanWindow): boolean =>
  states.get(from)?.closedGeneration === pipeline.generation && !frame.force && !isInLookBack && cells.only.size === 0

/** Which slices of the window are read: of a closed window only those wanted since, unless its loaded units matter. */
export const askOf = ({ states, frame, scope }: PlanContext, window: PlanWindow, refresh: Refresh): WindowQuery => {
  const isWhole = frame.force || window.isInLookBack || scope.mode === 'range' || refresh !== noRefresh
  return {
    from: window.from,
    isPublished: window.isPublished,
    since: isWhole ? 0 : (states.get(window.from)?.closedGeneration ?? 0),
    refresh,
  }
}

/** Calendar span of consecutive windows by their places. */
export const spanOf = ({ windows, definition }: PlanContext, first: number, count: number): { from: IsoDate; to: IsoDate } => {
  const from = windows[first]?.from ?? ''
  return { from, to: addWindows(from, definition.window.every, count) }
}

/** The span of all windows; null: none is in scope. */
export const wholeSpan = ({ windows }: Pick<PlanContext, 'windows'>): Window | null => {
  const [first, last] = [windows[0], windows.at(-1)]
  return first === undefined || last === undefined ? null : { from: first.from, to: last.to }
}
