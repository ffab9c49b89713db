// The limits of a definition, as people write them and as numbers: times, sizes, shares and counts.
import { z } from 'zod'

/** A text of that form. @param error what is expected, in a few words */
export const pattern = (error: string, form: RegExp) => z.string({ error }).regex(form, { error })
/** @param error as for `pattern` */
export const whole = (error: string, least: number, most: number) => z.int({ error }).min(least, { error }).max(most, { error })

const milliseconds = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const bytes = { B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const

const scaled = (text: string, units: Readonly<Record<string, number>>): number => {
  const [, amount = '', unit = ''] = /^([\d.]+)([A-Za-z]+)$/.exec(text) ?? []
  return Math.round(Number(amount) * (units[unit] ?? Number.NaN))
}

/** `0.1%` as 0.001, without the rounding error of a binary division. */
const share = (text: string): number => Number((Number(text.replace('%', '')) / 100).toPrecision(12))

/** Reads `0.1%`, `10` or `0.1%, 100`. With a count alone any share is allowed. */
const rejectLimit = (written: string | number): { rejectShare: number; rejectCount: number | null } => {
  const parts = String(written).split(',')
  const percent = parts.find((part) => part.includes('%'))
  const count = parts.find((part) => !part.includes('%'))
  return {
    rejectShare: percent === undefined ? 1 : share(percent.trim()),
    rejectCount: count === undefined ? null : Number(count.trim()),
  }
}

/** In milliseconds. */
export const duration = pattern('a time such as 500ms, 30s, 5m or 6h', /^\d+(\.\d+)?(ms|s|m|h|d)$/).transform((text) =>
  scaled(text, milliseconds),
)
/** In bytes: KB is 1,000, KiB 1,024. */
export const size = pattern('a size such as 500MB or 2GB', /^\d+(\.\d+)?(B|KB|MB|GB|KiB|MiB|GiB)$/).transform((text) =>
  scaled(text, bytes),
)
/** From 0 to 1. */
export const percent = pattern('a share such as 50%', /^(100|\d{1,2}(\.\d+)?)%$/).transform(share)

export const numberFrom = (error: string, least: number) => z.number({ error }).min(least, { error })
const quota = whole('a whole number of credits', 0, Number.MAX_SAFE_INTEGER)

const rejectsExpected = "a share such as 0.1%, a count such as 10, or both as '0.1%, 100'"
export const rejects = z
  .union([z.int().min(0), pattern(rejectsExpected, /^((100|\d{1,2}(\.\d+)?)%|\d+|(100|\d{1,2}(\.\d+)?)%\s*,\s*\d+)$/)], {
    error: rejectsExpected,
  })
  .transform(rejectLimit)

const isSome = (amount: number): boolean => amount >= 1
const time = duration.refine(isSome, 'more than 0')
const defaultPollMaxMs = 60_000

export const limitsSchema = z
  .strictObject(
    {
      page_size: whole('a count of records, 1 to 100000', 1, 100_000).default(1000).describe('Records requested per page.'),
      max_pages: whole('a count of pages, at least 1', 1, 10_000_000).default(10_000).describe('Pages a unit may request.'),
      concurrency: whole('a count, 1 to 256', 1, 256).default(4).describe('Units or pages in flight at once in one process.'),
      timeout: time.prefault('30s').describe('Longest wait for an answer to one request.'),
      attempts: whole('a count, 1 to 100', 1, 100).default(5).describe('Attempts of a unit within a run.'),
      rejects: rejects
        .prefault('0.1%')
        .describe('Rejected rows allowed: a share (0.1%), a count (10), or both ("0.1%, 100": neither may be exceeded).'),
      shrink: percent.prefault('50%').describe('A unit that loses more than this share of its rows is held.'),
      walks: whole('a count, 1 to 100', 1, 100)
        .default(3)
        .describe('How often the pages are read from the start if they change meanwhile.'),
      poll_every: time.prefault('5s').describe('First wait between two polls of a report; grows up to poll_max.'),
      poll_max: time
        .optional()
        .describe('Longest wait between two polls of a report. Default 60s (poll_every where that is longer).'),
      deadline: time.prefault('6h').describe('How long one run waits for a report; it stays open for the next run.'),
      quota_per_month: quota
        .optional()
        .describe('Credits this pipeline may spend in a calendar month. Default: no limit of its own.'),
      quota_per_day: quota.optional().describe('Credits this pipeline may spend in a day. Default: no limit of its own.'),
      max_body: size.refine(isSome, 'more than 0').prefault('2GB').describe('Largest body accepted for one answer or report.'),
    },
    { error: 'a map of limits' },
  )
  .refine(({ poll_every, poll_max = poll_every }) => !(poll_max < poll_every), {
    path: ['poll_max'],
    error: 'at least poll_every, since it is the longest wait',
  })
  .transform((raw) => ({
    ...{ pageSize: raw.page_size, maxPages: raw.max_pages, concurrency: raw.concurrency },
    ...{ timeoutMs: raw.timeout, attempts: raw.attempts, ...raw.rejects, shrink: raw.shrink, walks: raw.walks },
    pollEveryMs: raw.poll_every,
    pollMaxMs: raw.poll_max ?? Math.max(raw.poll_every, defaultPollMaxMs),
    deadlineMs: raw.deadline,
    /** null: the pipeline has no limit of its own. */
    ...{ quotaPerMonth: raw.quota_per_month ?? null, quotaPerDay: raw.quota_per_day ?? null },
    maxBodyBytes: raw.max_body,
  }))

/** `rejectCount` null: the share alone decides. */
export type Limits = Readonly<z.infer<typeof limitsSchema>>

export const guardSchema = z
  .union(
    [
      z.literal('off').transform(() => null),
      z
        .strictObject({
          credits_per_night: quota
            .optional()
            .describe(
              'Nightly limit in credits; new purchases above it wait for approval. Default: from the cost of recent nights.',
            ),
          factor: numberFrom('a number from 1 on', 1)
            .max(1000, { error: 'a number up to 1000' })
            .optional()
            .describe('The nightly limit as a multiple of the usual cost. Default 2.'),
        })
        .transform(({ credits_per_night: creditsPerNight = null, factor = 2 }) => ({ creditsPerNight, factor })),
    ],
    { error: 'off, or a map such as { credits_per_night: 500 } or { factor: 3 }' },
  )
  .describe('What a night may buy without approval. Default: twice the cost of recent nights, and at least one report.')
  .optional()
  .transform((rule = { creditsPerNight: null, factor: 2 }) => rule)

/** What a night may buy without an approval; see plan/guard.ts. `creditsPerNight` null: `factor` times the cost of earlier nights. */
export type GuardRule = Readonly<NonNullable<z.infer<typeof guardSchema>>>
