// Where an answer's bytes lie: relative locators made from its own words, which cannot leave the landing folder.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { completenessSchema } from '../core/completeness.ts'
import type { Box } from '../core/types.ts'

const safe = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, '_')
    .replaceAll(/\.{2,}/g, '_')
    .slice(0, 40)

/** What tells one landing from every other one, of this warehouse or another. */
export interface LandingName {
  readonly box: Box
  readonly warehouse: Warehouse
  /** Of the job's question; a walk that begins anew has a new one. */
  readonly askNumber: string
  /** Of the claim: a worker that lost its job writes beside the one that has it. */
  readonly fence: string
  /** Drawn anew for each landing: a clone of the warehouse counts on from the same numbers and must not write to the same place. */
  readonly nonce: string
  /** Goes into the manifest: a restored ledger may not know the job. */
  readonly question?: Question
  /** The clock of the times in the manifest, milliseconds since the epoch. Default: the machine's. */
  readonly now?: () => number
}

/** The warehouse that asked: its UUID and its epoch. */
export interface Warehouse {
  readonly id: string
  readonly epoch: number
}

/** Where all landings of a pipeline's version lie. */
export const pipelineFolder = ({ pipeline, version }: Pick<Box, 'pipeline' | 'version'>): string =>
  `${safe(pipeline)}_v${version}`

/** Where all landings of one question lie. */
export const boxFolder = (box: Box): string => {
  const words = Object.values(box.slice).map((value) => (typeof value === 'string' ? safe(value) : `${value.length}_values`))
  const digest = createHash('sha256').update(box.key).digest('hex').slice(0, 12)
  return `${pipelineFolder(box)}/${box.window.from}/${words.join('_').slice(0, 80)}-${digest}`
}

const ownerName = ({ id, epoch }: Warehouse): string => `${id.slice(0, 8)}.${epoch}-`

/** `keywords_v1/2026-01-01/a.com_us-1f0c9a2b3d4e/5b1c7d2e.1-81-2-9f3c1e`: pipeline, window, values; warehouse and epoch, ask number, fence, nonce. */
export const landingLocator = ({ box, warehouse, askNumber, fence, nonce }: LandingName): string =>
  `${boxFolder(box)}/${ownerName(warehouse)}${askNumber}-${fence}-${nonce}`

/** Ask number of a landing by its locator; null where none of these warehouses asked for it. */
export const askNumberIn = (locator: string, owners: readonly Warehouse[]): string | null => {
  const name = locator.slice(locator.lastIndexOf('/') + 1)
  const owner = owners.map(ownerName).find((own) => name.startsWith(own))
  return owner === undefined ? null : (/^\d+(?=-)/.exec(name.slice(owner.length))?.[0] ?? null)
}

/** Of any epoch of the warehouse. */
export const askNumberOfAny = (locator: string, id: string): string | null =>
  new RegExp(`/${id.slice(0, 8)}\\.\\d+-(\\d+)-[^/]*$`).exec(locator)?.[1] ?? null

/** Pipeline, window, values, name: a landing lies four folders deep. */
export const landingDepth = 4

/** What warehouses note beside their landings; no pipeline's folder begins with an underscore. */
export const notesFolder = '_warehouses'

/** All parts, one gzip member each, one behind the other. */
export const dataFile = 'data.gz'
/** Written last: a landing without it is none. */
export const manifestFile = 'manifest.json'

const partSchema = z.object({
  part: z.number().int().positive(),
  format: z.enum(['json', 'csv']),
  /** Where the answer is several files. */
  file: z.string().optional(),
  /** Place of the part's gzip member in the data file, in bytes. */
  offset: z.number().int().nonnegative(),
  length: z.number().int().nonnegative(),
  /** Of the bytes as they came. */
  raw_length: z.number().int().nonnegative(),
  sha256: z.string(),
  landed_at: z.string(),
})

/** Of each dimension its value, or several. */
export const slicesSchema = z.record(z.string(), z.union([z.string(), z.array(z.string()).readonly()]))
const paramSchema = z.union([z.string(), z.number(), z.boolean(), z.array(z.string()).readonly()])

/** What was asked, so that another version of the pipeline can tell whether the answer serves it. */
export const questionSchema = z.object({
  parameters: z.record(z.string(), paramSchema),
  asks: z.string(),
  metrics: z.array(z.string()).readonly(),
})

const manifestSchema = z.object({
  version: z.literal(2),
  /** The warehouse that asked, its epoch, and the number of the question. */
  warehouse: z.string(),
  epoch: z.number().int(),
  ask_number: z.string(),
  pipeline: z.string(),
  pipeline_version: z.number().int(),
  /** Key of the unit or box, for people. */
  asked_for: z.string(),
  window: z.object({ from: z.string(), to: z.string() }),
  slice: slicesSchema,
  question: questionSchema.optional(),
  parts: z.array(partSchema),
  /** Over all parts' bytes as they came, in order. */
  sha256: z.string(),
  bytes: z.number().int().nonnegative(),
  completeness: completenessSchema,
  landed_at: z.string(),
})

/** What an answer was asked for, in words that any ledger understands: parameters of the key; see core/asks.ts for the others. */
export type Question = z.infer<typeof questionSchema>
/** What a landing says of itself. */
export type Manifest = z.infer<typeof manifestSchema>
/** Where a part lies in the data, and its digest. */
export type ManifestPart = z.infer<typeof partSchema>

/** Throws what zod or JSON throws. */
export const parseManifest = (text: string): Manifest => manifestSchema.parse(JSON.parse(text))
