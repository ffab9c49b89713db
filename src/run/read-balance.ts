// Reads the balance of an account before and after requests that are paid for one by one, so that spent credits agree with the service's own count.
import { raceAbort } from '../core/clock.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import { docPage } from '../core/shipped.ts'
import { rounded, isPriceCertain, type PurchaseSize } from '../core/learned-price.ts'
import { apiNameOf } from '../core/source-spec.ts'
import type { Definition } from '../core/types.ts'
import { cancelOn } from '../db/stoppable.ts'
import { chargesOf, hasReading, isOnlySpender, keepReading } from '../ledger/spent.ts'
import { dropBalancePrices, type PriceSubject, priceKnown } from '../ledger/prices.ts'
import { accountsOf } from './apis.ts'
import type { Runtime } from './runtime.ts'
import type { HttpAnswer } from '../extract/http-types.ts'
import type { Balance, SourceContext } from '../extract/source.ts'
import { probeContext, sourceOf } from '../plan/plan-context.ts'
import type { JobWork } from './job-work.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'

/** Reading is free. Neither a night nor a command that must stop waits longer for it, for instance while the ledger is locked. */
const meterMs = 10_000

/** Reads before the first paid request of a month, to have something to compare with, and after a run. While other processes buy, nothing can be compared: the last of them reads. */
export const readBalances = async (
  runtime: Runtime,
  definitions: readonly Definition[],
  signal: AbortSignal,
  when: 'before' | 'after',
): Promise<void> => {
  const { sources, log, database } = runtime
  const withBalance = definitions.filter(({ source }) => sources.get(source)?.balance !== undefined)
  for (const { definitions: group } of accountsOf(withBalance)) {
    const [first] = group
    if (first === undefined || signal.aborted) continue
    const read = async (): Promise<void> => {
      if (when === 'after' || !(await hasReading(database.kysely, meterOf(first)))) await recordReading(runtime, first, signal)
    }
    const soon = AbortSignal.any([signal, AbortSignal.timeout(meterMs / 2)])
    await cancelOn(soon, read).catch((error: unknown) =>
      log.info(
        { account: first.account, error: messageOf(error) },
        'the service did not say what is left; credits are counted by price',
      ),
    )
  }
}

const meterOf = ({ source, account, pipeline }: Definition) => ({ api: apiNameOf(source), account, pipeline })

const recordReading = async (runtime: Runtime, definition: Definition, stop: AbortSignal): Promise<void> => {
  const { database, progress } = runtime
  const of = meterOf(definition)
  const before = await chargesOf(database.kysely, of)
  if (!before.isQuiet) return
  const left = await readBalance(runtime, definition, AbortSignal.any([stop, AbortSignal.timeout(meterMs)]))
  const after = await chargesOf(database.kysely, of)
  if (left === null || !after.isQuiet || after.requests !== before.requests || after.reports !== before.reports) return
  const difference = await keepReading(database.kysely, of, left, after)
  if (difference === null || difference === 0) return
  // A price that is known from the balance alone may have changed.
  const isUnknownNow = await dropBalancePrices(database.kysely, of.account)
  forgetLonePages(database)
  const message =
    difference > 0
      ? `${of.api}, account ${of.account}: the service charged ${difference} credits that no recorded request explains: a price was unknown or has changed, others use the key, or a process was killed.`
      : `${of.api}, account ${of.account}: the service charged ${-difference} credits less than its prices say; interrupted requests may have been free.`
  progress.emit({
    event: 'notice',
    code: 'CREDITS_DIFFER',
    message: `${message} \`millrace quota\` shows them apart.${isUnknownNow ? unknownNow : ''}`,
  })
}

const unknownNow = ` The price of a page, known from the balance only, is unknown from now on; how to set a price: ${docPage('credits.md')}.`

type Learning = ReturnType<typeof newLearning>

/** What this process knows of one dataset. */
const newLearning = () => ({
  /** The price is settled, or there is no way to see it. */
  isOver: false,
  /** A page that was requested alone is in flight. */
  isAtIt: false,
  /** Job whose pages are requested alone, one after the other: its last page is of another size than the first. null: any job. */
  walk: null as number | null,
  /** Wakes the pages that wait for their turn. */
  waiting: [] as (() => void)[],
  /** Pages that were asked for alone. */
  alone: 0,
  /** Whether people were told of an unreadable bill. */
  isUnreadableSaid: false,
})

/** After so many pages alone the balance will not tell the price. */
const mostAlone = 5

/** By warehouse, since that is where prices are on record. */
const known = new WeakMap<object, Map<string, Learning>>()

const learningOf = (database: object, { account, dataset }: PriceSubject): Learning => {
  const all = known.get(database) ?? new Map<string, Learning>()
  known.set(database, all)
  const key = `${account} ${dataset}`
  const learning = all.get(key) ?? newLearning()
  all.set(key, learning)
  return learning
}

/** Whether an unreadable bill is the first one of the dataset: the others say the same. */
export const isFirstUnreadable = (database: object, subject: PriceSubject): boolean => {
  const learning = learningOf(database, subject)
  const isFirst = !learning.isUnreadableSaid
  learning.isUnreadableSaid = true
  return isFirst
}

/** Another price was seen: the next pages are asked for alone again. */
const forgetLonePages = (database: object): void => {
  for (const learning of known.get(database)?.values() ?? [])
    Object.assign(learning, { isOver: false, alone: 0, isUnreadableSaid: false })
}

