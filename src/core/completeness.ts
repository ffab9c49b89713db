// What a service says about a whole answer; the loader proves the answer complete against it.
import { z } from 'zod'
import { redact } from './redact.ts'
import type { Fingerprint } from './types.ts'

const paidBefore = z.object({ askNumber: z.string(), pages: z.number(), credits: z.number() })

/** Pages that a walk paid for before it was stopped or killed. */
export type PaidBefore = z.infer<typeof paidBefore>

const sourceOrder = z.object({ sort: z.unknown(), asc: z.unknown() })

/** `unknown`: kept exactly as the service wrote them. */
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
  /** The same as text, where it is larger than a JavaScript number holds exactly. */
  dataPointsSaid: z.string().nullish(),
  /** Credits that the service charged, so that a restored ledger learns the price from the landing; null or undefined: it did not say. */
  usedQuota: z.number().nullish(),
  /** How many pages `usedQuota` is for: a resumed walk does not pay again for earlier pages; null or undefined: for all. */
  paidPages: z.number().nullish(),
  /** What the earlier pages cost, walk by walk. */
  earlier: z.array(paidBefore).readonly().nullish(),
  /** The dialect of the request; null or undefined: the service has only one. */
  dialect: z.string().nullish(),
  /** What was said of bytes with another checksum than their answer names, which came so twice; null or undefined: of none. */
  otherSums: z.string().nullish(),
  /** How the service says the records are sorted, as it wrote it (interface 2.2: `meta.query.sort` and `asc`). */
  order: sourceOrder.nullish(),
})

/** What the service said of the whole answer; the loader proves the unit complete against it. */
export type Completeness = z.infer<typeof completenessSchema>

/** The fingerprint as it is recorded: service keys masked. */
export const maskedFingerprint = ({ lastUpdated, count, dataVersion }: Fingerprint): Fingerprint => ({
  lastUpdated: lastUpdated === null ? null : redact(lastUpdated),
  count,
  dataVersion: dataVersion == null ? dataVersion : redact(dataVersion),
})

/** Whether the answer is unchanged since it was recorded. A count or version that one of the two lacks is not compared. */
export const isSameFingerprint = (seen: Fingerprint, recorded: Fingerprint): boolean => {
  const { lastUpdated, count, dataVersion } = maskedFingerprint(seen)
  return lastUpdated === recorded.lastUpdated && isAlike(count, recorded.count) && isAlike(dataVersion, recorded.dataVersion)
}

const isAlike = <T>(left: T | null | undefined, right: T | null | undefined): boolean =>
  left == null || right == null || left === right
