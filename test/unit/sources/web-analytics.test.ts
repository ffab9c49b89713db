// The settings of the web-analytics service, and which endpoint gets which key in which place.
import { inspect } from 'node:util'
import { describe, expect, test } from 'vitest'
import { isEtlError } from '../../../src/core/errors.ts'
import type { Secret } from '../../../src/core/redact.ts'
import type { Connection } from '../../../src/extract/http-types.ts'
import { dialectNamed, endpoints } from '../../../src/sources/web-analytics/service-dialect.ts'
import { allowance, connection, environmentFor } from '../../../src/sources/web-analytics/settings.ts'

const environment = {
  WEB_ANALYTICS_BASE_URL: 'https://api.example.com/base',
  WEB_ANALYTICS_API_KEY: 'rest-key-0123456789',
  WEB_ANALYTICS_BATCH_API_KEY: 'batch-key-0123456789',
  WEB_ANALYTICS_API_KEY_ACME: 'acme-key-0123456789',
}

const shown = (value: string | Secret): string => (typeof value === 'string' ? value : value.reveal())
const revealed = (values: Readonly<Record<string, string | Secret>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, shown(value)]))

const authentication = ({ authenticate, baseUrl }: Connection, endpoint: string) => {
  const { headers, query } = authenticate({ method: 'GET', endpoint, url: baseUrl, idempotent: true })
  return { headers: revealed(headers), query: revealed(query) }
}

const complaint = (work: () => unknown): string => {
  try {
    work()
  } catch (error) {
    if (isEtlError(error) && error.code === 'CONFIGURATION') return error.message
    throw error
  }
  return 'no complaint'
}

