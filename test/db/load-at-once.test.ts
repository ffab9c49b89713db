// A small answer loaded in one statement: it leaves what the long way leaves, or nothing where the long way is needed.
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { silentLog } from '../../src/core/log.ts'
import type { Mart } from '../../src/core/mart.ts'
import type { Definition } from '../../src/core/types.ts'
import { registerUnits } from '../../src/ledger/register.ts'
import { type ClaimedUnit, claimUnit, markLanded } from '../../src/ledger/units.ts'
import { withSession } from '../../src/db/session.ts'
import { loadMarts } from '../../src/definition/marts.ts'
import { openStaging } from '../../src/load/staging.ts'
import { createParseReport } from '../../src/parse/report.ts'
import { publish } from '../../src/publish/publish.ts'
import { loadAtOnce } from '../../src/pipeline/load-at-once.ts'
import type { LoadInput } from '../../src/pipeline/load-input.ts'
import { loadUnit } from '../../src/pipeline/load-unit.ts'
import { createProgress } from '../../src/pipeline/progress.ts'
import { type Queue, startQueue, type UnitJob } from '../../src/pipeline/queue.ts'
import type { Runtime } from '../../src/pipeline/runtime.ts'
import type { UnitWork } from '../../src/pipeline/unit-work.ts'
import { loadSources } from '../../src/sources/registry.ts'
import { shippedDefinitions, unitOf } from '../support/definitions.ts'
import { newRun } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let queue: Queue
let definition: Definition
let marts: readonly Mart[]
let runtime: Runtime
let runId: number

beforeAll(async () => {
  db = await createTestDatabase()
  const definitions = await shippedDefinitions()
  const found = definitions.find(({ pipeline }) => pipeline === 'keywords')
  if (found === undefined) throw new Error('no definition')
  definition = found
  marts = await loadMarts([])
  await publish(db.database, definitions, marts)
  queue = await startQueue(db.database, silentLog)
  runtime = shopOf()
})
afterAll(async () => {
  await queue.stop()
  await db.drop()
})
beforeEach(async () => {
  runId = await newRun(db)
})
afterEach(async () => {
  await query(
    'truncate data.keywords_v1, data.keywords_v1_history, etl.runs, etl.units, bi.keyword_months, bi.keyword_intents cascade',
  )
  await query('delete from pgboss.job')
})

const unused = (): never => {
  throw new Error('not part of a load')
}
const shopOf = (): Runtime => ({
  settings: { raw: {} } as unknown as Runtime['settings'],
  database: db.database,
  queue,
  landing: {} as unknown as Runtime['landing'],
  sources: new Map(),
  definitions: [definition],
  marts,
  service: unused,
  progress: createProgress(),
  log: silentLog,
  clock: systemClock,
  owner: 'one:1',
  consent: { resubmitUncertain: false },
})

const query = async <T extends Record<string, unknown>>(text: string, values: unknown[] = []): Promise<T[]> =>
  (await db.database.pool.query<T>(text, values)).rows

/** A claimed unit with its job, as it is when its answer is about to be loaded. */
const workOn = async (domain: string): Promise<UnitWork> => {
  const unit = unitOf(definition, '2026-01', { domain, country: 'us' })
  await db.database.kysely.transaction().execute(async (trx) => {
    const units = await registerUnits(trx, runId, [{ unit, newEdition: true, forced: false }])
    await queue.enqueue(
      trx,
      units.map(({ unitId }) => ({ unitId, runId, priority: 1 })),
    )
  })
  const [job] = await queue.fetch(1)
  if (job === undefined) throw new Error('nothing to take')
  return {
    runtime,
    job,
    claim: await claimOf(job),
    definition,
    source: (await loadSources()).get(definition.source) ?? unused(),
    requests: [requestOf(job)],
    signal: new AbortController().signal,
  }
}

const claimOf = async (job: UnitJob): Promise<ClaimedUnit> => {
  const claim = await claimUnit(db.database.kysely, job.unitId, {
    owner: 'one:1',
    leaseMs: 30_000,
    runId,
    holds: sql<boolean>`true`,
  })
  if (claim === null) throw new Error('not claimed')
  return claim
}

