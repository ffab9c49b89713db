import { expect, test } from 'vitest'
import { definitionOf, dimension, existing, lines, months, plan } from './planning.ts'

const january = { mode: 'range', range: months('2026-01', '2026-02') } as const
const loaded = (domains: readonly string[], loadedOn = '2026-02-11') =>
  existing('2026-01', { domain: domains }, 'loaded', loadedOn)
const domains = (...values: string[]) => definitionOf([dimension('domain', values, 3)])

test('a first plan packs the values into as few units as the bucket allows, whatever their order in the list', () => {
  const expected = ['2026-01/domain=[a.com,b.com,c.com] new', '2026-01/domain=[d.com] new']
  expect(lines(plan(domains('a.com', 'b.com', 'c.com', 'd.com'), [], january))).toEqual(expected)
  expect(lines(plan(domains('d.com', 'b.com', 'a.com', 'c.com'), [], january))).toEqual(expected)
})

test('a new value makes one small unit and leaves the others as they are', () => {
  const before = [loaded(['a.com', 'b.com', 'd.com']), loaded(['e.com'])]
  expect(lines(plan(domains('a.com', 'b.com', 'c.com', 'd.com', 'e.com'), before, january))).toEqual([
    '2026-01/domain=[a.com,b.com,d.com] done',
    '2026-01/domain=[c.com] new',
    '2026-01/domain=[e.com] done',
  ])
})

test('a unit with an unwanted value stays as it is until it is refreshed, then the wanted ones make a smaller unit', () => {
  const before = [loaded(['a.com', 'b.com', 'c.com'])]
  expect(lines(plan(domains('a.com', 'c.com'), before, january))).toEqual(['2026-01/domain=[a.com,b.com,c.com] done'])
  expect(lines(plan(domains('a.com', 'c.com'), before, { ...january, force: true }))).toEqual([
    '2026-01/domain=[a.com,c.com] forced',
  ])
})

test('the smaller unit is finished and refreshed in place of the one it came from, which retires', () => {
  const big = loaded(['a.com', 'b.com', 'c.com'])
  const small = (state: 'failed' | 'loaded') =>
    existing('2026-01', { domain: ['a.com', 'c.com'] }, state, state === 'loaded' ? '2026-03-01' : null)
  const unfinished = plan(domains('a.com', 'c.com'), [big, small('failed')], january)
  expect(lines(unfinished)).toEqual(['2026-01/domain=[a.com,c.com] unfinished'])
  expect(unfinished.retired).toEqual([big])
  expect(lines(plan(domains('a.com', 'c.com'), [big, small('loaded')], { ...january, force: true }))).toEqual([
    '2026-01/domain=[a.com,c.com] forced +',
  ])
})

test('a value that comes back is covered by the rows that were never taken away', () => {
  const before = [loaded(['a.com', 'b.com', 'c.com']), loaded(['a.com', 'c.com'], '2026-03-01')]
  expect(lines(plan(domains('a.com', 'b.com', 'c.com'), before, january))).toEqual([
    '2026-01/domain=[a.com,b.com,c.com] done',
    '2026-01/domain=[a.com,c.com] done',
  ])
})

test('units none of whose values are wanted are not planned any more', () => {
  const gone = existing('2026-01', { domain: ['x.com'] }, 'failed')
  const result = plan(domains('a.com'), [loaded(['a.com']), gone], january)
  expect(lines(result)).toEqual(['2026-01/domain=[a.com] done'])
  expect(result.retired).toEqual([gone])
})

test('a failed unit is planned without the value that left the list, so that taking a bad value out mends it', () => {
  const failed = existing('2026-01', { domain: ['a.com', 'bad.com'] }, 'failed')
  expect(lines(plan(domains('a.com'), [failed], january))).toEqual(['2026-01/domain=[a.com] unfinished'])
})

test.each(['waiting', 'landed', 'running'] as const)(
  'a unit that is %s is finished as it is: its report may be paid for',
  (state) => {
    const open = existing('2026-01', { domain: ['a.com', 'gone.com'] }, state)
    expect(lines(plan(domains('a.com'), [open], january))).toEqual(['2026-01/domain=[a.com,gone.com] unfinished'])
  },
)

test('forcing one value of a bucket asks for that value alone', () => {
  const request = { ...january, force: true, only: new Map([['domain', ['b.com']]]) }
  const result = plan(domains('a.com', 'b.com', 'c.com'), [loaded(['a.com', 'b.com', 'c.com'])], request)
  expect(lines(result)).toEqual(['2026-01/domain=[b.com] forced'])
  expect(result.retired).toEqual([])
})

