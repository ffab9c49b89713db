// A month's first answer, copied into the table that becomes the month: the same as by staging, or nothing at all.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
import { withSession } from '../../src/db/session.ts'
import { loadFilled, openMonthFilling } from '../../src/pipeline/fill-month.ts'
import { openLandingFolder } from '../../src/extract/landing-folder.ts'
import { workJob } from '../../src/pipeline/job.ts'
import type { JobWork } from '../../src/pipeline/job-work.ts'
import { loadSources } from '../../src/sources/registry.ts'
import { boxOf } from '../support/definitions.ts'
import { jobRow, newAnswer } from '../support/ledger-answers.ts'
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
let month = '2001-01'

const table = 'data.traffic_and_engagement_v1'
const domains = ['a.com', 'b.com', 'c.com', 'd.com']

beforeAll(async () => {
  db = await createTestDatabase()
  definition = await lenientTraffic()
})
afterAll(() => db.drop())
beforeEach(() => nextMonth())

/** Processes remember the partitions they have seen. */
const nextMonth = async (): Promise<void> => {
  month = addWindows(`${month}-01`, 'month', 1).slice(0, 7)
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
}

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows
const nextAfter = (): string => addWindows(`${month}-01`, 'month', 1).slice(0, 7)
const partition = (): string => `${table}_p${month.replace('-', '')}`
const box = (...some: readonly string[]): Box =>
  boxOf(definition, month, { domain: some.length === 0 ? domains : [...some], country: 'us' })
const row = (domain: string, visits: string): string => line(month, domain, visits)
/** Tables that were to become a month; those for staging number their rows and stay with their session. */
const leftOver = () =>
  query<{ name: string }>(`select relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'staging' and relkind = 'r' and relname ~ '^traffic_and_engagement_v1_[0-9a-f]{6}_'
      and not exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = '_n') order by 1`)
const isThere = async (): Promise<boolean> =>
  (await query<{ found: boolean }>(`select to_regclass('${partition()}') is not null as found`))[0]?.found === true

interface Choice {
  /** What the service counts in the report. */
  readonly dataPoints?: number
  /** What the rows are parsed as; default: what was asked for. */
  readonly parsedAs?: Box
  readonly meanwhile?: () => Promise<unknown>
}

/** As the work on a job does it; null where the answer is left to staging. */
const fill = async (work: JobWork, body: string, { parsedAs, meanwhile, dataPoints }: Choice = {}) =>
  withSession(db.database.pool, async (session) => {
    const filled = await openMonthFilling(work, session, work.claim.box)
    if (filled === null) return 'not opened'
    const asParsed = { ...work, claim: { ...work.claim, box: parsedAs ?? work.claim.box } }
    return withAnswer(
      kit,
      asParsed,
      dataPoints === undefined ? { body } : { body, dataPoints },
      async (_, __, input) => {
        await meanwhile?.()
        return loadFilled(work, session, filled, input)
      },
      (_, plan) => ({ staging: filled.filling, plan: { ...plan, mark: filled.mark } }),
    )
  })

/** The answer as bytes on disk. */
const landed = async (of: Box, body: string) => {
  const landing = openLandingFolder(mkdtempSync(join(tmpdir(), 'millrace-filling-')))
  const [warehouse] = await query<{ id: string; epoch: number }>('select warehouse_id::text as id, epoch from etl.warehouse')
  if (warehouse === undefined) throw new Error('the warehouse has no name')
  const writer = await landing.create({ box: of, warehouse, askNumber: '1', fence: '1', nonce: 'abcdef', now: Date.now })
  const bytes = async function* () {
    yield Buffer.from(body)
  }
  for await (const _ of writer.part({ format: 'csv', part: 1, body: bytes() }).body);
  const { sha256 } = await writer.finish({
    completeness: { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null },
  })
  return { landing, locator: writer.locator, sha256 }
}

/** Everything a reader or a later load can tell apart, but for times and numbers. */
const stateNow = async () => {
  const told = {
    rows: await query(`select domain, country, date::text, all_traffic_visits, mobile_visits, all_page_views, _revision, _run_id = ${kit.runId} as own,
      _loaded_at = (select max(loaded_at) from etl.loads) as at_load, u.slice->>'domain' as unit
      from ${table} t left join etl.unit_list u on u.unit_id = t._unit_id order by domain`),
    loads: await query(`select outcome, units, rows_read, rows_inserted, rows_unchanged, rows_duplicates, rows_quarantined,
      array(select "values"[1] from etl.slices s where s.slice_id = any(l.slices_without_rows) order by 1) as without from etl.loads l`),
    units:
      await query(`select slice->>'domain' as domain, answer_id is not null as has, ask_number is not null as asked, job_id, held_code
      from etl.unit_list order by 1`),
    columns: await query(`select attname, format_type(atttypid, atttypmod) as type, attnotnull, atthasdef from pg_attribute
      where attrelid = '${partition()}'::regclass and attnum > 0 and not attisdropped order by attname`),
    indexes: await query(
      `select pg_get_indexdef(indexrelid) as text, indisvalid, indisprimary from pg_index where indrelid = '${partition()}'::regclass order by 1`,
    ),
    table: await query(
      `select pg_get_expr(relpartbound, oid) as bound, relpersistence, reloptions from pg_class where oid = '${partition()}'::regclass`,
    ),
  }
  return JSON.stringify(told, null, 1)
    .replaceAll(partition(), 'P')
    .replaceAll(partition().slice(5), 'P')
    .replaceAll(month, 'M')
    .replaceAll(addWindows(`${month}-01`, 'month', 1), 'NEXT')
}

