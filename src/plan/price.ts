// What units cost: pages by the bills so far; reports by the service's own word for a few of them, free of charge, and the others as much by the unit.
import { refusedAsWhole } from '../extract/report-submit.ts'
import { metricsOf } from '../core/asks.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Box, Definition } from '../core/types.ts'
import { limitsOf, lookContext, priceSubject, sourceOf } from './plan-context.ts'
import type { UnitHttpOptions } from '../extract/http-types.ts'
import type { LookContext, Source } from '../extract/source.ts'
import { type CreditRange, creditsFor, exact, type PipelinePrice, type PriceKnown, walkCredits } from '../core/learned-price.ts'
import type { Db } from '../db/tables.ts'
import { creditsOfUnit, type PastUnits, pastUnits, priceKnown, rowsAsked, timesItsWord } from '../ledger/prices.ts'
import type { PlanRuntime } from './plan-runtime.ts'

/** What pages cost, as bills have it, and what that makes for a unit of as many pages as units took so far; null: unknown. */
export const pagePrices = async (
  db: Db,
  runtime: Pick<PlanRuntime, 'allowance'>,
  { definition, source }: { readonly definition: Definition; readonly source: Source },
): Promise<{ readonly known: PriceKnown; readonly unit: CreditRange | null }> => {
  const known = await priceKnown(db, priceSubject(runtime, definition, source))
  const { top } = source.limitsOf?.(definition.params) ?? {}
  const { rows, pageSize } = rowsAsked(await pastUnits(db, definition.pipeline), definition.limits.pageSize, top)
  return { known, unit: walkCredits(known, rows, pageSize) }
}

/** What a look at one record costs; null: unknown. */
export const lookPrice = (known: PriceKnown): CreditRange | null =>
  creditsFor(known, { rowsAsked: 1, rows: 1, metrics: 1, values: 1 })

/** Whether a look may spare anything: where it costs as much as the unit, that is asked for at once. */
export const isLookCheaper = (look: CreditRange | null, unit: CreditRange | null): boolean =>
  look?.likely == null || unit?.likely == null || look.likely === 0 || look.likely < unit.likely

/** What a pipeline's units were like; their credits are by a setting until there is a bill. */
export const pricedUnits = async (
  db: Db,
  runtime: Pick<PlanRuntime, 'allowance'>,
  { definition, source }: { readonly definition: Definition; readonly source: Source },
): Promise<PastUnits> => {
  const past = await pastUnits(db, definition.pipeline)
  const { stated } = priceSubject(runtime, definition, source)
  if (past.quota !== null || source.kind !== 'report' || stated === null) return past
  const values = unitsOfReport(definition, source)
  const rows = past.rows === null ? null : past.rows * values
  const size = { rowsAsked: rows, rows, metrics: metricsOf(definition).length, values }
  const credits = creditsFor({ bills: [], stated, seen: [] }, size)?.likely ?? null
  return credits === null ? past : { ...past, quota: credits / values }
}

/** Of one window, as full as the lists and the source allow. */
export const unitsOfReport = (definition: Definition, source: Source): number => {
  const { dimensions } = definition
  const names = dimensions.map(({ name }) => name)
  const limits = limitsOf(definition, source, names)
  const full = dimensions.reduce((total, { values }, place) => total * Math.min(values.length, limits.values[place] ?? 1), 1)
  return Math.max(1, Math.min(full, limits.cells))
}

/** By the bills on record, for forecasts, the pace of a backfill and `quota`; plan, guard and budgets ask the two above. Of a pipeline without a definition here only reports have a price. */
export const pricesOf =
  (runtime: Pick<PlanRuntime, 'allowance' | 'database' | 'sources'>, definitions: readonly Definition[]) =>
  async (pipeline: string): Promise<PipelinePrice> => {
    const db = runtime.database.kysely
    const definition = definitions.find((one) => one.pipeline === pipeline)
    const source = definition === undefined ? undefined : runtime.sources.get(definition.source)
    if (definition === undefined || source?.kind !== 'walk') {
      const { quota } =
        definition === undefined || source === undefined
          ? await pastUnits(db, pipeline)
          : await pricedUnits(db, runtime, { definition, source })
      return { kind: 'report', unit: quota === null ? null : { low: quota, high: quota, likely: quota } }
    }
    if (source.billing === undefined) return { kind: 'walk', unit: { low: 0, high: 0, likely: 0 } }
    return { kind: 'walk', unit: (await pagePrices(db, runtime, { definition, source })).unit }
  }

export interface ReportToPrice {
  readonly box: Box
  readonly units: number
}

export interface Prices {
  /** Credits of those that were asked about. */
  readonly said: ReadonlyMap<ReportToPrice, number>
  /** Credits a unit; null: the service names no price. */
  readonly perUnit: number | null
  /** How many times its word the service charged lately; 1: no more than that. */
  readonly times: number
}

const noPrices: Prices = { said: new Map(), perUnit: null, times: 1 }

/**
 * Asks about some of them, evenly from the first to the last. A service that does not answer names no price.
 * @param how `isStrict`: what the service would reject is an error; else it only leaves the price unknown, and is found out again when it is bought
 */
export const priceReports = async (
  runtime: Pick<PlanRuntime, 'sources' | 'service' | 'log' | 'clock' | 'database'>,
  definition: Definition,
  reports: readonly ReportToPrice[],
  how: Pick<UnitHttpOptions, 'signal' | 'record'> & { readonly isStrict: boolean; readonly most: number },
): Promise<Prices> => {
  if (reports.length === 0) return noPrices
  const source = sourceOf(runtime, definition)
  const { isStrict, most, signal, record } = how
  const look = lookContext(runtime, definition, { signal, record })
  const count = Math.min(most, reports.length)
  const times = await timesItsWord(runtime.database.kysely, definition)
  const said = new Map<ReportToPrice, number>()
  for (let index = 0; index < count; index += 1) {
    signal.throwIfAborted()
    const report = reports[Math.floor((index * reports.length) / count)]
    if (report === undefined) continue
    const quota = await source.estimate({ definition, box: report.box }, look).then(
      (estimate) => estimate.quota,
      (error: unknown) => withoutPrice(look, definition, refusedAsWhole(error), { isStrict, isSingle: report.units === 1 }),
    )
    // A named price of nothing is none once bills tell what such reports cost.
    if (quota === null || (quota === 0 && (await creditsOfUnit(runtime.database.kysely, definition.pipeline)) !== null)) break
    said.set(report, exact(quota * times))
  }
  if (said.size === 0) return noPrices
  const units = [...said.keys()].reduce((total, report) => total + report.units, 0)
  return { said, perUnit: [...said.values()].reduce((total, quota) => total + quota, 0) / units, times }
}

/** What the service would reject is said as it is; a service that is away, or answers nonsense, only leaves the price unknown. */
const withoutPrice = (
  { log, signal }: LookContext,
  { pipeline }: Definition,
  error: unknown,
  { isStrict, isSingle }: { readonly isStrict: boolean; readonly isSingle: boolean },
): null => {
  signal.throwIfAborted()
  // Asked for apart, as the run will, it may be taken.
  const isForLess = isEtlError(error) && error.follows?.next === 'split' && (!isSingle || error.follows.about === 'size')
  if (isStrict && !isForLess && isEtlError(error) && ['BAD_REQUEST', 'NO_CAPABILITY', 'KEY_REFUSED'].includes(error.code))
    throw error
  log.warn({ pipeline, error: messageOf(error) }, 'the service named no price')
  return null
}
