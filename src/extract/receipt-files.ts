// What a warehouse notes beside its landings, so that a restored or cloned ledger can tell what it does not know: purchases, runs, and the epochs taken.
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { EtlError, messageOf } from '../core/errors.ts'
import { isReportId } from '../core/report-shape.ts'
import { notesFolder, questionSchema, slicesSchema, type Warehouse } from './landing-files.ts'

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
  /** As sent, without secrets: what the service's own list of reports is searched for. */
  request: z.unknown(),
  request_hash: z.string().nullable(),
  estimated_quota: z.string().nullable(),
  /** null: about to be submitted. */
  report_id: z.string().refine(isReportId, 'no plain text of 1 to 200 characters').nullable(),
  /** By the database's clock. */
  asked_at: z.string(),
  noted_at: z.string(),
})

/** What a purchase leaves beside the landings: enough to take it up in a ledger that lost it. */
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

/** Everything noted of an ask number of that block or a later one comes after this path. One block is allowed for purchases that overtook each other. */
export const receiptsFrom = (id: string, askNumber: string): string => {
  const block = BigInt(askNumber) / blockSize
  return `${blockPath(id, block > 0n ? block - 1n : 0n)}/`
}

/** Folder of everything noted of that ask number, and of those of the same block. */
export const receiptsOf = (id: string, askNumber: string): string => blockPath(id, BigInt(askNumber) / blockSize)

/** What tells a purchase from every other one of the same number: two clones count on from the same. */
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

/** What the path of a receipt says, `digest` null: of the intent alone; null: the path is no receipt's. */
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

/** `copy`: taken by a database that was found to be a copy. `goes-on`: declared to go on in the place of all epochs before. */
export type EpochKind = 'copy' | 'goes-on'

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