describe('the web-analytics service', () => {
  test('gets the key in the query of its free and keyword endpoints, and in a header of the batch endpoints', () => {
    const own = connection(environment, 'default')
    for (const name of ['keywords', 'capabilities'] as const)
      expect(authentication(own, endpoints[name])).toEqual({ headers: {}, query: { api_key: 'rest-key-0123456789' } })
    const inHeader = { headers: { 'api-key': 'batch-key-0123456789', 'content-type': 'application/json' }, query: {} }
    for (const name of ['shopper', 'report', 'status', 'describe', 'credits', 'validate', 'retry'] as const)
      expect(authentication(own, endpoints[name])).toEqual(inHeader)
  })

  test('speaks V5 where an account says so: other paths, and the key in a header everywhere', () => {
    const spoken = connection({ ...environment, WEB_ANALYTICS_DIALECT_ACME: 'v5' }, 'acme')
    expect([spoken.dialect, connection(environment, 'default').dialect]).toEqual(['v5', 'v4'])
    for (const path of Object.values(dialectNamed('v5').paths))
      if (path !== null)
        expect(authentication(spoken, path)).toMatchObject({ query: {}, headers: { 'api-key': 'acme-key-0123456789' } })
    const { country, filter } = dialectNamed('v5').keywords
    expect([country('world'), country('US'), filter('NonBranded'), filter('MobileWeb'), filter('All')]).toEqual([
      'ww',
      'us',
      'non_branded',
      'mobile_web',
      'all',
    ])
    expect(complaint(() => connection({ ...environment, WEB_ANALYTICS_DIALECT: 'v6' }, 'default'))).toContain('expected v4 or v5')
  })

  test('in V5, too, pages come with the key and reports with the batch key', () => {
    const spoken = connection({ ...environment, WEB_ANALYTICS_DIALECT: 'v5' }, 'default')
    const { keywords, report, status, credits } = dialectNamed('v5').paths
    expect(authentication(spoken, keywords)).toMatchObject({ query: {}, headers: { 'api-key': 'rest-key-0123456789' } })
    for (const path of [report, status, credits])
      expect(authentication(spoken, path).headers['api-key']).toBe('batch-key-0123456789')
  })

  test('is asked by each account with its own key; the batch key is the same unless it is set', () => {
    const acme = connection(environment, 'acme')
    expect(authentication(acme, endpoints.keywords).query).toEqual({ api_key: 'acme-key-0123456789' })
    expect(authentication(acme, endpoints.report).headers['api-key']).toBe('acme-key-0123456789')
    expect(complaint(() => connection(environment, 'other'))).toContain('WEB_ANALYTICS_API_KEY_OTHER is not set')
  })

  test('has keys that nothing prints', () => {
    const own = connection(environment, 'default')
    const parts = [own, own.authenticate({ method: 'GET', endpoint: endpoints.report, url: own.baseUrl, idempotent: true })]
    for (const text of [JSON.stringify(parts), inspect(parts, { depth: 9 })]) expect(text).not.toMatch(/-key-0123456789/)
  })

  test('says everything that is missing or wrong in one go', () => {
    expect(complaint(() => connection({ WEB_ANALYTICS_DOWNLOAD_HOSTS: 'https://x' }, 'default')).split('\n')).toEqual([
      expect.stringMatching(/^WEB_ANALYTICS_BASE_URL is not set/),
      expect.stringMatching(/^WEB_ANALYTICS_API_KEY is not set/),
      expect.stringMatching(/^WEB_ANALYTICS_DOWNLOAD_HOSTS names 'https:\/\/x'/),
    ])
  })

  test('may have paths of its own and other hosts for downloads', () => {
    const { paths, allowedDownloadHosts } = connection(
      { ...environment, WEB_ANALYTICS_PATH_STATUS: '/v9/status', WEB_ANALYTICS_DOWNLOAD_HOSTS: 'files.example.com' },
      'default',
    )
    expect([paths?.get('status'), allowedDownloadHosts]).toEqual(['/v9/status', ['files.example.com']])
    expect(connection(environment, 'default').allowedDownloadHosts).toBeNull()
  })

  test('allows ten requests a second and has no budget, unless the settings say otherwise; a budget is the account’s', () => {
    expect(allowance({}, 'default')).toMatchObject({ requestsPerSecond: 10, budget: { perMonth: null, perDay: null } })
    const set = {
      WEB_ANALYTICS_REQUESTS_PER_SECOND: '3',
      WEB_ANALYTICS_QUOTA_PER_MONTH_ACME: '500',
      WEB_ANALYTICS_QUOTA_PER_DAY: '7',
    }
    expect(allowance(set, 'acme')).toMatchObject({
      requestsPerSecond: 3,
      budget: {
        perMonth: 500,
        perDay: null,
        setting: { perMonth: 'WEB_ANALYTICS_QUOTA_PER_MONTH_ACME', perDay: 'WEB_ANALYTICS_QUOTA_PER_DAY_ACME' },
      },
    })
    expect(complaint(() => allowance({ WEB_ANALYTICS_QUOTA_PER_DAY: 'few' }, 'default'))).toContain('WEB_ANALYTICS_QUOTA_PER_DAY')
  })

  test('takes prices from a setting, and names a wrong one with what is allowed', () => {
    const prices = (text: string) => allowance({ WEB_ANALYTICS_PRICES: text }, 'default').prices
    expect([...(prices('keywords=0.13/row asked, shopper-report=2/request from 10') ?? [])]).toEqual([
      ['keywords', { basis: 'row asked', credits: 0.13, minimum: 0 }],
      ['shopper-report', { basis: 'request', credits: 2, minimum: 10 }],
    ])
    for (const wrong of ['keywords=-1/row', 'keywords=much/row', 'keywords=1/page', 'keywords'])
      expect(complaint(() => prices(wrong))).toMatch(
        /WEB_ANALYTICS_PRICES holds '.*a number from 0, and what it is for \(row asked, row/,
      )
  })

  test('can be one of one’s own, whatever else is set', () => {
    const settings = {
      ...environment,
      ...environmentFor({ url: 'http://127.0.0.1:1', apiKey: 'sandbox-key-01', requestsPerSecond: 9 }),
    }
    expect(connection(settings, 'default').baseUrl.port).toBe('1')
    expect(authentication(connection(settings, 'default'), endpoints.report).headers['api-key']).toBe('sandbox-key-01')
    expect(allowance(settings, 'default').requestsPerSecond).toBe(9)
  })
})
