// One object written as its bytes arrive: a small one in one request, a large one in parts; it is visible only when whole.
import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { createReadStream } from 'node:fs'
import { EtlError } from '../core/errors.ts'
import type { BucketSetting } from '../core/landing-setting.ts'
import { type Bucket, openBucket, bucketErrorOf } from './bucket.ts'

/** All parts but the last have exactly this size, as some servers demand; 5 MiB is the least any takes. */
const partBytes = 8 * 1024 * 1024
const maxParts = 10_000

/** Nothing is sent before the first part is full, or the object closed. Two parts at most are in memory: one in flight, one being filled. */
export const openUpload = (bucket: Bucket, key: string, signal: AbortSignal | undefined) => {
  const parts: CompletedPart[] = []
  const { client } = bucket
  const options = bucket.optionsOf(signal)
  const object = bucket.of(key)
  const tried = <T>(work: () => Promise<T>): Promise<T> => bucket.tried(`write ${bucket.placeOf(key)}`, signal, work)
  let uploadId: string | null = null
  let isInParts = false
  let waiting: Uint8Array[] = []
  let waitingBytes = 0
  let sentBytes = 0
  let onItsWay: Promise<void> = Promise.resolve()

  let PartNumber = 0
  /** Resolves once the part before has arrived; the next one may be filled meanwhile. */
  const send = async (Body: Uint8Array): Promise<void> => {
    PartNumber += 1
    if (PartNumber > maxParts) throw tooLarge(bucket.placeOf(key))
    uploadId ??= await begin(bucket, key, options)
    isInParts = true
    const part = { PartNumber, UploadId: uploadId }
    await onItsWay
    sentBytes += Body.length
    onItsWay = client.send(new UploadPartCommand({ ...object, ...part, Body }), options).then(({ ETag }) => {
      // The server needs these to join the parts.
      parts.push({ ETag, PartNumber: part.PartNumber })
    })
    onItsWay.catch(() => undefined)
  }
  const complete = async (UploadId: string): Promise<void> => {
    try {
      await client.send(new CompleteMultipartUploadCommand({ ...object, UploadId, MultipartUpload: { Parts: parts } }), options)
    } catch (error) {
      // If the reply to a successful attempt was lost, the upload is gone and the object is there.
      if (bucketErrorOf(error).name !== 'NoSuchUpload' || (await bucket.size(key, signal)) !== sentBytes) throw error
    }
  }
  return {
    write: (bytes: Uint8Array): Promise<void> =>
      tried(async () => {
        waiting.push(bytes)
        waitingBytes += bytes.length
        while (waitingBytes >= partBytes) {
          const all = Buffer.concat(waiting, waitingBytes)
          waiting = [Buffer.from(all.subarray(partBytes))]
          waitingBytes -= partBytes
          await send(all.subarray(0, partBytes))
        }
      }),
    /** Resolves once the object is there, whole. May be called again, also after that. */
    close: (): Promise<void> =>
      tried(async () => {
        const rest = Buffer.concat(waiting, waitingBytes)
        if (uploadId === null) return isInParts ? undefined : bucket.put(key, rest, signal)
        ;[waiting, waitingBytes] = [[], 0]
        if (rest.length > 0) await send(rest)
        await onItsWay
        await complete(uploadId)
        uploadId = null
      }),
    /** Drops the parts that were sent. Never throws. */
    abort: async (until: AbortSignal): Promise<void> => {
      await onItsWay.catch(() => undefined)
      if (uploadId === null) return
      const abort = new AbortMultipartUploadCommand({ ...object, UploadId: uploadId })
      await client.send(abort, { abortSignal: until }).catch(() => undefined)
    },
  }
}

const begin = async ({ client, of }: Bucket, key: string, options: ReturnType<Bucket['optionsOf']>): Promise<string> => {
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(of(key)), options)
  if (UploadId === undefined) throw new Error('the server began an upload without an id')
  return UploadId
}

const tooLarge = (place: string): EtlError =>
  new EtlError(
    'TOO_LARGE',
    `${place} would need more than ${maxParts} parts of ${partBytes / 1024 / 1024} MiB; ask for less in one unit (a shorter window, smaller buckets).`,
  )

/** Small texts and files in a bucket, by name; one is visible only when whole. Throws LANDING_REFUSED or LANDING_UNREACHABLE when it is used. */
export const openBucketFiles = (setting: BucketSetting, signal: AbortSignal) => {
  const bucket = openBucket(setting)
  const keyOf = (name: string): string => `${setting.prefix}${name}`
  return {
    place: bucket.placeOf(setting.prefix.replace(/\/$/, '')),
    /** Null where there is none. */
    text: (name: string) => bucket.text(keyOf(name), signal),
    putText: (name: string, text: string) => bucket.put(keyOf(name), Buffer.from(text), signal),
    putFile: async (name: string, file: string) => {
      const upload = openUpload(bucket, keyOf(name), signal)
      try {
        for await (const chunk of createReadStream(file, { signal })) await upload.write(chunk)
        await upload.close()
      } catch (error) {
        await upload.abort(AbortSignal.timeout(5_000))
        throw error
      }
    },
    /** Nothing happens where there is none. */
    remove: (name: string) => bucket.remove(keyOf(name), signal),
  }
}
