// MILLRACE_LANDING: a folder (also one that machines share) or an S3-compatible bucket, with the usual AWS_* variables for the latter.
import { join, resolve } from 'node:path'
import { plainAddress } from './address.ts'
import { settingError } from './errors.ts'
import { secret } from './redact.ts'

/** Where answers are kept. A folder is absolute, and every process of the warehouse reaches it. */
export type LandingSetting = { readonly kind: 'folder'; readonly folder: string } | BucketSetting

/** A bucket of an S3 server, with its connection settings. */
export type BucketSetting = ReturnType<typeof bucketSetting>

type Raw = Readonly<Record<string, string>>

const name = 'MILLRACE_LANDING'
const expected = `expected a folder or s3://bucket/prefix, such as s3://warehouse-landing/millrace`

/** Unset: `landing` under `home`. Throws CONFIGURATION. @param folder the one relative paths start from. */
export const landingSetting = (raw: Raw, home: string, folder: string): LandingSetting => {
  const text = raw[name]
  if (!text) return { kind: 'folder', folder: join(home, 'landing') }
  if (text.startsWith('s3://')) return bucketSetting(raw, text, name)
  if (/^[a-z][a-z0-9+.-]*:\/\//i.test(text)) throw settingError(`${name} is '${text}', ${expected}.`)
  return { kind: 'folder', folder: resolve(folder, text) }
}

/** Throws CONFIGURATION. @param name where the address was written, for people. */
export const bucketSetting = (raw: Raw, text: string, name: string) => {
  const [, bucket = '', prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/(.*))?$/.exec(text) ?? []
  const words = prefix.replace(/\/+$/, '').split('/')
  const plain = prefix === '' || words.every((word) => /^[\w.-]+$/.test(word) && !/^\.+$/.test(word))
  if (bucket === '' || !plain) throw settingError(`${name} is '${text}', ${expected} (letters, digits, '.', '_' and '-').`)
  const endpoint = endpointOf(raw)
  return {
    kind: 'bucket' as const,
    bucket,
    /** Before every object's name: empty, or ends with a slash. */
    prefix: prefix === '' ? '' : `${words.join('/')}/`,
    /** Null: Amazon's own. */
    endpoint,
    /** The bucket is in the path (`https://host/bucket/key`), not in the host name (`https://bucket.host/key`). */
    pathStyle: pathStyleOf(raw, endpoint !== null),
    /** Null region or credentials: taken from the machine's AWS configuration (profile, role of the machine or container). */
    region: raw['AWS_REGION'] || raw['AWS_DEFAULT_REGION'] || (endpoint === null ? null : 'us-east-1'),
    credentials: credentialsOf(raw),
  }
}

const endpointOf = (raw: Raw): URL | null => {
  const variable = raw['AWS_ENDPOINT_URL_S3'] ? 'AWS_ENDPOINT_URL_S3' : 'AWS_ENDPOINT_URL'
  const text = raw[variable]
  if (!text) return null
  const url = plainAddress(text)
  if (url === null) throw settingError(`${variable} is no address such as https://minio.example.com:9000.`)
  return url
}

const pathStyleName = 'MILLRACE_LANDING_PATH_STYLE'

/** Self-hosted servers mostly have no host name for each bucket; Amazon requires one. */
const pathStyleOf = (raw: Raw, otherwise: boolean): boolean => {
  const text = raw[pathStyleName] || String(otherwise)
  if (text !== 'true' && text !== 'false') throw settingError(`${pathStyleName} is '${text}', expected true or false.`)
  return text === 'true'
}

const credentialsOf = (raw: Raw) => {
  const [id, key, token] = [raw['AWS_ACCESS_KEY_ID'], raw['AWS_SECRET_ACCESS_KEY'], raw['AWS_SESSION_TOKEN']]
  if (!id && !key) return null
  if (!id || !key) {
    const [given, missing] = id ? ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'] : ['AWS_SECRET_ACCESS_KEY', 'AWS_ACCESS_KEY_ID']
    throw settingError(`${given} is set and ${missing} is not; set both, or neither to use the machine's own role.`)
  }
  return {
    accessKeyId: id,
    secretAccessKey: secret('AWS_SECRET_ACCESS_KEY', key),
    sessionToken: token ? secret('AWS_SESSION_TOKEN', token) : null,
  }
}
