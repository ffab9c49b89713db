// A packed answer for one window: repeated keys show while it is loaded, and bytes that are loaded already change nothing.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { markUnchanged } from '../../src/ledger/loads.ts'
import { answerOfAll } from '../../src/ledger/units.ts'
import { loadAnswer } from '../../src/pipeline/load-answer.ts'
import { boxOf } from '../support/definitions.ts'
import { jobRow, outcomeOf, unitRows } from '../support/ledger-answers.ts'
import {
  emptyTraffic,
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  withAnswer,
  workOn,
} from '../support/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let definition: Definition
let kit: LoadKit

beforeAll(async () => {
  db = await createTestDatabase()
  definition = await lenientTraffic()
})
afterAll(() => db.drop())
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
})

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows
const now = async (): Promise<string[]> =>
  (
    await query<{ text: string }>(
      `select domain || ' ' || all_traffic_visits || ' r' || _revision as text from data.traffic_and_engagement_v1 order by 1`,
    )
  ).map(({ text }) => text)

const january = (...domains: readonly string[]): Box => boxOf(definition, '2026-01', { domain: [...domains], country: 'us' })
const row = (domain: string, visits: string): string => line('2026-01', domain, visits)
const load = async (box: Box, lines: readonly string[], set: Record<string, unknown> = {}) => {
  const work = await workOn(kit, box, { set })
  return { work, result: await loadBody(kit, work, { body: csv(...lines) }) }
}
const three = [row('a.com', '1'), row('b.com', '2'), row('c.com', '3')]
const box = (): Box => january('a.com', 'b.com', 'c.com')

describe('a packed answer for one window', () => {
  test.each([
    ['that is loaded first', []],
    ['that refreshes others', three],
  ])('%s counts copies with their unit, and keeps out what conflicts', async (_, before) => {
    if (before.length > 0) await load(box(), before)
    const { work, result } = await load(box(), [...three, row('a.com', '1'), row('b.com', '7'), row('b.com', '2')])
    expect(result).toMatchObject({ duplicates: 1, unitsLoaded: 2, unitsHeld: 1 })
    expect((await unitRows(db, kit.pipeline)).map((unit) => unit.held_code)).toEqual([null, 'TOO_MANY_REJECTS', null])
    expect(await now()).toEqual(before.length > 0 ? ['a.com 1 r1', 'b.com 2 r1', 'c.com 3 r1'] : ['a.com 1 r1', 'c.com 3 r1'])
    expect(await query('select line::int as line from etl.quarantine order by 1')).toEqual([
      { line: 3 },
      { line: 6 },
      { line: 7 },
    ])
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'done' })
  })

  test('ends, changes and adds rows of its units, and leaves those of others and of units that shrank', async () => {
    await load(january('a.com', 'b.com', 'c.com', 'z.com'), [...three, row('z.com', '9')])
    const { result } = await load(january('a.com', 'b.com', 'c.com', 'd.com'), [
      row('a.com', '1'),
      row('b.com', '5'),
      row('d.com', '4'),
    ])
    expect(result).toMatchObject({ read: 3, inserted: 1, updated: 1, unchanged: 1, ended: 0, unitsLoaded: 3, unitsHeld: 1 })
    expect(await now()).toEqual(['a.com 1 r1', 'b.com 5 r2', 'c.com 3 r1', 'd.com 4 r1', 'z.com 9 r1'])
    expect(
      await query(
        "select count(*)::int as n from data.traffic_and_engagement_v1 t join etl.unit_list u on u.unit_id = t._unit_id and u.slice->>'domain' = t.domain",
      ),
    ).toEqual([{ n: 5 }])
    const released = await load(january('c.com', 'd.com'), [row('d.com', '4')], { released: true })
    expect(released.result).toMatchObject({ ended: 1, unchanged: 1 })
    expect(await now()).toEqual(['a.com 1 r1', 'b.com 5 r2', 'd.com 4 r1', 'z.com 9 r1'])
  })

  // Parsing refuses such rows; the database says it again where spellings differ. So they are parsed as what was asked for with more.
  test.each([
    ['a value', [], [...three, row('other.com', '1')]],
    ['a value, while a unit holds a newer answer,', [], [...three, row('other.com', '1')]],
    ['a value, where a unit would shrink,', three, [row('a.com', '1'), row('other.com', '1')]],
    ['another window', [], [...three, line('2026-02', 'a.com', '1')]],
    ['another window, while others change,', three, [row('a.com', '5'), line('2026-02', 'a.com', '1')]],
  ])('with a row of %s that nobody asked for is refused whole', async (name, before, lines) => {
    if (before.length > 0) await load(box(), before)
    const asked = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com', 'c.com', 'other.com'], country: 'us' }, '2026-02')
    const [work, more] = [await workOn(kit, box()), await workOn(kit, asked)]
    if (name.includes('newer')) await load(january('b.com'), [row('b.com', '8')])
    const loaded = await now()
    const refused = withAnswer(kit, more, { body: csv(...lines) }, (_, session, input) =>
      loadAnswer(work, session, { ...input, box: box() }),
    )
    await expect(refused).rejects.toMatchObject({
      code: 'WRONG_ECHO',
      message: expect.stringContaining(': 1 rows of the answer'),
    })
    expect(await now()).toEqual(loaded)
    expect(await query('select verdict from etl.answers order by answer_id desc limit 1')).toEqual([{ verdict: 'WRONG_ECHO' }])
  })

  test('with the bytes that are loaded writes no row, by force too; changed by hand, they are written again', async () => {
    const domains = Array.from({ length: 5_100 }, (_, index) => `d${index}.com`)
    const many = january(...domains)
    const lines = domains.map((domain, index) => row(domain, String(index)))
    expect((await load(many, lines)).result).toMatchObject({ inserted: 5_100, unitsLoaded: 5_100 })
    expect((await load(many, lines, { forced: true })).result).toMatchObject({ unchanged: 5_100, updated: 0, unitsLoaded: 5_100 })
    await query(`update data.traffic_and_engagement_v1 set all_traffic_visits = 7 where domain in ('d1.com', 'd2.com')`)
    expect((await load(many, lines, { forced: true })).result).toMatchObject({ unchanged: 5_098, updated: 2 })
  })
})

