// One S3-compatible bucket: whole objects, lists and conditional writes, each with bounded attempts; its errors are put into our own words.
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  paginateListObjectsV2,
  PutObjectCommand,
  S3Client,
} from '@aws-sdk/client-s3'
import type { BucketSetting } from '../core/landing-setting.ts'
import { docPage } from '../core/shipped.ts'
import { EtlError, isEtlError, messageOf, settingError } from '../core/errors.ts'

/** An S3 bucket with errors in our own words: LANDING_REFUSED or LANDING_UNREACHABLE. */
export type Bucket = ReturnType<typeof openBucket>

const connectMs = 5_000
/** No byte either way for so long: the connection is given up. */
const silenceMs = 30_000
/** From the request until its answer begins; generous, since a part of an upload may go over a slow line. */
const requestMs = 120_000
/** Of two conditional writes at once the server refuses one, which is tried again. */
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

/** Sends no request yet. */
export const openBucket = (setting: BucketSetting) => {
  const connection = connect(setting)
  return { ...connection, ...objectsOf(connection), ...listsOf(connection) }
}

const connect = (setting: BucketSetting) => {
  const client = openClient(setting)
  const endpoint = setting.endpoint?.origin ?? 'Amazon S3'
  return {
    client,
    name: setting.bucket,
    /** After a stop, throws the reason of the signal. @param doing what is tried, as in `write s3://bucket/key` */
    tried: async <T>(doing: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> => {
      try {
        return await work()
      } catch (error) {
        signal?.throwIfAborted()
        throw bucketError(error, doing, endpoint)
      }
    },
    /** `s3://bucket/key`, for people. */
    placeOf: (key: string): string => `s3://${setting.bucket}/${key}`,
    optionsOf: (signal: AbortSignal | undefined) => (signal === undefined ? {} : { abortSignal: signal }),
    of: (key: string) => ({ Bucket: setting.bucket, Key: key }),
  }
}

type Connected = ReturnType<typeof connect>

const objectsOf = ({ client, tried, placeOf, optionsOf, of }: Connected) => {
  const get = async (key: string, signal: AbortSignal | undefined) =>
    (await client.send(new GetObjectCommand(of(key)), optionsOf(signal))).Body
  return {
    /** False where the object exists; servers without conditional writes overwrite it. */
    putNew: (key: string, body: string, signal?: AbortSignal): Promise<boolean> =>
      tried(`write ${placeOf(key)}`, signal, () => putIfNone(client, { ...of(key), ...sized(body) }, optionsOf(signal))),
    put: (key: string, body: Uint8Array, signal?: AbortSignal): Promise<void> =>
      tried(`write ${placeOf(key)}`, signal, async () => {
        await client.send(new PutObjectCommand({ ...of(key), ...sized(body) }), optionsOf(signal))
      }),
    /** Null where there is none. */
    text: (key: string, signal?: AbortSignal): Promise<string | null> =>
      tried(`read ${placeOf(key)}`, signal, () => unlessMissing(async () => (await get(key, signal))?.transformToString() ?? '')),
    /** The same as a stream; reading it throws what the client throws. */
    body: (key: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | null> =>
      tried(`read ${placeOf(key)}`, signal, () =>
        unlessMissing(async () => {
          const body = await get(key, signal)
          if (!isStream(body)) throw new Error('the answer has no body')
          return body
        }),
      ),
    /** Bytes of the object; null where there is none. An answer to HEAD has no body that could name the error, so its status decides. */
    size: (key: string, signal?: AbortSignal): Promise<number | null> =>
      tried(`check ${placeOf(key)}`, signal, () =>
        unlessMissing(
          async () => (await client.send(new HeadObjectCommand(of(key)), optionsOf(signal))).ContentLength ?? 0,
          (error) => bucketErrorOf(error).status === 404,
        ),
      ),
    /** Nothing happens where there is none. */
    remove: (key: string, signal?: AbortSignal): Promise<void> =>
      tried(`delete ${placeOf(key)}`, signal, async () => {
        await unlessMissing(() => client.send(new DeleteObjectCommand(of(key)), optionsOf(signal)))
      }),
  }
}

const listsOf = ({ client, name, tried, placeOf, optionsOf, of }: Connected) => ({
  /** Objects after the key `after`, in byte order of their keys, with the time of writing by the server's clock (milliseconds since the epoch). */
  list: async function* (prefix: string, { pageSize = 1_000, after, signal }: ListOptions = {}) {
    const asked = { Bucket: name, Prefix: prefix, StartAfter: after }
    const pages = paginateListObjectsV2({ client, pageSize }, asked, optionsOf(signal))
    for (;;) {
      const { value: page } = await tried(`list ${placeOf(prefix)}`, signal, () => pages.next())
      if (page === undefined) return
      for (const { Key, LastModified } of page.Contents ?? [])
        if (Key !== undefined && LastModified !== undefined) yield { key: Key, modifiedMs: LastModified.getTime() }
    }
  },
  /** Ends the uploads in parts that were begun before `olderThanMs` and never completed. */
  dropUploads: (prefix: string, olderThanMs: number): Promise<void> =>
    tried(`list unfinished uploads of ${placeOf(prefix)}`, undefined, async () => {
      for (let after: { readonly KeyMarker?: string; readonly UploadIdMarker?: string } | null = {}; after !== null; ) {
        const page: ListMultipartUploadsCommandOutput = await client.send(
          new ListMultipartUploadsCommand({ Bucket: name, Prefix: prefix, ...after }),
        )
        for (const { Key = '', UploadId, Initiated } of page.Uploads ?? [])
          if (Initiated !== undefined && Initiated.getTime() < olderThanMs)
            await unlessMissing(() => client.send(new AbortMultipartUploadCommand({ ...of(Key), UploadId })))
        const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page
        after = page.IsTruncated && KeyMarker && UploadIdMarker ? { KeyMarker, UploadIdMarker } : null
      }
    }),
})

interface ListOptions {
  readonly pageSize?: number
  readonly after?: string | undefined
  readonly signal?: AbortSignal | undefined
}

const isStream = (body: unknown): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && body !== null && Symbol.asyncIterator in body

const unlessMissing = async <T>(work: () => Promise<T>, missing = isNoSuchKey): Promise<T | null> => {
  try {
    return await work()
  } catch (error) {
    if (missing(error)) return null
    throw error
  }
}

/** The client gives an empty body no length, and warns on the console. */
const sized = (body: string | Uint8Array) => ({ Body: body, ContentLength: Buffer.byteLength(body) })

type Put = ConstructorParameters<typeof PutObjectCommand>[0]

const putIfNone = async (client: S3Client, put: Put, options: { readonly abortSignal?: AbortSignal }): Promise<boolean> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.send(new PutObjectCommand({ ...put, IfNoneMatch: '*' }), options)
      return true
    } catch (error) {
      const { name, status } = bucketErrorOf(error)
      if (status === 412) return false
      if (status === 501 || name === 'NotImplemented') {
        await client.send(new PutObjectCommand(put), options)
        return true
      }
      if (status !== 409 || attempt >= conflictTries) throw error
    }
  }
}

