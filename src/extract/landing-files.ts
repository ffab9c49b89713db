// Where a unit's bytes lie: relative locators made from its own words, which cannot leave the landing folder.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Unit } from '../core/types.ts'

const safe = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, '_')
    .replaceAll(/\.{2,}/g, '_')
    .slice(0, 40)

/** `keywords_v1/2026-01-01/a.com_us-1f0c9a2b3d4e/1-7`: pipeline, window, slice, edition and fence. */
export const landingLocator = (unit: Unit, edition: number, fence: string): string => {
  const words = Object.values(unit.slice).map((value) => (typeof value === 'string' ? safe(value) : `${value.length}_values`))
  const digest = createHash('sha256').update(unit.key).digest('hex').slice(0, 12)
  return `${safe(unit.pipeline)}_v${unit.version}/${unit.window.from}/${words.join('_').slice(0, 80)}-${digest}/${edition}-${fence}`
}

/** Pipeline, window, slice, edition: a landing lies four folders deep. */
export const landingDepth = 4

export const dataFile = 'data.gz'
export const manifestFile = 'manifest.json'

const partSchema = z.object({
  part: z.number().int().positive(),
  format: z.enum(['json', 'csv']),
  /** Place of the part's gzip member in the data file, in bytes. */
  offset: z.number().int().nonnegative(),
  length: z.number().int().nonnegative(),
  /** Of the bytes as they came. */
  raw_length: z.number().int().nonnegative(),
  sha256: z.string(),
  landed_at: z.string(),
})

const manifestSchema = z.object({
  version: z.literal(1),
  pipeline: z.string(),
  unit: z.string(),
  parts: z.array(partSchema),
  /** Over all parts' bytes as they came, in order. */
  sha256: z.string(),
  bytes: z.number().int().nonnegative(),
  completeness: z.object({
    fingerprint: z.object({ lastUpdated: z.string().nullable(), count: z.number().nullable() }),
    expectedRows: z.number().nullable(),
    dataPoints: z.number().nullable(),
  }),
  landed_at: z.string(),
})

export type Manifest = z.infer<typeof manifestSchema>
export type ManifestPart = z.infer<typeof partSchema>

export const parseManifest = (text: string): Manifest => manifestSchema.parse(JSON.parse(text))
