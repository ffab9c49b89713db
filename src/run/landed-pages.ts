// Paid pages of a walk that was stopped or killed: the walk that resumes reads the landings that its job names as begun, and buys none of them again.
import { requestDigest } from '../core/request-digest.ts'
import { createSerialQueue } from '../core/clock.ts'
import type { Completeness, PaidBefore } from '../core/completeness.ts'
import type { Payload } from '../core/types.ts'
import type { HttpAnswer } from '../extract/http-types.ts'
import type { Manifest } from '../extract/landing-files.ts'
import { isLost, unlessLost } from '../extract/landing-reader.ts'
import { setClaimed } from '../ledger/claim-fence.ts'
import type { JobWork } from './job-work.ts'
import { retryWhileAway } from '../db/retry-while-away.ts'

/** Marks the landing of a begun walk: no answer expects so many records. */
export const unfinished: Completeness = {
  fingerprint: { lastUpdated: null, count: null },
  expectedRows: Number.MAX_SAFE_INTEGER,
  dataPoints: null,
}

export const isBegunOnly = ({ expectedRows }: Pick<Completeness, 'expectedRows'>): boolean =>
  expectedRows === unfinished.expectedRows

/**
 * The pages that a job's walk landed before it was stopped or killed. Nothing is removed here: a copy of this warehouse may still read these landings, or
 * may have finished them as answers. Retention removes landings that no job and no answer names.
 */
export const landedPages = ({ runtime, claim, definition, unnamed, signal }: JobWork) => {
  const { kysely } = runtime.database
  let locators = claim.begun
  /** Landings whose pages were requested with other parameters or in another dialect: a walk that requests the same way resumes from them. */
  let others: readonly string[] = []
  const paidBefore = new Map<string, PaidBefore>()
  const open = async (dialect: string | null): Promise<AsyncIterator<Payload> | null> => {
    const asked = { asks: requestDigest(definition), dialect }
    const opened: (readonly [string, AsyncIterator<Payload>])[] = []
    for (const locator of claim.begun) {
      // Opened without the signal: after a stop the rest is still read, since it is kept.
      const landing = await runtime.landing.open(locator).catch(unlessLost)
      if (landing === null) continue
      if (isAskedSo(landing.manifest, asked)) {
        opened.push([locator, landing.parts()[Symbol.asyncIterator]()])
        for (const paid of paidFor(landing.manifest)) paidBefore.set(paid.askNumber, paid)
      } else others = [...others, locator]
    }
    locators = opened.map(([locator]) => locator)
    return opened.length === 0 ? null : mergedParts(opened.map(([, parts]) => parts))
  }
  const name = async (all: readonly string[]): Promise<void> => {
    locators = all
    const named = [...all, ...others]
    for (const locator of named) unnamed.add(locator)
    await retryWhileAway(runtime, signal, () => setClaimed(kysely, claim, { begun_landing: named.join(' ') || null }))
    unnamed.clear()
  }
  /** Pages are asked for in their order, and read one after the other. */
  const inTurn = createSerialQueue()
  const kept = keptParts(open)
  let isLooking = false
  return {
    /** A page that was landed before; null: it must be requested. */
    page: async (part: number, dialect: string | null): Promise<HttpAnswer | null> =>
      isLooking ? null : inTurn(() => kept.page(part, dialect)),
    /** What `ask` requests (a probe) is no part of a walk, so landed pages must not answer it. By its size it looks like the last page of a walk. */
    look: async <T>(ask: () => Promise<T>): Promise<T> => {
      isLooking = true
      return ask().finally(() => {
        isLooking = false
      })
    },
    /** What earlier walks paid for, as far as their landings say. */
    paidBefore: (): PaidBefore[] => [...paidBefore.values()],
    /** Whether there are landed pages that were not requested yet. */
    hasMore: (): Promise<boolean> => inTurn(async () => (await kept.first()) !== null),
    /** The landed pages that were not requested yet. Read each before the next. */
    rest: kept.rest,
    /** Names `landing` as begun, in place of the earlier landings. @param isAmid it lacks pages of the earlier ones, so they stay named beside it */
    keep: async (landing: string, isAmid = kept.isAway()): Promise<void> => {
      if (!isAmid) kept.letGo()
      await name(isAmid ? [landing, ...locators] : [landing])
    },
    /** The walk begins anew. */
    restart: async (): Promise<void> => {
      kept.letGo()
      if (locators.length > 0) await name([])
    },
    /** The walk is over. */
    drop: async (): Promise<void> => {
      kept.letGo()
      const named = locators.length + others.length
      others = []
      if (named > 0) await name([])
    },
  }
}

/** What a walk, and the walks that it resumed, paid for. */
export const paidFor = ({ ask_number: askNumber, parts, completeness }: Manifest): PaidBefore[] => {
  const { usedQuota: credits = null, paidPages, earlier } = completeness
  return [...(earlier ?? []), ...(credits === null ? [] : [{ askNumber, pages: paidPages ?? parts.length, credits }])]
}

const isAskedSo = (
  { question, completeness }: Manifest,
  { asks, dialect }: { readonly asks: string; readonly dialect: string | null },
): boolean => question?.asks === asks && (completeness.dialect ?? null) === dialect

/** Merges the landings of one walk, each of which is in the order of part numbers; each part comes once. Read each part before the next. */
async function* mergedParts(landings: readonly AsyncIterator<Payload>[]): AsyncGenerator<Payload> {
  const heads = await Promise.all(landings.map((parts) => parts.next()))
  for (;;) {
    const here = heads.flatMap((head, at) => (head.done === true ? [] : [{ at, part: head.value }]))
    if (here.length === 0) return
    const next = Math.min(...here.map(({ part: { part } }) => part))
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
  let isAway = false
  /** A landing that cannot be read now may hold this page and any later one: each throws instead of being bought. Another attempt reads it anew. */
  const unread = (error: unknown): null => {
    if (isLost(error)) letGo()
    else {
      ;[isAway, next, parts] = [true, null, Promise.reject(error)]
      parts.catch(() => undefined)
      throw error
    }
    return null
  }
  /** The next part that was not taken yet; null: there is none. */
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
    /** Whether some of them could not be read. */
    isAway: () => isAway,
    page: (part: number, dialect: string | null): Promise<HttpAnswer | null> => {
      parts ??= open(dialect)
      return take(part).catch(unread)
    },
    /** The parts that were not taken yet. Read each before the next. */
    async *rest(): AsyncGenerator<Payload> {
      for (let here = isAway ? null : await first(); here !== null; here = await first()) {
        next = null
        yield here
      }
    },
  }
}

export type LandedPages = ReturnType<typeof landedPages>
