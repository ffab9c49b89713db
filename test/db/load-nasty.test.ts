// What can befall a load: rows that others put in, answers that come between, months that are made meanwhile, records that are cut, odd bytes.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
import { boxOf } from '../support/definitions.ts'
import { unitRows } from '../support/ledger-answers.ts'
import {
  type AnswerChoice,
  emptyTraffic,
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  workOn,
} from '../support/loading.ts'
import { stoppedAtItsEnd } from '../support/merging.ts'
import { testDatabase } from '../support/postgres.ts'
import { until } from '../support/until.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit
/** Of which no test has made a partition yet. */
let month = '2026-01'

beforeAll(async () => {
  definition = await lenientTraffic()
})
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
  month = addWindows(`${month}-01`, 'month', 1).slice(0, 7)
})

const table = 'data.traffic_and_engagement_v1'

const box = (domain: string | string[], lastMonth = month): Box => boxOf(definition, month, { domain, country: 'us' }, lastMonth)
const load = async (of: Box, lines: readonly string[], choice: Partial<AnswerChoice> = {}) =>
  loadBody(kit, await workOn(kit, of), { body: csv(...lines), ...choice })
const rowsOf = async (name = table): Promise<string[]> =>
  (
    await db.query<{ text: string }>(
      `select to_char(date, 'MM-DD') || ' ' || domain || ' ' || all_traffic_visits || ' r' || _revision as text from ${name} order by date, domain, _revision`,
    )
  ).map(({ text }) => text.slice(3))
const numbers = async (): Promise<number[]> => (await unitRows(db, kit.pipeline)).map(({ unit_id }) => Number(unit_id))
const byHand = (date: string, domain: string, visits: number, number: number) =>
  db.query(
    `insert into ${table} (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _loaded_at)
      values ($1, $2, $3, 'us', $4, $5, $6, 1, '2026-01-01')`,
    [date, definition.params['granularity'], domain, definition.params['include_subdomains'], visits, number],
  )
/** Months whose rows fill them before they are attached. */
const large = { bytes: 2_000_000 }

describe('a row put in by hand', () => {
  test('on another day of the month of a monthly table ends with the next load of its unit', async () => {
    await load(box('a.com'), [line(month, 'a.com', '1')])
    await byHand(`${month}-15`, 'a.com', 7, (await numbers())[0] ?? 0)
    expect(await load(box('a.com'), [line(month, 'a.com', '1')])).toMatchObject({ ended: 1, unchanged: 1 })
    expect([await rowsOf(), await rowsOf(`${table}_history`)]).toEqual([['01 a.com 1 r1'], ['15 a.com 7 r1']])
  })

  test('under a key that has ended revisions goes on behind them with the next load, whether it stays, changes or ends', async () => {
    for (const [domain, next] of [
      ['a.com', '7'],
      ['b.com', '8'],
      ['c.com', null],
    ] as const) {
      for (const visits of ['1', '2']) await load(box(domain), [line(month, domain, visits)])
      await db.query(`update ${table} set _revision = 1, all_traffic_visits = 7, _loaded_at = '2026-01-01' where domain = $1`, [
        domain,
      ])
      const work = await workOn(kit, box(domain), { set: { released: true } })
      await loadBody(kit, work, { body: next === null ? csv() : csv(line(month, domain, next)) })
    }
    expect(await db.query(`select 1 from ${table}_history where _valid_from >= _valid_to`)).toEqual([])
    const every = await db.query<{ text: string }>(`select domain || ' ' || all_traffic_visits || ' r' || _revision as text from (
      select domain, all_traffic_visits, _revision from ${table} union all select domain, all_traffic_visits, _revision from ${table}_history) x
      order by domain, _revision`)
    expect(every.map(({ text }) => text)).toEqual([
      ...['a.com 1 r1', 'a.com 7 r2'],
      ...['b.com 1 r1', 'b.com 7 r2', 'b.com 8 r3'],
      ...['c.com 1 r1', 'c.com 7 r2'],
    ])
  })

  test('outside of what an answer is for stays, whatever number it bears', async () => {
    await load(box('y.com'), [line(month, 'y.com', '1')])
    const work = await workOn(kit, box(['a.com', 'b.com']))
    const [, a = 0] = (await numbers()).sort((one, other) => one - other)
    await byHand(`${month}-01`, 'z.com', 7, a)
    const body = csv(line(month, 'a.com', 'many'), line(month, 'b.com', '2'))
    expect(await loadBody(kit, work, { body })).toMatchObject({ unitsLoaded: 1, unitsHeld: 1 })
    expect(await rowsOf()).toEqual(['01 b.com 2 r1', '01 y.com 1 r1', '01 z.com 7 r1'])
  })

  test('under a ledger made anew under old data is refused, naming the number', async () => {
    await load(
      box(['a.com', 'b.com', 'c.com']),
      ['a.com', 'b.com', 'c.com'].map((domain) => line(month, domain, '1')),
    )
    const old = await numbers()
    await db.query('truncate etl.units, etl.jobs, etl.slices, etl.windows, etl.quarantine restart identity cascade')
    kit = await openLoading(db, definition)
    const loading = load(box('c.com'), [line(month, 'c.com', '2')])
    await expect(loading).rejects.toMatchObject({ code: 'TABLE_DRIFT', message: expect.stringContaining(`unit ${old[2]}`) })
    expect(await rowsOf()).toEqual(['01 a.com 1 r1', '01 b.com 1 r1', '01 c.com 1 r1'])
  })
})

