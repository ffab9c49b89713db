// What a run or a range would take and why, by the same planning, without writing or buying anything: `plan`, and every --dry-run.
import { requestDigest, widestFirst } from '../core/request-digest.ts'
import { sum } from '../core/counted.ts'
import { addRanges, type CreditRange, priceWords, multiplyRange } from '../core/learned-price.ts'
import type { Definition } from '../core/types.ts'
import { addWindows, lastDay, showSpan, showWindow, windowAt } from '../core/window.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { WantedBy } from '../ledger/guard-usual.ts'
import { type Forecast, forecastsWith, type PlannedNow } from '../ledger/month-end.ts'
import { type PastTimes, rowsAsked } from '../ledger/prices.ts'
import { checkScope, type Scope } from './frames.ts'
import { type NightVerdict, expensiveRange, heldAskers, type UnitsToBuy, verdictOn } from './guard.ts'
import { offerOlder } from './older-months.ts'
import { lastPurchaseDayWithin } from './spread-backfill.ts'
import { sourceOf } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { isProbeCheaper, probePrice, pagePrices, type Prices, priceReports, type ReportToPrice } from './price.ts'
import { withLists, withReadFiles } from './query-lists.ts'
import { type Found, type FoundJob, planAndRollBack } from './plan-and-roll-back.ts'

/** A report, or the walks of one window. */
export interface PreviewJob {
  /** The report's key; of walks the pipeline and the window. */
  readonly job: string
  readonly pipeline: string
  readonly version: number
  readonly window: string
  readonly reason: AskReason
  readonly units: number
  readonly requests: number
  readonly reports: number
  readonly rows: number | null
  readonly quota: number | null
  /** Range of credits where the price is not known, or bills do not settle it; null: the range is not known, or the price is certain. */
  readonly range: { readonly low: number; readonly high: number } | null
  /** `service`: it said so itself, of this job or of others like it. `history`: from what this warehouse loaded before. `unknown`: neither knows. */
  readonly from: 'service' | 'history' | 'unknown'
  readonly held: boolean
  /** A person approved it with an earlier command. */
  readonly approved: boolean
}

/** What is known of a pipeline as a whole. */
export type PreviewPipeline = Preview['pipelines'][number]
export type Preview = Awaited<ReturnType<typeof previewRun>>

/** How many reports the service is asked to price, over all pipelines; other reports count at the same price a unit. */
const mostPriced = 50

/** Sends only requests that the service answers for free, 50 at most; where there are none, this warehouse's own history decides. */
export const previewRun = async (runtime: PlanRuntime, definitions: readonly Definition[], scope: Scope, signal: AbortSignal) => {
  let asked = 0
  let said = 0
  let times = 1
  const jobs: PreviewJob[] = []
  const planned: Planned[] = []
  const read: Definition[] = []
  for (const written of widestFirst(withReadFiles(runtime, definitions))) read.push(await withLists(runtime, written, null))
  checkScope(read, scope)
  const plans = new Map<Definition, Found>()
  for (const group of Map.groupBy(read, questionOf).values())
    for (const [at, found] of (await planAndRollBack(runtime, group, scope, signal)).entries()) {
      const definition = group[at]
      if (definition !== undefined) plans.set(definition, found)
    }
  for (const [index, definition] of read.entries()) {
    const found = plans.get(definition)
    if (found === undefined) continue
    // What one definition does not need is left for the next.
    const most = Math.floor((mostPriced - said) / (read.length - index))
    const record = (): void => {
      asked += 1
    }
    const toBuy = found.jobs.filter(isToBuy)
    const prices = await priceReports(runtime, definition, toBuy, { isStrict: true, most, signal, record })
    said += prices.said.size
    times = Math.max(times, prices.times)
    const walk = await walkPrice(runtime, definition)
    const price = prices.perUnit ?? walk?.unit?.likely ?? found.past.quota ?? null
    const verdict = runtime.consent.approvedBy === null ? verdictOn(found.guard, unitsOf(found.jobs), price) : null
    const { top } = sourceOf(runtime, definition).limitsOf?.(definition.params) ?? {}
    const of = { definition, found, prices, verdict, walk, asked: rowsAsked(found.past, definition.limits.pageSize, top) }
    const mine = withLooks(of)
    jobs.push(...mine)
    planned.push({ ...of, jobs: mine })
  }
  const versions = planned.map((one) => planned.filter(isSamePipeline(one)))
  const nowMs = planned[0]?.found.nowMs ?? 0
  const ends = await forecastsWith(runtime.database.kysely, nowMs, versions.map(plannedNow))
  const pipelines = planned.map((one, index) => aboutPipeline(runtime, one, versions[index] ?? [], ends[index]))
  return {
    ...{ jobs, pipelines },
    asked,
    /** Reports whose price the service named, of those to be bought. */
    priced: said,
    /** By which factor bills have lately exceeded the prices that the service named, at most. */
    times,
  }
}

