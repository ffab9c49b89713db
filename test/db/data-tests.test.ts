// The tests of a definition, before anything of an answer is loaded: each kind, warn and hold, one unit and many, release, replay, newest wins.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { DataTest } from '../../src/core/data-test.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import type { JobWork } from '../../src/run/job-work.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { causesInLedger } from '../../src/ledger/causes.ts'
import { publish } from '../../src/publish/publish.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { jobRow, unitRows } from '../support/ledger-answers.ts'
import { emptyTraffic, loadBody, type LoadKit, openLoading, trafficCsv as csv, workOn } from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let shipped: Definition

beforeAll(async () => {
  shipped = await shippedDefinition('traffic_and_engagement')
})
beforeEach(async () => {
  await emptyTraffic(db)
})

const visits = 'all_traffic_visits'
const holds = { onFailure: 'hold' } as const
const ratio: DataTest = {
  name: 'no_jump',
  ...holds,
  kind: 'ratio',
  column: visits,
  bounds: { from: '0.2', to: '5' },
  atLeast: '100',
}
const adds: DataTest = {
  ...{ name: 'adds_up', ...holds, kind: 'sum_of', column: visits, of: ['mobile_visits', 'desktop_visits'], allow: 0 },
  within: { share: 0.01 },
}
const kitWith = (...tests: DataTest[]): Promise<LoadKit> => openLoading(db, { ...shipped, tests })

/** A month's row: all visits, mobile, desktop. */
const row = (month: string, domain: string, all: number | '', mobile: number | '' = all, desktop: number | '' = 0): string =>
  `${month}-01,${domain},us,${all},${mobile},${desktop},3,4,5`
const names = ['a.com', 'b.com']
const box = (kit: LoadKit, from: string, to = from, domain: string | string[] = names): Box =>
  boxOf(kit.definition, from, { domain, country: 'us' }, to)
const load = async (kit: LoadKit, asked: Box, ...lines: string[]) => {
  const work = await workOn(kit, asked)
  return { work, result: await loadBody(kit, work, { body: csv(...lines) }) }
}
const loaded = async () =>
  (
    await db.query<{ text: string }>(
      `select to_char(date, 'YYYY-MM') || ' ' || domain || ' ' || coalesce(all_traffic_visits::text, '-') as text from data.traffic_and_engagement_v1 order by 1`,
    )
  ).map(({ text }) => text)
const failed = () =>
  db.query(`select etl.window_name(window_from, 'month') as month, (select s."values" from etl.slices s where s.slice_id = f.slice_id)::text as slice,
    test, outcome, rows_failing::int as failing, found, expected from etl.failed_tests f order by 1, 2, 3`)
const again = (kit: LoadKit, work: JobWork, answerId: number, asked: Box, set: Record<string, unknown> = {}) =>
  workOn(kit, asked, { set: { answer_id: answerId, ask_number: work.claim.askNumber, forced: true, ...set } })
const answerOf = async (work: JobWork): Promise<number> => Number((await jobRow(db, work.claim.jobId)).answer_id)
const heldCodes = async (kit: LoadKit) => (await unitRows(db, kit.pipeline)).map(({ held_code }) => held_code)