/** The server's name for what went wrong and the answer's status, as far as there are any. */
export const bucketErrorOf = (error: unknown): { readonly name: string; readonly status: number | null } => {
  if (typeof error !== 'object' || error === null) return { name: '', status: null }
  const name = 'name' in error ? String(error.name) : ''
  const metadata = '$metadata' in error ? error.$metadata : null
  const status =
    typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata ? Number(metadata.httpStatusCode) : null
  return { name, status: status !== null && Number.isInteger(status) ? status : null }
}

/** Decided by the error's name: unknown keys, unknown buckets and proxies answer 404, too, and must never look like a missing landing. */
const isNoSuchKey = (error: unknown): boolean => ['NoSuchKey', 'NoSuchUpload'].includes(bucketErrorOf(error).name)

const advice: Readonly<Record<string, string>> = {
  NoSuchBucket: 'Make the bucket, or correct its name in MILLRACE_LANDING.',
  PermanentRedirect: "The bucket is in another region: set AWS_REGION to the bucket's own.",
  AuthorizationHeaderMalformed: "The bucket is in another region: set AWS_REGION to the bucket's own.",
  AccessDenied: `Give the credentials the right to list, read, write and delete under the prefix (${docPage('storage.md')}).`,
  Forbidden: `Give the credentials the right to list, read, write and delete under the prefix (${docPage('storage.md')}).`,
  InvalidAccessKeyId: 'Correct AWS_ACCESS_KEY_ID; the server does not know it.',
  SignatureDoesNotMatch: 'Correct AWS_SECRET_ACCESS_KEY; it does not belong to AWS_ACCESS_KEY_ID.',
  ExpiredToken: 'The session has ended: renew AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN.',
  RequestTimeTooSkewed: "This machine's clock is wrong: set it, then run the same command again.",
  CredentialsProviderError: 'Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role.',
  EntityTooLarge: 'The server takes no object of this size: ask for less in one unit.',
  QuotaExceeded: 'The bucket is full: free space, then run the same command again.',
}

/** Names of errors for which a retry is useless, though no status says so. */
const isFinal = (name: string): boolean => name in advice || name === 'InvalidArgument'

const otherAdvice = `Check MILLRACE_LANDING and the AWS_ settings (${docPage('storage.md')}).`

/**
 * As LANDING_REFUSED where another try is useless, else LANDING_UNREACHABLE; the client has tried several times already.
 * @param doing what was tried, as in `write s3://bucket/key`. @param endpoint where, for the person who looks for the server.
 */
const bucketError = (error: unknown, doing: string, endpoint: string): EtlError => {
  if (isEtlError(error)) return error
  const { name, status } = bucketErrorOf(error)
  const found = [name, status === null ? '' : `HTTP ${status}`, messageOf(error)].filter((word) => word !== '').join(', ')
  if (messageOf(error) === 'Region is missing')
    return settingError('AWS_REGION is not set; set it to the region of the bucket in MILLRACE_LANDING.')
  if (isFinal(name) || (status !== null && status >= 300 && status < 500 && status !== 408 && status !== 429)) {
    return new EtlError('LANDING_REFUSED', `${endpoint} refused to ${doing} (${found}). ${advice[name] ?? otherAdvice}`, {
      cause: error,
    })
  }
  return new EtlError(
    'LANDING_UNREACHABLE',
    `${endpoint} did not ${doing} in ${bucketAttempts} tries (${found}). See whether the server answers; then run the same command again: no report is bought again.`,
    { cause: error },
  )
}

/** Tries of one request, the first one included. */
const bucketAttempts = 5
