import { describe, expect, test } from 'vitest'
import { type KeywordQuery, type KeywordWorld, keywordView } from '../../../src/sandbox/keyword-data.ts'
import { awkwardKeywords } from '../../../src/sandbox/words.ts'

const query: KeywordQuery = {
  domain: 'example.com',
  country: 'us',
  from: '2026-01',
  to: '2026-01',
  trafficSource: 'All',
  webSource: 'Total',
  brandedType: 'All',
}
const world: KeywordWorld = { seed: 1, rows: 500, generation: 0, settled: true, hostile: false }

const texts = (asked: Partial<KeywordQuery> = {}, where: Partial<KeywordWorld> = {}): string[] => {
  const view = keywordView({ ...query, ...asked }, { ...world, ...where })
  return Array.from({ length: view.count }, (_, index) => view.record(index))
}

interface Row {
  readonly keyword: string
  readonly clicks: number
  readonly top_url: string
  readonly [field: string]: unknown
}

const rows = (asked?: Partial<KeywordQuery>, where?: Partial<KeywordWorld>): Row[] =>
  texts(asked, where).map((text): Row => JSON.parse(text))
const keysOf = (list: readonly Row[]): string[] => list.map(({ keyword, top_url }) => `${keyword}\n${top_url}`)

describe('keyword data', () => {
  test('the same seed, domain, country and month give the same bytes', () => {
    expect(texts()).toEqual(texts())
  })

  test('another seed, domain, country or month gives other rows', () => {
    const one = texts().join()
    expect(texts({}, { seed: 2 }).join()).not.toBe(one)
    expect(texts({ domain: 'example.net' }).join()).not.toBe(one)
    expect(texts({ country: 'gb' }).join()).not.toBe(one)
    expect(texts({ from: '2026-02', to: '2026-02' }).join()).not.toBe(one)
  })

  test('a record is the same whichever page it is asked in', () => {
    const view = keywordView(query, world)
    expect(view.record(321)).toBe(texts()[321])
  })

  test.each([1, 3, 10, 50, 500, 5_000])('%i rows have as many distinct keys, in descending clicks', (count) => {
    for (const generation of [0, 1, 2]) {
      const list = rows({}, { rows: count, generation })
      expect(new Set(keysOf(list)).size).toBe(list.length)
      expect(list.every((row, index) => index === 0 || row.clicks <= (list[index - 1]?.clicks ?? 0))).toBe(true)
    }
    expect(rows({}, { rows: count })).toHaveLength(count)
  })

  test('branded and other keywords are together all keywords, with the same clicks', () => {
    const both = [...texts({ brandedType: 'Branded' }), ...texts({ brandedType: 'NonBranded' })]
    expect(both.toSorted()).toEqual(texts().toSorted())
  })

  test('filters change the numbers', () => {
    const clicks = (asked: Partial<KeywordQuery>): number => rows(asked).reduce((sum, row) => sum + row.clicks, 0)
    expect(clicks({ webSource: 'Desktop' })).toBeLessThan(clicks({}))
    expect(rows({ trafficSource: 'Paid' }).length).toBeLessThan(rows().length)
  })

  test('a restatement changes a share of the rows, takes some away and brings some', () => {
    const byKey = (list: readonly string[]): Map<string, string> =>
      new Map(list.map((text) => [keysOf([JSON.parse(text)]).join(), text]))
    const [before, after] = [byKey(texts()), byKey(texts({}, { generation: 1 }))]
    const gone = [...before.keys()].filter((key) => !after.has(key))
    const fresh = [...after.keys()].filter((key) => !before.has(key))
    const changed = [...after].filter(([key, text]) => before.has(key) && before.get(key) !== text)
    expect(gone.length).toBeGreaterThan(0)
    expect(gone.length).toBeLessThan(25)
    expect(fresh.length).toBeGreaterThan(0)
    expect(changed.length).toBeGreaterThan(100)
    expect(changed.length).toBeLessThan(250)
    expect(texts({}, { generation: 1 })).toEqual(texts({}, { generation: 1 }))
    expect(texts({}, { generation: 2 })).not.toEqual(texts({}, { generation: 1 }))
  })

  test('before the 14th only volume and prices differ from the settled values', () => {
    const [settled, early] = [rows(), rows({}, { settled: false })]
    const differing = new Set(
      settled.flatMap((row, index) =>
        Object.keys(row).filter((name) => row[name] !== early[index]?.[name] && !Array.isArray(row[name])),
      ),
    )
    expect([...differing].sort()).toEqual(['cpc', 'cpc_high_bid', 'cpc_low_bid', 'volume'])
  })

  test('what belongs to the keyword is the same for every domain', () => {
    const theirs = new Map(rows({ domain: 'example.net' }).map((row) => [row.keyword, row]))
    const shared = rows().filter(({ keyword }) => theirs.has(keyword))
    expect(shared.length).toBeGreaterThan(50)
    for (const row of shared) expect(theirs.get(row.keyword)?.['volume']).toBe(row['volume'])
  })

  test('nulls, absent fields, fractions, two landing pages and awkward keywords occur', () => {
    const list = rows()
    const keywords = list.map(({ keyword }) => keyword)
    for (const keyword of awkwardKeywords) expect(keywords).toContain(keyword)
    for (const field of ['difficulty', 'competition', 'secondary_intent'])
      expect(list.some((row) => row[field] === null)).toBe(true)
    for (const field of ['difficulty', 'cpc_low_bid', 'cpc_high_bid']) expect(list.some((row) => !(field in row))).toBe(true)
    expect(list.some((row) => !Number.isInteger(row['traffic_share']))).toBe(true)
    expect(new Set(keywords).size).toBeLessThan(keywords.length)
  })

  test('a record has the fields of the interface and their types', () => {
    const integers = ['clicks', 'difficulty', 'competition', 'volume', 'position']
    for (const row of rows()) {
      for (const field of integers)
        expect([row[field]].every((value) => value === null || value === undefined || Number.isInteger(value))).toBe(true)
      expect(row.top_url).not.toMatch(/^https?:/)
      expect(Array.isArray(row['serp_features'])).toBe(true)
    }
    expect(Object.keys(rows().find((row) => Object.keys(row).length === 15) ?? {})).toEqual([
      'keyword', 'clicks', 'traffic_share', 'difficulty', 'competition', 'primary_intent', 'secondary_intent', 'volume', 'cpc', 'cpc_low_bid',
      'cpc_high_bid', 'zero_clicks_share', 'position', 'serp_features', 'top_url',
    ]) // biome-ignore format: a word list
  })

  test('hostile data holds integers beyond 2^53 and 40 digits, and is still JSON', () => {
    const text = texts({}, { hostile: true }).join('\n')
    expect(text).toContain('"clicks":9007199254740993,')
    expect(text).toContain('0.1234567890123456789012345678901234567891')
    expect(rows({}, { hostile: true })).toHaveLength(500)
  })

  test('no rows are no rows', () => {
    expect(keywordView(query, { ...world, rows: 0, generation: 2 }).count).toBe(0)
  })
})
