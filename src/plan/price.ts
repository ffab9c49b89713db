// What units cost: pages by earlier bills; reports by the price that the service names for a few of them, free of charge, and the others at the same price a unit.
import { refusedAsWhole } from '../extract/report-submit.ts'
import { metricsOf } from '../core/request-digest.ts'
import { isEtlError, messageOf } from '../core/errors.ts'
import type { Box, Definition } from '../core/types.ts'
import { limitsOf, probeContext, priceSubject, sourceOf } from './plan-context.ts'
import type { UnitHttpOptions } from '../extract/http-types.ts'
import type { ProbeContext, Source } from '../extract/source.ts'
import { type CreditRange, creditsFor, rounded, type PipelinePrice, type KnownPrice, walkCredits } from '../core/learned-price.ts'
import type { Db } from '../db/tables.ts'
import { creditsOfUnit, type PastUnits, pastUnits, priceKnown, rowsAsked, billFactor } from '../ledger/prices.ts'
import type { PlanRuntime } from './plan-runtime.ts'

/** The price of pages by bills, and that of a unit with as many pages as units took so far; null: unknown. */
export const pagePrices = async (
  db: Db,
  runtime: Pick<PlanRuntime, 'allowance'>,
  { definition, source }: { readonly definition: Definition; readonly source: Source },
): Promise<{ readonly known: KnownPrice; readonly unit: CreditRange | null }> => {
  const known = await priceKnown(db, priceSubject(runtime, definition, source))
  const { top } = source.limitsOf?.(definition.params) ?? {}
  const { rows, pageSize } = rowsAsked(await pastUnits(db, definition.pipeline), definition.limits.pageSize, top)
  return { known, unit: walkCredits(known, rows, pageSize) }
}

/** The price of a check of one record; null: unknown. */
export const probePrice = (known: KnownPrice): CreditRange | null =>
  creditsFor(known, { rowsAsked: 1, rows: 1, metrics: 1, values: 1 })

/** Whether a check can save anything: where it costs as much as the unit, the unit is asked for at once. */
export const isProbeCheaper = (look: CreditRange | null, unit: CreditRange | null): boolean =>
  look?.likely == null || unit?.likely == null || look.likely === 0 || look.likely < unit.likely

/** What a pipeline's units were like; a setting gives their credits until there is a bill. */
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

/** Units of a report of one window, as full as the lists and the source allow. */
export const unitsOfReport = (definition: Definition, source: Source): number => {
  const { dimensions } = definition
  const names = dimensions.map(({ name }) => name)
  const limits = limitsOf(definition, source, names)
  const full = dimensions.reduce((total, { values }, place) => total * Math.min(values.length, limits.values[place] ?? 1), 1)
  return Math.max(1, Math.min(full, limits.cells))
}

/** Prices by recorded bills, for forecasts, the pace of a backfill and `quota`; plan, guard and budgets use `pagePrices` and `pricedUnits`. Without a definition only reports have a price. */
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
  /** Credits of the reports that the service was asked about. */
  readonly said: ReadonlyMap<ReportToPrice, number>
  /** Credits a unit; null: the service names no price. */
  readonly perUnit: number | null
  /** By which factor recent bills exceed the price that the service named; 1: they do not. */
  readonly times: number
}

const noPrices: Prices = { said: new Map(), perUnit: null, times: 1 }

/**
 * Asks the service for the price of some reports, spread evenly from the first to the last. A service that does not answer names no price.
 * @param how `isStrict`: a request that the service would reject is an error; else its price is unknown, and the rejection shows when it is bought
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
  const look = probeContext(runtime, definition, { signal, record })
  const count = Math.min(most, reports.length)
  const times = await billFactor(runtime.database.kysely, definition)
  const said = new Map<ReportToPrice, number>()
  for (let index = 0; index < count; index += 1) {
    signal.throwIfAborted()
    const report = reports[Math.floor((index * reports.length) / count)]
    if (report === undefined) continue
    const quota = await source.estimate({ definition, box: report.box }, look).then(
      (estimate) => estimate.quota,
      (error: unknown) => withoutPrice(look, definition, refusedAsWhole(error), { isStrict, isSingle: report.units === 1 }),
    )
    // A named price of 0 counts for nothing once bills show what such reports cost.
    if (quota === null || (quota === 0 && (await creditsOfUnit(runtime.database.kysely, definition.pipeline)) !== null)) break
    said.set(report, rounded(quota * times))
  }
  if (said.size === 0) return noPrices
  const units = [...said.keys()].reduce((total, report) => total + report.units, 0)
  return { said, perUnit: [...said.values()].reduce((total, quota) => total + quota, 0) / units, times }
}

/** Rethrows what the service would reject; a service that is down, or gives an unexpected response, only leaves the price unknown. */
const withoutPrice = (
  { log, signal }: ProbeContext,
  { pipeline }: Definition,
  error: unknown,
  { isStrict, isSingle }: { readonly isStrict: boolean; readonly isSingle: boolean },
): null => {
  signal.throwIfAborted()
  // The run will split such a report, and the service may accept its parts.
  const isForLess = isEtlError(error) && error.follows?.next === 'split' && (!isSingle || error.follows.about === 'size')
  if (isStrict && !isForLess && isEtlError(error) && ['BAD_REQUEST', 'NO_CAPABILITY', 'KEY_REFUSED'].includes(error.code))
    throw error
  log.warn({ pipeline, error: messageOf(error) }, 'the service named no price')
  return null
}
