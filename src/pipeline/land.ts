// One job's answer from the service to the landing: parts pass through while they are written, and are whole and durable at the end.
import { randomBytes } from 'node:crypto'
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import type { Manifest } from '../extract/landing.ts'
import type { LandingWriter } from '../extract/landing-store.ts'
import type { SourceContext } from '../extract/source.ts'
import type { JobWork } from './job-work.ts'
import { masked } from './mask-key.ts'
import { questionOf } from './receipts.ts'
import type { Runtime } from './runtime.ts'

/** What landing needs of the work on a job. */
export interface LandWork extends Pick<JobWork, 'claim' | 'definition' | 'source' | 'signal'> {
  readonly runtime: Pick<Runtime, 'landing' | 'warehouse' | 'progress' | 'clock'>
}

/** An answer that is whole in its place. */
export interface Landed {
  readonly locator: string
  readonly manifest: Manifest
  readonly completeness: Completeness
}

export type LandedParts = AsyncGenerator<Payload, Landed, void>

/**
 * Asks the source and yields its parts in order; who reads a part's bytes gets them once they were handed to the landing, and must read
 * each part to its end. Nothing is opened before the first part has begun to arrive: a report that is still being made throws
 * REPORT_PENDING here. Whoever stops early calls `return`, and nothing of the landing is left.
 */
export async function* landAnswer(work: LandWork, context: SourceContext, askNumber: () => Promise<string>): LandedParts {
  const { runtime, claim, definition, source } = work
  const parts = source.extract({ definition, box: claim.box }, context)
  let writer: LandingWriter | null = null
  let isWhole = false
  let isSaid = false
  const sayOnce = (): void => {
    if (!isSaid)
      context.notice(
        'KEY_ECHO',
        `${claim.box.key}: the service's answer names the key; it was masked before anything was kept. Tell the service.`,
      )
    isSaid = true
  }
  try {
    let next = await parts.next()
    const { warehouse } = runtime
    const name = {
      box: claim.box,
      warehouse,
      askNumber: await askNumber(),
      fence: claim.fence,
      nonce: randomBytes(3).toString('hex'),
      now: runtime.clock.now,
      // Of a stored definition the key is not known.
      ...(definition.key.length === 0 ? {} : { question: questionOf(definition) }),
    }
    writer = await runtime.landing.create(name, work.signal)
    for (; next.done !== true; next = await parts.next()) {
      if (context.signal.aborted)
        throw new EtlError('INTERRUPTED', `Stopped while reading ${claim.box.key}; run the same command again to resume.`)
      runtime.progress.counters.pages += 1
      yield writer.part(masked(next.value, definition.limits.maxBodyBytes, sayOnce))
    }
    const manifest = await writer.finish({ completeness: next.value })
    isWhole = true
    return { locator: writer.locator, manifest, completeness: next.value }
  } finally {
    if (!isWhole) await writer?.abort()
    await parts.return(nothingRead).catch(() => undefined)
  }
}

const nothingRead: Completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }

/** The same parts once the first of them is here; throws what asking for it threw. */
export const begun = async (parts: LandedParts): Promise<LandedParts> => {
  let first: IteratorResult<Payload, Landed> | null = await parts.next()
  // No generator around it: one that is left before its first step would not clean up.
  const rest: LandedParts = {
    next: async () => {
      const given = first
      first = null
      return given ?? parts.next()
    },
    return: (value) => parts.return(value),
    throw: (error) => parts.throw(error),
    [Symbol.asyncIterator]: () => rest,
    [Symbol.asyncDispose]: () => leave(parts),
  }
  return rest
}

/** Lets go of parts that nobody reads any more, and of what was landed of them. */
export const leave = async (parts: LandedParts): Promise<void> => {
  // The generator's own cleaning up runs; what it would return is of no use.
  await parts.throw(new EtlError('INTERRUPTED', 'Nobody reads the answer any more.')).catch(() => undefined)
}

/** Lands everything unread. */
export const drain = async (parts: LandedParts): Promise<Landed> => {
  for (;;) {
    const next = await parts.next()
    if (next.done === true) return next.value
    for await (const _ of next.value.body) {
      // The landing writes the bytes as they are pulled.
    }
  }
}
