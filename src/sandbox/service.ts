// The sandbox's whole state in one place, and what every endpoint needs of it.
import { EtlError } from '../core/errors.ts'
import { type Bookkeeper, type Books, createBookkeeper } from './books.ts'
import { type Calendar, createCalendar } from './publication-calendar.ts'
import { type Faults, createFaults } from './faults.ts'
import { patched, type Settings, settle } from './sandbox-options.ts'
import { type ReportStore, createReports } from './report-jobs.ts'
import { type Webhooks, createWebhooks } from './webhook-delivery.ts'

export interface Service {
  settings(): Settings
  readonly calendar: Calendar
  faults(): Faults
  readonly reports: ReportStore
  readonly bookkeeper: Bookkeeper
  readonly webhooks: Webhooks
  readonly bucket: RateBucket
  /** Credits left, unfinished reports taken off; null: unlimited. */
  remaining(): number | null
  /** Charges an answered keyword request. */
  chargeHit(): void
  books(): Books
  clearBooks(): void
  /** Throws CONFIGURATION naming every wrong option. */
  configure(patch: object): void
}

export const createService = (options: object): Service => {
  let given = options
  let settings = settle(given)
  let faults = createFaults(settings.faults, settings.seed)
  let hits = 0
  const calendar = createCalendar(
    () => momentOf(settings.now),
    () => settings.historyMonths,
    () => settings.lateDays,
  )
  const elapsedMs = (): number => performance.now()
  const reports = createReports(elapsedMs, () => settings.reportDurationMs)
  const bookkeeper = createBookkeeper()
  const webhooks = createWebhooks({
    calendar,
    elapsedMs,
    settings: () => settings,
    phaseOf: (id) => {
      const report = reports.get(id)
      return report === null ? null : reports.phase(report)
    },
  })
  for (const month of settings.restate) calendar.restate(month)
  return {
    settings: () => settings,
    calendar,
    faults: () => faults,
    reports,
    bookkeeper,
    webhooks,
    bucket: createRateBucket(elapsedMs),
    remaining: () => {
      const { charged, reserved } = reports.credits()
      return settings.quota === null ? null : settings.quota - hits - charged - reserved
    },
    chargeHit: () => {
      hits += 1
    },
    books: () => {
      const submissions = reports.list().map(({ submission }) => ({ ...submission }))
      const quotaUsed = hits + reports.credits().charged
      const quotaRemaining = settings.quota === null ? null : settings.quota - quotaUsed
      return {
        submissions,
        messages: webhooks.sent(),
        ...bookkeeper.read(),
        quotaUsed,
        quotaRemaining,
        faultsActed: faults.acted(),
      }
    },
    clearBooks: () => {
      bookkeeper.clear()
      webhooks.clear()
    },
    configure: (patch) => {
      const wanted = patched(given, patch)
      const next = settle(wanted)
      if (next.port !== settings.port || next.downloadHost !== settings.downloadHost) throw fixed()
      given = wanted
      settings = next
      if ('faults' in patch) faults = createFaults(settings.faults, settings.seed)
      if ('restate' in patch) for (const month of settings.restate) calendar.restate(month)
      webhooks.look()
    },
  }
}

const fixed = (): EtlError =>
  new EtlError('CONFIGURATION', 'Sandbox options: port and downloadHost are fixed once it listens; start another sandbox.')

/** A date alone is its first moment in the service's time. */
const momentOf = (now: Settings['now']): number => {
  if (now === null) return Date.now()
  if (typeof now === 'function') return now()
  return Date.parse(now.length === 10 ? `${now}T00:00:00-05:00` : now)
}

interface RateBucket {
  /** Takes a token; otherwise the seconds until there is one. */
  take(perSecond: number | null): { readonly ok: true } | { readonly ok: false; readonly waitSeconds: number }
}

/** @param nowMs a clock that never goes back. */
export const createRateBucket = (nowMs: () => number): RateBucket => {
  let tokens = Number.POSITIVE_INFINITY
  let filledAt = nowMs()
  return {
    take: (perSecond) => {
      if (perSecond === null) return { ok: true }
      const now = nowMs()
      tokens = Math.min(Math.max(1, perSecond), tokens + ((now - filledAt) / 1000) * perSecond)
      filledAt = now
      if (tokens < 1) return { ok: false, waitSeconds: (1 - tokens) / perSecond }
      tokens -= 1
      return { ok: true }
    },
  }
}
