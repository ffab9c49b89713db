// A new version of a pipeline is an upgrade: readers of bi see one series over both, and what was believed before is still there.
import { sql } from 'kysely'
import { beforeAll, describe, expect, test } from 'vitest'
import type { ColumnType } from '../../src/core/column-types.ts'
import type { Mart } from '../../src/core/mart.ts'
import type { Definition } from '../../src/core/types.ts'
import { loadMarts, readMart } from '../../src/definition/marts.ts'
import { publish } from '../../src/publish/publish.ts'
import { boxOf, knownMarts, shippedDefinitions } from '../support/definitions.ts'
import { type LoadKit, loadBody, openLoading, trafficCsv, trafficLine, workOn } from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let others: readonly Definition[]
let first: Definition
let second: Definition
let marts: readonly Mart[]
let old: LoadKit
let fresh: LoadKit

const now = async (): Promise<string> => (await db.query<{ at: string }>('select clock_timestamp()::text as at'))[0]?.at ?? ''

const load = async (kit: LoadKit, month: string, visits: Readonly<Record<string, string | null>>): Promise<void> => {
  const domains = Object.keys(visits)
  const work = await workOn(kit, boxOf(kit.definition, month, { domain: domains, country: 'us' }))
  const lines = domains.flatMap((domain) => {
    const figure = visits[domain] ?? null
    return figure === null ? [] : [trafficLine(month, domain, figure)]
  })
  await loadBody(kit, work, { body: trafficCsv(...lines), sha256: `${month} ${JSON.stringify(visits)}` })
}

const typed = (columns: Definition['columns'], types: Readonly<Record<string, ColumnType>>): Definition['columns'] =>
  columns.map((column) => ({ ...column, type: types[column.name] ?? column.type }))

/** By month and domain: 2026-01 a.com 10. */
const rows = async (from: string): Promise<string[]> =>
  (
    await db.query<{ text: string }>(
      `select to_char(date, 'YYYY-MM') || ' ' || domain || ' ' || all_traffic_visits as text from ${from} order by 1`,
    )
  ).map(({ text }) => text)

/** Revisions of a row that stand beside each other. */
const overlaps = () =>
  db.query(`select 1 from bi.traffic_and_engagement_history a join bi.traffic_and_engagement_history b
    on a.date = b.date and a.domain = b.domain and a.valid_from < b.valid_from and (a.valid_to is null or a.valid_to > b.valid_from)`)

const publishVersions = (published: 1 | 2): Promise<unknown> =>
  publish(db.database, [...others, { ...first, publish: published === 1 }, { ...second, publish: published === 2 }], marts)

const hidden = (kit: LoadKit): LoadKit => ({ ...kit, definition: { ...kit.definition, publish: false } })

const before = ['2025-12 a.com 7', '2026-01 a.com 12', '2026-01 b.com 20', '2026-01 gone.com 30', '2026-02 a.com 11']
const moments = { begun: '', beforeSwitch: '', afterSwitch: '', late: '' }