const requestOf = ({ unitId }: UnitJob) => ({
  unitId,
  runId,
  edition: 1,
  account: 'a',
  method: 'GET',
  endpoint: '/k',
  parameters: { a: 1 },
  part: 1,
  attempt: 1,
  status: 200,
  errorCode: null,
  bytes: 9,
  sha256: 'abc',
  startedAt: '2026-01-01T00:00:00Z',
  milliseconds: 1.5,
})

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
  work: UnitWork,
  { rows, expected = rows.length, rejects = 0, staged = false }: Answer,
  how: (work: UnitWork, session: Parameters<typeof loadAtOnce>[1], input: LoadInput) => Promise<T>,
): Promise<T> =>
  withSession(db.database.pool, async (session) => {
    const staging = openStaging(session, definition)
    if (rows.length > 0) await staging.write({ copy: Buffer.from(rows.map((one) => `${one}\n`).join('')), rows: rows.length })
    if (staged) await staging.flush()
    const landing = { locator: `landing/${work.claim.unit.slice['domain']}`, sha256: 'f00d', bytes: 123 }
    const loaded = await how(work, session, {
      staging,
      parsed: { ...createParseReport(), read: rows.length + rejects, rows: rows.length, rejects, unknownColumns: ['new_field'] },
      completeness: { fingerprint: { lastUpdated: '2026-02-03', count: expected }, expectedRows: expected, dataPoints: null },
      landing,
      markLanded: () =>
        markLanded(db.database.kysely, work.claim, { landing: landing.locator, sha256: landing.sha256, bytes: landing.bytes }),
      rawRecords: async () => [],
    })
    await staging.close()
    return loaded
  })

const atOnce = (work: UnitWork, answer: Answer) => load(work, answer, loadAtOnce)

/** Everything a load writes of the unit, without the words and numbers in which two units differ by nature. */
const leftBy = async ({ claim: { unit, unitId } }: UnitWork) => {
  const of = async (text: string) =>
    JSON.stringify(await query(text, [unitId]))
      .replaceAll(String(unit.slice['domain']), 'DOMAIN')
      .replaceAll(/"(\w+_at|\w*(unit|load)_id|milliseconds|request_id|fence|quarantine_id)":("[^"]*"|[\d.]+)/g, '"$1":"some"')
  const slice = `(select slice->>'domain' from etl.units where unit_id = $1)`
  return Promise.all([
    of('select * from data.keywords_v1 where _unit_id = $1 order by keyword'),
    of('select * from etl.units where unit_id = $1'),
    of('select * from etl.loads where unit_id = $1'),
    of('select unit_id, edition, outcome, finished_at from etl.run_units where unit_id = $1'),
    of('select * from etl.requests where unit_id = $1'),
    of('select * from etl.quarantine where unit_id = $1'),
    of(`select * from bi.keyword_months where domain = ${slice}`),
    of(`select * from bi.keyword_intents where domain = ${slice} order by intent`),
    of(`select domain from bi.dim_domain where domain = ${slice}`),
    of(`select singleton_key from pgboss.job where singleton_key = $1::text`),
  ])
}

const anything = async () => {
  const tables = [
    'data.keywords_v1',
    'bi.keyword_months',
    'etl.units',
    'etl.loads',
    'etl.requests',
    'etl.run_units',
    'pgboss.job',
  ]
  const rows = await Promise.all(tables.map((table) => query(`select t::text as line from ${table} t order by 1`)))
  return JSON.stringify(rows)
}

/** The answer is not for the short way, and it left everything as it was. */
const expectDeclined = async (work: UnitWork, answer: Answer): Promise<void> => {
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
    const short = await workOn('short.com')
    const counts = await atOnce(short, { rows })
    expect(counts).toEqual({ read: 3, inserted: 3, updated: 0, ended: 0, unchanged: 0, quarantined: 0, duplicates: 0 })
    const long = await workOn('longs.com')
    expect(await load(long, { rows, staged: true }, loadUnit)).toEqual(counts)
    const left = await leftBy(short)
    expect(left).toEqual(await leftBy(long))
    expect(left[0]).toContain('red shoes')
    expect(left[1]).toContain('"state":"loaded"')
    expect(left[4]).toContain('/k')
    expect(left[6]).toContain('"keywords":"3"')
    expect(left[9]).toBe('[]')
    expect(short.requests).toEqual([])
  })

  test('holds the texts that came, also those that COPY escapes', async () => {
    const keywords = ['c:\\\\temp', 'a\\tb', 'a\\nb', 'a\\rb', '\\\\N', '\\\\\\\\', 'plain', 'ü 🙂', 'N', ' ', '{}', `"'`]
    const [short, long] = [await workOn('short.com'), await workOn('longs.com')]
    const rows = keywords.map((keyword) => row(keyword))
    await atOnce(short, { rows })
    await load(long, { rows, staged: true }, loadUnit)
    expect(await leftBy(short)).toEqual(await leftBy(long))
    const kept = await query<{ keyword: string }>(`select keyword from data.keywords_v1 where domain = 'short.com'`)
    expect(new Set(kept.map(({ keyword }) => keyword))).toEqual(
      new Set(['c:\\temp', 'a\tb', 'a\nb', 'a\rb', '\\N', '\\\\', 'plain', 'ü 🙂', 'N', ' ', '{}', `"'`]),
    )
  })

  test('without any row is loaded as empty', async () => {
    const work = await workOn('empty.com')
    expect(await atOnce(work, { rows: [] })).toMatchObject({ read: 0, inserted: 0 })
    expect(await query('select state, loaded_rows from etl.units')).toEqual([{ state: 'loaded', loaded_rows: '0' }])
    expect(await query(`select 1 from bi.dim_domain where domain = 'empty.com'`)).toEqual([])
  })

  test('answers for what lay in quarantine', async () => {
    const work = await workOn('a.com')
    await query(
      `insert into etl.quarantine (unit_id, edition, pipeline, part, line, reason, raw) values ($1, 1, 'keywords', 1, 1, 'r', 'x')`,
      [work.claim.unitId],
    )
    await atOnce(work, { rows: [row('a')] })
    expect(await query('select state from etl.quarantine')).toEqual([{ state: 'superseded' }])
  })

  test('is written by one of two that hold the unit one after the other', async () => {
    const work = await workOn('a.com')
    const taken = { ...work, claim: await claimOf(work.job), requests: [...work.requests] }
    await expectDeclined(work, { rows: [row('a')] })
    expect(await atOnce(taken, { rows: [row('a')] })).toMatchObject({ inserted: 1 })
    await expectDeclined({ ...taken, requests: [...work.requests] }, { rows: [row('b')] })
  })

  test('knows of a summary that was published since the last one', async () => {
    await query('create table kept as select * from bi.keyword_months limit 0')
    await query('drop table bi.keyword_months cascade')
    await atOnce(await workOn('a.com'), { rows: [row('a')] })
    await publish(db.database, [definition], marts)
    const work = await workOn('b.com')
    await expectDeclined(work, { rows: [row('b')] })
    expect(await atOnce(work, { rows: [row('b')] })).toMatchObject({ inserted: 1 })
    expect(await query('select domain, keywords from bi.keyword_months order by 1')).toEqual([
      { domain: 'a.com', keywords: '1' },
      { domain: 'b.com', keywords: '1' },
    ])
  })
})

