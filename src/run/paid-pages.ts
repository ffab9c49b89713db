// Pages that are paid for: what each may cost is set aside before it is asked for, and its bill is booked when it is read; those of a walk that was stopped or killed are kept.
import { docPage } from '../core/shipped.ts'
import { asksOf } from '../core/asks.ts'
import { createTurns } from '../core/clock.ts'
import { type EtlError, isEtlError } from '../core/errors.ts'
import { creditsFor, type PurchaseSize, readableBill, unreadableBill } from '../core/learned-price.ts'
import type { UnitHttpOptions, HttpAnswer } from '../extract/http-types.ts'
import type { SourceContext } from '../extract/source.ts'
import { bookLost, hasBudget, type Payer, reservePages, setReserved } from '../ledger/budget.ts'
import type { PriceSubject } from '../ledger/prices.ts'
import { pagePrices } from '../plan/price.ts'
import { beginAlone, isPaid } from './read-balance.ts'
import { type JobWork, withRequests } from './job-work.ts'
import type { Payload } from '../core/types.ts'
import type { Completeness } from '../core/completeness.ts'
import { begunLandings, setClaimed } from '../ledger/claim-fence.ts'
import { assertMayBuy } from '../ledger/warehouse.ts'

export interface PaidPages {
  readonly paying: NonNullable<UnitHttpOptions['paying']>
  /** What their bills said together; null: none was paid for, or not all have said. */
  billed(): number | null
  /** How many were paid for. */
  paidPages(): number
  /** Runs that wait for this job's page or its money wait no longer. */
  end(): Promise<void>
}

/** Of one job. @param context to ask the balance with */
export const paidPages = (
  work: JobWork,
  payer: Payer,
  subject: PriceSubject,
  begun: BegunWalk,
  context: () => SourceContext,
): PaidPages => {
  const purse = hasBudget(payer) ? purseOf(work, payer) : null
  const ends = new Set<() => void>()
  const bills: (number | null)[] = []
  let mayBuy: Promise<void> | null = null
  return {
    paying: async (request, send) => {
      // Looks at one record are of no walk.
      const here = request.paidFor.rowsAsked === 1 ? null : await begun.page(request.part ?? 1, context().http.dialect ?? null)
      if (here !== null) return here
      mayBuy ??= assertMayBuy(work.runtime.database.kysely, work.claim.box.key)
      await mayBuy
      let alone = await beginAlone(work, context(), subject, request.paidFor, purse !== null)
      const end = (): void => {
        if (ends.delete(end)) alone?.end()
      }
      ends.add(end)
      const letOthers = async (): Promise<void> => {
        if (ends.delete(end)) alone?.leave()
        await request.letOthers?.()
        alone = await beginAlone(work, context(), subject, request.paidFor, purse !== null)
        ends.add(end)
        await alone?.look()
      }
      try {
        const back = await purse?.reserve(request.paidFor, request.part ?? 1)
        const sent = Promise.resolve(alone?.look()).then(() => send(letOthers))
        const answer = await sent.catch(async (error: unknown) => {
          await back?.()
          throw error
        })
        if (!isPaid(answer)) {
          end()
          await back?.()
          return answer
        }
        return {
          ...answer,
          billed: async (rows, credits) => {
            const said = readableBill(credits)
            const byBalance = said === null ? ((await alone?.bill()) ?? null) : null
            const unread =
              said === null ? unreadWords(work.claim.box.key, credits, byBalance === null && purse?.isBlind() === true) : null
            if (unread !== null) context().notice('BILL_UNREADABLE', unread)
            bills.push(said ?? byBalance)
            await answer.billed(rows, said, byBalance)
            if (alone !== null || purse !== null) await book(work)
            end()
            await back?.()
          },
        }
      } catch (error) {
        end()
        throw error
      }
    },
    billed: () => bills.reduce((sum, bill) => (sum === null || bill === null ? null : sum + bill), bills.length > 0 ? 0 : null),
    paidPages: () => bills.length,
    end: async () => {
      for (const end of ends) end()
      await purse?.end()
    },
  }
}

/** null: there is nothing to say. */
const unreadWords = (unitKey: string, credits: number | null, isUncounted: boolean): string | null => {
  const page = `${unitKey}, a page`
  if (credits !== null) return unreadableBill(page, credits)
  if (!isUncounted) return null
  return `${page}: neither the answer nor the balance says what it cost. Until a price is known no budget counts such pages; set one for the account (${docPage('credits.md')}, Prices).`
}

