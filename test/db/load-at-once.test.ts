// A small answer loaded in one statement: it leaves what the long way leaves, or nothing where the long way is needed.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Mart } from '../../src/core/mart.ts'
import type { Definition } from '../../src/core/types.ts'
import { withSession } from '../../src/db/session.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { insertAnswer } from '../../src/ledger/answers.ts'
import { openStaging } from '../../src/load/staging.ts'
import { createParseReport } from '../../src/parse/report.ts'
import type { JobWork } from '../../src/pipeline/job-work.ts'
import { loadAnswer } from '../../src/pipeline/load-answer.ts'
import { loadAtOnce } from '../../src/pipeline/load-at-once.ts'
import type { LoadInput } from '../../src/pipeline/load-input.ts'
import { asksOf, metricsOf } from '../../src/core/asks.ts'
import { publish } from '../../src/publish/publish.ts'
import { boxOf, knownMarts, shippedDefinitions } from '../support/definitions.ts'
import { jobRow, unitRows } from '../support/ledger-answers.ts'
import { claimed, type LoadKit, openLoading, workOn } from '../support/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let definition: Definition
let marts: readonly Mart[]
let kit: LoadKit

beforeAll(async () => {
  db = await createTestDatabase()
  const definitions = await shippedDefinitions()
  const found = definitions.find(({ pipeline }) => pipeline === 'keywords')
  if (found === undefined) throw new Error('no definition')
  definition = found
  marts = await loadMarts([])
  await publish(db.database, definitions, marts)
})
afterAll(() => db.drop())
beforeEach(async () => {
  kit = await openLoading(db, definition, marts)
})
afterEach(() =>
  query(
    `truncate data.keywords_v1, data.keywords_v1_history, etl.runs, etl.units, etl.jobs, etl.pipelines, etl.slices, etl.quarantine,
      bi.keyword_months, bi.keyword_intents cascade`,
  ),
)

const query = async <T extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<T[]> =>
  (await db.database.pool.query<T>(text, values)).rows

/** A claimed walk, as it is when its answer is about to be loaded. */
const walk = (domain: string): Promise<JobWork> =>
  workOn(kit, boxOf(definition, '2026-01', { domain, country: 'us' }), { set: { kind: 'walk' } })

const line = (values: Readonly<Record<string, string>>): string =>
  definition.columns
    .filter(({ origin }) => origin === 'response')
    .map(({ name }) => values[name] ?? '\\N')
    .join('\t')
const row = (keyword: string, more: Readonly<Record<string, string>> = {}): string =>
  line({
    keyword,
    top_url: 'https://a/',
    clicks: '7',
    traffic_share: '0.25',
    position: '3',
    volume: '10',
    serp_features: '{"a b",c}',
    ...more,
  })

interface Answer {
  readonly rows: readonly string[]
  readonly expected?: number | null
  readonly rejects?: number
  /** Rows are sent to the table first, which leaves only the long way. */
  readonly staged?: boolean
}

const load = <T>(
  work: JobWork,
  { rows, expected = rows.length, rejects = 0, staged = false }: Answer,
  how: (work: JobWork, session: Parameters<typeof loadAtOnce>[1], input: LoadInput) => Promise<T>,
): Promise<T> =>
  withSession(db.database.pool, async (session) => {
    const staging = openStaging(session, definition)
    if (rows.length > 0) await staging.write({ copy: Buffer.from(rows.map((one) => `${one}\n`).join('')), rows: rows.length })
    if (staged) await staging.flush()
    const landing = { locator: `landing/${work.claim.box.slice['domain']}`, sha256: 'f00d', bytes: 123 }
    const fingerprint = { lastUpdated: '2026-02-03', count: expected }
    const [asks, metrics] = [asksOf(definition), metricsOf(definition)]
    const loaded = await how(work, session, {
      staging,
      parsed: { ...createParseReport(), read: rows.length + rejects, rows: rows.length, rejects, unknownColumns: ['new_field'] },
      completeness: { fingerprint, expectedRows: expected, dataPoints: null },
      landing,
      box: work.claim.box,
      answerId: null,
      record: () => insertAnswer(db.database.kysely, work.claim, { ...landing, fingerprint, dataPoints: null, asks, metrics }),
      rawRecords: async () => [],
    })
    await staging.close()
    return loaded
  })

