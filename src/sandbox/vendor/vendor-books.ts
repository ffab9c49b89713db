// Records of requests, purchases and charges, and the balance of each purse.
import { randomUUID } from 'node:crypto'
import type { VendorSettings } from './vendor-options.ts'
import { chargeFor, type Price, type Priced } from './vendor-prices.ts'

type Purse = 'rest' | 'batch'

export type VendorReport = ReturnType<VendorBooks['take']>

/** A bought report. `text`: the files of all its tables, joined. */
export interface BoughtReport {
  readonly body: unknown
  readonly format: 'csv' | 'json'
  readonly text: string
  readonly rows: number
  readonly credits: number
}

export type VendorBooks = ReturnType<typeof openBooks>

export const openBooks = (settings: () => VendorSettings) => {
  const charges: { purse: Purse; what: string; size: Priced; credits: number }[] = []
  const reports = new Map<string, ReturnType<typeof takenNow>>()
  const spent = (purse: Purse): number => charges.reduce((sum, one) => sum + (one.purse === purse ? one.credits : 0), 0)
  const left = (purse: Purse): number | null => {
    const { purses, userCap } = settings()
    const whole = purse === 'batch' && userCap !== null ? Math.min(userCap, purses.batch ?? userCap) : purses[purse]
    return whole === null ? null : whole - spent(purse)
  }
  const isDone = ({ takenAtMs }: { readonly takenAtMs: number }): boolean => Date.now() - takenAtMs >= settings().reportMs
  return {
    charges,
    reports,
    counts: {} as Record<string, number>,
    /** How often each of `replies` was sent. */
    replaced: [] as number[],
    /** Requests with a key in their address. */
    keysInUrls: 0,
    left,
    /** Charges and returns the credits; null: the purse has too few, and nothing is charged. */
    charge: (purse: Purse, what: string, price: Price, size: Priced): number | null => {
      const credits = chargeFor(price, size)
      const rest = left(purse)
      if (rest !== null && credits > rest) return null
      charges.push({ purse, what, size, credits })
      return credits
    },
    take: (report: BoughtReport) => {
      const taken = takenNow(report)
      reports.set(taken.id, taken)
      return taken
    },
    pending: () => [...reports.values()].filter((report) => !isDone(report)).length,
    isDone,
  }
}

const takenNow = (report: BoughtReport) => ({ ...report, id: randomUUID(), takenAtMs: Date.now(), downloads: 0 })
