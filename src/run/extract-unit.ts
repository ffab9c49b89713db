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

/** Takes one part's bytes; must read them to their end. */
export type PartSink = (payload: Payload) => Promise<void>

/**
 * Walks the source to its end, landing every part before `sink` sees its bytes. The landing is whole and durable when this
 * resolves; on any error nothing of it is left.
 */
export const extractUnit = async (work: UnitWork, context: SourceContext, sink: PartSink): Promise<Extracted> => {
  const { shop, claim, definition } = work
  const locator = shop.landing.locator(claim.unit, claim.edition, claim.fence)
  const writer = await shop.landing.create(locator, { pipeline: definition.pipeline, unitKey: claim.unit.key })
  try {
    const completeness = await landParts(work, context, sink, (payload) => writer.part(payload))
    const manifest = await writer.finish({ completeness })
    return { completeness, manifest, locator }
  } catch (error) {
    await writer.abort()
    throw error
  }
}

const landParts = async (
  work: UnitWork,
  context: SourceContext,
  sink: PartSink,
  land: (payload: Payload) => Payload,
): Promise<Completeness> => {
  const parts = work.source.extract({ definition: work.definition, unit: work.claim.unit }, context)
  for (;;) {
    const next = await parts.next()
    if (next.done === true) return next.value
    if (context.signal.aborted)
      throw new EtlError('INTERRUPTED', `Stopped while reading ${work.claim.unit.key}; run the same command again.`)
    work.shop.progress.counters.pages += 1
    await sink(land(next.value))
  }
}