const atOnce = (work: JobWork, answer: Answer) => load(work, answer, loadAtOnce)

/** Everything a load writes of the unit, without the words and numbers in which two units differ by nature. */
const leftBy = async ({ claim }: JobWork) => {
  const domain = String(claim.box.slice['domain'])
  const of = async (text: string, value: unknown = claim.jobId) =>
    JSON.stringify(await query(text, [value]))
      .replaceAll(domain, 'DOMAIN')
      .replaceAll(/"(\w+_at|\w*_id|slice_ids|milliseconds|fence|ask_number)":("[^"]*"|\[\d+\]|[\d.]+)/g, '"$1":"some"')
  const units = `(select unit_id from etl.units where (pipeline_id, slice_id) = (select pipeline_id, slice_ids[1] from etl.jobs where job_id = $1))`
  return Promise.all([
    of(`select * from data.keywords_v1 where _unit_id in ${units} order by keyword`),
    of(`select * from etl.units where unit_id in ${units}`),
    of('select * from etl.loads where job_id = $1'),
    of('select * from etl.answers where job_id = $1'),
    of('select * from etl.jobs where job_id = $1'),
    of('select * from etl.run_jobs where job_id = $1'),
    of('select * from etl.requests where job_id = $1'),
    of('select * from etl.quarantine where job_id = $1'),
    of('select * from bi.keyword_months where domain = $1', domain),
    of('select * from bi.keyword_intents where domain = $1 order by intent', domain),
    of('select domain from bi.dim_domain where domain = $1', domain),
  ])
}

const anything = async () => {
  const tables = [
    'data.keywords_v1',
    'bi.keyword_months',
    ...['units', 'loads', 'answers', 'requests', 'run_jobs', 'jobs'].map((name) => `etl.${name}`),
  ]
  const rows = await Promise.all(tables.map((table) => query(`select t::text as line from ${table} t order by 1`)))
  return JSON.stringify(rows)
}

/** The answer is not for the short way, and it left everything as it was. */
const expectDeclined = async (work: JobWork, answer: Answer): Promise<void> => {
  const before = await anything()
  expect(await atOnce(work, answer)).toBeNull()
  expect(await anything()).toBe(before)
  expect(work.requests).toHaveLength(1)
}

describe('a small first answer', () => {
  test('leaves the same rows, dimensions, summaries and ledger as the long way', async () => {
    const rows = [
      row('red shoes'),
      row('blue shoes', { clicks: '\\N', primary_intent: 'Informational' }),
      row('', { top_url: '' }),
    ]
    const short = await walk('short.com')
    const counts = await atOnce(short, { rows })
    expect(counts).toEqual({ read: 3, inserted: 3, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 })
    const long = await walk('longs.com')
    expect(await load(long, { rows, staged: true }, loadAnswer)).toMatchObject(counts ?? {})
    const left = await leftBy(short)
    expect(left).toEqual(await leftBy(long))
    expect(left[0]).toContain('red shoes')
    expect(left[1]).toContain('"job_id":null')
    expect(left[3]).toContain('"verdict":"good"')
    expect(left[4]).toContain('"state":"done"')
    expect(left[5]).toContain('"outcome":"loaded"')
    expect(left[6]).toContain('/k')
    expect(left[8]).toContain('"keywords":"3"')
    expect(short.requests).toEqual([])
  })

  test('holds the texts that came, also those that COPY escapes', async () => {
    const keywords = ['c:\\\\temp', 'a\\tb', 'a\\nb', 'a\\rb', '\\\\N', '\\\\\\\\', 'plain', 'ü 🙂', 'N', ' ', '{}', `"'`]
    const [short, long] = [await walk('short.com'), await walk('longs.com')]
    const rows = keywords.map((keyword) => row(keyword))
    await atOnce(short, { rows })
    await load(long, { rows, staged: true }, loadAnswer)
    expect(await leftBy(short)).toEqual(await leftBy(long))
    const kept = await query<{ keyword: string }>(`select keyword from data.keywords_v1 where domain = 'short.com'`)
    expect(new Set(kept.map(({ keyword }) => keyword))).toEqual(
      new Set(['c:\\temp', 'a\tb', 'a\nb', 'a\rb', '\\N', '\\\\', 'plain', 'ü 🙂', 'N', ' ', '{}', `"'`]),
    )
  })

  test('without any row is loaded as empty', async () => {
    const work = await walk('empty.com')
    expect(await atOnce(work, { rows: [] })).toMatchObject({ read: 0, inserted: 0 })
    expect(await unitRows(db, kit.pipeline)).toMatchObject([{ answer_id: expect.any(String), job_id: null }])
    expect(await query(`select 1 from bi.dim_domain where domain = 'empty.com'`)).toEqual([])
  })

  test('answers for what lay in quarantine', async () => {
    const work = await walk('a.com')
    await query(
      `with a as (insert into etl.answers (pipeline_id, job_id, ask_number, asked_at, landing, sha256, bytes, window_from, window_to, slice_ids, asks, metrics)
          select pipeline_id, job_id, 0, now(), '', '', 0, window_from, window_to, slice_ids, '', '{}' from etl.jobs where job_id = $1 returning *)
        insert into etl.quarantine (answer_id, job_id, unit_id, pipeline, part, line, reason, raw)
          select a.answer_id, a.job_id, u.unit_id, 'keywords', 1, 1, 'r', 'x' from a join etl.units u on u.slice_id = a.slice_ids[1]`,
      [work.claim.jobId],
    )
    await atOnce(work, { rows: [row('a')] })
    expect(await query('select state from etl.quarantine')).toEqual([{ state: 'superseded' }])
  })

  test('is written by one of two that hold the unit one after the other', async () => {
    const work = await walk('a.com')
    await query('update etl.jobs set holder = null')
    const taken = await claimed(kit, work.claim.jobId)
    await expectDeclined(work, { rows: [row('a')] })
    expect(await atOnce(taken, { rows: [row('a')] })).toMatchObject({ inserted: 1 })
    await expectDeclined({ ...taken, requests: [...work.requests] }, { rows: [row('b')] })
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'done', holder: null })
  })

  test('knows of a summary that was published since the last one', async () => {
    await query('create table kept as select * from bi.keyword_months limit 0')
    await query('drop table bi.keyword_months cascade')
    await atOnce(await walk('a.com'), { rows: [row('a')] })
    await publish(db.database, [definition], marts)
    const work = await walk('b.com')
    await expectDeclined(work, { rows: [row('b')] })
    expect(await atOnce(work, { rows: [row('b')] })).toMatchObject({ inserted: 1 })
    expect(await query('select domain, keywords from bi.keyword_months order by 1')).toEqual([
      { domain: 'a.com', keywords: '1' },
      { domain: 'b.com', keywords: '1' },
    ])
  })
})

