// What an S3-compatible server refuses, and a network that loses it, in our own words.
import { docPage } from '../core/shipped.ts'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'

/** The server's name for what went wrong and the answer's status, as far as there are any. */
export const refusalOf = (error: unknown): { readonly name: string; readonly status: number | null } => {
  if (typeof error !== 'object' || error === null) return { name: '', status: null }
  const name = 'name' in error ? String(error.name) : ''
  const metadata = '$metadata' in error ? error.$metadata : null
  const status =
    typeof metadata === 'object' && metadata !== null && 'httpStatusCode' in metadata ? Number(metadata.httpStatusCode) : null
  return { name, status: status !== null && Number.isInteger(status) ? status : null }
}

/** By its name alone: unknown keys, unknown buckets and proxies say 404 too, which must never look like a landing that is gone. */
export const isMissing = (error: unknown): boolean => ['NoSuchKey', 'NoSuchUpload'].includes(refusalOf(error).name)

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

/** Names that promise nothing of another try, though no status says so. */
const isFinal = (name: string): boolean => name in advice || name === 'InvalidArgument'

const otherAdvice = `Check MILLRACE_LANDING and the AWS_ settings (${docPage('storage.md')}).`

/**
 * As LANDING_REFUSED where another try is useless, else LANDING_UNREACHABLE; the client has tried several times already.
 * @param doing what was tried, as in `write s3://bucket/key`. @param endpoint where, for the person who looks for the server.
 */
export const bucketError = (error: unknown, doing: string, endpoint: string): EtlError => {
  if (isEtlError(error)) return error
  const { name, status } = refusalOf(error)
  const found = [name, status === null ? '' : `HTTP ${status}`, messageOf(error)].filter((word) => word !== '').join(', ')
  if (messageOf(error) === 'Region is missing')
    return new EtlError('CONFIGURATION', 'AWS_REGION is not set; set it to the region of the bucket in MILLRACE_LANDING.')
  if (isFinal(name) || (status !== null && status >= 300 && status < 500 && status !== 408 && status !== 429)) {
    return new EtlError('LANDING_REFUSED', `${endpoint} refused to ${doing} (${found}). ${advice[name] ?? otherAdvice}`, {
      cause: error,
    })
  }
  return new EtlError(
    'LANDING_UNREACHABLE',
    `${endpoint} did not ${doing} in ${bucketAttempts} tries (${found}). See whether the server answers; then run the same command again: what is paid for is not bought again.`,
    { cause: error },
  )
}

/** Tries of one request, the first one included. */
export const bucketAttempts = 5