beforeAll(async () => {
  const shipped = await shippedDefinitions()
  const { mart: visits } = readMart(
    'marts/visits.sql',
    'visits',
    `-- kind: summary of traffic_and_engagement
-- purpose: Visits.
-- grain: One row a date, domain and country.
-- question: How many?
-- key: date, granularity, domain, country, include_subdomains
select date, granularity, domain, country, include_subdomains, sum(all_traffic_visits) as all_traffic_visits from {{facts}} group by 1, 2, 3, 4, 5`,
  )
  marts = [...(await loadMarts([])), ...(visits === null ? [] : [visits])]
  const traffic = shipped.find(({ pipeline }) => pipeline === 'traffic_and_engagement') as Definition
  first = { ...traffic, columns: typed(traffic.columns, { desktop_visits: 'bigint' }) }
  others = shipped.filter(({ pipeline }) => pipeline !== 'traffic_and_engagement')
  // One column fewer, one more, one that holds what the former held, one that may not.
  const columns = typed(traffic.columns, { mobile_visits: 'bigint' }).filter(({ name }) => name !== 'mobile_unique_visitors')
  const score = { ...(columns.at(-1) as Definition['columns'][number]), name: 'score', from: ['score'], key: false }
  second = { ...first, version: 2, columns: [...columns, score], limits: { ...first.limits, rejectShare: 0.5 } }
  for (const suffix of ['', '_history']) {
    const table = `data.traffic_and_engagement_v2${suffix}`
    await db.query(`alter table data.traffic_and_engagement_v1${suffix} alter column desktop_visits type bigint`)
    await db.query(`create table ${table} (like data.traffic_and_engagement_v1${suffix} including all)
      ${suffix === '' ? 'partition by range (date)' : ''}`)
    await db.query(`alter table ${table} drop column mobile_unique_visitors, add column score numeric,
      alter column desktop_visits type numeric, alter column mobile_visits type bigint`)
  }
  await publishVersions(1)
  old = await openLoading(db, first, marts)
  fresh = await openLoading(db, { ...second, publish: false }, marts)
  // The kit tells pipelines of tests apart by a parameter; these two have the same.
  await sql`update etl.pipelines set parameters = '{"granularity": "monthly"}' where pipeline_id in (${old.pipeline.pipelineId}, ${fresh.pipeline.pipelineId})`.execute(
    db.database.kysely,
  )
  await load(old, '2025-12', { 'a.com': '7' })
  await load(old, '2026-01', { 'a.com': '10', 'b.com': '20', 'gone.com': '30' })
  await load(old, '2026-02', { 'a.com': '11' })
  moments.begun = await now()
  await load(old, '2026-01', { 'a.com': '12', 'b.com': '20', 'gone.com': '30' })
  // Version 2 does not want gone.com any more, was not asked for December yet, and learnt that b.com has nothing in February.
  await load(fresh, '2026-01', { 'a.com': '111', 'b.com': '20' })
  await load(fresh, '2026-01', { 'a.com': '112', 'b.com': '20' })
  await load(fresh, '2026-02', { 'a.com': '11', 'b.com': null })
  moments.beforeSwitch = await now()
  expect(await rows('bi.traffic_and_engagement')).toEqual(before)
  await publishVersions(2)
  fresh = { ...fresh, definition: second }
  moments.afterSwitch = await now()
})

const after = ['2025-12 a.com 7', '2026-01 a.com 112', '2026-01 b.com 20', '2026-01 gone.com 30', '2026-02 a.com 11']

