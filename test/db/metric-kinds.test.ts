// Kinds of metrics over landed rows, against brute force in plain TypeScript: median, quantile, derived, parts of a whole, running and rolling sums, fiscal periods, periods without rows.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadMarts } from '../../src/definition/marts.ts'
import { loadSemantics, parseSemantics } from '../../src/definition/semantic-model.ts'
import { publish } from '../../src/publish/publish.ts'
import { setFiscalYear } from '../../src/publish/attribute-views.ts'
import { type Answer, answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { type FigureWorld, figureWorld, putWorld, worldDomains, worldMonths } from '../support/figure-world.ts'
import { readerOf } from '../support/open-figures.ts'
import { testDatabase } from '../support/postgres.ts'

const file = `subject: visitors
about: Visits.
view: traffic_and_engagement
pipeline: traffic_and_engagement
grain: [date, granularity, domain, country, include_subdomains]
time: { column: date, grains: [month, quarter, year] }
dimensions:
  domain: { entity: dim_domain }
  ownership: { of: domain, table: domains }
  country: { entity: dim_country, whole: world }
  granularity: { one: monthly }
  include_subdomains: { one: true }
metrics:
  visits: { about: a, sum: all_traffic_visits, unit: visits, adds_up_over: all }
  pages: { about: a, sum: all_page_views, unit: pages, adds_up_over: all }
  usual: { about: a, median: all_traffic_visits, unit: visits }
  high: { about: a, quantile: { of: all_traffic_visits, at: 0.9 }, unit: visits }
  pages_a_hundred: { about: a, derived: "100 * pages / nullif(visits, 0)", unit: pages }
  part: { about: a, share: { of: visits, over: domain }, unit: fraction, format: share }
  country_part: { about: a, share: { of: visits, over: country }, unit: fraction, format: share }
  running: { about: a, cumulative: { of: visits }, unit: visits }
  this_year: { about: a, cumulative: { of: visits, each: fiscal_year }, unit: visits }
  three: { about: a, rolling: { of: visits, periods: 3 }, unit: visits }
`
const model = parseSemantics([{ file: 's.yaml', text: file }])

const db = testDatabase()
let reader: Reader
let world: FigureWorld

beforeAll(async () => {
  await publish(db.database, await shippedDefinitions(), await loadMarts([]))
  // From September on.
  await setFiscalYear(db.database, 9)
  reader = await readerOf(db)
})
afterAll(() => reader.close())

const ask = (question: Record<string, unknown>): Promise<Answer> => answerQuery(reader, model.model, question)
const us = [{ dimension: 'country', is: 'us' }]
const whole = { from: '2025-07', to: '2025-11' }

const visitsOf = (month: string, domain: string, country = 'us') =>
  world.traffic.find((row) => row.date === month && row.domain === domain && row.country === country)?.all_traffic_visits ?? null
const sum = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((a, b) => a + b, 0)
}
const close = (found: unknown, wanted: number | null, about: string): void => {
  if (wanted === null) expect(found ?? null, about).toBeNull()
  else expect(Number(found), about).toBeCloseTo(wanted, 4)
}
const shown = <T>({ rows }: { readonly rows: readonly T[] }, isMeant: (row: T) => boolean): T | undefined => rows.find(isMeant)

test('what holds numbers is a number for other tools, and all else is text', async () => {
  const { subjects } = await loadSemantics([])
  const wrong: string[] = []
  for (const subject of subjects.values())
    for (const one of subject.dimensions.values()) {
      const root = subject.dimensions.get(one.of ?? '')?.entity?.table
      const view = one.of === null ? subject.view : (one.table ?? root)
      const rows = await db.query<{ number: boolean }>(
        `select t.typcategory = 'N' as number from pg_attribute a join pg_type t on t.oid = a.atttypid
          where a.attrelid = to_regclass('bi.' || $1) and a.attname = $2`,
        [view, one.column],
      )
      if (rows[0]?.number !== (one.type === 'number')) wrong.push(`${subject.name}.${one.name}: ${JSON.stringify(rows)}`)
    }
  expect(wrong).toEqual([])
})

test('the file is right', () => expect(model.problems).toEqual([]))