/** Definitions that ask the same, with the same dimensions, may serve each other. */
const questionOf = (definition: Definition): string =>
  JSON.stringify([requestDigest(definition), definition.dimensions.map(({ name }) => name).sort()])

type ReportJob = FoundJob & ReportToPrice

const isToBuy = (job: FoundJob): job is ReportJob => job.box !== null && !job.isBought

const unitsOf = (jobs: readonly FoundJob[]): UnitsToBuy[] => jobs.filter(({ isPlanned, isBought }) => !isPlanned && !isBought)

const nothing: CreditRange = { low: 0, high: 0, likely: 0 }

/** What pages cost by bills; null: the source makes reports. */
const walkPrice = async (runtime: PlanRuntime, definition: Definition) => {
  const source = sourceOf(runtime, definition)
  if (source.kind === 'report') return null
  if (source.billing === undefined) return { unit: nothing, probe: nothing, words: null }
  const { known, unit } = await pagePrices(runtime.database.kysely, runtime, { definition, source })
  return { unit, probe: probePrice(known), words: priceWords(known) }
}

/** The price of refreshing a unit, with the check before it where a check is cheaper than the unit. */
const refreshPrice = (walk: Awaited<ReturnType<typeof walkPrice>>): CreditRange | null => {
  if (walk === null || walk.unit === null || walk.probe === null) return walk?.unit ?? null
  return isProbeCheaper(walk.probe, walk.unit) ? addRanges(walk.probe, walk.unit) : walk.unit
}

interface Previewed {
  readonly definition: Definition
  readonly found: Found
  readonly prices: Prices
  readonly verdict: NightVerdict | null
  readonly walk: Awaited<ReturnType<typeof walkPrice>>
  readonly asked: ReturnType<typeof rowsAsked>
}

interface Planned extends Previewed {
  readonly jobs: readonly PreviewJob[]
}

const withLooks = (of: Previewed): PreviewJob[] => {
  const { definition, found, verdict, walk } = of
  const { pipeline, version } = definition
  const held = verdict === null ? [] : heldAskers(verdict, found.guard.mode)
  const looks = [...found.sampled].map(([from, units]): PreviewJob => {
    const window = showWindow(windowAt(from, definition.window.every))
    const about = { job: `${pipeline}/v${version}/${window}`, pipeline, version, window, reason: 'look-back' as const }
    const counts = { units, requests: units, reports: 0, rows: null, ...priced(walk?.probe ?? null, units) }
    return { ...about, ...counts, from: 'unknown', held: false, approved: false }
  })
  return [...found.jobs.map((job) => pricedJob(of, job, held)), ...looks.filter(({ units }) => units > 0)]
}