describe('a record that is cut', () => {
  test.each([
    ['too few cells, the last of the answer', (text: string) => text.split(',').slice(0, 5).join(',')],
    ['a value that cannot be read', (text: string) => text.replace(',us,2,', ',us,many,')],
  ])('%s: its unit is held, never loaded as one that the service had no rows for', async (_, cut) => {
    const both = box(['a.com', 'b.com'])
    const lines = [line(month, 'a.com', '1'), cut(line(month, 'b.com', '2'))]
    for (const choice of [large, {}]) {
      expect(await load(both, lines, choice)).toMatchObject({ unitsLoaded: 1, unitsHeld: 1 })
      expect((await unitRows(db, kit.pipeline)).map(({ held_code }) => held_code)).toEqual([null, 'TOO_MANY_REJECTS'])
      expect(await rowsOf()).toEqual(['01 a.com 1 r1'])
    }
  })
})

describe('answers at the same time', () => {
  const unitsOf = async () => (await unitRows(db, kit.pipeline)).map(({ ask_number }) => ask_number)

  test.each([
    ['with the same keys', 1, {}],
    ['with another key', 2, {}],
    ['with the same keys, and the month made by it', 1, large],
  ])('a newer answer in the middle of a first load, %s, stays', async (_, day, choice) => {
    const daily = {
      ...definition,
      params: { ...definition.params, granularity: 'daily' },
      period: { every: 'day', isInKey: true } as const,
    }
    kit = await openLoading(db, daily)
    const at = (of: number, domain: string, visits: string) => line(month, domain, visits).replace('-01,', `-0${of},`)
    const older = await workOn(kit, box(['a.com', 'b.com']))
    const newer = await workOn(kit, box('b.com'))
    const result = await loadBody(kit, older, {
      body: csv(at(1, 'a.com', '1'), at(1, 'b.com', '1')),
      meanwhile: async () => void (await loadBody(kit, newer, { body: csv(at(day, 'b.com', '2')), ...choice })),
    })
    expect(result).toMatchObject({ unitsLoaded: 1, unitsSkipped: 1, inserted: 1 })
    expect((await rowsOf()).sort()).toEqual([`01 a.com 1 r1`, `0${day} b.com 2 r1`])
    expect(await unitsOf()).toEqual([older.claim.askNumber, newer.claim.askNumber])
  })

  test.each([
    ['straight into the month', {}, {}],
    ['into a month that both would make', large, large],
  ])('two answers for the same new units, %s: the newest stays, also where the older one is done last', async (_, one, other) => {
    const both = box(['a.com', 'b.com'])
    const works = [await workOn(kit, both), await workOn(kit, both)] as const
    const body = (visits: string) => csv(line(month, 'a.com', visits), line(month, 'b.com', visits))
    let second: Promise<unknown> = Promise.resolve()
    await stoppedAtItsEnd(
      db,
      () => loadBody(kit, works[0], { body: body('1'), ...one }),
      async () => {
        second = loadBody(kit, works[1], { body: body('2'), ...other })
        second.catch(() => undefined)
        await untilWaiting()
      },
    )
    await second
    expect(await rowsOf()).toEqual(['01 a.com 2 r2', '01 b.com 2 r2'])
    expect(await unitsOf()).toEqual([works[1].claim.askNumber, works[1].claim.askNumber])
  })

  test('two answers that wait for each other’s keys: a deadlock fails nobody', async () => {
    const daily = {
      ...definition,
      params: { ...definition.params, granularity: 'daily' },
      period: { every: 'day', isInKey: true } as const,
    }
    kit = await openLoading(db, daily)
    const domains = Array.from({ length: 200 }, (_, at) => `${'d'.repeat(60)}${at}.com`)
    const days = Array.from({ length: 28 }, (_, at) => String(at + 1).padStart(2, '0'))
    const all = days.flatMap((day) => domains.map((domain) => line(month, domain, '1').replace('-01,', `-${day},`)))
    const works = [await workOn(kit, box(domains)), await workOn(kit, box(domains))] as const
    const deadlocks = async () =>
      Number(
        (await db.query<{ n: string }>(`select deadlocks as n from pg_stat_database where datname = current_database()`))[0]?.n,
      )
    const before = await deadlocks()
    const bytes = 500_000
    let arrived = 0
    const meanwhile = async () => {
      arrived += 1
      await until(
        'it comes to that',
        async () =>
          arrived === 2 &&
          (await db.query('select 1 from pg_stat_progress_copy where datname = current_database() and tuples_processed > 0'))
            .length === 2,
      )
    }
    await Promise.all([
      loadBody(kit, works[0], { body: csv(...all), bytes, meanwhile }),
      loadBody(kit, works[1], { body: csv(...all.toReversed()), bytes, meanwhile }),
    ])
    expect(await db.query(`select count(*)::int as n, count(distinct _unit_id)::int as units from ${table}`)).toEqual([
      { n: all.length, units: domains.length },
    ])
    expect(new Set(await unitsOf())).toEqual(new Set([works[1].claim.askNumber]))
    await until('it comes to that', async () => (await deadlocks()) > before)
  })

  test('the month is made meanwhile by another load: both are in it, each whole', async () => {
    const works = [await workOn(kit, box('a.com')), await workOn(kit, box('b.com'))] as const
    let second: Promise<unknown> = Promise.resolve()
    await stoppedAtItsEnd(
      db,
      () => loadBody(kit, works[0], { body: csv(line(month, 'a.com', '1')), ...large }),
      async () => {
        second = loadBody(kit, works[1], { body: csv(line(month, 'b.com', '2')), ...large })
        second.catch(() => undefined)
        await untilWaiting()
      },
    )
    await second
    expect(await rowsOf()).toEqual(['01 a.com 1 r1', '01 b.com 2 r1'])
  })

  /** Somebody else than those who are stopped at their end waits for a row, or for who holds one. */
  const untilWaiting = () =>
    until(
      'somebody waits',
      async () =>
        (await db.query(`select 1 from pg_locks where not granted and locktype in ('transactionid', 'tuple')`)).length > 0,
    )
})