describe('the long way is left to', () => {
  test.each<[string, () => Answer]>([
    ['a key that comes twice', () => ({ rows: [row('a'), row('a', { clicks: '8' })] })],
    ['a record that was rejected', () => ({ rows: [row('a')], rejects: 1, expected: null })],
    ['an answer that lacks records', () => ({ rows: [row('a')], expected: 2 })],
    ['a text that only COPY can read', () => ({ rows: [row('a\\tb\u001f')] })],
    ['a value that is none', () => ({ rows: [row('a', { clicks: 'many' })] })],
    ['a value that does not fit', () => ({ rows: [row('a', { clicks: '9223372036854775808' })] })],
    ['rows that are in the table already', () => ({ rows: [row('a')], staged: true })],
    ['an answer that is not small', () => ({ rows: Array.from({ length: 2_000 }, (_, index) => row(`keyword ${index}`)) })],
  ])('%s', async (_, answer) => {
    await expectDeclined(await workOn('a.com'), answer())
  })

  test('a unit of which rows are there, or have ended', async () => {
    await atOnce(await workOn('a.com'), { rows: [row('a')] })
    // Their keys would keep a second row out as well.
    await query('truncate bi.keyword_months, bi.keyword_intents')
    await query(`update etl.units set state = 'planned', loaded_at = null`)
    await expectDeclined(await workOn('a.com'), { rows: [row('b')] })
    await query(`with gone as (delete from data.keywords_v1 returning *) insert into data.keywords_v1_history
      select *, _loaded_at, now(), 1 from gone`)
    await query(`update etl.units set state = 'planned'`)
    await query('delete from pgboss.job')
    await expectDeclined(await workOn('a.com'), { rows: [row('b')] })
  })

  test('a unit of several values', async () => {
    const work = await workOn('a.com')
    const unit = unitOf(definition, '2026-01', { domain: ['a.com', 'b.com'], country: 'us' })
    const other = { ...definition, columns: [...definition.columns] }
    await expectDeclined({ ...work, definition: other, claim: { ...work.claim, unit } }, { rows: [row('a')] })
  })
})
