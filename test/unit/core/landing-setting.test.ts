// MILLRACE_LANDING read: folders, buckets, and mistakes named with what was expected.
import { describe, expect, test } from 'vitest'
import { landingSetting } from '../../../src/core/landing-setting.ts'
import { redact } from '../../../src/core/redact.ts'

const read = (raw: Record<string, string>) => landingSetting(raw, '/home/x/.millrace', '/home/x')
const failure = (raw: Record<string, string>): string => {
  try {
    read(raw)
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return 'no failure'
}

describe('the place of landings', () => {
  test('is a folder unless a bucket is named', () => {
    expect(read({})).toEqual({ kind: 'folder', folder: '/home/x/.millrace/landing' })
    expect(read({ MILLRACE_LANDING: '' })).toEqual({ kind: 'folder', folder: '/home/x/.millrace/landing' })
    expect(read({ MILLRACE_LANDING: 'shared' })).toEqual({ kind: 'folder', folder: '/home/x/shared' })
    expect(read({ MILLRACE_LANDING: '/mnt/shared' })).toEqual({ kind: 'folder', folder: '/mnt/shared' })
  })

  test('is a bucket with a prefix, in the region and with the key that are set', () => {
    expect(read({ MILLRACE_LANDING: 's3://warehouse/a/b/', AWS_REGION: 'eu-central-1' })).toEqual({
      kind: 'bucket',
      bucket: 'warehouse',
      prefix: 'a/b/',
      endpoint: null,
      pathStyle: false,
      region: 'eu-central-1',
      credentials: null,
    })
    const own = read({
      MILLRACE_LANDING: 's3://warehouse',
      AWS_ENDPOINT_URL_S3: 'https://minio.example.com:9000',
      AWS_ACCESS_KEY_ID: 'id',
      AWS_SECRET_ACCESS_KEY: 'very-secret-key',
      AWS_SESSION_TOKEN: 'very-secret-token',
    })
    expect(own).toMatchObject({ prefix: '', region: 'us-east-1', pathStyle: true })
    expect(JSON.stringify(own)).not.toContain('very-secret')
    expect(redact('very-secret-key and very-secret-token')).not.toContain('very-secret')
  })

  test('may want the bucket in the host name at a server of its own', () => {
    const raw = { MILLRACE_LANDING: 's3://warehouse', AWS_ENDPOINT_URL: 'https://s3.example.com' }
    expect(read({ ...raw, MILLRACE_LANDING_PATH_STYLE: 'false' })).toMatchObject({ pathStyle: false })
    expect(failure({ ...raw, MILLRACE_LANDING_PATH_STYLE: 'no' })).toContain(
      "MILLRACE_LANDING_PATH_STYLE is 'no', expected true or false",
    )
  })

  test.each([
    ['s3://', 's3://bucket/prefix'],
    ['s3://Bucket', 's3://bucket/prefix'],
    ['s3://bucket//a', 's3://bucket/prefix'],
    ['s3://bucket/../a', 's3://bucket/prefix'],
    ['s3://bucket/a b', 's3://bucket/prefix'],
    ['gs://bucket/a', 'expected a folder or s3://bucket/prefix'],
  ])('%s is refused with what was expected', (text, expected) => {
    expect(failure({ MILLRACE_LANDING: text })).toContain(expected)
  })

  test('is refused with half a key or an endpoint that is none, without saying what was set', () => {
    const raw = { MILLRACE_LANDING: 's3://bucket/a' }
    expect(failure({ ...raw, AWS_SECRET_ACCESS_KEY: 'very-secret-key' })).toMatch(/AWS_ACCESS_KEY_ID is not/)
    expect(failure({ ...raw, AWS_SECRET_ACCESS_KEY: 'very-secret-key' })).not.toContain('very-secret')
    for (const endpoint of ['minio:9000', 'https://user:password-x@minio', 'https://minio/?a=b', 'ftp://minio']) {
      expect(failure({ ...raw, AWS_ENDPOINT_URL_S3: endpoint }), endpoint).toContain('AWS_ENDPOINT_URL_S3 is no address')
      expect(failure({ ...raw, AWS_ENDPOINT_URL_S3: endpoint })).not.toContain('password-x')
    }
  })
})