describe('after another version was published', () => {
  test('what it has no answer for stays: values that left the lists, and months it was not asked for', async () => {
    expect(await rows('bi.traffic_and_engagement')).toEqual(after)
  })

  test('a column of another type is NULL in what stays, unless the new type holds every value of the former', async () => {
    const [row] = await db.query(
      'select mobile_visits, desktop_visits from bi.traffic_and_engagement where domain = $$gone.com$$',
    )
    expect(row).toEqual({ mobile_visits: null, desktop_visits: '2' })
  })

  test('publishing again changes nothing', async () => {
    await publishVersions(2)
    expect(await rows('bi.traffic_and_engagement')).toEqual(after)
    expect(await db.query(`select version from etl.published_versions where pipeline = 'traffic_and_engagement'`)).toHaveLength(2)
  })

  test('every moment is answered as it was then', async () => {
    const asOf = (at: string): Promise<string[]> => rows(`bi.traffic_and_engagement_as_of('${at}')`)
    expect(await asOf(moments.begun)).toEqual(before.with(1, '2026-01 a.com 10'))
    expect(await asOf(moments.beforeSwitch)).toEqual(before)
    expect(await asOf(moments.afterSwitch)).toEqual(after)
  })

  test('the history has the ended revisions of both, each with its version', async () => {
    const found =
      await db.query(`select all_traffic_visits::integer as visits, _version as version, is_current from bi.traffic_and_engagement_history
      where domain = 'a.com' and date = '2026-01-01' order by valid_from`)
    expect(found).toEqual([
      { visits: 10, version: 1, is_current: false },
      { visits: 12, version: 1, is_current: false },
      { visits: 112, version: 2, is_current: true },
    ])
    expect(await overlaps()).toEqual([])
  })

  test('restated is what got another value, not what the new version tells anew', async () => {
    const found = await db.query<{
      cell: string
    }>(`select to_char(date, 'YYYY-MM') || ' ' || domain || ' ' || times_restated as cell, restated_at is not null as at
      from bi.traffic_restatements order by date, domain`)
    expect(found).toEqual([
      { cell: '2025-12 a.com 0', at: false },
      { cell: '2026-01 a.com 2', at: true },
      { cell: '2026-01 b.com 0', at: false },
      { cell: '2026-01 gone.com 0', at: false },
      { cell: '2026-02 a.com 0', at: false },
    ])
  })

  test('the former one is readable under its number, with its own columns', async () => {
    expect(await rows('bi.traffic_and_engagement_v1')).toEqual(before)
    const columns = await db.query(`select 1 from information_schema.columns where table_schema = 'bi'
      and table_name = 'traffic_and_engagement_v1' and column_name = 'mobile_unique_visitors'`)
    expect(columns).toHaveLength(1)
  })

  test('coverage is of the published version alone', async () => {
    const found = await db.query(`select distinct version from bi.coverage_months where pipeline = 'traffic_and_engagement'
      union select distinct version from bi.coverage where pipeline = 'traffic_and_engagement'`)
    expect(found).toEqual([{ version: 2 }])
  })

  test('why a figure changed is one view: first loaded, restated, another version', async () => {
    const found =
      await db.query(`select why, slice, rows_changed::integer as changed, rows_new::integer as new, detail from bi.figure_changes
      where pipeline = 'traffic_and_engagement' and month = '2026-01-01' order by changed_at`)
    const three = '{"domain": ["a.com", "b.com", "gone.com"], "country": "us"}'
    expect(found).toEqual([
      { why: 'came', slice: three, changed: 0, new: 3, detail: null },
      { why: 'restated', slice: three, changed: 1, new: 0, detail: null },
      { why: 'version', slice: null, changed: null, new: null, detail: 'version 2' },
    ])
  })

  test('what was loaded into a version that nobody saw yet is no change of figures, and no restatement', async () => {
    const changes = `select why || ' ' || coalesce(slice::jsonb ->> 'domain', '') as told from bi.figure_changes
      where pipeline = 'traffic_and_engagement' and month = '2026-02-01' and changed_at is not null order by changed_at`
    expect(await db.query(changes)).toEqual([{ told: 'came a.com' }, { told: 'version ' }])
    expect(await db.query(`select window_from::text as month, rows_changed::integer as changed from bi.restatements`)).toEqual([
      { month: '2026-01-01', changed: 1 },
    ])
  })

  test('a month that it is asked for later takes the place of the former one at that moment', async () => {
    moments.late = await now()
    await load(fresh, '2025-12', { 'a.com': '8' })
    expect(await rows('bi.traffic_and_engagement')).toEqual(after.with(0, '2025-12 a.com 8'))
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.late}')`)).toEqual(after)
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.beforeSwitch}')`)).toEqual(before)
  })

  test('and at that moment, too, where the answer was asked for by the former one, which numbers its slices otherwise', async () => {
    const figures =
      'rows_read, rows_inserted, rows_updated, rows_ended, rows_unchanged, rows_quarantined, rows_duplicates, loaded_at'
    await db.query(`with its as (
        select l.*, o.pipeline_id as asked_by, o.slice_id as asked_slice from etl.units u join etl.loads l using (answer_id, pipeline_id)
          join etl.slices s using (slice_id) join etl.slices o on o."values" = s."values" and o.pipeline_id = ${old.pipeline.pipelineId}
        where u.pipeline_id = ${fresh.pipeline.pipelineId} and u.window_from = '2025-12-01'
      ), asked as (
        update etl.answer_rows a set pipeline_id = asked_by, slice_id = null, slice_ids = array[asked_slice], loaded_at = null from its where a.answer_id = its.answer_id
      )
      insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, ${figures})
      select answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, ${figures} from its`)
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.late}')`)).toEqual(after)
  })

  test('a summary keeps what the former one has of a unit that a replay spans and that the new one never asked for', async () => {
    const span = { ...boxOf(second, '2026-01', { domain: ['a.com', 'gone.com'], country: 'us' }) }
    const work = await workOn(fresh, { ...span, window: { from: '2026-01-01', to: '2026-03-01' } })
    await db.query(`delete from etl.units u using etl.slices s where s.slice_id = u.slice_id and s."values"[1] = 'gone.com'
      and u.pipeline_id = ${fresh.pipeline.pipelineId}`)
    await db.query(`update etl.jobs set cells = 2 where job_id = ${work.claim.jobId}`)
    const body = trafficCsv(trafficLine('2026-01', 'a.com', '114'), trafficLine('2026-02', 'a.com', '11'))
    await loadBody(fresh, { ...work, claim: { ...work.claim, cells: 2 } }, { body, sha256: 'span' })
    expect(await rows('bi.traffic_and_engagement')).toContain('2026-01 gone.com 30')
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
  })

  test('a summary keeps what the former one has of a unit that is held in a load of the new one', async () => {
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
    await load(fresh, '2026-01', { 'a.com': '113', 'b.com': '20', 'gone.com': 'many' })
    expect(await db.query(`select held_code from etl.units where held_code is not null`)).toEqual([
      { held_code: 'TOO_MANY_REJECTS' },
    ])
    expect(await rows('bi.traffic_and_engagement')).toContain('2026-01 gone.com 30')
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
  })

  test('going back shows the first again, and the time between as it was', async () => {
    await publishVersions(1)
    const back = await now()
    expect(await rows('bi.traffic_and_engagement')).toEqual(before)
    expect(await rows(`bi.traffic_and_engagement_as_of('${back}')`)).toEqual(before)
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.afterSwitch}')`)).toEqual(after)
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.beforeSwitch}')`)).toEqual(before)
    expect(await overlaps()).toEqual([])
  })

  test('a summary follows its pipeline also where the file hides it, and so when it is shown again', async () => {
    await load(hidden(old), '2026-02', { 'a.com': '14' })
    expect(await rows('bi.traffic_and_engagement')).toContain('2026-02 a.com 14')
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
    await publishVersions(1)
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
  })

  test('a summary follows what the former one loads of units that the published one has no answer for, and nothing else', async () => {
    const back = await now()
    const shown = await rows('bi.traffic_and_engagement')
    await publishVersions(2)
    expect(await rows(`bi.traffic_and_engagement_as_of('${back}')`)).toEqual(shown)
    expect(await rows(`bi.traffic_and_engagement_as_of('${moments.afterSwitch}')`)).toEqual(after)
    expect(await overlaps()).toEqual([])
    await load(hidden(old), '2026-01', { 'a.com': '500', 'b.com': '20', 'gone.com': '33' })
    expect(await rows('bi.traffic_and_engagement')).toContain('2026-01 gone.com 33')
    expect(await rows('bi.traffic_and_engagement')).not.toContain('2026-01 a.com 500')
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
  })

  test('a summary has what the published one loads of a unit while the former one is being loaded', async () => {
    let left = 1
    const reread = async (): Promise<readonly Mart[]> => {
      if (left-- > 0) await load(fresh, '2026-01', { 'gone.com': '77' })
      return marts
    }
    const former = { ...hidden(old), runtime: { ...old.runtime, marts: { current: () => [], reread } } }
    await load(former, '2026-01', { 'a.com': '500', 'b.com': '20', 'gone.com': '36' })
    expect(await rows('bi.traffic_and_engagement')).toContain('2026-01 gone.com 77')
    expect(await rows('bi.visits')).toEqual(await rows('bi.traffic_and_engagement'))
  })

  test('a former version that tells its rows apart by another key loads as before: no summary has its columns', async () => {
    const renamed = <Of extends { readonly name: string }>(one: Of): Of =>
      one.name === 'country' ? { ...one, name: 'land' } : one
    const third = {
      ...second,
      version: 3,
      columns: second.columns.map(renamed),
      key: second.key.map((name) => renamed({ name }).name),
    }
    for (const suffix of ['', '_history'])
      await db.query(`create table data.traffic_and_engagement_v3${suffix} (like data.traffic_and_engagement_v2${suffix} including all)
        ${suffix === '' ? 'partition by range (date)' : ''}; alter table data.traffic_and_engagement_v3${suffix} rename column country to land`)
    const visits = marts.filter(({ name }) => name === 'visits')
    const [grain, key] = ['One row a date and domain.', third.key]
    const lands = visits.map((mart) => ({ ...mart, grain, key, sql: mart.sql.replaceAll('country', 'land') }))
    await db.query('drop view bi.traffic_and_engagement, bi.traffic_and_engagement_history cascade')
    await publish(db.database, [...others, { ...first, publish: false }, third], lands)
    const former = { ...hidden(old), runtime: { ...old.runtime, marts: knownMarts(lands) } }
    await load(former, '2026-01', { 'a.com': '501', 'b.com': '20', 'gone.com': '34' })
    expect(await rows('data.traffic_and_engagement_v1')).toContain('2026-01 gone.com 34')
  })
})