const pricedJob = (
  { definition, found: { past }, prices, walk, asked }: Previewed,
  job: FoundJob,
  held: readonly WantedBy[],
): PreviewJob => {
  const { said, perUnit } = prices
  const { window, reason, wantedBy, units, box, isBought, isHere, isPlanned, isApproved, isNotYet } = job
  const isHeld = !isBought && !isPlanned && held.includes(wantedBy)
  // A job that is not published yet costs nothing now; a held one shows its price, since its approval lets it be bought once published.
  const isFree = isHere || (isNotYet === true && !isHeld)
  const shown = box === null ? showWindow(window) : showSpan(window)
  const rows = past.rows === null || asked.rows === null ? null : Math.round(asked.rows * units)
  const isPriced = isToBuy(job) && perUnit !== null
  const exact = isToBuy(job) ? said.get(job) : undefined
  const credits = exact ?? (isPriced ? perUnit * units : past.quota === null ? null : past.quota * units)
  const pages = isHere ? 0 : Math.max(1, Math.ceil((asked.rows ?? 0) / asked.pageSize)) * units
  return {
    job: box?.key ?? `${definition.pipeline}/v${definition.version}/${shown}`,
    ...{ pipeline: definition.pipeline, version: definition.version, window: shown, reason, units, rows },
    requests: box === null ? pages : reportRequests(isPriced, isBought, isHere),
    reports: box === null || isBought ? 0 : 1,
    ...(box === null
      ? priced(isFree ? nothing : (walk?.unit ?? null), units)
      : { quota: isBought || isFree ? 0 : credits === null ? null : cents(credits), range: null }),
    from: isPriced ? 'service' : rows !== null ? 'history' : 'unknown',
    ...{ held: isHeld, approved: isApproved },
  }
}

const cents = (credits: number): number => Number(credits.toFixed(2))

/** An unknown price is null; `range` says how far off it may be. */
const priced = (unit: CreditRange | null, units: number): Pick<PreviewJob, 'quota' | 'range'> => {
  const all = multiplyRange(unit, units)
  if (all === null) return { quota: null, range: null }
  const isSure = all.likely !== null && all.high - all.low <= 0.01 * all.high
  return {
    quota: all.likely === null ? null : cents(all.likely),
    range: isSure ? null : { low: cents(all.low), high: cents(all.high) },
  }
}

/** Requests of a report: its price where the service states one, submission, one poll, one download. A bought report needs fewer. */
const reportRequests = (isPriced: boolean, isBought: boolean, isHere: boolean): number =>
  isHere ? 0 : isBought ? 2 : isPriced ? 4 : 3

/** Any version of the same pipeline. */
const isSamePipeline =
  ({ definition: { pipeline, account } }: Planned) =>
  ({ definition }: Planned): boolean =>
    definition.pipeline === pipeline && definition.account === account

const unitPrice = ({ prices, walk, found: { past } }: Previewed): number | null =>
  prices.perUnit ?? (walk === null ? past.quota : (walk.unit?.likely ?? null))

/** Credits, and units without a price, that the next runs buy: new jobs, and the approved backlog. */
const toBuyOf = ({ jobs, found: { backlog } }: Planned) => {
  const fresh = jobs.filter(({ held, approved }) => !held && !approved)
  const unpriced = fresh.filter(({ quota }) => quota === null)
  return { planned: sum(fresh, 'quota') + backlog.credits, planned_cells: sum(unpriced, 'units') + backlog.unpriced }
}

const plannedNow = (versions: readonly Planned[]): PlannedNow => {
  const newest = versions.reduce((one, other) => (other.definition.version > one.definition.version ? other : one))
  const { definition, walk } = newest
  const [{ account, pipeline, window }, perUnit, toBuy] = [definition, unitPrice(newest), versions.map(toBuyOf)]
  const known = perUnit === null ? null : { low: perUnit, high: perUnit, likely: perUnit }
  return {
    ...{ account, pipeline, window, budget: definition.limits.quotaPerMonth },
    ...{ planned: sum(toBuy, 'planned'), planned_cells: sum(toBuy, 'planned_cells') },
    price: walk === null ? { kind: 'report', unit: known } : { kind: 'walk', unit: walk.unit },
    values: definition.dimensions.reduce((total, { values }) => total * values.length, 1),
  }
}