test('a summary that was made anew from another query is filled as it is now', async () => {
  const own = marts.flatMap((mart): Mart[] =>
    mart.name === 'keyword_months'
      ? [{ ...mart, name: 'own_sums', columns: new Map(), sql: ownSums('count(*)', 'sum(clicks)::bigint') }]
      : [],
  )
  const turned = own.map((mart) => ({ ...mart, sql: ownSums('sum(clicks)::bigint', 'count(*)') }))
  const mine = { ...definition }
  const begun = { ...kit.runtime, marts: knownMarts([...marts, ...own], [...marts, ...turned]) }
  const workHere = async (domain: string): Promise<JobWork> => ({ ...(await walk(domain)), definition: mine, runtime: begun })
  await publish(db.database, [definition], own)
  expect(await atOnce(await workHere('a.com'), { rows: [row('a')] })).toMatchObject({ inserted: 1 })
  await publish(db.database, [definition], turned)
  const second = await workHere('b.com')
  await expectDeclined(second, { rows: [row('b')] })
  expect(await atOnce(second, { rows: [row('b')] })).toMatchObject({ inserted: 1 })
  expect(await query('select domain, one::int, other::int from bi.own_sums order by 1')).toEqual([
    { domain: 'a.com', one: 7, other: 1 },
    { domain: 'b.com', one: 7, other: 1 },
  ])
  await query('drop table bi.own_sums')
})

const ownSums = (one: string, other: string): string =>
  `select month, domain, country, traffic_source, web_source, branded_type, ${one} as one, ${other} as other from {{facts}} group by 1, 2, 3, 4, 5, 6`