test('a smaller bucket in the definition cuts a unit when it is refreshed, not before', () => {
  const narrow = definitionOf([dimension('domain', ['a.com', 'b.com', 'c.com'], 2)])
  const before = [loaded(['a.com', 'b.com', 'c.com'])]
  expect(lines(plan(narrow, before, january))).toEqual(['2026-01/domain=[a.com,b.com,c.com] done'])
  expect(lines(plan(narrow, before, { ...january, force: true }))).toEqual([
    '2026-01/domain=[a.com,b.com] forced',
    '2026-01/domain=[c.com] forced',
  ])
})

test('with two bucketed dimensions a new value on either side asks only for what it adds', () => {
  const shop = (shops: string[], categories: string[]) =>
    definitionOf([dimension('domain', shops, 2), dimension('category_id', categories, 2)])
  const first = plan(shop(['a.com', 'b.com', 'c.com'], ['1', '2', '3']), [], january)
  expect(lines(first)).toHaveLength(4)
  const before = first.units.map(({ slice }) => existing('2026-01', slice, 'loaded', '2026-02-11'))
  const added = plan(shop(['a.com', 'b.com', 'c.com', 'd.com'], ['1', '2', '3', '4']), before, january)
  expect(lines(added).filter((line) => line.endsWith('new'))).toEqual([
    '2026-01/category_id=[1,2];domain=[d.com] new',
    '2026-01/category_id=[3,4];domain=[d.com] new',
    '2026-01/category_id=[4];domain=[a.com,b.com] new',
    '2026-01/category_id=[4];domain=[c.com] new',
  ])
})

test('a new country packs all domains anew, however the old ones came in', () => {
  const both = definitionOf([dimension('domain', ['a.com', 'b.com', 'c.com'], 3), dimension('country', ['us', 'gb'])])
  const before = ['a.com', 'b.com', 'c.com'].map((domain) =>
    existing('2026-01', { domain: [domain], country: 'us' }, 'loaded', '2026-02-11'),
  )
  expect(lines(plan(both, before, january)).filter((line) => line.endsWith('new'))).toEqual([
    '2026-01/country=gb;domain=[a.com,b.com,c.com] new',
  ])
})

test('with two bucketed dimensions what is new is packed together, however the old units were cut', () => {
  const shop = definitionOf([dimension('domain', ['a.com', 'b.com'], 5), dimension('category_id', ['1', '2'], 5)])
  const before = ['a.com', 'b.com'].map((domain) =>
    existing('2026-01', { domain: [domain], category_id: ['1'] }, 'loaded', '2026-02-11'),
  )
  expect(lines(plan(shop, before, january)).filter((line) => line.endsWith('new'))).toEqual([
    '2026-01/category_id=[2];domain=[a.com,b.com] new',
  ])
})

test('a failed unit with a value that left the list does not take back what its smaller successor loaded', () => {
  const failed = existing('2026-01', { domain: ['a.com', 'bad.com'] }, 'failed')
  const result = plan(domains('a.com'), [failed, loaded(['a.com'])], january)
  expect(lines(result)).toEqual(['2026-01/domain=[a.com] done'])
  expect(result.retired).toEqual([failed])
})

test('a unit made over a part of a loaded one is finished, and the loaded one keeps the rest', () => {
  const part = existing('2026-01', { domain: ['b.com'] }, 'failed')
  const before = [loaded(['a.com', 'b.com', 'c.com']), part]
  expect(lines(plan(domains('a.com', 'b.com', 'c.com'), before, january))).toEqual([
    '2026-01/domain=[a.com,b.com,c.com] done',
    '2026-01/domain=[b.com] unfinished',
  ])
  expect(lines(plan(domains('a.com', 'b.com', 'c.com'), before, { ...january, force: true }))).toEqual([
    '2026-01/domain=[a.com,c.com] forced',
    '2026-01/domain=[b.com] forced',
  ])
})

test('only leaves units of other values alone, whatever their state, and retires none', () => {
  const before = [
    existing('2026-01', { domain: ['a.com'] }, 'waiting'),
    loaded(['b.com']),
    existing('2026-01', { domain: ['c.com'] }, 'held'),
  ]
  const result = plan(domains('a.com', 'b.com', 'c.com'), before, { ...january, only: new Map([['domain', ['b.com']]]) })
  expect(lines(result)).toEqual(['2026-01/domain=[b.com] done'])
  expect(result.retired).toEqual([])
})

test.each([
  ['loaded', 'forced +'],
  ['held', 'held'],
] as const)('a smaller unit that is there already and %s is not begun from nothing', (state, expected) => {
  const before = [
    loaded(['a.com', 'b.com', 'c.com'], '2026-03-01'),
    existing('2026-01', { domain: ['a.com'] }, 'failed'),
    existing('2026-01', { domain: ['b.com', 'c.com'] }, state, '2026-02-11'),
  ]
  expect(lines(plan(domains('a.com', 'b.com', 'c.com'), before, { ...january, force: true }))).toEqual([
    '2026-01/domain=[a.com] forced',
    `2026-01/domain=[b.com,c.com] ${expected}`,
  ])
})