/** @param versions of the pipeline that are planned, itself among them */
const aboutPipeline = (runtime: PlanRuntime, of: Planned, versions: readonly Planned[], end: Forecast | undefined) => {
  const { definition, found, verdict, walk, jobs } = of
  const { pipeline, version, account } = definition
  const { idle, changes, waiting, backlog, spent, nowMs } = found
  const allowance = runtime.allowance(definition)
  const now = jobs.filter(({ held }) => !held)
  const credits = sum(now, ({ quota }) => quota)
  const unpriced = sum(now, ({ quota, units }) => (quota === null ? units : 0))
  const perUnit = unitPrice(of)
  const today = new Date(nowMs).toISOString().slice(0, 10)
  const from = `${today.slice(0, 7)}-01`
  const { planned, planned_cells } = toBuyOf(of)
  return {
    ...{ pipeline, version, account },
    /** For people: with its version where there are two. */
    name: versions.length > 1 ? `${pipeline}/v${version}` : pipeline,
    /** At the pace of the rate limit and of earlier answers; without those it is the least it can take. */
    seconds: secondsOf(now, found.times, definition.limits.concurrency, allowance.requestsPerSecond),
    ...idle,
    changes,
    /** null: it has no guard, buys no reports, or a person has approved all of it. */
    verdict,
    /** A range that costs more than a night may; at a terminal the command asks before it buys. */
    dear: walk === null && found.guard.mode === 'range' ? expensiveRange(found.guard, { credits, unpriced, perUnit }) : null,
    /** What waits for approval since an earlier night or command. */
    waiting: {
      units: sum(waiting, ({ units }) => units),
      reports: sum(waiting, ({ reports }) => reports),
      credits: sum(waiting, (one) => one.credits),
      priced: waiting.every(({ priced }) => priced),
    },
    backlog,
    /** What the look-back loads where the sampled units have changed; null: it samples all units. */
    ifChanged:
      found.behindSamples === 0
        ? null
        : { units: found.behindSamples, credits: priced(refreshPrice(walk), found.behindSamples).quota },
    /** What its pages cost, in words; null: it has none, they are free, or unknown. */
    price: walk?.words ?? null,
    /** Credits spent or reserved this month (UTC), by all versions together. */
    ...{ spent: spent.pipeline.month, accountSpent: spent.account.month },
    /** Credits a month; null: no limit. */
    ...{ budget: definition.limits.quotaPerMonth, accountBudget: allowance.budget.perMonth },
    /** Credits that all versions will have spent when the month is over: with this plan, and nights as its calendar has them; null: no price is known. */
    forecast: end?.forecast ?? null,
    month: { from, last: lastDay({ from, to: addWindows(from, 'month', 1) }) },
    /** Where the service has lately changed its method: an offer to load the months before again. */
    older: found.breaks.flatMap((one) => offerOlder(definition, one, perUnit) ?? []),
    /** The day on which the last report can be bought within the budgets; null: today, or never. */
    doneOn: lastPurchaseDayWithin(definition, allowance.budget, spent, planned + planned_cells * (perUnit ?? 0), today),
  }
}

/** Time of the requests, by the slower of the rate limit and earlier answers, plus the time of one report: reports are made in parallel. */
const secondsOf = (jobs: readonly PreviewJob[], times: PastTimes, concurrency: number, perSecond: number): number => {
  const requests = sum(jobs, (job) => job.requests)
  const answered = (requests * (times.requestMs ?? 0)) / 1000 / concurrency
  const made = jobs.some((job) => job.reports > 0) ? (times.reportMs ?? 0) / 1000 : 0
  return Math.max(requests / perSecond, answered) + made
}
