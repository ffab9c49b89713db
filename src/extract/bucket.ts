// One S3-compatible bucket: whole objects, lists and conditional writes, each tried a bounded number of times.
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  PutObjectCommand,
  paginateListObjectsV2,
  S3Client,
} from '@aws-sdk/client-s3'
import type { BucketSetting } from '../core/landing-setting.ts'
import { bucketAttempts, bucketError, isMissing, refusalOf } from './bucket-error.ts'

/** An S3 bucket with errors in our own words. */
export interface Bucket {
  readonly client: S3Client
  readonly name: string
  /** `s3://bucket/key`, for people. */
  placeOf(key: string): string
  /** An error of the client in our own words. */
  errorOf(error: unknown, doing: string): Error
  /** @returns false where there is one already; servers that know no conditional write overwrite it. */
  putNew(key: string, body: string, signal?: AbortSignal): Promise<boolean>
  put(key: string, body: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Null where there is none. */
  text(key: string, signal?: AbortSignal): Promise<string | null>
  /** Null where there is none. Reading it throws what the client throws. */
  body(key: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | null>
  /** Bytes of the object, or null where there is none. */
  size(key: string, signal?: AbortSignal): Promise<number | null>
  /** Nothing happens where there is none. */
  remove(key: string, signal?: AbortSignal): Promise<void>
  /** In the order of their keys. */
  list(prefix: string, options?: ListOptions): AsyncGenerator<ListedObject>
  /** Ends every upload in parts that was begun before `olderThanMs` and never completed. */
  dropUploads(prefix: string, olderThanMs: number): Promise<void>
}

/** Keys come in the order of their bytes. */
export interface ListOptions {
  readonly pageSize?: number
  /** Only keys that come after it. */
  readonly after?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/** `modifiedMs`: since the epoch, by the server's clock. */
export interface ListedObject {
  readonly key: string
  readonly modifiedMs: number
}

const connectMs = 5_000
/** No byte either way for so long: the connection is given up. */
const silenceMs = 30_000
/** A whole request, answer begun; generous, since a part of an upload goes over slow lines too. */
const requestMs = 120_000
/** Two conditional writes at once make the server ask for another try. */
const conflictTries = 3

const openClient = (setting: BucketSetting): S3Client => {
  const { credentials } = setting
  return new S3Client({
    ...(setting.endpoint === null ? {} : { endpoint: setting.endpoint.href }),
    forcePathStyle: setting.pathStyle,
    ...(setting.region === null ? {} : { region: setting.region }),
    ...(credentials === null
      ? {}
      : {
          credentials: async () => ({
            accessKeyId: credentials.accessKeyId,
            secretAccessKey: credentials.secretAccessKey.reveal(),
            ...(credentials.sessionToken === null ? {} : { sessionToken: credentials.sessionToken.reveal() }),
          }),
        }),
    maxAttempts: bucketAttempts,
    // Servers other than Amazon's do not know the newer checksums; the signature covers every byte sent, the manifest every byte read.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    requestHandler: {
      connectionTimeout: connectMs,
      requestTimeout: requestMs,
      throwOnRequestTimeout: true,
      socketTimeout: silenceMs,
    },
  })
}

/** Asks nothing yet. */
export const openBucket = (setting: BucketSetting): Bucket => {
  const client = openClient(setting)
  const name = setting.bucket
  const endpoint = setting.endpoint?.origin ?? 'Amazon S3'
  const placeOf = (key: string): string => `s3://${name}/${key}`
  const errorOf = (error: unknown, doing: string): Error => bucketError(error, doing, endpoint)
  /** Who was stopped gets the reason of its signal. */
  const inOwnWords = async <T>(doing: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> => {
    try {
      return await work()
    } catch (error) {
      signal?.throwIfAborted()
      throw errorOf(error, doing)
    }
  }
  const optionsOf = (signal: AbortSignal | undefined) => (signal === undefined ? {} : { abortSignal: signal })
  const get = async (key: string, signal: AbortSignal | undefined) =>
    (await client.send(new GetObjectCommand({ Bucket: name, Key: key }), optionsOf(signal))).Body
  return {
    client,
    name,
    placeOf,
    errorOf,
    putNew: (key, body, signal) =>
      inOwnWords(`write ${placeOf(key)}`, signal, () =>
        putIfNone(client, { Bucket: name, Key: key, Body: body }, optionsOf(signal)),
      ),
    put: (key, body, signal) =>
      inOwnWords(`write ${placeOf(key)}`, signal, async () => {
        await client.send(new PutObjectCommand({ Bucket: name, Key: key, Body: body }), optionsOf(signal))
      }),
    text: (key, signal) =>
      inOwnWords(`read ${placeOf(key)}`, signal, () =>
        unlessMissing(async () => (await get(key, signal))?.transformToString() ?? ''),
      ),
    body: (key, signal) =>
      inOwnWords(`read ${placeOf(key)}`, signal, () =>
        unlessMissing(async () => {
          const body = await get(key, signal)
          if (!isStream(body)) throw new Error('the answer has no body')
          return body
        }),
      ),
    size: (key, signal) =>
      inOwnWords(`check ${placeOf(key)}`, signal, () =>
        unlessMissing(
          async () => {
            const head = await client.send(new HeadObjectCommand({ Bucket: name, Key: key }), optionsOf(signal))
            return head.ContentLength ?? 0
            // An answer to HEAD has no body that could name the reason.
          },
          (error) => refusalOf(error).status === 404,
        ),
      ),
    remove: (key, signal) =>
      inOwnWords(`delete ${placeOf(key)}`, signal, async () => {
        await unlessMissing(() => client.send(new DeleteObjectCommand({ Bucket: name, Key: key }), optionsOf(signal)))
      }),
    list: async function* (prefix, { pageSize = 1_000, after, signal } = {}) {
      const pages = paginateListObjectsV2(
        { client, pageSize },
        { Bucket: name, Prefix: prefix, StartAfter: after },
        optionsOf(signal),
      )
      for (;;) {
        const { value: page } = await inOwnWords(`list ${placeOf(prefix)}`, signal, () => pages.next())
        if (page === undefined) return
        for (const { Key, LastModified } of page.Contents ?? [])
          if (Key !== undefined && LastModified !== undefined) yield { key: Key, modifiedMs: LastModified.getTime() }
      }
    },
    dropUploads: (prefix, olderThanMs) =>
      inOwnWords(`list unfinished uploads of ${placeOf(prefix)}`, undefined, () =>
        dropUploads(client, name, prefix, olderThanMs),
      ),
  }
}

const isStream = (body: unknown): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body

const unlessMissing = async <T>(work: () => Promise<T>, missing = isMissing): Promise<T | null> => {
  try {
    return await work()
  } catch (error) {
    if (missing(error)) return null
    throw error
  }
}

type Put = ConstructorParameters<typeof PutObjectCommand>[0]

const putIfNone = async (client: S3Client, put: Put, options: { readonly abortSignal?: AbortSignal }): Promise<boolean> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.send(new PutObjectCommand({ ...put, IfNoneMatch: '*' }), options)
      return true
    } catch (error) {
      const { name, status } = refusalOf(error)
      if (status === 412) return false
      if (status === 501 || name === 'NotImplemented') {
        await client.send(new PutObjectCommand(put), options)
        return true
      }
      if (status !== 409 || attempt >= conflictTries) throw error
    }
  }
}

/** Of the first thousand: the next sweep finds those behind. */
const dropUploads = async (client: S3Client, name: string, prefix: string, olderThanMs: number): Promise<void> => {
  const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: name, Prefix: prefix }))
  for (const { Key, UploadId, Initiated } of Uploads) {
    if (Key === undefined || UploadId === undefined || Initiated === undefined || Initiated.getTime() >= olderThanMs) continue
    await unlessMissing(() => client.send(new AbortMultipartUploadCommand({ Bucket: name, Key, UploadId })))
  }
}
