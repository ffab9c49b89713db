// An answer that is whole in its landing: recorded in the ledger, and read back.
import { asksOf, metricsOf } from '../core/asks.ts'
import type { Landing } from '../extract/landing-store.ts'
import { insertAnswer } from '../ledger/answers.ts'
import type { JobWork } from './job-work.ts'
import type { Landed, LandedParts } from './land.ts'

/** The answer is whole on disk: from here on nothing is asked for again by this job. */
export const record = ({ runtime, claim, definition }: JobWork, { locator, manifest, completeness }: Landed): Promise<number> =>
  insertAnswer(runtime.database.kysely, claim, {
    locator,
    sha256: manifest.sha256,
    bytes: manifest.bytes,
    fingerprint: completeness.fingerprint,
    dataPoints: completeness.dataPoints,
    order: completeness.order ?? null,
    asks: asksOf(definition),
    metrics: metricsOf(definition),
  })

/** An answer read back from its landing. */
export async function* reopened(locator: string, open: () => Promise<Landing>): LandedParts {
  const { manifest, parts } = await open()
  for await (const part of parts()) yield { ...part, mayBeEmpty: manifest.completeness.dataPoints === 0 }
  return { locator, manifest, completeness: manifest.completeness }
}