describe('the long way is left to', () => {
  test.each<[string, () => Answer]>([
    ['a key that comes twice', () => ({ rows: [row('a'), row('a', { clicks: '8' })] })],
    ['a record that was rejected', () => ({ rows: [row('a')], rejects: 1, expected: null })],
    ['an answer that lacks records', () => ({ rows: [row('a')], expected: 2 })],
    ['a text that only COPY can read', () => ({ rows: [row('a\\tb\u001f')] })],
    ['a value that is none', () => ({ rows: [row('a', { clicks: 'many' })] })],
    ['a value that does not fit', () => ({ rows: [row('a', { clicks: '1e140000' })] })],
    ['rows that are in the table already', () => ({ rows: [row('a')], staged: true })],
    ['an answer that is not small', () => ({ rows: Array.from({ length: 2_000 }, (_, index) => row(`keyword ${index}`)) })],
  ])('%s', async (_, answer) => {
    await expectDeclined(await walk('a.com'), answer())
  })

  test('a unit of which rows are there, or have ended', async () => {
    await atOnce(await walk('a.com'), { rows: [row('a')] })
    // Their keys would keep a second row out as well.
    await query('truncate bi.keyword_months, bi.keyword_intents')
    await query('update etl.units set answer_id = null, ask_number = null')
    await expectDeclined(await walk('a.com'), { rows: [row('b')] })
    await query(`with gone as (delete from data.keywords_v1 returning *) insert into data.keywords_v1_history
      select *, _loaded_at, now(), 1 from gone`)
    await expectDeclined(await walk('a.com'), { rows: [row('b')] })
  })

  test('a unit that was loaded as empty, whatever this process knew of it', async () => {
    const late = await walk('a.com')
    await query(`update etl.units set answer_id = 1, ask_number = 1`)
    await expectDeclined(late, { rows: [row('b')] })
  })

  test('a job of several values, or one that loads a part of an answer', async () => {
    const work = await walk('a.com')
    const box = boxOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
    const other = { ...definition, columns: [...definition.columns] }
    await expectDeclined({ ...work, definition: other, claim: { ...work.claim, box } }, { rows: [row('a')] })
    const part = await load(work, { rows: [row('a')] }, (one, session, input) => loadAtOnce(one, session, { ...input, box }))
    expect(part).toBeNull()
  })

  test('passes its tests in the same statement; where one fails, staging and merge hold it and say why', async () => {
    const plain = kit
    const tests: Definition['tests'] = [
      ...[
        {
          name: 'share',
          onFailure: 'hold',
          kind: 'range',
          column: 'traffic_share',
          bounds: { from: '0', to: '1' },
          allow: 0,
        } as const,
      ],
      { name: 'features', onFailure: 'hold', kind: 'accepted', column: 'serp_features', values: ['a b', 'c'], allow: 0 },
      { name: 'jump', onFailure: 'hold', kind: 'ratio', column: 'clicks', bounds: { from: null, to: '5' }, atLeast: '0' },
    ]
    kit = { ...plain, definition: { ...definition, tests } }
    const at = (month: string) =>
      workOn(kit, boxOf(definition, month, { domain: 'a.com', country: 'us' }), { set: { kind: 'walk' } })
    expect(await atOnce(await at('2026-01'), { rows: [row('k1'), row('k2')] })).toMatchObject({ inserted: 2 })
    expect(await atOnce(await at('2026-02'), { rows: [row('k1')] })).toMatchObject({ inserted: 1 })
    for (const [bad, test] of [
      [{ traffic_share: '1.5' }, 'share'],
      [{ serp_features: '{c,d}' }, 'features'],
      [{ clicks: '36' }, 'jump'],
    ] as const) {
      const work = await at('2026-03')
      expect(await atOnce(work, { rows: [row('k1', bad)] })).toBeNull()
      expect(await load(work, { rows: [row('k1', bad)] }, loadAnswer)).toMatchObject({ inserted: 0, unitsHeld: 1 })
      expect(await query('select test, outcome from etl.failed_tests')).toEqual([{ test, outcome: 'held' }])
    }
    expect(await atOnce(await at('2026-03'), { rows: [row('k1', { clicks: '35' })] })).toMatchObject({ inserted: 1 })
    expect(await query('select test from etl.failed_tests')).toEqual([])
  })
})
