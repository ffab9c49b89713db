// Figures of a warehouse to which everything happened at once, against what the landed bytes say: a month that was never loaded, cells that were restated, left and
// came back, the first rows alone, an answer that is held, another version without one of the shops, and a pipeline that another one continues.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import type { SemanticModel } from '../../src/definition/semantic.ts'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { type Answer, answerQuery } from '../../src/semantic/answer.ts'
import type { Reader } from '../../src/semantic/reader.ts'
import { readerOf } from '../support/open-figures.ts'
import { sandboxWorld } from '../support/test-world.ts'

const world = sandboxWorld({ copied: ['pipelines', 'marts'], sandbox: { keywordsPerDomain: 30, reportDurationMs: 50 } })
const { folder, db, sandbox, fileOf, edit } = world

let reader: Reader
let model: SemanticModel
/** Between the night in which a domain had left and the one in which it was back. */
let whileGone = ''

const [traffic, shops, words, next] = ['traffic_and_engagement', 'shopper_category_performance', 'keywords', 'visits_and_pages']
const domains = ['example.com', 'example.net', 'example.org']
const us = { dimension: 'country', is: 'us' }

const millrace = async (...args: string[]): Promise<void> => {
  const result = await world.millrace(...args)
  // Held units end a backfill with 1.
  expect([0, 1], result.stdout + result.stderr).toContain(result.code)
}

const load = (pipeline: string, from: string, to: string, ...more: string[]): Promise<void> =>
  millrace('backfill', pipeline, '--from', `2026-${from}`, '--to', `2026-${to}`, '--yes', ...more)

beforeAll(async () => {
  for (const name of [traffic, shops]) edit(name, ['poll_every: 5s', 'poll_every: 1s'])
  await millrace('migrate')
  await load(traffic, '03', '04')
  await load(traffic, '06', '07')
  await load(shops, '05', '07')
  await load(words, '05', '06')
  sandbox.restate('2026-04')
  sandbox.configure({ keywordsByDomain: { 'example.net': 0 } })
  await load(traffic, '04', '04', '--force')
  const held = await db.database.pool.query<{ id: string }>(
    `select unit_id as id from etl.units join etl.pipelines using (pipeline_id) where held_answer_id is not null and pipeline = '${traffic}'`,
  )
  await millrace('release', ...held.rows.map(({ id }) => id))
  await load(words, '06', '06', '--force')
  whileGone = new Date().toISOString()
  sandbox.configure({ keywordsByDomain: {} })
  await load(traffic, '04', '04', '--force', '--only', 'domain=example.net')
  edit(words, ['branded_type: All }', 'branded_type: All, top: 15 }'])
  await load(words, '07', '07')
  // Another version of the shops, without the first of them, is asked for June and July.
  const second = readFileSync(fileOf(shops), 'utf8').replace('version: 1', 'version: 2\npublish: false')
  writeFileSync(fileOf(`${shops}_2`), second.replace('shop_domains.txt', 'shops2.txt'))
  writeFileSync(join(folder, 'pipelines', 'shops2.txt'), `${domains.slice(1).join('\n')}\n`)
  await millrace('new', 'migration', shops)
  await millrace('migrate')
  sandbox.restate('2026-07')
  await load(shops, '06', '07', '--force')
  edit(shops, ['version: 1', 'version: 1\npublish: false'])
  edit(`${shops}_2`, ['\npublish: false', ''])
  // Another version of the keywords wants all rows again, and has June alone: the first rows of July are those of the former one.
  edit(words, [', top: 15', ''])
  writeFileSync(fileOf(`${words}_2`), readFileSync(fileOf(words), 'utf8').replace('version: 1', 'version: 2\npublish: false'))
  await millrace('new', 'migration', words)
  await millrace('migrate')
  await load(words, '06', '06')
  edit(words, ['version: 1', 'version: 1\npublish: false'])
  edit(`${words}_2`, ['\npublish: false', ''])
  // Another pipeline continues the visits.
  writeFileSync(fileOf(next), readFileSync(fileOf(traffic), 'utf8').replace(`pipeline: ${traffic}`, `pipeline: ${next}`))
  edit(traffic, ['schedule:', `until: 2026-07\nsuccessor: ${next}\nschedule:`])
  await millrace('new', 'migration', next)
  await millrace('migrate')
  await load(next, '08', '08')
  sandbox.configure({ keywordsByDomain: { 'example.org': 0 } })
  await load(next, '09', '09')
  await load(traffic, '03', '04')
  reader = await readerOf(db)
  model = await loadSemantics([])
}, 600_000)
afterAll(async () => {
  await reader.close()
})

