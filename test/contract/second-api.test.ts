// A second API, whose whole folder is test/support/second-api/sources/shop-api: another key header, cursor paging, another dimension, no reports.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import { redact } from '../../src/core/redact.ts'
import type { Definition } from '../../src/core/types.ts'
import { datasetMigration, dimensionsOf } from '../../src/run/new-migration.ts'
import { assertDefinitions, loadDefinitions } from '../../src/definition/load.ts'
import type { SentRequest } from '../../src/core/sent-request.ts'
import type { ProbeContext, Source, SourceContext } from '../../src/extract/source.ts'
import { type ApiSettings, createServices, readApiSettings } from '../../src/run/apis.ts'
import { loadSourceFolders, type SourceFolders } from '../../src/sources/registry.ts'
import { boxOf } from '../support/definitions.ts'
import { type ShopService, startShopService } from '../support/second-api/server.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const root = join(repository, 'test', 'support', 'second-api')
const token = 'token-of-the-shop-0123456789'
const acmeToken = 'token-of-acme-0123456789'
const firstKey = 'key-of-the-first-api-0123456789'

let shop: ShopService
let folders: SourceFolders
let definition: Definition
let settings: ApiSettings
const sent: SentRequest[] = []

beforeAll(async () => {
  shop = await startShopService([token, acmeToken], 100)
  folders = await loadSourceFolders([join(root, 'sources')])
  const loaded = await loadDefinitions({ folder: join(root, 'pipelines'), sources: folders.sources })
  assertDefinitions(loaded)
  definition = loaded.definitions[0] ?? expect.fail('no definition')
  settings = settingsFor({})
})
afterAll(() => shop.close())

const settingsFor = (others: Readonly<Record<string, string>>): ApiSettings =>
  readApiSettings(folders.apis, {
    SHOP_API_URL: shop.url,
    SHOP_API_TOKEN: token,
    SHOP_API_TOKEN_ACME: acmeToken,
    SHOP_API_REQUESTS_PER_SECOND: '500',
    WEB_ANALYTICS_BASE_URL: 'http://127.0.0.1:1',
    WEB_ANALYTICS_API_KEY: firstKey,
    ...others,
  })

const look = (read = settings, account = 'default'): ProbeContext => {
  const signal = new AbortController().signal
  const service = createServices(read, { database: null, log: silentLog, clock: systemClock })({
    source: 'shop-api.prices',
    account,
  })
  const limits = { timeoutMs: 5_000, attempts: 1, maxBodyBytes: 1_000_000 }
  const http = service.forUnit({ account, signal, ...limits, record: (request) => sent.push(request) })
  return { http, log: silentLog, clock: systemClock, signal }
}

const sourceOf = (): Source => folders.sources.get('shop-api.prices') ?? expect.fail('no source')

const extract = async (context: ProbeContext) => {
  const unused = (): never => expect.fail('a walk buys no report')
  const report = new Proxy({}, { get: unused }) as SourceContext['report']
  const request = { definition, box: boxOf(definition, '2026-09', { shop: 'north' }) }
  const walk = sourceOf().extract(request, {
    ...context,
    report,
    reportHook: null,
    resubmitUncertain: false,
    notice: () => undefined,
  })
  const parts: string[] = []
  for (;;) {
    const next = await walk.next()
    if (next.done === true) return { parts, complete: next.value }
    for await (const chunk of next.value.body) parts[next.value.part - 1] = Buffer.from(chunk).toString()
  }
}

const refusal = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return 'no refusal'
}

describe('an API in one folder', () => {
  test('is read page by page with its own cursor, and its announced count proves the answer whole', async () => {
    shop.requests.length = 0
    const { parts, complete } = await extract(look())
    expect(parts.flatMap((part) => JSON.parse(part).items)).toHaveLength(100)
    expect(complete).toMatchObject({ expectedRows: 100 })
    expect(shop.requests.map(({ query }) => query['cursor'] ?? 'first')).toEqual(['first', 'NDA', 'ODA'])
  })

  test('is asked with its own token in its own header, and with nothing of the other API', async () => {
    shop.requests.length = 0
    await extract(look())
    await extract(look(settings, 'acme'))
    expect([...new Set(shop.requests.map(({ headers }) => headers['x-shop-token']))]).toEqual([token, acmeToken])
    const asked = JSON.stringify(shop.requests)
    expect(asked).not.toContain(firstKey)
    expect(asked).not.toMatch(/api[_-]key/)
  })

  test('keeps its token out of what is recorded and printed', async () => {
    expect(JSON.stringify(sent)).not.toContain(token)
    expect(redact(`the token is ${token}, acme's ${acmeToken}`)).toBe("the token is [secret], acme's [secret]")
    expect(JSON.stringify(settings.connection(definition))).not.toContain(token)
    const refused = await extract(look(settingsFor({ SHOP_API_TOKEN: 'wrong-token-0123456789' }))).catch((error: Error) => error)
    expect(refused).toMatchObject({ code: 'KEY_REFUSED', message: expect.stringContaining('SHOP_API_TOKEN') })
  })

  test('has a pace of its own, whatever the other API’s', () => {
    const read = settingsFor({ SHOP_API_REQUESTS_PER_SECOND: '', WEB_ANALYTICS_REQUESTS_PER_SECOND: '3' })
    const allowed = ['shop-api.prices', 'web-analytics.keywords'].map((source) => read.allowance({ source, account: 'default' }))
    expect(allowed.map(({ requestsPerSecond }) => requestsPerSecond)).toEqual([5, 3])
  })

  test('never falls back to the other API’s address or key', () => {
    const read = settingsFor({ SHOP_API_URL: '', SHOP_API_TOKEN: '' })
    const said = refusal(() => read.connection(definition))
    expect(said).toMatch(/SHOP_API_URL is not set.*\nSHOP_API_TOKEN is not set/)
    expect(said).not.toContain('WEB_ANALYTICS')
  })

  test('answers `millrace check` itself', async () => {
    const { check } = folders.apis.get('shop-api') ?? expect.fail('no API')
    const [dimension] = definition.dimensions
    const wrong = { ...definition, dimensions: [{ ...(dimension ?? expect.fail('no dimension')), values: ['north', 'east'] }] }
    expect(await check?.(look().http, [definition, wrong])).toEqual([
      { level: 'error', message: "prices: there is no shop 'east'; correct for_each." },
    ])
  })

  test('stands in the documentation as it stands here', () => {
    const code = readFileSync(join(root, 'sources', 'shop-api', 'index.ts'), 'utf8').replace(
      /'(\.\.\/)+src\/index\.ts'/,
      "'millrace'",
    )
    const page = 'templates/warehouse/sources/README.md'
    expect(readFileSync(join(repository, page), 'utf8')).toContain('```ts\n' + code + '```')
  })

  test('has the migration that the program writes, and the definition that the documentation shows', () => {
    const migration = readFileSync(join(root, 'migrations', '9001_prices_v1.ts'), 'utf8')
    expect(datasetMigration(definition, dimensionsOf(definition))).toBe(migration)
    const yaml = readFileSync(join(root, 'pipelines', 'prices.yaml'), 'utf8').replace(/^#.*\n/, '')
    expect(readFileSync(join(repository, 'docs', 'adding-a-source.md'), 'utf8')).toContain('```yaml\n' + yaml + '```')
  })
})
