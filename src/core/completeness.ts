// What proves a unit's answer complete.
import { z } from 'zod'
import { redact } from './redact.ts'
import type { Fingerprint } from './types.ts'

const paidBefore = z.object({ askNumber: z.string(), pages: z.number(), credits: z.number() })

/** Pages that a walk paid for before it was stopped or killed. */
export type PaidBefore = z.infer<typeof paidBefore>

const sourceOrder = z.object({ sort: z.unknown(), asc: z.unknown() })

/** Of unknown types where they are not null. */
export type SourceOrder = z.infer<typeof sourceOrder>

/** As the manifest of a landing holds it. */
export const completenessSchema = z.object({
  fingerprint: z.object({
    lastUpdated: z.string().nullable(),
    count: z.number().nullable(),
    dataVersion: z.string().nullish(),
  }),
  /** Distinct records the service announces; null where it announces none (reports). */
  expectedRows: z.number().nullable(),
  /** Data points the service counts in the report; null where it does not say. What it counts is learnt: see ledger/data-points.ts. */
  dataPoints: z.number().nullable(),
  /** The same in the service's digits, where it is more than a number holds. */
  dataPointsSaid: z.string().nullish(),
  /** Credits the service charged for it, so that a ledger that has forgotten the purchase knows its price; null or undefined: it did not say. */
  usedQuota: z.number().nullish(),
  /** For how many pages it was charged: those of a walk before that it goes on from were paid for then; null or undefined: for all. */
  paidPages: z.number().nullish(),
  /** What those were charged, walk by walk. */
  earlier: z.array(paidBefore).readonly().nullish(),
  /** The dialect it was asked in; null or undefined: its service has one. */
  dialect: z.string().nullish(),
  /** What was said of bytes with another checksum than their answer names, which came so twice; null or undefined: of none. */
  otherSums: z.string().nullish(),
  /** How the service says the records are sorted, as it wrote it (interface 2.2: `meta.query.sort` and `asc`). */
  order: sourceOrder.nullish(),
})

/** What the service said of the whole answer; the loader proves the unit complete against it. */
export type Completeness = z.infer<typeof completenessSchema>

/** As it goes on record. */
export const maskedFingerprint = ({ lastUpdated, count, dataVersion }: Fingerprint): Fingerprint => ({
  lastUpdated: lastUpdated === null ? null : redact(lastUpdated),
  count,
  dataVersion: dataVersion == null ? dataVersion : redact(dataVersion),
})

/** Whether nothing changed since it went on record. What one of both does not name, count or version, says nothing. */
export const isSameFingerprint = (seen: Fingerprint, recorded: Fingerprint): boolean => {
  const { lastUpdated, count, dataVersion } = maskedFingerprint(seen)
  return lastUpdated === recorded.lastUpdated && isAlike(count, recorded.count) && isAlike(dataVersion, recorded.dataVersion)
}

const isAlike = <T>(left: T | null | undefined, right: T | null | undefined): boolean =>
  left == null || right == null || left === right
