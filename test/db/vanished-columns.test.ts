// A field that vanishes from every record of an answer, and one that vanishes from some, as JSON and as CSV.
import { beforeAll, describe, expect, test } from 'vitest'
import { metricsOf } from '../../src/core/request-digest.ts'
import type { Definition } from '../../src/core/types.ts'
import type { LoadResult } from '../../src/run/job-work.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { loadBody, type LoadKit, openLoading, workOn } from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let keywords: Definition
let kit: LoadKit

beforeAll(async () => {
  keywords = await shippedDefinition('keywords')
  kit = await openLoading(db, keywords)
})

type Keyword = Readonly<Record<string, unknown>>

const keyword = (index: number): Keyword => ({
  keyword: `k${index}`,
  top_url: 'a.com/',
  clicks: 9,
  volume: 5,
  cpc: 1,
  position: 1,
  zero_clicks_share: 0.5,
})
/** With every field that the definition asks for. */
const complete = (record: Keyword): Keyword => ({
  ...Object.fromEntries(metricsOf(keywords).map((name) => [name, ['serp_features'].includes(name) ? [] : null])),
  ...record,
})
const without = (record: Keyword, field: string): Keyword =>
  Object.fromEntries(Object.entries(record).filter(([name]) => name !== field))
const records = (count: number, change: (record: Keyword, index: number) => Keyword = (record) => record): Keyword[] =>
  Array.from({ length: count }, (_, index) => change(keyword(index), index))

interface Choice {
  readonly month?: string
  readonly of?: LoadKit
  readonly released?: boolean
}

const load = async (
  found: readonly Keyword[],
  { month = '2026-01', of = kit, released = false }: Choice = {},
): Promise<LoadResult> => {
  const slice = { domain: 'a.com', country: 'us' }
  const work = await workOn(of, boxOf(of.definition, month, slice), { set: { kind: 'walk', released } })
  const body = JSON.stringify({ meta: { status: 'Success' }, keywords: found }, null, 1)
  return loadBody(of, work, { body, expectedRows: found.length, sha256: body.length + month })
}

/** The answer of the kit's own definition, loaded by a definition that has changed since, or by another one. */
const loadAgain = async (of: LoadKit, month: string, set: Record<string, unknown> = {}): Promise<LoadResult> => {
  const rows = await db.query<{ answer_id: string }>(
    'select max(answer_id) as answer_id from etl.answers where window_from = $1',
    [`${month}-01`],
  )
  const box = boxOf(of.definition, month, { domain: 'a.com', country: 'us' })
  const work = await workOn(of, box, { set: { kind: 'walk', answer_id: rows[0]?.answer_id, ...set } })
  return loadBody(of, work, {})
}

const volumes = async (month: string): Promise<unknown[]> =>
  (
    await db.query<{ volume: unknown }>('select distinct volume from data.keywords_v1 where month = $1 order by volume', [
      `${month}-01`,
    ])
  ).map(({ volume }) => volume)

describe('a field that was asked for, or that the loads before had,', () => {
  test('and the first answer has by no name that is asked for, but others in their place, is called otherwise: the answer is held', async () => {
    const renamed = (record: Keyword): Keyword =>
      Object.fromEntries(
        Object.entries(record).map(([name, value]) => [['keyword', 'top_url'].includes(name) ? name : `its_${name}`, value]),
      )
    const held = await load(records(5, renamed))
    expect(held).toMatchObject({ unitsHeld: 1, inserted: 0, heldBecause: { code: 'SCHEMA' } })
    expect(held.heldBecause?.message).toMatch(/has .*volume.*add the new name to `from`, after the one that is requested/)
  })

  test('and no record has is drift: the answer is held and names it, nothing turns 0, and a release loads it', async () => {
    expect(await load(records(20))).toMatchObject({ inserted: 20, unitsHeld: 0 })
    const gone = records(20, (record) => without(record, 'volume'))
    const held = await load(gone)
    expect(held).toMatchObject({ unitsHeld: 1, updated: 0 })
    expect(held.heldBecause).toMatchObject({ code: 'SCHEMA' })
    expect(held.heldBecause?.message).toMatch(/none of the records has volume, .*may_vanish/)
    expect(await volumes('2026-01')).toEqual(['5'])
    expect((await load(gone, { month: '2026-02' })).heldBecause?.code).toBe('SCHEMA')
    expect(await volumes('2026-02')).toEqual([])
    expect(await load(gone, { released: true })).toMatchObject({ unitsHeld: 0, updated: 20 })
    // Loaded so in its time, it is the new form.
    expect(await load(gone, { month: '2026-02' })).toMatchObject({ unitsHeld: 0, inserted: 20 })
  })

  test('and some records lack is as the definition says', async () => {
    const some = records(20, (record, index) => (index % 2 === 0 ? without(record, 'cpc') : record))
    expect(await load(some, { month: '2026-03' })).toMatchObject({ unitsHeld: 0, inserted: 20 })
    expect(
      await db.query(`select cpc, count(*)::int as n from data.keywords_v1 where month = '2026-03-01' group by 1 order by 1`),
    ).toEqual([
      { cpc: '0', n: 10 },
      { cpc: '1', n: 10 },
    ])
    // Few records of a sparse field may lack it by chance; many do not.
    const none = (count: number): Keyword[] => records(count, (record) => without(record, 'cpc'))
    expect((await load(none(3), { month: '2026-04' })).unitsHeld).toBe(0)
    expect((await load(records(20), { month: '2026-05' })).unitsHeld).toBe(0)
    expect((await load(none(100), { month: '2026-06' })).heldBecause?.code).toBe('SCHEMA')
  })

  test('and none of a few records has is no other name for it, whichever fields the definition leaves out', async () => {
    const columns = keywords.columns.filter(({ name, isKey }) => isKey || name === 'cpc')
    const of = { ...kit, definition: { ...keywords, columns } }
    const none = records(3, (record) => without(record, 'cpc'))
    expect((await load(none, { month: '2025-12', of })).unitsHeld).toBe(0)
  })

  test('may vanish where the definition allows it by name', async () => {
    const columns = keywords.columns.map((column) => (column.name === 'position' ? { ...column, mayVanish: true } : column))
    const allowing = { ...kit, definition: { ...keywords, columns } }
    const whole = records(5)
    expect((await load(whole, { month: '2026-07', of: allowing })).unitsHeld).toBe(0)
    const gone = whole.map((record) => without(record, 'position'))
    expect((await load(gone, { month: '2026-08', of: allowing })).unitsHeld).toBe(0)
    const worse = gone.map((record) => without(record, 'zero_clicks_share'))
    expect((await load(worse, { month: '2026-09', of: allowing })).heldBecause?.message).toContain('has zero_clicks_share,')
  })

  test('is not asked of an answer without records, which changes nothing for the next', async () => {
    expect((await load(records(20), { month: '2026-10' })).unitsHeld).toBe(0)
    expect((await load([], { month: '2026-11' })).unitsHeld).toBe(0)
    const gone = records(20, (record) => without(record, 'clicks'))
    expect((await load(gone, { month: '2026-12' })).heldBecause?.code).toBe('SCHEMA')
  })
})