type Figures = Readonly<Record<string, string>>
interface Told {
  readonly ask: number
  readonly figures: Figures | null
}
const oneOrMore = z.union([z.string().transform((one) => [one]), z.array(z.string())])
const manifest = z.object({
  ask_number: z.coerce.number(),
  pipeline: z.string(),
  window: z.object({ from: z.string(), to: z.string() }),
  slice: z.record(z.string(), oneOrMore),
})
const page = z.object({
  keywords: z.array(z.object({ keyword: z.string(), clicks: z.number().optional(), position: z.number().optional() })),
})
type Words = z.output<typeof page>['keywords']

/** Of an answer without a byte nothing is packed. */
const unpacked = (bytes: Buffer): string => (bytes.length === 0 ? '' : gunzipSync(bytes).toString())

/** Every landed answer, the oldest first. */
const landed = () => {
  const root = join(folder, 'home', 'landing')
  const answers = readdirSync(root, { recursive: true, encoding: 'utf8' })
    .filter((path) => path.endsWith('manifest.json'))
    .map((path) => ({
      ...manifest.parse(JSON.parse(readFileSync(join(root, path), 'utf8'))),
      text: unpacked(readFileSync(join(root, dirname(path), 'data.gz'))),
    }))
  return answers.sort((a, b) => a.ask_number - b.ask_number)
}

/** What was said of each cell of reports, answer by answer. */
const lives = (pipeline: string): Map<string, Told[]> => {
  const found = new Map<string, Told[]>()
  for (const { ask_number: ask, window, slice, text } of landed().filter((one) => one.pipeline === pipeline)) {
    const [head = '', ...lines] = text.trim().split('\n')
    const names = head.split(',')
    const rows = lines.map((line): Figures => Object.fromEntries(line.split(',').map((value, at) => [names[at] ?? '', value])))
    const other = slice['country'] ?? slice['category_id'] ?? []
    for (let number = Number(window.from.slice(5, 7)); `2026-${String(number).padStart(2, '0')}-01` < window.to; number += 1)
      for (const domain of slice['domain'] ?? [])
        for (const value of other) {
          const month = `2026-${String(number).padStart(2, '0')}`
          const code = value === 'world' ? 'WW' : value.toUpperCase()
          const figures = rows.find((row) => row['date'] === `${month}-01` && row['domain'] === domain && (row['country'] ?? row['category_id']) === code) ?? null // biome-ignore format: one look
          const key = `${month} ${domain} ${value}`
          found.set(key, [...(found.get(key) ?? []), { ask, figures }])
        }
  }
  return found
}
const figure = (told: Told | undefined, name: string): number | null => {
  const value = told?.figures?.[name] ?? ''
  return value === '' ? null : Number(value)
}
const sum = (values: readonly (number | null)[]): number | null => {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((all, value) => all + value, 0)
}
const visitsOf = (month: string, domain: string): number | null =>
  figure(
    lives(month < '2026-08' ? traffic : next)
      .get(`${month} ${domain} us`)
      ?.at(-1),
    'all_traffic_visits',
  )
