// One HTTP request and what came of it, as the client tells it and the ledger keeps it.
import type { PurchaseSize } from './learned-price.ts'

/** One request as the ledger keeps it, without secrets. */
export interface SentRequest {
  readonly account: string
  readonly method: string
  /** Its path below the service's base; never the address of a download. */
  readonly endpoint: string
  readonly parameters: Readonly<Record<string, unknown>>
  /** Part of the answer, from 1; null: the request brings none. */
  readonly part: number | null
  /** From 1. */
  readonly attempt: number
  /** HTTP status; null: no answer came. */
  readonly status: number | null
  readonly errorCode: string | null
  readonly bytes: number
  readonly sha256: string | null
  /** What it cost; null: it is free, or unknown. */
  credits: number | null
  /** What was bought, with the rows that came; null: the request is free, or certainly was not charged. */
  paidFor: PurchaseSize | null
  /** Where the service said the price; null: it did not, or the request is free. */
  saidIn: 'answer' | 'balance' | null
  /** No complete answer came, so it is not known whether the service charged the request. */
  readonly isUncertain: boolean
  /** Its answer is still being read and may still tell the price. */
  isOpen: boolean
  /** ISO time at which it was sent. */
  readonly startedAt: string
  readonly milliseconds: number
}