test('a version that only takes the answers of another one holds what that one would hold', async () => {
  const second = { ...(await openLoading(db, { ...keywords, version: 2 })), bodies: kit.bodies }
  await db.query(`create table data.keywords_v2 (like data.keywords_v1 including all) partition by range (month);
    create table data.keywords_v2_history (like data.keywords_v1_history including all) partition by range (month)`)
  await load(records(20, complete), { month: '2023-01' })
  expect((await loadAgain(second, '2023-01')).unitsHeld).toBe(0)
  const gone = records(20, (record) => without(complete(record), 'volume'))
  expect((await load(gone, { month: '2023-02' })).heldBecause?.code).toBe('SCHEMA')
  expect((await loadAgain(second, '2023-02')).heldBecause?.code).toBe('SCHEMA')
  // What the former one never asked for cannot have vanished.
  const wider = keywords.columns.map((one) => (one.name === 'volume' ? { ...one, name: 'trend', from: ['trend'] } : one))
  const third = { ...second, definition: { ...second.definition, columns: wider } }
  await db.query(
    'alter table data.keywords_v2 rename volume to trend; alter table data.keywords_v2_history rename volume to trend',
  )
  expect((await loadAgain(third, '2023-02')).unitsHeld).toBe(0)
})

describe('drift is what an answer has and lacks against what it was asked for:', () => {
  const changed = (columns: Definition['columns']): LoadKit => ({ ...kit, definition: { ...keywords, columns } })

  test('fields that nobody asked for, and those that many records lack', async () => {
    const strange = await load(
      records(20, (record) => ({ ...record, its_own: 1 })),
      { month: '2024-01' },
    )
    expect(strange.drift).toEqual({ unknownColumns: ['its_own'], missingColumns: expect.arrayContaining(['cpc_low_bid']) })
    const whole = await load(records(20, complete), { month: '2024-02' })
    expect(whole.drift).toBeNull()
    const without20 = await load(
      records(20, (record) => without(complete(record), 'cpc_low_bid')),
      { month: '2024-03' },
    )
    expect(without20).toMatchObject({ drift: { unknownColumns: [], missingColumns: ['cpc_low_bid'] } })
  })

  test('not what another definition asked for with it', async () => {
    await load(records(20, complete), { month: '2024-04' })
    const narrow = changed(keywords.columns.filter(({ name }) => name !== 'volume' && name !== 'cpc'))
    expect(await loadAgain(narrow, '2024-04')).toMatchObject({ unitsLoaded: 1, drift: null })
  })

  test('not a column that was added since', async () => {
    await load(records(20, complete), { month: '2024-05' })
    const [column] = keywords.columns.filter(({ name }) => name === 'volume')
    if (column === undefined) throw new Error('no such column')
    const wider = changed(keywords.columns.map((one) => (one.name === 'volume' ? { ...column, from: ['color'] } : one)))
    expect(await loadAgain(wider, '2024-05')).toMatchObject({ unitsLoaded: 1, drift: null })
  })

  test('not a column that may vanish', async () => {
    const allowing = changed(keywords.columns.map((one) => (one.name === 'volume' ? { ...one, mayVanish: true } : one)))
    const gone = records(20, (record) => without(complete(record), 'volume'))
    expect(await load(gone, { month: '2024-06', of: allowing })).toMatchObject({ unitsLoaded: 1, drift: null })
  })
})