describe('a row that the table refuses', () => {
  const refusing = {
    'a check of its own': [
      'add constraint no_seven check (public.tried(all_traffic_visits <> 7))',
      'drop constraint no_seven',
      'no_seven',
    ],
    'a unique index of its own': [
      'add constraint one_each unique (date, all_traffic_visits)',
      'drop constraint one_each',
      'one_each|date_all_traffic_visits',
    ],
    'a column that must be filled': ['alter all_page_views set not null', 'alter all_page_views drop not null', 'all_page_views'],
  } as const

  test.each(
    Object.entries(refusing).flatMap(([name, statements]) =>
      (['first', 'again'] as const).map((way) => [name, way, statements] as const),
    ),
  )('by %s fails the %s load at once, in words that name table, rule and remedy', async (_, way, [add, drop, rule]) => {
    const lines = [line(month, 'a.com', '7'), line(month, 'b.com', '7')].map((one) => one.replace(/,\d*$/, ','))
    if (way === 'again') await load(box(['a.com', 'b.com']), [line(month, 'a.com', '1'), line(month, 'b.com', '2')])
    const before = await rowsOf()
    await db.query(`create sequence public.tries; create function public.tried(holds boolean) returns boolean language sql volatile
      return case when not holds then nextval('public.tries') < 0 else true end`)
    await db.query(`alter table ${table} ${add}`)
    try {
      await expect(load(box(['a.com', 'b.com']), lines)).rejects.toMatchObject({
        code: 'TABLE_DRIFT',
        message: expect.stringMatching(
          new RegExp(`data\\.traffic_and_engagement_v1.*(?:${rule}).*Nothing was loaded.*drop`, 's'),
        ),
      })
      expect(await rowsOf()).toEqual(before)
      if (rule === 'no_seven') expect(await db.query('select last_value::int as tries from public.tries')).toEqual([{ tries: 1 }])
    } finally {
      await db.query(`alter table ${table} ${drop}`)
      await db.query('drop function public.tried; drop sequence public.tries')
    }
  })
})