/** What was paid so far is on record before anybody buys more. */
export const book = ({ runtime, requests }: JobWork): Promise<void> =>
  withRequests(
    runtime.database,
    requests,
    async () => undefined,
    ({ paidFor }) => paidFor === null || paidFor.rows !== null,
  )

const purseOf = (work: JobWork, payer: Payer) => {
  const { runtime, claim } = work
  const { kysely } = runtime.database
  let reserved = 0
  let isBlind = false
  /** One after the other: what a page needs is judged by what those before it have taken. */
  const inTurn = createTurns()
  let refused: EtlError | null = null
  let lost: Promise<void> | null = null
  const take = async (credits: number | null): Promise<void> => {
    await reservePages(kysely, claim, payer, { more: credits, reserved, isBlind })
    reserved = credits === null ? Number.POSITIVE_INFINITY : reserved + credits
  }
  const reserve = async (size: PurchaseSize, part: number): Promise<() => Promise<void>> => {
    // Pages are landed in order: after one that could not be paid for no later one is of use.
    if (refused !== null) throw refused
    const { page, unit } = await pricesOfWork(work, size)
    lost ??= bookLost(kysely, claim, payer)
    await lost
    isBlind = page === null
    try {
      // A unit that does not fit into any day or month is bought page by page.
      if (part === 1 && unit !== null) await canHold(() => take(unit).then(() => giveBack(unit)))
      const taken = await takePage(page)
      return () => inTurn(() => giveBack(taken))
    } catch (error) {
      if (isEtlError(error)) refused = error
      throw error
    }
  }
  /** Where the dearest reading of the bills does not fit, the page is bought alone at the likely one: a budget is passed by one request at most. */
  const takePage = async (page: PagePrice | null): Promise<number | null> => {
    try {
      await take(page?.high ?? null)
      return page?.high ?? null
    } catch (error) {
      if (page === null || page.likely >= page.high || !isEtlError(error) || error.code !== 'QUOTA_EXHAUSTED') throw error
      await take(page.likely)
      await giveBack(page.likely)
      await take(null)
      return null
    }
  }
  const giveBack = async (credits: number | null): Promise<void> => {
    reserved = credits === null ? 0 : Math.max(0, reserved - credits)
    await setReserved(kysely, claim, reserved)
  }
  return {
    /** The price of the page is not known. */
    isBlind: () => isBlind,
    reserve: (size: PurchaseSize, part: number) => inTurn(() => reserve(size, part)),
    end: async (): Promise<void> => {
      if (reserved > 0) await inTurn(() => giveBack(null))
    },
  }
}

const canHold = async (take: () => Promise<void>): Promise<void> => {
  await take().catch((error: unknown) => {
    if (!isEtlError(error) || error.code !== 'QUOTA_EXHAUSTED' || error.follows?.next !== 'split') throw error
  })
}

interface PagePrice {
  readonly high: number
  readonly likely: number
}

/** What the page may cost, and what the unit is thought to cost; null: unknown. */
const pricesOfWork = async (work: JobWork, size: PurchaseSize) => {
  const { runtime } = work
  const { known, unit } = await pagePrices(runtime.database.kysely, runtime, work)
  const range = creditsFor(known, { ...size, rows: size.rowsAsked })
  const page = range === null || range.likely === null ? null : { high: range.high, likely: range.likely }
  return { page, unit: unit?.likely ?? null }
}

/** Of no answer: more records are missing than any could have. */
export const begunOnly: Completeness = {
  fingerprint: { lastUpdated: null, count: null },
  expectedRows: Number.MAX_SAFE_INTEGER,
  dataPoints: null,
}

export const isBegunOnly = ({ expectedRows }: Pick<Completeness, 'expectedRows'>): boolean =>
  expectedRows === begunOnly.expectedRows

/**
 * What a job's walk has landed before it was stopped or killed. Nothing of it is removed here: a copy of this warehouse may read, or have finished, what its
 * ledger names as begun. Retention removes what no job and no answer names.
 */
