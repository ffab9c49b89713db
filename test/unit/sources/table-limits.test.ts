// How much of a table one report asks for: the limit belongs to the table (api-facts G 33, 55, 56), and a definition may lower it.
import { describe, expect, test } from 'vitest'
import { pack } from '../../../src/plan/pack.ts'
import { limitsOf } from '../../../src/plan/plan-context.ts'
import { generalReport } from '../../../src/sources/web-analytics/batch-reports.ts'
import { holdCodeOf } from '../../../src/run/hold-units.ts'
import { filtersOf, pagingOf, tableLimits, tableProblems, withDefaults } from '../../../src/sources/web-analytics/known-tables.ts'
import { loadSourceFolders } from '../../../src/sources/registry.ts'
import { change, problemsIn, reportExample } from '../definition/checking.ts'
import { definitionOf, dimension } from '../plan/definition.ts'

const limits = (vtable: string, bucket: number | null = null, every: 'month' | 'week' = 'month') => {
  const base = definitionOf([dimension('domain', [], bucket), dimension('country', [])])
  const asked = { ...base, params: { vtable }, window: { ...base.window, every } }
  return limitsOf(asked, generalReport, ['domain', 'country'])
}

const reports = (vtable: string, domains: number, months: number, bucket: number | null = null): number => {
  const needed = Array.from({ length: domains }, (_, sliceId) => ({ sliceId, values: [`d${sliceId}.com`, 'us'] }))
  return pack({ first: 0, count: months }, needed, limits(vtable, bucket)).length
}

describe('a report', () => {
  test('of a table of the service takes 40,000 domains at once, of one that derives from REST 100', () => {
    expect(reports('traffic_and_engagement', 40_000, 1)).toBe(1)
    expect(reports('geography', 40_000, 1)).toBe(400)
    expect(reports('traffic_and_engagement', 40_000, 1, 100)).toBe(400)
  })

  test('of a table that nobody knows takes what every table takes', () => {
    expect(reports('a_new_table', 250, 1)).toBe(3)
  })

  test('spans the months that its table takes', () => {
    expect(reports('website_keywords', 1, 36)).toBe(12)
    expect(reports('audience_interests', 1, 48)).toBe(2)
    expect(reports('traffic_and_engagement', 1, 36)).toBe(1)
    // Eight weeks lie in three months wherever they begin.
    expect(limits('website_keywords', null, 'week').windows).toBe(8)
  })

  test('may be told fewer values and months than its table takes, and no more', () => {
    const problems = (params: Record<string, string | number>) =>
      tableProblems({ params: { granularity: 'monthly', ...params } }).map(({ path, message }) => `${path.join('.')}: ${message}`)
    expect(problems({ vtable: 'geography', most_values: 100 })).toEqual([])
    expect(problems({ vtable: 'geography', most_values: 101 })).toEqual([
      'params.most_values: the table geography takes 100 domains a report; write a number from 1 to 100.',
    ])
    expect(problems({ vtable: 'website_keywords', most_months: 12 })).toEqual([
      'params.most_months: the table website_keywords takes 3 months a report; write a number from 1 to 3.',
    ])
    expect(problems({ vtable: 'a_new_table', most_values: 5_000, most_months: 12 }), 'nobody knows better').toEqual([])
  })

  test.each([
    [
      'vtable: geography, most_values: 101',
      '5:43: the table geography takes 100 domains a report; write a number from 1 to 100.',
    ],
    [
      'vtable: website_keywords, most_months: 4',
      '5:50: the table website_keywords takes 3 months a report; write a number from 1 to 3.',
    ],
    ['vtable: referrals, limit: many', "5:37: params.limit is 'many'; expected a number."],
    ['vtable: referrals, limit: -5', "5:37: params.limit is '-5'; expected a number from 1."],
    ['vtable: referrals, limit: 1000001', "5:37: params.limit is '1000001'; expected a number to 1000000."],
  ])('with %s is refused by file and line, with what is allowed', async (params, problem) => {
    const sources = (await loadSourceFolders()).sources
    const problems = problemsIn(change(reportExample, 'vtable: traffic_and_engagement', params), { sources })
    expect(problems).toContain(`pipelines/p.yaml:${problem}`)
  })

  test('names the rows it wants of a table that has many, and may be told another number', () => {
    const paging = (params: Record<string, string | number>): unknown => pagingOf(params)
    expect(paging({ vtable: 'referrals' })).toEqual({ paging: { limit: 100 } })
    expect(paging({ vtable: 'referrals', limit: 500 })).toEqual({ paging: { limit: 500 } })
    expect(paging({ vtable: 'traffic_and_engagement' })).toEqual({})
    // Nobody has seen it take the field; that it stops at 100 rows is assumed all the same.
    expect([paging({ vtable: 'a_new_table' }), tableLimits({ vtable: 'a_new_table' }).rows]).toEqual([{}, 100])
  })

  test('with as many rows as were asked for is cut, and never loaded as complete', () => {
    const unit = (rows: number, previous = 0, refused = 0) => ({
      rows,
      refused,
      previous,
      hasOtherPeriods: false,
      window: 0,
      slice: 0,
    })
    const rule = { shrink: 0.5, mostRows: 100, top: null, vanished: [], strayOf: () => null }
    expect([unit(100), unit(99, 0, 1), unit(200), unit(100, 260)].map((one) => holdCodeOf(rule, one))).toEqual([
      'CAPPED',
      'CAPPED',
      'CAPPED',
      'CAPPED',
    ])
    expect([unit(99), unit(101), unit(0), unit(40, 100)].map((one) => holdCodeOf(rule, one))).toEqual([
      null,
      null,
      null,
      'SHRUNK',
    ])
    expect(holdCodeOf({ shrink: 0.5, mostRows: null, top: null, vanished: [], strayOf: () => null }, unit(100))).toBeNull()
  })

  test('names the lists that its table filters by, and nothing else', () => {
    const filters = (params: Record<string, unknown>): object =>
      filtersOf(withDefaults(params), (dimension) => [`one ${dimension}`])
    expect(filters({ vtable: 'traffic_and_engagement' })).toEqual({
      domains: ['one domain'],
      countries: ['one country'],
      include_subdomains: true,
    })
    expect(filters({ vtable: 'segments' })).toEqual({ segment_ids: ['one segment_id'], countries: ['one country'] })
    expect(filters({ vtable: 'market', filters: [] })).toEqual({})
    expect(filters({ vtable: 'stores', filters: ['companies', 'include_subdomains'] })).toEqual({
      companies: ['one company'],
      include_subdomains: true,
    })
    expect(tableLimits({ vtable: 'stores', filters: ['store_ids'], rows: 'one', most_values: 7, most_months: 2 })).toEqual({
      values: { store_id: 7 },
      months: 2,
    })
  })
})
