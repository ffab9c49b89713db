// limits of a definition as numbers.
import type { Limits } from '../core/types.ts'
import { durationMs, rejectLimit, share, sizeBytes } from './quantities.ts'
import type { RawDefinition } from './schema.ts'
import { report, type Scope } from './scope.ts'

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
    if (amount < 1) report(scope, ['limits', name], `limits.${name} is nothing; write more than 0.`)
  }
  if (limits.pollMaxMs < limits.pollEveryMs) {
    report(scope, ['limits', 'poll_max'], 'limits.poll_max is shorter than limits.poll_every; it is the longest wait, swap them.')
  }
  return limits
}
