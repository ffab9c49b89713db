// One unit's answer from the service to the disk, parsed into staging as it arrives.
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import type { Manifest } from '../extract/landing.ts'
import type { SourceContext } from '../extract/source.ts'
import type { UnitWork } from './unit-work.ts'

export interface Extracted {
  readonly completeness: Completeness
  readonly manifest: Manifest
  readonly locator: string
}

/** Where an answer's parts go. */
export interface PartSink {
  /** Must read the part to its end. */
  take(payload: Payload): Promise<void>
  /** After the last part; asked for again by whoever needs to know how it ended. */
  end(): Promise<void>
}

/** An answer whose first part has begun to arrive. */
export interface BegunExtract {
  readonly first: IteratorResult<Payload, Completeness>
  readonly rest: AsyncGenerator<Payload, Completeness, void>
  /** Lets go of what was not read; nothing where it was read to its end. */
  close(): Promise<void>
}

/** Asks the source for the first part; throws REPORT_PENDING where there is none yet. */
export const beginExtract = async (work: UnitWork, context: SourceContext): Promise<BegunExtract> => {
  const rest = work.source.extract({ definition: work.definition, unit: work.claim.unit }, context)
  const first = await rest.next()
  const unread: Completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }
  return { first, rest, close: async () => void (await rest.return(unread).catch(() => undefined)) }
}

/**
 * Walks the source to its end, landing every part before `sink` sees its bytes. The landing is whole and durable when this
 * resolves; on any error nothing of it is left.
 */
export const extractUnit = async (
  work: UnitWork,
  context: SourceContext,
  begun: BegunExtract,
  sink: PartSink,
): Promise<Extracted> => {
  const { runtime, claim, definition } = work
  const locator = runtime.landing.locator(claim.unit, claim.edition, claim.fence)
  const writer = await runtime.landing.create(locator, { pipeline: definition.pipeline, unitKey: claim.unit.key }, work.signal)
  try {
    const completeness = await landParts(work, context, begun, sink, (payload) => writer.part(payload))
    // The disk and the database each take what is still on its way to them; what the database says of it does not undo the landing.
    const [landed] = await Promise.allSettled([writer.finish({ completeness }), sink.end()])
    if (landed.status === 'rejected') throw landed.reason
    return { completeness, manifest: landed.value, locator }
  } catch (error) {
    await writer.abort()
    throw error
  }
}

const landParts = async (
  work: UnitWork,
  context: SourceContext,
  { first, rest }: BegunExtract,
  sink: PartSink,
  land: (payload: Payload) => Payload,
): Promise<Completeness> => {
  for (let next = first; ; next = await rest.next()) {
    if (next.done === true) return next.value
    if (context.signal.aborted)
      throw new EtlError('INTERRUPTED', `Stopped while reading ${work.claim.unit.key}; run the same command again.`)
    work.runtime.progress.counters.pages += 1
    await sink.take(land(next.value))
  }
}
