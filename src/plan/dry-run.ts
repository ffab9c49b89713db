// What a run or a range would take and why, by the same planning, without writing or buying anything: `plan`, and every --dry-run.
import { asksOf, widestFirst } from '../core/asks.ts'
import { sum } from '../core/counted.ts'
import { add, type CreditRange, priceWords, times } from '../core/learned-price.ts'
import type { Definition } from '../core/types.ts'
import { addWindows, lastDay, showSpan, showWindow, windowAt } from '../core/window.ts'
import type { AskReason } from '../ledger/candidates.ts'
import type { WantedBy } from '../ledger/guard-usual.ts'
import { type Forecast, forecastsWith, type PlannedNow } from '../ledger/month-end.ts'
import { type PastTimes, rowsAsked } from '../ledger/prices.ts'
import { checkScope, type Scope } from './frames.ts'
import { type NightVerdict, dearRange, heldBy, type UnitsToBuy, verdictOn } from './guard.ts'
import { offerOlder } from './older-months.ts'
import { doneWithin } from './spread-backfill.ts'
import { sourceOf } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'
import { isLookCheaper, lookPrice, pagePrices, type Prices, priceReports, type ReportToPrice } from './price.ts'
import { withLists, withReadFiles } from './query-lists.ts'
import { type Found, type FoundJob, wouldPlan } from './would-plan.ts'

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
  /** Credits it may be, where they are not known, or the bills so far do not tell for certain; null: unknown, or there is no doubt. */
  readonly range: { readonly low: number; readonly high: number } | null
  /** `service`: it said so itself, of this job or of others like it. `history`: from what this warehouse loaded before. `unknown`: neither knows. */
  readonly from: 'service' | 'history' | 'unknown'
  readonly held: boolean
  /** It has that word since an earlier command. */
  readonly approved: boolean
}

/** What is known of a pipeline as a whole. */
export type PreviewPipeline = Preview['pipelines'][number]
export type Preview = Awaited<ReturnType<typeof previewRun>>

/** Reports whose price the service is asked for, over all pipelines; the others are as dear by the unit. */
const mostPriced = 50

/** Calls nothing but what the service answers for free, 50 times at most; where it has no such way, this warehouse's own past decides. */
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
    for (const [at, found] of (await wouldPlan(runtime, group, scope, signal)).entries()) {
      const definition = group[at]
      if (definition !== undefined) plans.set(definition, found)
    }
  for (const [index, definition] of read.entries()) {
    const found = plans.get(definition)
    if (found === undefined) continue
    // What one does not need is left for the next.
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
    /** How many times its word the service charged lately, at the most. */
    times,
  }
}

/** Those that ask the same of the same dimensions may serve each other. */
const questionOf = (definition: Definition): string =>
  JSON.stringify([asksOf(definition), definition.dimensions.map(({ name }) => name).sort()])

type ReportJob = FoundJob & ReportToPrice

const isToBuy = (job: FoundJob): job is ReportJob => job.box !== null && !job.isBought

const unitsOf = (jobs: readonly FoundJob[]): UnitsToBuy[] => jobs.filter(({ isPlanned, isBought }) => !isPlanned && !isBought)

const nothing: CreditRange = { low: 0, high: 0, likely: 0 }

/** What pages cost, as bills have it; null: it is of reports. */
const walkPrice = async (runtime: PlanRuntime, definition: Definition) => {
  const source = sourceOf(runtime, definition)
  if (source.kind === 'report') return null
  if (source.billing === undefined) return { unit: nothing, look: nothing, words: null }
  const { known, unit } = await pagePrices(runtime.database.kysely, runtime, { definition, source })
  return { unit, look: lookPrice(known), words: priceWords(known) }
}

/** Of a unit that is looked at before it is asked for again, where that may spare something. */
const refreshPrice = (walk: Awaited<ReturnType<typeof walkPrice>>): CreditRange | null => {
  if (walk === null || walk.unit === null || walk.look === null) return walk?.unit ?? null
  return isLookCheaper(walk.look, walk.unit) ? add(walk.look, walk.unit) : walk.unit
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
  const held = verdict === null ? [] : heldBy(verdict, found.guard.mode)
  const looks = [...found.sampled].map(([from, units]): PreviewJob => {
    const window = showWindow(windowAt(from, definition.window.every))
    const about = { job: `${pipeline}/v${version}/${window}`, pipeline, version, window, reason: 'look-back' as const }
    const counts = { units, requests: units, reports: 0, rows: null, ...priced(walk?.look ?? null, units) }
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
  // What an approval allows is bought once it is there.
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

/** Two decimals tell as much as anybody wants to know. */
const cents = (credits: number): number => Number(credits.toFixed(2))

/** Unknown is no number; how far off it may be is said beside it. */
const priced = (unit: CreditRange | null, units: number): Pick<PreviewJob, 'quota' | 'range'> => {
  const all = times(unit, units)
  if (all === null) return { quota: null, range: null }
  const isSure = all.likely !== null && all.high - all.low <= 0.01 * all.high
  return {
    quota: all.likely === null ? null : cents(all.likely),
    range: isSure ? null : { low: cents(all.low), high: cents(all.high) },
  }
}

/** Its price where the service states one, its submission, one poll and one download; what is bought needs less. */
const reportRequests = (isPriced: boolean, isBought: boolean, isHere: boolean): number =>
  isHere ? 0 : isBought ? 2 : isPriced ? 4 : 3

/** Another version of it, or itself. */
const isSamePipeline =
  ({ definition: { pipeline, account } }: Planned) =>
  ({ definition }: Planned): boolean =>
    definition.pipeline === pipeline && definition.account === account

const unitPrice = ({ prices, walk, found: { past } }: Previewed): number | null =>
  prices.perUnit ?? (walk === null ? past.quota : (walk.unit?.likely ?? null))

/** Credits, and units without a price, that the next runs buy: what is new, and the backlog that has a person's word. */
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
    /** null: it has no guard, buys no reports, or a person has said yes to all of it. */
    verdict,
    /** Of a range: that it costs more than a night may, at a terminal, is a question. */
    dear: walk === null && found.guard.mode === 'range' ? dearRange(found.guard, { credits, unpriced, perUnit }) : null,
    /** For a person's word, since an earlier night or an earlier command. */
    waiting: {
      units: sum(waiting, ({ units }) => units),
      reports: sum(waiting, ({ reports }) => reports),
      credits: sum(waiting, (one) => one.credits),
      priced: waiting.every(({ priced }) => priced),
    },
    backlog,
    /** What the look-back loads where the units it asks about have changed; null: it asks about all of them. */
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
    /** Where the service counts by another method of late: the months before, anew. */
    older: found.breaks.flatMap((one) => offerOlder(definition, one, perUnit) ?? []),
    /** The day the last report can be bought as budgets are; null: today, or never. */
    doneOn: doneWithin(definition, allowance.budget, spent, planned + planned_cells * (perUnit ?? 0), today),
  }
}

/** Requests at the slower of the rate limit and earlier answers; reports are made beside each other, so one's time is added. */
const secondsOf = (jobs: readonly PreviewJob[], times: PastTimes, concurrency: number, perSecond: number): number => {
  const requests = sum(jobs, (job) => job.requests)
  const answered = (requests * (times.requestMs ?? 0)) / 1000 / concurrency
  const made = jobs.some((job) => job.reports > 0) ? (times.reportMs ?? 0) / 1000 : 0
  return Math.max(requests / perSecond, answered) + made
}
