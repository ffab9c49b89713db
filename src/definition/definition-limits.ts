// limits of a definition as numbers: times, sizes and shares as people write them.
import type { Limits } from '../core/types.ts'
import type { RawDefinition } from './schema.ts'
import type { Scope } from './scope.ts'

const defaultPollMaxMs = 60_000

/** Problems go to the scope. */
export const readLimits = (raw: RawDefinition['limits'], scope: Scope): Limits => {
  const pollEveryMs = durationMs(raw.poll_every)
  const limits: Limits = {
    pageSize: raw.page_size,
    maxPages: raw.max_pages,
    concurrency: raw.concurrency,
    timeoutMs: durationMs(raw.timeout),
    attempts: raw.attempts,
    ...rejectLimit(raw.rejects),
    shrink: share(raw.shrink),
    walks: raw.walks,
    pollEveryMs,
    pollMaxMs: raw.poll_max === undefined ? Math.max(pollEveryMs, defaultPollMaxMs) : durationMs(raw.poll_max),
    deadlineMs: durationMs(raw.deadline),
    quotaPerMonth: raw.quota_per_month ?? null,
    quotaPerDay: raw.quota_per_day ?? null,
    maxBodyBytes: sizeBytes(raw.max_body),
  }
  const amounts = {
    timeout: limits.timeoutMs,
    poll_every: limits.pollEveryMs,
    poll_max: limits.pollMaxMs,
    deadline: limits.deadlineMs,
    max_body: limits.maxBodyBytes,
  }
  for (const [name, amount] of Object.entries(amounts)) {
    if (amount < 1) scope.report(['limits', name], `limits.${name} is nothing; write more than 0.`)
  }
  if (limits.pollMaxMs < limits.pollEveryMs) {
    scope.report(['limits', 'poll_max'], 'limits.poll_max is shorter than limits.poll_every; it is the longest wait, swap them.')
  }
  return limits
}

const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const bytes = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const

const scaled = (text: string, units: Readonly<Record<string, number>>): number => {
  const [, amount = '', unit = ''] = /^([\d.]+)([A-Za-z]+)$/.exec(text) ?? []
  return Math.round(Number(amount) * (units[unit] ?? Number.NaN))
}

/** `30s`, `6h` in milliseconds. */
export const durationMs = (text: string): number => scaled(text, milliseconds)

/** `2GB` in bytes; KB is 1000 bytes, KiB 1024. */
export const sizeBytes = (text: string): number => scaled(text, bytes)

/** `0.1%` as 0.001, without the tail binary division leaves. */
export const share = (text: string): number => Number((Number(text.replace('%', '')) / 100).toPrecision(12))

/** `0.1%`, `10` or `0.1%, 100`. A count alone allows any share. */
export const rejectLimit = (written: string | number): { rejectShare: number; rejectCount: number | null } => {
  const parts = String(written).split(',')
  const percent = parts.find((part) => part.includes('%'))
  const count = parts.find((part) => !part.includes('%'))
  return {
    rejectShare: percent === undefined ? 1 : share(percent.trim()),
    rejectCount: count === undefined ? null : Number(count.trim()),
  }
}