describe.each([1, 2, 3, 4, 5, 6])('a world of gaps, seed %i', (seed) => {
  beforeAll(async () => {
    world = figureWorld(seed)
    await putWorld(db, world, await loadMarts([]))
  })

  test('the median and a quantile are of the rows that have a value, and lie between two of them', async () => {
    const { rows } = await ask({ metrics: ['usual', 'high'], by: ['domain'], where: us })
    for (const domain of worldDomains) {
      const known = worldMonths.flatMap((month) => visitsOf(month, domain) ?? []).sort((a, b) => a - b)
      const at = (part: number): number | null => {
        const place = part * (known.length - 1)
        const [low, high] = [known[Math.floor(place)], known[Math.ceil(place)]]
        return low === undefined || high === undefined ? null : low + (high - low) * (place - Math.floor(place))
      }
      const row = shown({ rows }, (one) => one['domain'] === domain)
      close(row?.['usual'], at(0.5), domain)
      close(row?.['high'], at(0.9), domain)
    }
  })

  test('a derived figure is of rows that have all its parts, also where two periods are compared', async () => {
    const of = (month: string) =>
      world.traffic.filter((row) => row.date === month && row.country === 'us' && row.all_traffic_visits !== null && row.all_page_views !== null) // biome-ignore format: one look
    const figure = (rows: ReturnType<typeof of>) => {
      const [pages, visits] = [sum(rows.map((row) => row.all_page_views)), sum(rows.map((row) => row.all_traffic_visits))]
      return pages === null || !visits ? null : (100 * pages) / visits
    }
    const period = { from: '2025-11', to: '2025-11' }
    const { rows } = await ask({ metrics: ['pages_a_hundred'], period, where: us, compare: 'previous' })
    const [now, then] = [of('2025-11-01'), of('2025-10-01')]
    const both = (some: ReturnType<typeof of>, others: ReturnType<typeof of>) => some.filter(({ domain }) => others.some((one) => one.domain === domain)) // biome-ignore format: one look
    const [a, b] = [figure(both(now, then)), figure(both(then, now))]
    close(rows[0]?.['pages_a_hundred'], figure(now), 'now')
    close(rows[0]?.['pages_a_hundred_change'], a === null || b === null ? null : a - b, 'change')
  })

  test('a part is of all domains of the period, whatever is filtered, and says of how many', async () => {
    const filtered = await ask({ metrics: ['part'], grain: 'month', period: whole, where: [...us, { dimension: 'domain', is: 'acme.com' }] }) // biome-ignore format: one look
    const { rows } = await ask({ metrics: ['part', 'visits'], by: ['domain'], grain: 'month', period: whole, where: us })
    for (const month of worldMonths) {
      const all = sum(worldDomains.map((domain) => visitsOf(month, domain)))
      const loaded = world.traffic.filter((row) => row.date === month && row.country === 'us')
      for (const domain of worldDomains) {
        const own = visitsOf(month, domain)
        const wanted = own === null || !all ? null : own / all
        const row = shown({ rows }, (one) => one['domain'] === domain && one['period'] === month)
        close(row?.['part'], wanted, `${month} ${domain}`)
        if (row !== undefined) expect(row['part_over']).toBe(loaded.length)
        if (domain === 'acme.com') close(shown(filtered, (one) => one['period'] === month)?.['part'], wanted, `${month} filtered`)
      }
    }
  })

  test('parts of countries leave out the whole that holds them', async () => {
    const { rows } = await ask({ metrics: ['country_part'], by: ['country'], period: whole })
    const single = await ask({ metrics: ['country_part'], period: whole, where: us })
    const of = (country: string) => sum(worldDomains.flatMap((domain) => worldMonths.map((month) => visitsOf(month, domain, country)))) // biome-ignore format: one look
    const [own, all] = [of('us'), sum([of('us'), of('gb')])]
    close(shown({ rows }, (one) => one['country'] === 'us')?.['country_part'], own === null || !all ? null : own / all, 'by')
    close(single.rows[0]?.['country_part'], own === null || !all ? null : own / all, 'filtered')
  })

  test('running and rolling sums are of every period up to the row, else they are not known; a fiscal year begins anew', async () => {
    for (const period of [whole, { from: '2025-10', to: '2025-11' }]) {
      const { rows } = await ask({ metrics: ['running', 'this_year', 'three', 'visits'], by: ['domain'], grain: 'month', period, where: us, fill: true }) // biome-ignore format: one look
      const months = worldMonths.filter((month) => month >= `${period.from}-01`)
      for (const domain of worldDomains.filter((one) => rows.some((row) => row['domain'] === one)))
        for (const month of months) {
          const row = shown({ rows }, (one) => one['domain'] === domain && one['period'] === month)
          const until = (from: string) =>
            worldMonths.filter((one) => one >= from && one <= month).map((one) => visitsOf(one, domain))
          /** From the first period that is known. */
          const running = (values: readonly (number | null)[], known = values): number | null => {
            const from = values.slice(known.findIndex((one) => one !== null))
            return known.every((one) => one === null) || from.includes(null) ? null : sum(from)
          }
          close(row?.['visits'], visitsOf(month, domain), `${month} ${domain}`)
          close(row?.['running'], running(until(months[0] ?? '')), `${month} ${domain} running`)
          const three = until('').slice(-3)
          close(row?.['three'], three.length < 3 || three.includes(null) ? null : sum(three), `${month} ${domain} three`)
          const year = until(month >= '2025-09-01' ? '2025-09-01' : '2024-09-01')
          const earlierKnown = until('')
            .slice(0, -year.length)
            .some((one) => one !== null)
          close(row?.['this_year'], earlierKnown && year[0] === null ? null : running(year), `${month} ${domain} year`)
        }
    }
  })

  test('a fiscal quarter is three months from the first of the fiscal year on', async () => {
    const { rows } = await ask({ metrics: ['visits'], grain: 'fiscal_quarter', period: whole, where: us })
    const of = (months: readonly string[]) =>
      sum(months.flatMap((month) => worldDomains.map((domain) => visitsOf(month, domain))))
    close(shown({ rows }, (one) => one['period'] === '2025-06-01')?.['visits'], of(worldMonths.slice(0, 2)), 'to August')
    close(shown({ rows }, (one) => one['period'] === '2025-09-01')?.['visits'], of(worldMonths.slice(2)), 'from September')
  })
})

