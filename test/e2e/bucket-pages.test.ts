// Pages that are paid for and land in a bucket: a stop keeps those that came, and a bucket that is away for a moment does not have them bought again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const world = sandboxWorld({
  lists: { domains: ['example.com'] },
  json: true,
  sandbox: { keywordsPerDomain: 3_000, latencyMs: 100 },
})
let bucket: S3Server

beforeAll(async () => {
  bucket = await startS3Server()
  world.edit('keywords', [/country: .*/, 'country: [us]'], [/page_size: \d+/, 'page_size: 100'], [/attempts: \d+/, 'attempts: 1'])
  await succeeded(world.millrace('migrate'))
})
afterAll(() => bucket.close())

const load = ['backfill', 'keywords', '--from', '2026-08', '--to', '2026-08']
const paid = (): number => world.sandbox.books().quotaUsed
const again = (...asked: readonly string[]) =>
  world.millraceWith(bucket.environment('warehouse'), ...(asked.length === 0 ? load : asked))

test('a unit of thirty pages costs thirty, also where it was stopped and where the bucket did not give back what it has', async () => {
  const running = world.start(load, bucket.environment('warehouse'))
  while (paid() < 12) await new Promise((resolve) => setTimeout(resolve, 20))
  running.child.kill('SIGINT')
  expect((await running.result).code).toBe(130)
  const kept = paid()
  expect(kept).toBeLessThan(30)
  for (const fate of ['fail', 'refuse', 'cut'] as const) {
    bucket.fate = ({ method, key }) => (method === 'GET' && key.endsWith('data.gz') ? fate : 'serve')
    const away = await again()
    expect([away.code, paid()], away.stderr).toEqual([1, kept])
    expect(away.stdout).toContain('LANDING_')
  }
  bucket.fate = () => 'serve'
  expect(summaryOf(await succeeded(again())).rows).toMatchObject({ read: 3_000, inserted: 3_000 })
  expect(paid()).toBe(30)
})

test('and so does one whose answer the bucket took only after it was away for a moment', async () => {
  const before = paid()
  let refused = 0
  bucket.fate = ({ method, key }) => {
    if (method !== 'PUT' || !key.endsWith('data.gz') || refused >= 7) return 'serve'
    refused += 1
    return 'fail'
  }
  const other = load.map((word) => word.replace('2026-08', '2026-07'))
  expect((await again(...other)).stdout).toContain('LANDING_UNREACHABLE')
  expect(summaryOf(await succeeded(again(...other))).rows).toMatchObject({ inserted: 3_000 })
  expect([refused, paid() - before]).toEqual([7, 30])
})