const growthOf = (pairs: readonly (readonly [number | null, number | null])[]): number | null => {
  const both = pairs.filter(([now, then]) => now !== null && then !== null)
  return both.length === 0 ? null : (sum(both.map(([now]) => now)) ?? 0) / (sum(both.map(([, then]) => then)) ?? 0) - 1
}
/** Of example.net in June the answer without a word is held: the words before it stand. */
const wordsOf = (month: string, domain: string): Words =>
  landed()
    .filter(({ pipeline, window, slice }) => pipeline === words && window.from === `${month}-01` && slice['domain']?.[0] === domain && slice['country']?.[0] === 'us')
    .flatMap(({ text }) => (text === '' ? [] : [page.parse(JSON.parse(text)).keywords]))
    .filter((some) => some.length > 0)
    .at(-1) ?? [] // biome-ignore format: one look

const ask = (question: Record<string, unknown>): Promise<Answer> => answerQuery(reader, model, question)
const within = (month: string) => ({ from: month, to: month })
const close = (found: unknown, right: number | null, about: string): void => {
  if (right === null) expect(found ?? null, about).toBeNull()
  else expect(Math.abs(Number(found ?? Number.NaN) - right), `${about}: ${String(found)} is not ${right}`).toBeLessThanOrEqual(1e-5 * Math.max(1, Math.abs(right)))
} // biome-ignore format: one look

test('visits of each month and domain, from the table that has them, and their growth over what both months have', async () => {
  for (const month of ['2026-03', '2026-04', '2026-06', '2026-08', '2026-09']) {
    const { rows } = await ask({ metrics: ['visits'], by: ['domain'], period: within(month), where: [us] })
    for (const domain of domains)
      close(rows.find((row) => row['domain'] === domain)?.['visits'], visitsOf(month, domain), `${month} ${domain}`)
  }
  for (const [month, before] of [['2026-04', '2026-03'], ['2026-07', '2026-06'], ['2026-08', '2026-07'], ['2026-09', '2026-08']] as const) {
    const { rows } = await ask({ metrics: ['visits'], period: within(month), where: [us], compare: 'previous' })
    close(rows[0]?.['visits_growth'], growthOf(domains.map((domain) => [visitsOf(month, domain), visitsOf(before, domain)])), month)
  } // biome-ignore format: one look
})

test('what is missing of a series that another pipeline continues is told of the one whose month it is, and the change is marked', async () => {
  const all = await ask({ metrics: ['visits'], grain: 'month', period: { from: '2026-03', to: '2026-09' }, where: [us] })
  expect(all.months_missing).toEqual(['2026-05'])
  expect(all.method_breaks).toEqual([{ starts_on: '2026-08-01', columns: [], change: null }])
  expect(all.notes).toContainEqual(expect.stringMatching(/^From 2026-08-01 on the figures come from another table/))
  const missing = all.cells_missing.map(({ period, cell }) => `${period} ${z.object({ domain: z.string() }).parse(JSON.parse(cell)).domain}`)
  const gone = ['2026-09', '2026-07', '2026-06', '2026-05', '2026-04', '2026-03'].flatMap((month) =>
    domains.filter((domain) => visitsOf(month, domain) === null).map((domain) => `${month}-01 ${domain}`),
  )
  expect(gone).toContain('2026-09-01 example.org')
  expect(missing).toEqual(gone)
}) // biome-ignore format: one look

test('a sum of several months names the missing ones among them, and no others', async () => {
  const missing = async (metric: string) => (await ask({ metrics: [metric], grain: 'month', period: within('2026-03'), where: [us] })).months_missing
  expect(await missing('visits_this_year')).toEqual(['2026-01', '2026-02'])
  const twelve = Array.from({ length: 11 }, (_, at) => (at < 9 ? `2025-${String(at + 4).padStart(2, '0')}` : `2026-0${at - 8}`))
  expect(await missing('visits_12_months')).toEqual(twelve)
  expect((await ask({ metrics: ['revenue'], period: { from: '2026-04', to: '2026-05' } })).months_missing).toEqual(['2026-04'])
}) // biome-ignore format: one look