test('periods without rows are filled with NULL, those of a fiscal calendar, too', async () => {
  world = { keywords: [], shop: [], traffic: figureWorld(1).traffic.filter(({ date }) => date !== '2025-09-01') }
  await putWorld(db, world, await loadMarts([]))
  const { rows } = await ask({ metrics: ['visits'], grain: 'month', period: { from: '2025-06', to: '2025-12' }, where: us, fill: true }) // biome-ignore format: one look
  expect(rows.map(({ period }) => period)).toEqual(['2025-06-01', ...worldMonths, '2025-12-01'])
  expect(rows.filter(({ visits }) => visits === null).map(({ period }) => period)).toEqual(expect.arrayContaining(['2025-06-01', '2025-09-01', '2025-12-01'])) // biome-ignore format: one look
  const years = await ask({
    metrics: ['visits'],
    grain: 'fiscal_year',
    period: { from: '2024-01', to: '2025-12' },
    where: us,
    fill: true,
  })
  expect(years.rows.map(({ period }) => period)).toEqual(['2023-09-01', '2024-09-01', '2025-09-01'])
})

test.each([
  [{ metrics: ['running'] }, /need a grain/],
  [{ metrics: ['visits'], fill: true }, /need a grain/],
  [{ metrics: ['part'], grain: 'month' }, /A share over domain needs domain in by or in a filter/],
  [{ metrics: ['part', 'country_part'], by: ['domain', 'country'] }, /can have shares over one dimension/],
  [{ metrics: ['three'], grain: 'month', period: whole, compare: 'previous' }, /covers several periods and cannot be compared/],
  [{ metrics: ['part'], by: ['domain'], period: whole, compare: 'previous' }, /depends on which values of domain are loaded/],
  [{ metrics: ['visits'], grain: 'month', fill: true, period: whole, compare: 'previous' }, /cannot fill periods/],
  [{ metrics: ['visits'], grain: 'fiscal_yaer' }, /is not valid/],
  [{ metrics: ['visitz'] }, /Did you mean 'visits'/],
  [{ metrics: ['visits'], by: ['domain'], limit: 1_001 }, /is not valid: .*1000/],
])('what has no right answer is refused: %o', async (question, because) => {
  await expect(ask({ where: us, ...question })).rejects.toThrow(because)
})