export const begunWalk = ({ runtime, claim, definition }: JobWork) => {
  const { kysely } = runtime.database
  let locators: readonly string[] = []
  const openOne = async (locator: string, dialect: string | null): Promise<AsyncIterator<Payload> | null> => {
    // Read to its end also when the walk is stopped: what is left of it is kept.
    const landing = await runtime.landing.open(locator)
    // Other parameters, or another dialect, than these pages were asked for with: they answer another question, or in other words.
    const { question, completeness } = landing.manifest
    if (question?.asks !== asksOf(definition) || (completeness.dialect ?? null) !== dialect) return null
    return landing.parts()[Symbol.asyncIterator]()
  }
  const open = async (dialect: string | null): Promise<AsyncIterator<Payload> | null> => {
    locators = claim.kind === 'walk' && claim.askNumber !== null ? await begunLandings(kysely, claim) : []
    const opened: AsyncIterator<Payload>[] = []
    for (const locator of locators) {
      const parts = await openOne(locator, dialect).catch(unreadable)
      if (parts !== null) opened.push(parts)
    }
    return opened.length === 0 ? null : mergedParts(opened)
  }
  const name = async (all: readonly string[]): Promise<void> => {
    locators = all
    await setClaimed(kysely, claim, { begun_landing: all.length === 0 ? null : all.join(' ') })
  }
  /** Pages are asked for in their order, and read one after the other. */
  const inTurn = createTurns()
  const kept = keptParts(open)
  return {
    /** A page that was landed before; null: it is to be asked for. */
    page: (part: number, dialect: string | null): Promise<HttpAnswer | null> => inTurn(() => kept.page(part, dialect)),
    /** Whether pages that were landed before were not asked for yet. */
    hasMore: (): Promise<boolean> => inTurn(async () => (await kept.first()) !== null),
    /** Those pages. Each is read before the next. */
    rest: kept.rest,
    /** What came so far is kept in place of what was kept before, or beside it. @param isAmid not all of that is among what came */
    keep: async (landing: string, isAmid = false): Promise<void> => {
      if (!isAmid) kept.letGo()
      await name(isAmid ? [landing, ...locators] : [landing])
    },
    /** The walk is over, or begins anew. */
    drop: async (): Promise<void> => {
      kept.letGo()
      if (locators.length > 0) await name([])
    },
  }
}

/** What cannot be read back is asked for. */
const unreadable = (error: unknown): null => {
  if (!isEtlError(error) || !error.code.startsWith('LANDING_')) throw error
  return null
}

/** Parts of several landings of one walk by increasing number, one of each: each landing has its own in that order. Each is read before the next. */
async function* mergedParts(landings: readonly AsyncIterator<Payload>[]): AsyncGenerator<Payload> {
  const heads = await Promise.all(landings.map((parts) => parts.next()))
  for (;;) {
    const here = heads.flatMap(({ done, value }, at) => (done === true ? [] : [{ at, part: value as Payload }]))
    const next = Math.min(...here.map(({ part: { part } }) => part))
    if (here.length === 0) return
    let isGiven = false
    for (const { at, part } of here.filter(({ part: { part } }) => part === next)) {
      if (isGiven) for await (const _ of part.body);
      else yield part
      isGiven = true
      heads[at] = (await landings[at]?.next()) ?? { done: true, value: undefined }
    }
  }
}

/** The parts of a landing, by increasing number, each read once. One in between may be missing: it was never paid for. @param open null: there are none */
const keptParts = (open: (dialect: string | null) => Promise<AsyncIterator<Payload> | null>) => {
  let parts: Promise<AsyncIterator<Payload> | null> | null = null
  let next: IteratorResult<Payload> | null = null
  const letGo = (): void => {
    next = null
    parts = Promise.resolve(null)
  }
  const unread = (error: unknown): null => {
    const none = unreadable(error)
    letGo()
    return none
  }
  /** That was not asked for yet; null: there is none. */
  const first = async (): Promise<Payload | null> => {
    next ??= (await parts?.then((kept) => kept?.next() ?? null).catch(unread)) ?? null
    return next === null || next.done === true ? null : next.value
  }
  const take = async (part: number): Promise<HttpAnswer | null> => {
    const here = await first()
    if (here === null || here.part > part) return null
    const bytes = Buffer.concat(await Array.fromAsync(here.body))
    next = null
    return here.part === part ? { status: 200, contentType: 'application/json', bytes } : null
  }
  return {
    first,
    letGo,
    page: (part: number, dialect: string | null): Promise<HttpAnswer | null> => {
      parts ??= open(dialect)
      return take(part).catch(unread)
    },
    /** Those that were not asked for yet. Each is read before the next. */
    async *rest(): AsyncGenerator<Payload> {
      for (let here = await first(); here !== null; here = await first()) {
        next = null
        yield here
      }
    },
  }
}

export type BegunWalk = ReturnType<typeof begunWalk>
