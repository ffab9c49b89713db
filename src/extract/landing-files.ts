// The paths of landings: relative locators made from the request, which cannot leave the landing folder. And the notes of a warehouse beside them (purchases,
// runs, taken epochs), from which a restored or cloned ledger learns what it does not know.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { completenessSchema } from '../core/completeness.ts'
import type { Box } from '../core/types.ts'
import { EtlError, messageOf } from '../core/errors.ts'
import { isReportId } from '../core/report-shape.ts'

const safe = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^a-z0-9.-]+/g, '_')
    .replaceAll(/\.{2,}/g, '_')
    .slice(0, 40)

/** What identifies a landing among those of all warehouses. */
export interface LandingName {
  readonly box: Box
  readonly warehouse: Warehouse
  /** Of the job's request; a walk that begins anew draws a new number. */
  readonly askNumber: string
  /** Of the claim: a worker that lost its job writes beside the one that has it. */
  readonly fence: string
  /** Drawn anew for each landing: a clone of the warehouse continues the same numbers and must not write to the same place. */
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

/** Where all landings of one request lie. */
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

/** The same for any epoch of the warehouse. */
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
  /** How many first rows of each unit and period; null or undefined: all. */
  top: z.int().nullish(),
})

const manifestSchema = z.object({
  version: z.literal(2),
  /** The warehouse that asked, its epoch, and the ask number. */
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

/** What an answer was asked for, in words that any ledger understands: parameters of the key; see core/request-digest.ts for the others. */
export type Question = z.infer<typeof questionSchema>
/** What a landing says of itself. */
export type Manifest = z.infer<typeof manifestSchema>
/** Where a part lies in the data, and its digest. */
export type ManifestPart = z.infer<typeof partSchema>

/** Throws what zod or JSON throws. */
export const parseManifest = (text: string): Manifest => manifestSchema.parse(JSON.parse(text))

/** What a purchase was made for, in words: the ledger that reads it may know neither the job nor the pipeline. */
const purchaseSchema = z.object({
  version: z.literal(1),
  warehouse: z.string(),
  epoch: z.number().int(),
  ask_number: z.string().regex(/^\d+$/),
  /** Of the ledger that bought it. */
  job_id: z.string(),
  pipeline: z.string(),
  pipeline_version: z.number().int(),
  source: z.string(),
  account: z.string(),
  window_every: z.enum(['day', 'week', 'month']),
  dimensions: z.array(z.string()),
  /** What fetching needs of the definition, as in etl.pipelines. */
  definition: z.unknown(),
  question: questionSchema,
  window: z.object({ from: z.string(), to: z.string() }),
  /** The value, or the list of them, of each dimension. */
  slice: slicesSchema,
  endpoint: z.string().nullable(),
  /** As sent, without secrets: with it the service's own list of reports is searched. */
  request: z.unknown(),
  request_hash: z.string().nullable(),
  estimated_quota: z.string().nullable(),
  /** null: about to be submitted. */
  report_id: z.string().refine(isReportId, 'no plain text of 1 to 200 characters').nullable(),
  /** By the database's clock. */
  asked_at: z.string(),
  noted_at: z.string(),
})

/** What a purchase leaves beside the landings: enough for a ledger that lost it to adopt it. */
export type Receipt = z.infer<typeof purchaseSchema>

/** @param id of the warehouse */
export const folderOf = (id: string, what: 'receipts' | 'runs' | 'epochs' | 'left'): string => `${notesFolder}/${id}/${what}`

/** What was paid for a job, and could not be put on record under that claim. */
export const leftPath = ({ id, epoch }: Warehouse, jobId: number | string, fence: string): string =>
  `${folderOf(id, 'left')}/${jobId}.${epoch}.${fence}.json`

/** So many ask numbers share a folder. */
const blockSize = 1_000n
const padded = (number: bigint | number | string, digits: number): string => String(number).padStart(digits, '0')

const blockPath = (id: string, block: bigint): string => `${folderOf(id, 'receipts')}/${padded(block, 13)}`

/** All notes of that ask number's block and later ones sort after this path. The block before is included: purchases may have overtaken each other. */
export const receiptsFrom = (id: string, askNumber: string): string => {
  const block = BigInt(askNumber) / blockSize
  return `${blockPath(id, block > 0n ? block - 1n : 0n)}/`
}

/** Folder of everything noted of that ask number, and of those of the same block. */
export const receiptsOf = (id: string, askNumber: string): string => blockPath(id, BigInt(askNumber) / blockSize)

/** What distinguishes purchases of the same number: two clones continue the same numbers. */
export const purchaseDigest = (account: string, reportId: string): string =>
  createHash('sha256').update(`${account}\n${reportId}`).digest('hex').slice(0, 12)

const receiptPath = (warehouse: Warehouse, askNumber: string, what: string): string =>
  `${blockPath(warehouse.id, BigInt(askNumber) / blockSize)}/${padded(askNumber, 16)}.${warehouse.epoch}.${what}.json`

/** Written before the submission is sent. */
export const intentPath = (warehouse: Warehouse, askNumber: string): string => receiptPath(warehouse, askNumber, 'intent')

/** Written as soon as the id is on record; the name alone tells account and id. */
export const boughtPath = (warehouse: Warehouse, askNumber: string, account: string, reportId: string): string =>
  receiptPath(warehouse, askNumber, purchaseDigest(account, reportId))

export type ReceiptName = NonNullable<ReturnType<typeof receiptName>>

/** What the path of a receipt tells (`digest` null: of the intent alone); null: the path is no receipt's. */
export const receiptName = (path: string) => {
  const [, askNumber, epoch, what] = /\/(\d{16})\.(\d+)\.([0-9a-f]{12}|intent)\.json$/.exec(path) ?? []
  if (askNumber === undefined || epoch === undefined || what === undefined) return null
  return { path, askNumber: String(BigInt(askNumber)), epoch: Number(epoch), digest: what === 'intent' ? null : what }
}

/** Written when a run begins, so that a restored ledger sees what it lost. */
export const runPath = ({ id, epoch }: Warehouse, runId: number): string =>
  `${folderOf(id, 'runs')}/${padded(runId, 12)}.${epoch}.json`

/** Everything noted of a later run comes after this path. */
export const runsAfter = (id: string, runId: number): string => `${folderOf(id, 'runs')}/${padded(runId, 12)}.~`

/** null: the path is no run's. */
export const runName = (path: string): { readonly runId: number; readonly epoch: number } | null => {
  const [, runId, epoch] = /\/(\d{12})\.(\d+)\.json$/.exec(path) ?? []
  return runId === undefined || epoch === undefined ? null : { runId: Number(runId), epoch: Number(epoch) }
}

/** `copy`: taken by a database that was found to be a copy. `goes-on`: declared the successor of all epochs before. */
type EpochKind = 'copy' | 'goes-on'

/** Written once an epoch is taken. */
export const epochPath = ({ id, epoch }: Warehouse, kind: EpochKind): string =>
  `${folderOf(id, 'epochs')}/${padded(epoch, 6)}.${kind}.json`

/** null: the path is no epoch's. */
export const epochName = (path: string): { readonly epoch: number; readonly kind: EpochKind } | null => {
  const [, epoch, kind] = /\/(\d{6})\.(copy|goes-on)\.json$/.exec(path) ?? []
  return epoch === undefined || kind === undefined ? null : { epoch: Number(epoch), kind: kind === 'copy' ? 'copy' : 'goes-on' }
}

/** Throws LANDING_CORRUPT. */
export const parseReceipt = (path: string, text: string): Receipt => {
  try {
    return purchaseSchema.parse(JSON.parse(text))
  } catch (cause) {
    const message = `${path} beside the landings is damaged: ${messageOf(cause)}. Restore it from a backup, or delete it.`
    throw new EtlError('LANDING_CORRUPT', message, { cause })
  }
}