const answers = fc.array(fc.tuple(fc.constantFrom(...domains), fc.constantFrom('1', '2', '')), { minLength: 1, maxLength: 6 })

describe('a month that is filled by COPY', () => {
  test('is the month that staging makes, and is left to it where a key comes twice', async () => {
    let taken = 0
    await fc.assert(
      fc.asyncProperty(answers, async (answer) => {
        await nextMonth()
        const bodyNow = (): string => csv(...answer.map(([domain, visits]) => row(domain, visits)))
        const body = bodyNow()
        const work = await workOn(kit, box())
        const filled = await fill(work, body)
        const isDistinct = new Set(answer.map(([domain]) => domain)).size === answer.length
        expect(filled === null).toBe(!isDistinct)
        expect([await isThere(), await leftOver()]).toEqual([isDistinct, []])
        if (filled === null) {
          expect(await query(`select 1 from etl.loads`)).toEqual([])
          return
        }
        taken += 1
        expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'done' })
        const state = await stateNow()
        await nextMonth()
        // A month that is made before it has rows, as the general way makes it for few.
        expect(await loadBody(kit, await workOn(kit, box()), { body: bodyNow() })).toEqual(filled)
        expect(state).toBe(await stateNow())
      }),
      { numRuns: 12 },
    )
    expect(taken).toBeGreaterThan(0)
  })

  test('is changed, ended and added to by later answers', async () => {
    await fill(await workOn(kit, box()), csv(row('a.com', '1'), row('b.com', '2'), row('c.com', '3')))
    const again = csv(row('a.com', '1'), row('b.com', '7'), row('d.com', '4'))
    const released = await workOn(kit, box(), { set: { released: true } })
    expect(await loadBody(kit, released, { body: again })).toMatchObject({ unchanged: 1, updated: 1, inserted: 1, ended: 1 })
    expect(await query(`select domain, _revision, _run_id::int from ${table} order by 1`)).toEqual([
      { domain: 'a.com', _revision: 1, _run_id: kit.runId },
      { domain: 'b.com', _revision: 2, _run_id: kit.runId },
      { domain: 'd.com', _revision: 1, _run_id: kit.runId },
    ])
    expect(
      await query(
        `select h.domain, h._valid_from = l.first as since_load from ${table}_history h, (select min(loaded_at) as first from etl.loads) l order by 1`,
      ),
    ).toEqual([
      { domain: 'b.com', since_load: true },
      { domain: 'c.com', since_load: true },
    ])
  })

  test.each([
    [
      'a row of a unit that was not asked for',
      async () => [...['a.com', 'b.com'].map((domain) => row(domain, '1')), row('z.com', '1')],
    ],
    ['a row of a month that was not asked for', async () => [row('a.com', '1'), line(nextAfter(), 'b.com', '1')]],
    ['a record that cannot be read', async () => [row('a.com', '1'), row('b.com', 'many')]],
    ['no row', async () => []],
  ])('is not made of an answer with %s', async (_, lines) => {
    const work = await workOn(kit, box())
    // Parsing refuses what was not asked for; where spellings differ it comes through.
    const parsedAs = boxOf(definition, month, { domain: [...domains, 'z.com'], country: 'us' }, nextAfter())
    expect(await fill(work, csv(...(await lines())), { parsedAs })).toBeNull()
    expect([await isThere(), await leftOver(), await query('select 1 from etl.loads')]).toEqual([false, [], []])
  })

  test.each([
    [
      'the month is there',
      () =>
        query(
          `create table ${partition()} partition of ${table} for values from ('${month}-01') to ('${addWindows(`${month}-01`, 'month', 1)}')`,
        ),
    ],
    ['the window has units of another job', () => workOn(kit, box('e.com', 'f.com'))],
    [
      'one of its units was loaded',
      async () => query(`update etl.units set ask_number = 1 where unit_id = (select min(unit_id) from etl.units)`),
    ],
    ['its table has a column of somebody else', () => query(`alter table ${table} add column mine text default 'x'`)],
    [
      'its table has a rule that a partition must have too',
      () => query(`alter table ${table} add constraint mine check (all_page_views >= 0)`),
    ],
  ])('is not begun where %s', async (_, before) => {
    const work = await workOn(kit, box())
    await before()
    expect(await fill(work, csv(row('a.com', '1')))).toBe('not opened')
    expect(await leftOver()).toEqual([])
    await query(`alter table ${table} drop constraint if exists mine`)
    await query(`alter table ${table} drop column if exists mine`)
  })

  test.each([
    [
      'another has made the month',
      () =>
        query(
          `create table ${partition()} partition of ${table} for values from ('${month}-01') to ('${addWindows(`${month}-01`, 'month', 1)}')`,
        ),
    ],
    [
      'a newer answer was loaded into one of its units',
      () => query(`update etl.units set ask_number = 9000000000000 where unit_id = (select min(unit_id) from etl.units)`),
    ],
  ])('is given up, with nothing loaded, where %s meanwhile', async (_, meanwhile) => {
    const work = await workOn(kit, box())
    expect(await fill(work, csv(row('a.com', '1'), row('b.com', '2')), { meanwhile })).toBeNull()
    expect([await leftOver(), await query(`select 1 from ${table}`), await query('select 1 from etl.loads')]).toEqual([
      [],
      [],
      [],
    ])
    expect(await jobRow(db, work.claim.jobId)).toMatchObject({ state: 'open', answer_id: expect.anything() })
  })

  test.each([
    ['fits the month', ['1', '2'], { rows_inserted: '2', rows_duplicates: '0', rows_quarantined: '0' }],
    ['has a row twice', ['1', '2', '2'], { rows_inserted: '2', rows_duplicates: '1', rows_quarantined: '0' }],
    ['has a record that cannot be read', ['1', 'many'], { rows_inserted: '1', rows_duplicates: '0', rows_quarantined: '0' }],
  ])('an answer that %s is loaded from its landing, read once more where that is needed', async (_, visits, counts) => {
    const { claim } = await workOn(kit, box())
    const body = csv(...visits.map((value) => row(value === '1' ? 'a.com' : 'b.com', value)))
    const { locator, sha256, landing } = await landed(claim.box, body)
    const answerId = await newAnswer(db, claim.jobId, { landing: locator, sha256 })
    const runtime = { ...kit.runtime, landing, sources: await loadSources() }
    await workJob(runtime, { ...claim, answer: { answerId, landing: locator } }, new AbortController().signal)
    expect(await jobRow(db, claim.jobId)).toMatchObject({ state: 'done', error_code: null })
    expect(await query('select rows_inserted, rows_duplicates, rows_quarantined from etl.loads')).toEqual([counts])
    expect(runtime.progress.counters.rowsRead).toBe(visits.filter((value) => value !== 'many').length)
    expect([await isThere(), await leftOver()]).toEqual([true, []])
  })

  test.each([
    ['agrees with its rows', 2, ['1', '2'], 1],
    ['does not, and a row comes twice', 2, ['1', '2', '2'], 0],
    ['does not', 5, ['1', '2'], 0],
  ] as const)('is made of a report whose count %s only where it is whole', async (_, dataPoints, visits, loads) => {
    const lines = visits.map((value) => row(value === '1' ? 'a.com' : 'b.com', value))
    const filled = await fill(await workOn(kit, box()), csv(...lines), { dataPoints })
    expect([filled !== null, await isThere(), (await query('select 1 from etl.loads')).length]).toEqual([
      loads > 0,
      loads > 0,
      loads,
    ])
  })

  test('is given up where a dump reads its table; nothing waits for that', async () => {
    const work = await workOn(kit, box())
    const dump = await db.database.pool.connect()
    try {
      const lock = async (): Promise<void> => {
        const [own] = await leftOver()
        await dump.query(`begin; lock table staging."${own?.name}" in access share mode`)
      }
      expect(await fill(work, csv(row('a.com', '1')), { meanwhile: lock })).toBeNull()
      expect([await isThere(), (await leftOver()).length, await query('select 1 from etl.loads')]).toEqual([false, 1, []])
    } finally {
      await dump.query('commit')
      dump.release()
    }
    expect(await loadBody(kit, await workOn(kit, box()), { body: csv(row('a.com', '1')) })).toMatchObject({ inserted: 1 })
  })

  test('left behind by a process that was killed is cleared away by the next', async () => {
    await query(`create table staging.traffic_and_engagement_v1_abcdef_999999 (x integer)`)
    await fill(await workOn(kit, box()), csv(row('a.com', '1')))
    expect((await leftOver()).map(({ name }) => name)).not.toContain('traffic_and_engagement_v1_abcdef_999999')
  })
})
