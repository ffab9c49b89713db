// One object written as its bytes arrive: a small one in one request, a large one in parts; it is visible only when whole.
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { EtlError } from '../core/errors.ts'
import type { Bucket } from './bucket.ts'
import { refusalOf } from './bucket-error.ts'

/** An object on its way. */
export interface Upload {
  /** Holds at most two parts in memory: one on its way, one being filled. */
  write(bytes: Uint8Array): Promise<void>
  /** The object stands, whole. */
  close(): Promise<void>
  /** Lets go of parts that were sent. Never throws. */
  abort(signal: AbortSignal): Promise<void>
}

/** All parts but the last have exactly this size, as some servers demand; 5 MiB is the least any takes. */
const partBytes = 8 * 1024 * 1024
const maxParts = 10_000

/** Nothing is sent before the first part is full, or the object closed. */
export const openUpload = (bucket: Bucket, key: string, signal: AbortSignal | undefined): Upload => {
  const parts: CompletedPart[] = []
  const options = signal === undefined ? {} : { abortSignal: signal }
  let uploadId: string | null = null
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  let sentBytes = 0
  let onItsWay: Promise<void> = Promise.resolve()

  const inOwnWords = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      signal?.throwIfAborted()
      throw bucket.errorOf(error, `write ${bucket.placeOf(key)}`)
    }
  }
  let numbers = 0
  /** The part before it has arrived when this resolves; the next one may be filled meanwhile. */
  const send = async (body: Uint8Array): Promise<void> => {
    numbers += 1
    if (numbers > maxParts) throw tooLarge(bucket.placeOf(key))
    const id = uploadId ?? (await begin(bucket, key, options))
    uploadId = id
    await onItsWay
    sentBytes += body.length
    onItsWay = sendPart(bucket, { Key: key, UploadId: id, PartNumber: numbers, Body: body }, options).then((part) => {
      parts[(part.PartNumber ?? 0) - 1] = part
    })
    onItsWay.catch(() => undefined)
  }
  return {
    write: (bytes) =>
      inOwnWords(async () => {
        waiting.push(bytes)
        waitingBytes += bytes.length
        while (waitingBytes >= partBytes) {
          const all = Buffer.concat(waiting, waitingBytes)
          waiting = [Buffer.from(all.subarray(partBytes))]
          waitingBytes -= partBytes
          await send(all.subarray(0, partBytes))
        }
      }),
    close: () =>
      inOwnWords(async () => {
        const rest = Buffer.concat(waiting, waitingBytes)
        waiting = []
        if (uploadId === null) return bucket.put(key, rest, signal)
        if (rest.length > 0) await send(rest)
        await onItsWay
        const whole = { Bucket: bucket.name, Key: key, UploadId: uploadId, MultipartUpload: { Parts: [...parts] } }
        await complete(bucket, whole, sentBytes, options)
        uploadId = null
      }),
    abort: async (until) => {
      await onItsWay.catch(() => undefined)
      if (uploadId === null) return
      await bucket.client
        .send(new AbortMultipartUploadCommand({ Bucket: bucket.name, Key: key, UploadId: uploadId }), { abortSignal: until })
        .catch(() => undefined)
    },
  }
}

type Options = { readonly abortSignal?: AbortSignal }

const begin = async (bucket: Bucket, key: string, options: Options): Promise<string> => {
  const { UploadId } = await bucket.client.send(new CreateMultipartUploadCommand({ Bucket: bucket.name, Key: key }), options)
  if (UploadId === undefined) throw new Error('the server began an upload without an id')
  return UploadId
}

type PartToSend = { readonly Key: string; readonly UploadId: string; readonly PartNumber: number; readonly Body: Uint8Array }

type Whole = ConstructorParameters<typeof CompleteMultipartUploadCommand>[0] & { readonly Key: string }

/** What the server must be given back to put the parts together. */
const sendPart = async (bucket: Bucket, part: PartToSend, options: Options): Promise<CompletedPart> => {
  const { ETag } = await bucket.client.send(new UploadPartCommand({ Bucket: bucket.name, ...part }), options)
  return { ETag, PartNumber: part.PartNumber }
}

const complete = async (bucket: Bucket, whole: Whole, bytes: number, options: Options): Promise<void> => {
  try {
    await bucket.client.send(new CompleteMultipartUploadCommand(whole), options)
  } catch (error) {
    // The answer of a try that succeeded was lost: then the upload is gone and the object is there.
    if (refusalOf(error).name !== 'NoSuchUpload' || (await bucket.size(whole.Key, options.abortSignal)) !== bytes) throw error
  }
}

const tooLarge = (place: string): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${place} would need more than ${maxParts} parts of ${partBytes / 1024 / 1024} MiB; ask for less in one unit (a shorter window, smaller buckets).`,
  )