describe('an answer for many units', () => {
  test('is loaded but for the units that a test holds; their rows stay, and people read why', async () => {
    const kit = await kitWith(ratio, adds)
    await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', 1000), row('2026-01', 'b.com', 1000))
    const { result } = await load(
      kit,
      box(kit, '2026-02', '2026-03'),
      row('2026-02', 'a.com', 9000),
      row('2026-02', 'b.com', 1100),
      row('2026-03', 'a.com', 1200),
      row('2026-03', 'b.com', 1300, 700, 500),
    )
    expect(result).toMatchObject({ read: 2, inserted: 2, unitsLoaded: 2, unitsHeld: 2, heldBecause: { code: 'TEST_FAILED' } })
    expect(await loaded()).toEqual(['2026-01 a.com 1000', '2026-01 b.com 1000', '2026-02 b.com 1100', '2026-03 a.com 1200'])
    expect(await failed()).toEqual([
      { month: '2026-02', slice: '{a.com,us}', test: 'no_jump', outcome: 'held', failing: 0, found: '9000', expected: '1000' },
      { month: '2026-03', slice: '{b.com,us}', test: 'adds_up', outcome: 'held', failing: 1, found: '100', expected: null },
    ])
    const [why] = await db.query<{ error_message: string }>(
      `select error_message from etl.unit_list where state = 'held' order by window_from`,
    )
    expect(why?.error_message).toMatch(
      /^no_jump: expected that the sum of all_traffic_visits is from 0\.2 to 5 times that of the period before, where either is 100 or more; it is 9,000, and 1,000 in the period from 2026-01-01\. If the new answer is right, `millrace release \d+` loads it\.$/,
    )
  })

  test('is compared with the newest period that has rows; where there is none, or no value, nothing is said', async () => {
    const kit = await kitWith(ratio)
    const asked = box(kit, '2026-01', '2026-04')
    await load(
      kit,
      asked,
      row('2026-01', 'a.com', 1000),
      row('2026-02', 'a.com', 90),
      row('2026-03', 'a.com', 95_000),
      row('2026-04', 'a.com', 1500),
      row('2026-01', 'b.com', 50),
      row('2026-02', 'b.com', ''),
      row('2026-03', 'b.com', 0),
    )
    // Held: 90 after 1000, 95,000 after 1000. b.com is too small, has no value, or no row.
    expect(await loaded()).toEqual([
      '2026-01 a.com 1000',
      '2026-01 b.com 50',
      '2026-02 b.com -',
      '2026-03 b.com 0',
      '2026-04 a.com 1500',
    ])
    expect((await failed()).map(({ month, found, expected }) => [month, found, expected])).toEqual([
      ['2026-02', '90', '1000'],
      ['2026-03', '95000', '1000'],
    ])
  })

  test('without a row for a unit that had some is caught where rows are counted', async () => {
    const kit = await kitWith({ ...ratio, name: 'there', column: null, atLeast: '0' })
    await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', 1), row('2026-01', 'b.com', 1))
    expect((await load(kit, box(kit, '2026-02'), row('2026-02', 'a.com', 1))).result).toMatchObject({
      unitsLoaded: 1,
      unitsHeld: 1,
    })
    expect(await failed()).toMatchObject([{ slice: '{b.com,us}', found: '0', expected: '1' }])
  })

  test('that fails where a test only warns is loaded; the warning goes with the next good answer', async () => {
    const kit = await kitWith(
      { ...adds, onFailure: 'warn' },
      { name: 'known', onFailure: 'warn', kind: 'not_null', column: 'mobile_visits', allow: 0.5 },
      { name: 'sane', onFailure: 'warn', kind: 'range', column: visits, bounds: { from: '0', to: null }, allow: 0 },
      { name: 'ours', onFailure: 'warn', kind: 'accepted', column: 'domain', values: ['a.com'], allow: 0 },
    )
    const { result } = await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', -5, 1, 1), row('2026-01', 'b.com', 5, '', 5))
    expect(result).toMatchObject({ unitsLoaded: 2, unitsHeld: 0 })
    expect(
      (await failed()).map(({ slice, test: name, outcome, failing, found }) => [slice, name, outcome, failing, found]),
    ).toEqual([
      ['{a.com,us}', 'adds_up', 'warned', 1, '7'],
      ['{a.com,us}', 'sane', 'warned', 1, '-5'],
      ['{b.com,us}', 'known', 'warned', 1, null],
      ['{b.com,us}', 'ours', 'warned', 1, 'b.com'],
    ])
    await load(kit, box(kit, '2026-01', '2026-01', 'a.com'), row('2026-01', 'a.com', 5))
    expect((await failed()).map(({ slice }) => slice)).toEqual(['{b.com,us}', '{b.com,us}'])
  })

  test('that restates more than the threshold is told with both sums', async () => {
    const kit = await kitWith({ name: 'moved', onFailure: 'warn', kind: 'restated', column: visits, share: 0.1, atLeast: '0' })
    await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', 1000), row('2026-01', 'b.com', 1000))
    await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', 1050), row('2026-01', 'b.com', 800))
    expect(await failed()).toMatchObject([
      { slice: '{b.com,us}', test: 'moved', outcome: 'warned', found: '800', expected: '1000' },
    ])
    expect(await db.query('select message from etl.failed_tests')).toEqual([
      {
        message:
          'moved: expected that the sum of all_traffic_visits is within 10% of what is loaded; it is 800, and 1,000 is loaded (-20.0%).',
      },
    ])
  })
})