test('rows bear the moment at which the transaction of their load began, which is that of the load', async () => {
  let middle = ''
  for (const choice of [{}, large]) {
    await emptyTraffic(db)
    kit = await openLoading(db, definition)
    await load(box('a.com'), [line(month, 'a.com', '1'), line(month, 'a.com', '1')].slice(1), {
      ...choice,
      meanwhile: async () => {
        middle = (await db.query<{ at: string }>('select clock_timestamp()::text as at'))[0]?.at ?? ''
      },
    })
    const found = `select 1 from ${table} t join etl.loads l on l.loaded_at = t._loaded_at where t._loaded_at < $1::timestamptz`
    expect(await db.query(found, [middle])).toHaveLength(1)
  }
})

test('values with a tab, a backslash, U+0001 or U+202E tell units apart by their bytes', async () => {
  const odd = ['a\tb.com', 'a\\tb.com', 'a\\\\tb.com', 'a\u0001b.com', 'a\u202Eb.com', 'ab.com', '\\n', 'a\\']
  const lines = (visits: number) => odd.map((domain, at) => line(month, domain, String(visits + at)))
  for (const choice of [large, {}]) {
    const [visits, counts] = choice === large ? [1, { inserted: odd.length }] : [2, { updated: odd.length }]
    expect(await load(box(odd), lines(visits), choice)).toMatchObject({ unitsLoaded: odd.length, ...counts })
    const found = await db.query<{ domain: string; visits: string; own: string }>(
      `select t.domain, t.all_traffic_visits as visits, s."values"[array_position($1::text[], 'domain')] as own
        from ${table} t join etl.units u on u.unit_id = t._unit_id join etl.slices s using (slice_id)`,
      [kit.pipeline.dimensions],
    )
    expect(new Map(found.map(({ domain, visits: of }) => [domain, of]))).toEqual(
      new Map(odd.map((domain, at) => [domain, String(visits + at)])),
    )
    expect(found.filter(({ domain, own }) => domain !== own)).toEqual([])
  }
})