/** Waits for a turn: one page at a time is requested alone, and all of one walk before another's. null: no page needs a turn any more. */
const takeTurn = async (learning: Learning, { claim: { jobId, box }, signal }: JobWork) => {
  const isOthers = (): boolean => learning.isAtIt || (learning.walk !== null && learning.walk !== jobId)
  while (!learning.isOver && isOthers())
    await raceAbort(new Promise<void>((resolve) => learning.waiting.push(resolve)), signal).catch((cause: unknown) => {
      throw new EtlError('INTERRUPTED', `${box.key}: stopped while it waited for the bill of another page.`, { cause })
    })
  if (learning.isOver) return null
  learning.isAtIt = true
  learning.walk = jobId
  return (): void => {
    if (learning.alone >= mostAlone) learning.isOver = true
    learning.isAtIt = false
    wake(learning)
  }
}

const wake = ({ waiting }: Learning): void => {
  for (const go of waiting.splice(0)) go()
}

/** Call once the walk requests no more pages: then another walk may request its pages alone. */
export const endWalk = ({ runtime, claim }: JobWork, subject: PriceSubject): void => {
  const learning = learningOf(runtime.database, subject)
  if (learning.walk === claim.jobId) learning.walk = null
  wake(learning)
}

/** Begins a page whose bill may settle the price, once no other page and no other walk of this process does so. null: the price is settled, or nothing can show it. @param isBudgeted others wait for its bill */
export const beginPricingPage = async (
  work: JobWork,
  context: SourceContext,
  subject: PriceSubject,
  size: PurchaseSize,
  isBudgeted: boolean,
) => {
  const { runtime, claim } = work
  const learning = learningOf(runtime.database, subject)
  const end = await takeTurn(learning, work)
  if (end === null) return null
  try {
    const { kysely } = runtime.database
    // A price that is set may be wrong, too.
    if (isPriceCertain(await priceKnown(kysely, subject), size)) {
      learning.isOver = true
      end()
      return null
    }
    const read = (): Promise<Balance | null> => readAlone(work, context, isBudgeted ? mostLooks : 1)
    let before: Balance | null = null
    let isLooking = false
    return {
      /** Reads the balance right before the request: by then the page's credits are reserved, and no other walk under that budget requests pages. */
      look: async (): Promise<void> => {
        isLooking = true
        learning.alone += 1
        before = await read()
      },
      /** What it cost by the balance; null: the balance does not tell. */
      bill: async (): Promise<number | null> => {
        // The page has arrived and is kept, even if the database is away.
        const now = before === null ? null : await retryWhileAway(runtime, work.signal, read).catch(unread(work))
        return before === null || now === null ? null : costOf(before, now)
      },
      /** Gives the turn to others. Call once, also where no page came. */
      end,
      /** The same before a retry or after a refusal: no page came, so it does not count. */
      leave: (): void => {
        if (isLooking) learning.alone -= 1
        end()
        endWalk(work, subject)
      },
    }
  } catch (error) {
    end()
    endWalk(work, subject)
    runtime.log.info({ job_id: claim.jobId, error: messageOf(error) }, 'the price is not known')
    throw error
  }
}

const unread =
  ({ runtime, claim }: JobWork) =>
  (error: unknown): null => {
    runtime.log.warn({ unit: claim.box.key, reason: messageOf(error) }, 'the bill of a page could not be read from the balance')
    return null
  }

/** The balance of an account; null: the service does not say. One attempt, which is not recorded: it is no work of the run, nor of a preview. */
const readBalance = async (
  runtime: Pick<Runtime, 'sources' | 'service' | 'log' | 'clock'>,
  definition: Definition,
  signal: AbortSignal,
): Promise<Balance | null> => {
  const { balance } = sourceOf(runtime, definition)
  return (await balance?.(probeContext(runtime, definition, { signal, attempts: 1, record: () => undefined }))) ?? null
}

/** Commands that wait for a budget claim a job and give it back each second: so many reads find a moment at which none is at work. */
const mostLooks = 8
const betweenLooksMs = 250

/** The balance while no other process is at work; null: the service does not say, or others are. */
const readAlone = async (
  { runtime, source, claim, definition }: JobWork,
  { signal }: SourceContext,
  looks: number,
): Promise<Balance | null> => {
  if (source.balance === undefined) return null
  const { account, pipeline } = definition
  for (let look = 1; ; look += 1) {
    const left = await readBalance(runtime, definition, signal).catch((): null => null)
    // Reports are paid from another balance where the two are not the same number (fact 49).
    const hasOwnBalance = left !== null && left.requests !== null && left.credits !== null && left.requests !== left.credits
    const own = { processId: claim.holder, source: definition.source, hasOwnBalance }
    if (await isOnlySpender(runtime.database.kysely, { account, pipeline }, own)) return left
    if (left === null || look >= looks) return null
    await runtime.clock.sleep(betweenLooksMs, signal)
  }
}

/** Credits between two readings; null: unknown. Where only the balance of reports is known and it stays, pages may be paid from another balance (fact 49). */
const costOf = (before: Balance, now: Balance): number | null => {
  const counter = before.requests === null && now.requests === null ? 'credits' : 'requests'
  const [was, is] = [before[counter], now[counter]]
  if (was === null || is === null || is > was) return null
  return is === was && counter === 'credits' ? null : rounded(was - is)
}

export type PaidAnswer = HttpAnswer & Required<Pick<HttpAnswer, 'billed'>>

/** Whether an answer is paid for. */
export const isPaid = (answer: HttpAnswer): answer is PaidAnswer => answer.billed !== undefined