describe('a held answer', () => {
  const jump = async (kit: LoadKit) => {
    await load(kit, box(kit, '2026-01', '2026-01', 'a.com'), row('2026-01', 'a.com', 1000))
    const { work } = await load(kit, box(kit, '2026-02', '2026-02', 'a.com'), row('2026-02', 'a.com', 9000))
    return { work, answerId: await answerOf(work), asked: box(kit, '2026-02', '2026-02', 'a.com') }
  }

  test('of one unit loads as it is once it is released, and need not be released again when it is replayed', async () => {
    const kit = await kitWith(ratio)
    const { work, answerId, asked } = await jump(kit)
    expect(await heldCodes(kit)).toEqual([null, 'TEST_FAILED'])
    expect(await loadBody(kit, await again(kit, work, answerId, asked, { released: true }), {})).toMatchObject({
      inserted: 1,
      unitsHeld: 0,
    })
    expect(await failed()).toMatchObject([{ outcome: 'released', found: '9000' }])
    expect(await loadBody(kit, await again(kit, work, answerId, asked), {})).toMatchObject({ unchanged: 1, unitsHeld: 0 })
    expect(await heldCodes(kit)).toEqual([null, null])
  })

  test('gives way to a newer one that passes, and stays before an older one', async () => {
    const kit = await kitWith(ratio)
    const old = await (async () => {
      await load(kit, box(kit, '2026-01', '2026-01', 'a.com'), row('2026-01', 'a.com', 1000))
      return workOn(kit, box(kit, '2026-02', '2026-02', 'a.com'))
    })()
    const { result } = await load(kit, box(kit, '2026-02', '2026-02', 'a.com'), row('2026-02', 'a.com', 9000))
    expect(result).toMatchObject({ unitsHeld: 1 })
    expect(await loadBody(kit, old, { body: csv(row('2026-02', 'a.com', 1100)) })).toMatchObject({ inserted: 1 })
    expect(await failed()).toMatchObject([{ outcome: 'held', found: '9000' }])
    await load(kit, box(kit, '2026-02', '2026-02', 'a.com'), row('2026-02', 'a.com', 1200))
    expect(await failed()).toEqual([])
    expect(await heldCodes(kit)).toEqual([null, null])
    expect(await loaded()).toEqual(['2026-01 a.com 1000', '2026-02 a.com 1200'])
  })

  test('is parsed and tested again by a replay, and loads once the test allows it', async () => {
    const kit = await kitWith(ratio)
    const { work, answerId, asked } = await jump(kit)
    expect(await loadBody(kit, await again(kit, work, answerId, asked), {})).toMatchObject({ unitsHeld: 1 })
    const wider = { ...kit, definition: { ...kit.definition, tests: [{ ...ratio, bounds: { from: '0.1', to: '10' } }] } }
    expect(await loadBody(wider, await again(wider, work, answerId, asked), {})).toMatchObject({ inserted: 1, unitsHeld: 0 })
    expect(await failed()).toEqual([])
  })
})

describe('people', () => {
  test('are told once a run is over: restatements with both sums, other tests with how many units fail', async () => {
    const kit = await kitWith(
      { name: 'moved', onFailure: 'warn', kind: 'restated', column: visits, share: 0.1, atLeast: '0' },
      { ...adds, onFailure: 'warn' },
    )
    await load(
      kit,
      box(kit, '2026-01', '2026-02'),
      row('2026-01', 'a.com', 1000),
      row('2026-01', 'b.com', 1000),
      row('2026-02', 'b.com', 50),
    )
    const news = box(kit, '2026-01', '2026-02')
    await load(kit, news, row('2026-01', 'a.com', 500), row('2026-01', 'b.com', 800, 1, 1), row('2026-02', 'b.com', 50))
    const told = async () =>
      (await causesInLedger(db.database.kysely)).filter(({ kind }) => kind === 'restated' || kind === 'test')
    expect(await told()).toEqual([])
    await db.query(`update etl.runs set state = 'done', finished_at = now() where run_id = $1`, [kit.runId])
    const [other, restated, ...rest] = await told()
    expect(rest).toEqual([])
    expect(restated).toMatchObject({
      cause: `restated/traffic_and_engagement/${kit.runId}`,
      message:
        'traffic_and_engagement: restated beyond what is allowed. moved: 2 units, 2,000 became 1,300 (-35.0%). For example traffic_and_engagement/v1/2026-01/country=us;domain=a.com: moved: expected that the sum of all_traffic_visits is within 10% of what is loaded; it is 500, and 1,000 is loaded (-50.0%).',
      changed: expect.stringContaining('Window 2026-01-01.'),
    })
    expect(other).toMatchObject({ kind: 'test', message: expect.stringContaining('adds_up: 1 unit. For example') })
  })

  test('see every test and every failure in bi', async () => {
    const kit = await kitWith(ratio)
    await publish(
      db.database,
      [kit.definition],
      (await loadMarts([])).filter(({ name }) => name.startsWith('test')),
    )
    await db.query(
      `update etl.pipelines set tests = '[{"name": "no_jump", "column": "all_traffic_visits", "expects": "x", "on_failure": "hold"}]'`,
    )
    await load(kit, box(kit, '2026-01'), row('2026-01', 'a.com', 1000), row('2026-01', 'b.com', 1000))
    await load(kit, box(kit, '2026-02'), row('2026-02', 'a.com', 1), row('2026-02', 'b.com', 1100))
    expect(await db.query(`select pipeline, test, on_failure, units_held::int, units_warned::int from bi.tests`)).toEqual([
      { pipeline: 'traffic_and_engagement', test: 'no_jump', on_failure: 'hold', units_held: 1, units_warned: 0 },
    ])
    expect(await db.query('select slice, outcome, found, expected from bi.test_failures')).toEqual([
      { slice: '{"domain": "a.com", "country": "us"}', outcome: 'held', found: '1', expected: '1000' },
    ])
  })
})