test('what was restated, left and came back, now and as it was believed in between', async () => {
  const told = lives(traffic)
  const cells = domains.flatMap((domain) =>
    ['us', 'gb', 'world'].map((country) => told.get(`2026-04 ${domain} ${country}`) ?? []),
  )
  const change = (of: Told[]): number | null => {
    const [first, now] = [figure(of[0], 'all_traffic_visits'), figure(of.at(-1), 'all_traffic_visits')]
    return first === null && now === null ? null : (now ?? 0) - (first ?? 0)
  }
  for (const [at, country] of ['us', 'gb', 'world'].entries()) {
    const { rows } = await ask({ metrics: ['visits_restated_by'], period: within('2026-04'), where: [{ dimension: 'country', is: country }] }) // biome-ignore format: one look
    close(rows[0]?.['visits_restated_by'], sum(cells.filter((_, place) => place % 3 === at).map(change)), country)
  }
  const between = await ask({ metrics: ['visits'], period: within('2026-04'), where: [us], as_of: whileGone })
  // Of the answers to April the second is the one without example.net.
  close(between.rows[0]?.['visits'], sum(domains.map((domain) => figure(told.get(`2026-04 ${domain} us`)?.[1], 'all_traffic_visits'))), 'while it was gone') // biome-ignore format: one look
  expect(figure(told.get('2026-04 example.net us')?.[1], 'all_traffic_visits')).toBeNull()
  expect(figure(told.get('2026-04 example.net us')?.[2], 'all_traffic_visits')).not.toBeNull()
})

test('of the first rows alone nothing is lost, a gap is not known, and the answer says so first', async () => {
  const july = await ask({ metrics: ['clicks'], period: within('2026-07'), where: [us], compare: 'previous' })
  const clicks = (some: Words): number | null => sum(some.map((one) => one.clicks ?? 0))
  close(july.rows[0]?.['clicks'], sum(domains.map((domain) => clicks(wordsOf('2026-07', domain)))), 'July')
  close(july.rows[0]?.['clicks_before'], sum(domains.map((domain) => clicks(wordsOf('2026-06', domain)))), 'June')
  expect(july.cells_cut.map(({ period, rows }) => `${period} ${rows}`)).toEqual(domains.map(() => '2026-07-01 15'))
  expect(july.notes[0]).toMatch(/^Only the first rows of some cells are loaded.*not like with like/)
  const pair = [us, { dimension: 'domain', is: 'example.com' }, { dimension: 'other_domain', is: 'example.org' }]
  const gapOf = (month: string) => ask({ metrics: ['gap_keywords', 'gap_clicks'], period: within(month), where: pair })
  const gap = async (month: string) => (await gapOf(month)).rows[0]
  const own = new Set(wordsOf('2026-06', 'example.com').flatMap((one) => ((one.clicks ?? 0) > 0 ? [one.keyword] : [])))
  const theirs = new Set(wordsOf('2026-06', 'example.org').flatMap((one) => ((one.clicks ?? 0) > 0 ? [one.keyword] : [])))
  expect((await gap('2026-06'))?.['gap_keywords']).toBe([...theirs].filter((word) => !own.has(word)).length)
  expect(await gap('2026-07')).toEqual({ gap_keywords: null, gap_clicks: null })
  const lost = await ask({ metrics: ['clicks_lost'], period: within('2026-07'), where: [us] })
  expect(lost.rows[0]?.['clicks_lost'] ?? null).toBeNull()
  // Of a gap the other domain is named too; its first rows alone would make the gap too small.
  const cellsOf = ({ cells_cut }: Answer) => cells_cut.map(({ period, cell }) => `${period} ${z.object({ domain: z.string() }).parse(JSON.parse(cell)).domain}`)
  expect(cellsOf(await gapOf('2026-07'))).toEqual(['2026-07-01 example.com', '2026-07-01 example.org'])
  expect(cellsOf(lost)).toEqual(domains.map((domain) => `2026-07-01 ${domain}`))
  expect(lost.notes[0]).toMatch(/^Only the first rows of some cells are loaded/)
}) // biome-ignore format: one look

