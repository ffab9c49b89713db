// Paid pages: what a page may cost is reserved before its request, and its bill is booked once its answer is read.
import { docPage } from '../core/shipped.ts'
import { createSerialQueue, once } from '../core/clock.ts'
import { type EtlError, isEtlError, messageOf } from '../core/errors.ts'
import { creditsFor, rounded, type PurchaseSize, readableBill, unreadableBill } from '../core/learned-price.ts'
import type { UnitHttpOptions } from '../extract/http-types.ts'
import type { SourceContext } from '../extract/source.ts'
import { chargeLost, hasBudget, type Held, nothingHeld, type Payer, reservePages, setReserved } from '../ledger/budget.ts'
import type { PriceSubject } from '../ledger/prices.ts'
import { pagePrices } from '../plan/price.ts'
import type { LandedPages } from './landed-pages.ts'
import { beginPricingPage, endWalk, isPaid, type PaidAnswer } from './read-balance.ts'
import { type JobWork, withRequests } from './job-work.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'
import { buysNothing } from '../ledger/warehouse.ts'

export interface PaidPages {
  readonly paying: NonNullable<UnitHttpOptions['paying']>
  /** The sum of their bills; null: no page was paid for, or a bill is not known. */
  billed(): number | null
  /** How many were paid for. */
  paidPages(): number
  /** Ends the turn and gives back the reserved credits for which other runs may wait. */
  end(): Promise<void>
}

/** The paid pages of one job. @param context with which the balance is requested */
export const paidPages = (
  work: JobWork,
  payer: Payer,
  subject: PriceSubject,
  begun: LandedPages,
  context: () => SourceContext,
): PaidPages => {
  const reserver = hasBudget(payer) ? createReserver(work, payer) : null
  const turns = turnsOf((size) => beginPricingPage(work, context(), subject, size, reserver !== null))
  const bills: (number | null)[] = []
  return {
    paying: async (request, send) => {
      const here = await begun.page(request.part ?? 1, context().http.dialect ?? null)
      if (here !== null) return here
      const { mayNotBuy, box } = work.claim
      if (mayNotBuy !== null) throw buysNothing(box.key, mayNotBuy)
      await work.runtime.landing.room()
      const turn = turns.of(request.paidFor)
      let reserved: Reserved | undefined
      const begin = async (): Promise<void> => {
        await turn.begin()
        reserved = await reserver?.reserve(request.paidFor, request.part ?? 1)
        await turn.look()
      }
      /** Books the bill before others get the turn and the rest of the reserved credits. */
      const end = async (endTurn = turn.end): Promise<void> => {
        try {
          if (turn.isAlone() || reserver !== null) await retryWhileAway(work.runtime, work.signal, () => book(work))
        } finally {
          endTurn()
        }
        await reserved?.giveBack()
      }
      const keep = () => end().catch(unbooked(work))
      // An attempt that broke off may have been paid for, so the next one is another purchase.
      const again = async (): Promise<void> => {
        await end(turn.leave)
        await request.letOthers?.()
        await begin()
      }
      const told = async (answer: PaidAnswer, rows: number | null, credits: number | null): Promise<void> => {
        const { said, byBalance } = await billOf(work, turn, reserver, { rows, credits }, context)
        bills.push(said ?? byBalance)
        await answer.billed(rows, said, byBalance)
      }
      try {
        await begin()
        const answer = await send({ letOthers: again, onTurn: async () => reserved?.again() })
        if (isPaid(answer)) return { ...answer, billed: once((rows, credits) => told(answer, rows, credits).finally(keep)) }
        // A refused page costs nothing and shows no price: under a budget the next page is requested alone instead.
        await end(reserver === null ? turn.end : turn.leave)
        return answer
      } catch (error) {
        // The caller gets the error of the request: `keep` only logs its own.
        await keep()
        throw error
      }
    },
    billed: () => bills.reduce((sum, bill) => (sum === null || bill === null ? null : sum + bill), bills.length > 0 ? 0 : null),
    paidPages: () => bills.length,
    end: () => {
      turns.end()
      endWalk(work, subject)
      return reserver?.end() ?? Promise.resolve()
    },
  }
}

/** Turns in which pages of a job are requested alone; each turn ends once, whatever became of its page. @param take null: no page needs a turn any more */
const turnsOf = (take: (size: PurchaseSize) => ReturnType<typeof beginPricingPage>) => {
  const ends = new Set<() => void>()
  const of = (size: PurchaseSize) => {
    let alone: Awaited<ReturnType<typeof beginPricingPage>> = null
    const end = (): void => {
      if (ends.delete(end)) alone?.end()
    }
    return {
      begin: async (): Promise<void> => {
        alone = await take(size)
        ends.add(end)
      },
      isAlone: () => alone !== null,
      look: async (): Promise<void> => alone?.look(),
      /** What the page cost by the balance; null: it does not tell, or was not read. */
      bill: async (): Promise<number | null> => (await alone?.bill()) ?? null,
      end,
      /** Ends the turn of a page that is tried again or was refused. */
      leave: (): void => {
        if (ends.delete(end)) alone?.leave()
      },
    }
  }
  return {
    of,
    end: (): void => {
      for (const end of ends) end()
    },
  }
}