describe('the answer that all units of a job have their rows from', () => {
  const two = (): Box => boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' }, '2026-02')
  const four = ['2026-01', '2026-02'].flatMap((month) => ['a.com', 'b.com'].map((domain) => line(month, domain, '1')))
  const known = async (of: Box) => {
    const { claim } = await workOn(kit, of)
    return { claim, loaded: await answerOfAll(db.database.kysely, claim, claim.cells) }
  }

  test('is none before all are loaded, from the same one, with none held', async () => {
    expect((await known(two())).loaded).toBeNull()
    await load(two(), four)
    expect((await known(two())).loaded).toMatchObject({ answerId: expect.any(Number) })
    expect((await known(january('a.com', 'b.com', 'c.com'))).loaded).toBeNull()
    await query(
      `update etl.units set held_answer_id = answer_id, held_code = 'SHRUNK' where unit_id = (select min(unit_id) from etl.units)`,
    )
    expect((await known(two())).loaded).toBeNull()
    await query('update etl.units set held_answer_id = null, held_code = null')
    await load(january('a.com'), [row('a.com', '2')])
    expect((await known(two())).loaded).toBeNull()
  })

  test('stands for each window where the service gives it again, and no answer asked for before then replaces it', async () => {
    await load(two(), four)
    const between = await workOn(kit, two())
    const { claim, loaded } = await known(two())
    await db.database.kysely
      .transaction()
      .execute((trx) => markUnchanged(trx, { ...claim, loaded }, { lastUpdated: null, count: null }))
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'done' })
    expect(await outcomeOf(db, kit.runId, claim.jobId)).toBe('unchanged')
    expect(await query(`select window_from from etl.loads where outcome = 'unchanged' order by 1`)).toEqual([
      { window_from: '2026-01-01' },
      { window_from: '2026-02-01' },
    ])
    const units = await unitRows(db, kit.pipeline)
    expect(units.map(({ ask_number, job_id }) => [ask_number, job_id])).toEqual(units.map(() => [claim.askNumber, null]))
    expect(await loadBody(kit, between, { body: csv(...four.map((one) => one.replace('us,1', 'us,8'))) })).toMatchObject({
      unitsSkipped: 4,
    })
  })
})