test('what is set against an earlier month says what is missing of that month, too', async () => {
  const missing = async (metric: string, month: string, back: number) =>
    (await ask({ metrics: [metric], period: within(month), where: [us, { dimension: 'months_back', is: back }] })).months_missing
  expect(await missing('clicks_lost', '2026-05', 1)).toEqual(['2026-04'])
  expect(await missing('clicks_lost', '2026-06', 1)).toEqual([])
  expect(await missing('visits_against_before', '2026-06', 1)).toEqual(['2026-05'])
  expect(await missing('visits_against_before', '2026-06', 2)).toEqual([])
})

test('a month of which only the first rows are loaded is not compared with one that is loaded whole, and says so', async () => {
  const sides = (month: string, before: string) => domains.map((domain) => [month, before].map((one) => sum(wordsOf(one, domain).map((word) => word.clicks ?? 0))))
  const pairs = (month: string) => db.query<{ clicks: number; clicks_before: number | null; is_cut: boolean }>(
    `select clicks::float8, clicks_before::float8, is_cut from bi.keyword_comparison where month = '${month}-01' and months_back = 1 and country = 'us' order by domain`,
  )
  expect(await pairs('2026-06')).toEqual(sides('2026-06', '2026-05').map(([clicks, clicks_before]) => ({ clicks, clicks_before, is_cut: false })))
  expect(await pairs('2026-07')).toEqual(sides('2026-07', '2026-06').map(([clicks]) => ({ clicks, clicks_before: null, is_cut: true })))
  const growth = async (month: string) => (await ask({ metrics: ['clicks_against_before'], period: within(month), where: [us, { dimension: 'months_back', is: '1' }] })).rows[0]?.['clicks_against_before'] ?? null
  const [now, then] = [0, 1].map((side) => sum(sides('2026-06', '2026-05').map((pair) => pair[side] ?? null)) ?? Number.NaN)
  close(await growth('2026-06'), (now ?? Number.NaN) / (then ?? Number.NaN), 'whole against whole')
  expect(await growth('2026-07')).toBeNull()
}) // biome-ignore format: one look

test('shops of two versions are one series, also before the switch and where one shop is in the former version alone', async () => {
  const told = lives(shops)
  const cells = (month: string) => [...told].filter(([key]) => key.startsWith(month))
  const newest = (of: readonly Told[] | undefined, name: string): number | null =>
    figure(of?.at(-1), `category_sales_performance_${name}`)
  for (const month of ['2026-05', '2026-06', '2026-07']) {
    const { rows, months_missing } = await ask({ metrics: ['revenue'], period: within(month) })
    close(rows[0]?.['revenue'], sum(cells(month).map(([, of]) => newest(of, 'revenue'))), month)
    // May is in the former version alone.
    expect(months_missing, month).toEqual([])
  }
  for (const metric of ['revenue', 'units_sold', 'product_views']) {
    const { rows } = await ask({ metrics: [metric], period: within('2026-06'), compare: 'previous' })
    const pairs = cells('2026-06').map(([key, of]) => [newest(of, metric), newest(told.get(key.replace('2026-06', '2026-05')), metric)] as const) // biome-ignore format: one look
    close(rows[0]?.[`${metric}_growth`], growthOf(pairs), metric)
  }
  const before = await ask({ metrics: ['revenue'], period: within('2026-07'), as_of: whileGone })
  close(before.rows[0]?.['revenue'], sum(cells('2026-07').map(([, of]) => figure(of[0], 'category_sales_performance_revenue'))), 'before the switch') // biome-ignore format: one look
})
