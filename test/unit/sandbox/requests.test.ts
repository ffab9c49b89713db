import { describe, expect, test } from 'vitest'
import { checkReport, checkShopper } from '../../../src/sandbox/batch-endpoints.ts'
import { checkKeywords } from '../../../src/sandbox/keyword-endpoint.ts'
import { createCalendar } from '../../../src/sandbox/publication-calendar.ts'

const calendar = createCalendar(
  () => Date.parse('2026-06-20T12:00:00Z'),
  () => 61,
)

const report = (patch: Record<string, unknown> = {}, filters: Record<string, unknown> = {}): Record<string, unknown> => ({
  delivery_information: { response_format: 'csv', delivery_method: 'download_link' },
  report_query: {
    tables: [
      {
        vtable: 'traffic_and_engagement',
        granularity: 'monthly',
        filters: { domains: ['a.example'], countries: ['WW'], include_subdomains: true, ...filters },
        metrics: ['all_traffic_visits'],
        start_date: '2026-01',
        end_date: '2026-03',
        ...patch,
      },
    ],
  },
})
const errorsOf = (body: unknown): readonly string[] => {
  const checked = checkReport(body, calendar)
  return checked.ok ? [] : checked.errors
}

describe('a general report request', () => {
  test('as the interface shows it becomes a query', () => {
    const checked = checkReport(report(), calendar)
    expect(checked.ok && checked.value.tables[0]?.dates).toEqual(['2026-01-01', '2026-02-01', '2026-03-01'])
  })

  test('days and weeks become their own dates; a week belongs where its Monday lies', () => {
    const dates = (granularity: string): readonly string[] => {
      const checked = checkReport(report({ granularity, end_date: '2026-01' }), calendar)
      return checked.ok ? (checked.value.tables[0]?.dates ?? []) : []
    }
    expect(dates('daily')).toHaveLength(31)
    expect(dates('weekly')).toEqual(['2026-01-05', '2026-01-12', '2026-01-19', '2026-01-26'])
  })

  test.each<[string, unknown, RegExp]>([
    ['no body', undefined, /^body: /],
    ['no tables', { ...report(), report_query: { tables: [] } }, /^report_query\.tables: expected at least one table/],
    [
      'an unknown table',
      report({ vtable: 'visits' }),
      /tables\[0\]\.vtable: unknown table 'visits'; there are traffic_and_engagement/,
    ],
    ['an unknown metric', report({ metrics: ['visits'] }), /tables\[0\]\.metrics: unknown metric 'visits'/],
    ['a metric not offered weekly', report({ granularity: 'weekly', metrics: ['all_page_views'] }), /at granularity weekly/],
    [
      'the other spelling of the world',
      report({}, { countries: ['world'] }),
      /filters\.countries: country 'world' is not available; expected upper-case/,
    ],
    ['a lower-case country', report({}, { countries: ['us'] }), /country 'us'/],
    [
      'a domain with www.',
      report({}, { domains: ['www.a.example'] }),
      /filters\.domains\[0\]: expected a domain without 'www\.'/,
    ],
    [
      'a month not yet published',
      report({ end_date: '2026-06' }),
      /end_date: 2026-06 is out of range; latest available is 2026-05/,
    ],
    ['a month before the history', report({ start_date: '2019-01' }), /earliest available period is 2021-05/],
    ['dates the wrong way round', report({ start_date: '2026-04' }), /start_date: 2026-04 lies after end_date/],
    ['an unknown field', report({ metric: [] }), /tables\[0\]: .*metric/],
    ['a missing field', report({ metrics: undefined }), /tables\[0\]\.metrics: /],
    ['a value twice', report({}, { domains: ['a.example', 'a.example'] }), /filters\.domains: a value appears twice/],
    [
      'another format',
      { ...report(), delivery_information: { response_format: 'parquet' } },
      /response_format: expected 'csv' or 'json'/,
    ],
  ])('%s is refused with the name of the field', (_, body, expected) => {
    expect(errorsOf(body).join('\n')).toMatch(expected)
  })

  test('every problem is named at once', () => {
    expect(errorsOf(report({ metrics: ['x', 'y'], end_date: '2026-06' }, { countries: ['world'] }))).toHaveLength(4)
  })
})

describe('a shopper report request', () => {
  const shopper = {
    domains: ['a.example'],
    category_ids: [1001],
    metrics: ['category_sales_performance_revenue'],
    start_date: '2026-01',
    end_date: '2026-01',
    granularity: 'monthly',
    response_format: 'csv',
  }

  test('as the interface shows it becomes a query', () => {
    expect(checkShopper(shopper, calendar).ok).toBe(true)
  })

  test.each([
    [{ category_ids: ['1001'] }, /category_ids\[0\]/],
    [{ metrics: ['revenue'] }, /metrics: unknown metric 'revenue'/],
    [{ granularity: 'daily' }, /granularity: expected 'monthly'/],
    [{ start_date: '2026-1' }, /start_date: expected YYYY-MM/],
  ])('%j is refused', (patch, expected) => {
    const checked = checkShopper({ ...shopper, ...patch }, calendar)
    expect(checked.ok ? '' : checked.errors.join()).toMatch(expected)
  })
})

describe('a keyword request', () => {
  const check = (query: string) => checkKeywords(new URLSearchParams(query), calendar, { maxLimit: 2000, extensions: true })

  test('has the defaults of the interface, and the newest month', () => {
    expect(check('URL=a.example&country=us')).toEqual({
      query: {
        domain: 'a.example',
        country: 'us',
        from: '2026-05',
        to: '2026-05',
        trafficSource: 'All',
        webSource: 'Total',
        brandedType: 'All',
      },
      limit: 100,
      offset: 0,
      sort: null,
      ascending: null,
    })
  })

  test('understands other cases of the filters', () => {
    expect(check('URL=a.example&country=world&branded_type=non_branded')).toMatchObject({ query: { brandedType: 'NonBranded' } })
  })

  test.each([
    ['country=us', 100, /^URL: ''/],
    ['URL=www.a.example&country=us', 100, /^URL: /],
    ['URL=https://a.example&country=us', 100, /^URL: /],
    ['URL=a.example', 103, /^country: ''/],
    ['URL=a.example&country=WW', 103, /^country: 'WW'/],
    [
      'URL=a.example&country=us&start_date=2026-06&end_date=2026-06',
      101,
      /2026-06 is out of range; available are 2021-05 to 2026-05/,
    ],
    ['URL=a.example&country=us&start_date=2026-05-01', 101, /expected YYYY-MM/],
    ['URL=a.example&country=us&start_date=2026-05&end_date=2026-04', 101, /lies after/],
    ['URL=a.example&country=us&start_date=2026-01&end_date=2026-04', 101, /at most 3 months/],
    ['URL=a.example&country=us&limit=2001', 100, /^limit: '2001'; expected a whole number from 1 to 2000/],
    ['URL=a.example&country=us&offset=-1', 100, /^offset: /],
    ['URL=a.example&country=us&web_source=Tablet', 100, /^web_source: 'Tablet'; expected Desktop, MobileWeb, Total/],
    ['URL=a.example&country=us&domain=a.example', 100, /^domain: unknown parameter/],
    ['URL=a.example&country=us&limit=1&limit=2', 100, /^limit: given more than once/],
  ])('%s is refused with code %i', (query, code, message) => {
    expect(check(query)).toEqual({ code, message: expect.stringMatching(message) })
  })
})
