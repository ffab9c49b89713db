// The pages of a walk that a budget stopped: kept where answers are, and given to the walk that goes on, so that none is bought twice.
import { isEtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import type { Completeness } from '../core/completeness.ts'
import type { HttpAnswer } from '../extract/http-types.ts'
import { begunLanding, setBegun } from '../ledger/ask.ts'
import type { JobWork } from './job-work.ts'

/** Of no answer: more records are missing than any could have. */
export const begunOnly: Completeness = {
  fingerprint: { lastUpdated: null, count: null },
  expectedRows: Number.MAX_SAFE_INTEGER,
  dataPoints: null,
}

export interface BegunWalk {
  /** A page that was landed before; null: it is to be asked for. */
  page(part: number): Promise<HttpAnswer | null>
  /** What came so far is kept in place of what was kept before. */
  keep(locator: string): Promise<void>
  /** The walk is over, or begins anew. */
  drop(): Promise<void>
}

/** Of one job. */
export const begunWalk = ({ runtime, claim, signal }: JobWork): BegunWalk => {
  const { kysely } = runtime.database
  let locator: string | null = null
  let parts: Promise<AsyncIterator<Payload> | null> | null = null
  const open = async (): Promise<AsyncIterator<Payload> | null> => {
    locator = claim.kind === 'walk' && claim.askNumber !== null ? await begunLanding(kysely, claim) : null
    if (locator === null) return null
    try {
      return (await runtime.landing.open(locator, signal)).parts()[Symbol.asyncIterator]()
    } catch (error) {
      if (!isEtlError(error) || !error.code.startsWith('LANDING_')) throw error
      return null
    }
  }
  /** Pages are asked for in their order, and read one after the other. */
  let turn: Promise<unknown> = Promise.resolve()
  const next = async (part: number): Promise<HttpAnswer | null> => {
    parts ??= open()
    const step = await (await parts)?.next()
    if (step === undefined || step.done === true || step.value.part !== part) {
      parts = Promise.resolve(null)
      return null
    }
    const chunks: Uint8Array[] = []
    for await (const chunk of step.value.body) chunks.push(chunk)
    return { status: 200, contentType: 'application/json', bytes: Buffer.concat(chunks) }
  }
  const forget = async (kept: string | null): Promise<void> => {
    const gone = locator
    locator = kept
    parts = Promise.resolve(null)
    if (gone === null && kept === null) return
    await setBegun(kysely, claim, kept)
    if (gone !== null) await runtime.landing.remove(gone).catch(() => undefined)
  }
  return {
    page: (part) => {
      const mine = turn.then(() => next(part))
      turn = mine.catch(() => undefined)
      return mine
    },
    keep: (kept) => forget(kept),
    drop: () => forget(null),
  }
}