test('an answer has no more rows than were asked for, and says that there are more', async () => {
  const most = async (limit: number) => ask({ metrics: ['visits'], by: ['domain'], where: us, order: [{ by: 'domain' }], limit })
  const [two, all] = [await most(2), await most(1_000)]
  expect([two.rows.length, two.is_cut, all.is_cut]).toEqual([2, true, false])
  expect(all.rows.length).toBeGreaterThan(2)
  expect(two.notes).toContainEqual(expect.stringMatching(/^Only the first 2 rows are shown/))
})

describe('rows of days and weeks beside those of months', () => {
  const two = { from: '2019-09', to: '2019-10' }
  const october = { from: '2019-10', to: '2019-10' }
  const asked = async (granularity: string, question: Record<string, unknown>) =>
    answerQuery(reader, await loadSemantics([]), {
      ...question,
      where: [
        { dimension: 'domain', is: 'acme.com' },
        { dimension: 'granularity', is: granularity },
      ],
    })
  const of = async (granularity: string, question: Record<string, unknown>) =>
    (await asked(granularity, question)).rows.map((row) => Object.values(row))

  beforeAll(async () => {
    await db.database.pool.query(`create table data.days partition of data.traffic_and_engagement_v1 for values from ('2018-11-01') to ('2019-11-01')`) // biome-ignore format: one look
    await db.database.pool.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits,
        desktop_unique_visitors, _unit_id, _run_id, _revision, _loaded_at)
      select day::date, granularity, 'acme.com', 'world', true, visits, 10, 1, 1, 1, now()
      from (values ('daily', '1 day', '2018-11-01', 100), ('weekly', '7 days', '2018-11-05', 700)) of (granularity, step, first, visits),
        generate_series(first::timestamp, '2019-10-31', step::interval) day`)
  })

  test('a month, a quarter and a year so far are the sums of their days', async () => {
    expect(await of('daily', { metrics: ['visits'], grain: 'month', period: two })).toEqual([
      ['2019-09-01', 3_000],
      ['2019-10-01', 3_100],
    ])
    expect(await of('daily', { metrics: ['visits_this_year'], grain: 'month', period: october })).toEqual([
      ['2019-10-01', 30_400],
    ])
    expect(await of('daily', { metrics: ['visits_12_months'], grain: 'month', period: october })).toEqual([
      ['2019-10-01', 36_500],
    ])
    expect(await of('daily', { metrics: ['visits_share'], by: ['domain'], grain: 'month', period: october })).toEqual([
      ['2019-10-01', 'acme.com', 1, 1],
    ])
    expect(
      (await of('daily', { metrics: ['visits'], by: ['date'], period: { from: '2019-10-07', to: '2019-10-08' } })).length,
    ).toBe(2)
  })

  test('a year so far without one of its months is not known, from whichever month on it is asked', async () => {
    await db.query(
      `create table data.lacking partition of data.traffic_and_engagement_v1 for values from ('2017-11-01') to ('2018-05-01')`,
    )
    await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
      select month::date, 'monthly', 'acme.com', 'world', true, 100, 1, 1, 1, now() from unnest(array['2017-11-01', '2017-12-01', '2018-02-01', '2018-03-01']) month`)
    for (const from of ['2017-11', '2018-02', '2018-03'])
      expect(
        (await of('monthly', { metrics: ['visits_this_year'], grain: 'month', period: { from, to: '2018-03' } })).at(-1),
        from,
      ).toEqual(['2018-03-01', null])
    expect(
      await of('monthly', { metrics: ['visits_this_year'], grain: 'month', period: { from: '2017-12', to: '2017-12' } }),
    ).toEqual([['2017-12-01', 200]])
  })

  test('growth of a tiny share is of the share itself, not of its first digits', async () => {
    await db.query(
      `create table data.tiny partition of data.shopper_category_performance_v1 for values from ('2018-01-01') to ('2018-03-01')`,
    )
    await db.query(`insert into data.shopper_category_performance_v1 (date, granularity, domain, category_id, product_views, units_sold, revenue, _unit_id, _run_id, _revision, _loaded_at)
      values ('2018-01-01', 'monthly', 'acme.com', 1, 10000000, 24, 1, 1, 1, 1, now()), ('2018-02-01', 'monthly', 'acme.com', 1, 10000000, 36, 1, 1, 1, 1, now())`)
    const period = { from: '2018-02', to: '2018-02' }
    expect((await asked('monthly', { metrics: ['conversion'], period, compare: 'previous' })).rows).toEqual([
      { conversion: 0.000004, conversion_before: 0.000002, conversion_change: 0.000002, conversion_growth: 0.5 },
    ])
  })

  test('months are compared with months, however many days they have', async () => {
    const { rows, notes } = await asked('daily', { metrics: ['visits'], grain: 'month', period: october, compare: 'previous' })
    expect(rows).toEqual([
      { period: '2019-10-01', visits: 3_100, visits_before: 3_000, visits_change: 100, visits_growth: expect.closeTo(1 / 30, 5) },
    ])
    expect(notes.join(' ')).not.toMatch(/of 31/)
  })

  test('a leap day is compared with no day of another year', async () => {
    await db.query(
      `create table data.leap partition of data.traffic_and_engagement_v1 for values from ('2015-02-01') to ('2017-03-01')`,
    )
    await db.query(`insert into data.traffic_and_engagement_v1 (date, granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id, _revision, _loaded_at)
      select day::date, 'daily', 'acme.com', 'world', true, 100, 1, 1, 1, now() from unnest(array['2016-02-28', '2016-02-29', '2017-02-28']) day`)
    const last = { from: '2017-02-28', to: '2017-02-28' }
    for (const period of [last, { from: '2017-02', to: '2017-02' }])
      expect(await of('daily', { metrics: ['visits'], grain: 'day', period, compare: 'year' })).toEqual([
        ['2017-02-28', 100, 100, 0, 0],
      ])
    const besideYear = (from: string, to: string) =>
      of('daily', { metrics: ['visits'], grain: 'day', period: { from, to }, compare: 'year' })
    await db.query(`update data.traffic_and_engagement_v1 set date = '2015-02-28' where date = '2017-02-28'`)
    expect(await besideYear('2016-02-29', '2016-02-29')).toEqual([['2016-02-29', 100, null, null, null]])
    expect(await besideYear('2016-02-28', '2016-02-28')).toEqual([['2016-02-28', 100, 100, 0, 0]])
  })

  test('people are not added up over days, and weeks not to months', async () => {
    const month = { metrics: ['desktop_visitors'], grain: 'month', period: october }
    await expect(asked('daily', month)).rejects.toThrow(/does not add up over date/)
    expect((await of('daily', { ...month, grain: 'day' })).length).toBe(31)
    await expect(asked('weekly', { metrics: ['visits'], grain: 'month' })).rejects.toThrow(/visits is not available by month/)
    await expect(asked('weekly', { metrics: ['visits'], period: two })).rejects.toThrow(/A row of traffic covers a week/)
    await expect(asked('weekly', { metrics: ['visits_12_months'], grain: 'week' })).rejects.toThrow(/not available by week/)
    const week = { metrics: ['visits'], grain: 'week', period: { from: '2019-10-07', to: '2019-10-13' } }
    expect(await of('weekly', week)).toEqual([['2019-10-07', 700]])
    expect((await of('weekly', { ...week, compare: 'previous' }))[0]).toEqual(['2019-10-07', 700, 700, 0, 0])
    await expect(asked('weekly', { ...week, compare: 'year' })).rejects.toThrow(/Weeks do not begin on the same days/)
  })

  test('an answer with rows of several lengths has no periods', async () => {
    const question = { metrics: ['visits'], by: ['granularity'], where: [{ dimension: 'domain', is: 'acme.com' }] }
    const ask = async (more: object) => answerQuery(reader, await loadSemantics([]), { ...question, ...more })
    expect((await ask({})).rows.length).toBeGreaterThan(1)
    await expect(ask({ grain: 'month' })).rejects.toThrow(/Rows of different lengths/)
  })
})