/** What a page cost by its answer, or by the balance; people are told of a bill that neither shows. */
const billOf = async (
  { claim }: JobWork,
  turn: { bill(): Promise<number | null> },
  reserver: { isBlind(): boolean } | null,
  { rows, credits }: { readonly rows: number | null; readonly credits: number | null },
  context: () => SourceContext,
) => {
  const said = readableBill(credits)
  const byBalance = said === null ? await turn.bill() : null
  // An answer that could not be read may have been free.
  const isUncounted = rows !== null && byBalance === null && reserver?.isBlind() === true
  const unread = said === null ? unreadWords(claim.box.key, credits, isUncounted) : null
  if (unread !== null) context().notice('BILL_UNREADABLE', unread)
  return { said, byBalance }
}

/** null: there is nothing to say. */
const unreadWords = (unitKey: string, credits: number | null, isUncounted: boolean): string | null => {
  const page = `${unitKey}, a page`
  if (credits !== null) return unreadableBill(page, credits)
  if (!isUncounted) return null
  return `${page}: neither the answer nor the balance says what it cost. Until a price is known no budget counts such pages; set one for the account (${docPage('credits.md')}, Prices).`
}

/** A page that arrived is kept even if the database is away; its credits stay reserved until the bill is on record. */
const unbooked =
  ({ runtime, claim }: JobWork) =>
  (error: unknown): void =>
    runtime.log.warn({ unit: claim.box.key, reason: messageOf(error) }, 'a paid page could not be recorded yet')

/** Records the answered requests, so that their bills count before anybody buys more. */
export const book = ({ runtime, requests }: JobWork): Promise<void> =>
  withRequests(
    runtime.database,
    requests,
    async () => undefined,
    ({ isOpen }) => !isOpen,
  )

/** Credits that are reserved for one page. */
interface Reserved {
  giveBack(): Promise<void>
  /** Call when the page's turn has come: a bill that was seen meanwhile may have shown that it costs more. */
  again(): Promise<void>
}

const createReserver = (work: JobWork, payer: Payer) => {
  const { runtime, claim } = work
  const { kysely } = runtime.database
  let held = nothingHeld
  /** The ledger may have reserved another sum: the reply to its commit was lost. */
  let isInDoubt = false
  let isBlind = false
  /** One at a time: each reservation is judged by what the earlier ones have taken. */
  const inTurn = createSerialQueue()
  let refused: EtlError | null = null
  let lost: Promise<void> | null = null
  const take = async (credits: number | null, takesAll = credits === null): Promise<Held> => {
    const page = { credits: credits ?? 0, takesAll }
    held = await retryWhileAway(runtime, work.signal, async () => {
      if (isInDoubt) await setReserved(kysely, claim, held)
      isInDoubt = true
      const all = await reservePages(kysely, claim, payer, { more: credits, takesAll, held, isBlind })
      isInDoubt = false
      return all
    })
    return page
  }
  const reserve = async (size: PurchaseSize, part: number): Promise<Reserved> => {
    // Pages are landed in order: after one that could not be paid for no later one is of use.
    if (refused !== null) throw refused
    const { page, unit } = await pricesOfWork(work, size)
    lost ??= chargeLost(kysely, claim, payer)
    await lost
    isBlind = page === null
    // The whole unit must fit into the budgets. One that fits into no day or month is bought page by page.
    if (part === 1 && unit !== null) await canHold(() => take(unit).then(giveBack)).catch(noMore)
    let taken = await takePage(page).catch(noMore)
    const again = async (): Promise<void> => {
      const { page: now } = await pricesOfWork(work, size)
      if (now === null || taken.takesAll || now.likely <= taken.credits) return
      const former = taken
      taken = nothingHeld
      await giveBack(former)
      taken = await takePage(now).catch(noMore)
    }
    return { giveBack: once(() => inTurn(() => giveBack(taken))), again: () => inTurn(again) }
  }
  const noMore = (error: unknown): never => {
    if (isEtlError(error)) refused = error
    throw error
  }
  /** Reserves the highest price that the bills allow. Where that does not fit, buys the page alone at the likely price: a budget is passed by one request at most. */
  const takePage = async (page: PagePrice | null): Promise<Held> => {
    try {
      return await take(page?.high ?? null)
    } catch (error) {
      if (page === null || page.likely >= page.high || !isEtlError(error) || error.code !== 'QUOTA_EXHAUSTED') throw error
      return take(page.likely, true)
    }
  }
  const giveBack = async ({ credits, takesAll }: Held): Promise<void> => {
    held = { credits: Math.max(0, rounded(held.credits - credits)), takesAll: held.takesAll && !takesAll }
    await retryWhileAway(runtime, work.signal, () => setReserved(kysely, claim, held))
  }
  return {
    /** Whether the price of the page is unknown. */
    isBlind: () => isBlind,
    reserve: (size: PurchaseSize, part: number) => inTurn(() => reserve(size, part)),
    end: async (): Promise<void> => {
      if (isInDoubt || held.credits > 0 || held.takesAll) await inTurn(() => giveBack(held))
    },
  }
}

const canHold = async (take: () => Promise<void>): Promise<void> => {
  await take().catch((error: unknown) => {
    if (!isEtlError(error) || error.code !== 'QUOTA_EXHAUSTED' || error.follows?.next !== 'split') throw error
  })
}

type PagePrice = NonNullable<Awaited<ReturnType<typeof pricesOfWork>>['page']>

/** What the page may cost, and what the unit is thought to cost; null: unknown. */
const pricesOfWork = async (work: JobWork, size: PurchaseSize) => {
  const { runtime } = work
  const { known, unit } = await pagePrices(runtime.database.kysely, runtime, work)
  const range = creditsFor(known, { ...size, rows: size.rowsAsked })
  const page = range === null || range.likely === null ? null : { high: range.high, likely: range.likely }
  return { page, unit: unit?.likely ?? null }
}
