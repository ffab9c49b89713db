// A shipped pipeline whose table ends, and one that continues it: coverage says ended, views and marts show one series, which carries the mark of the change.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadSemantics } from '../../src/definition/semantic-model.ts'
import { answerQuery } from '../../src/semantic/answer.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { openDbtProject } from '../support/dbt-project.ts'
import { readerOf } from '../support/open-figures.ts'
import { dropRole } from '../support/postgres.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const world = sandboxWorld({
  copied: ['pipelines', 'marts'],
  sandbox: { keywordsPerDomain: 20, reportDurationMs: 100 },
  json: true,
})
const { db, fileOf, query } = world
const millrace = (...args: string[]) => succeeded(world.millrace(...args))

const seen: { readonly at: string; readonly rows: unknown[] }[] = []
/** What readers see now, to be told of this moment for good. */
const look = async (): Promise<void> => {
  const rows = await db.query<{ at: string }>('select clock_timestamp()::text as at')
  seen.push({ at: rows[0]?.at ?? '', rows: await query(series('bi.traffic_and_engagement')) })
}
const series = (view: string): string =>
  `select to_char(date, 'YYYY-MM') as month, count(*)::int as rows, count(all_traffic_visits)::int as visits, count(all_page_views)::int as pages from ${view} group by 1 order by 1`

test('continues in the views and marts of the shipped one: each month once, from the table that has it', async () => {
  await millrace('migrate')
  await millrace('backfill', 'traffic_and_engagement', '--from', '2026-05', '--to', '2026-07', '--yes')
  await look()
  const shipped = readFileSync(fileOf('traffic_and_engagement'), 'utf8')
  // It ends with June, though July was loaded; the one that goes on lacks a column, and was loaded from June on.
  writeFileSync(
    fileOf('traffic_and_engagement'),
    shipped.replace('schedule:', 'until: 2026-06\nsuccessor: visits_and_pages\nschedule:'),
  )
  writeFileSync(
    fileOf('visits_and_pages'),
    shipped.replace('pipeline: traffic_and_engagement', 'pipeline: visits_and_pages').replace(/ {4}all_page_views:.*\n/, ''),
  )
  await millrace('new', 'migration', 'visits_and_pages')
  await millrace('migrate')
  await look()
  await millrace('backfill', 'visits_and_pages', '--from', '2026-06', '--to', '2026-08', '--yes')
  // Marked as soon as it is shown, whether or not a run has read the definition that ends.
  expect(await query(`select pipeline, continued_by, month::text from bi.breaks`)).toEqual([
    { pipeline: 'traffic_and_engagement', continued_by: 'visits_and_pages', month: '2026-07-01' },
  ])
  const planned = await millrace('backfill', 'traffic_and_engagement', '--from', '2026-06', '--to', '2026-08', '--yes')
  expect(summaryOf(planned).units).toMatchObject({ planned: 9, unchanged: 9 })

  // The service has nothing of one cell in May.
  const continued = [
    { month: '2026-05', rows: 8, visits: 8, pages: 8 },
    { month: '2026-06', rows: 9, visits: 9, pages: 8 },
    { month: '2026-07', rows: 9, visits: 9, pages: 0 },
    { month: '2026-08', rows: 9, visits: 9, pages: 0 },
  ]
  expect(await query(series('bi.traffic_and_engagement'))).toEqual(continued)
  expect(await query(series("bi.traffic_and_engagement_as_of('2100-01-01')"))).toEqual(continued)
  expect(
    await query(`select distinct p.pipeline, t.date < '2026-07-01' as before from bi.traffic_and_engagement t
    join etl.units u on u.unit_id = t._unit_id join etl.pipelines p using (pipeline_id) order by 1`),
  ).toEqual([
    { pipeline: 'traffic_and_engagement', before: true },
    { pipeline: 'visits_and_pages', before: false },
  ])
  expect(
    await query(`select to_char(date, 'YYYY-MM') as month, count(*)::int as rows from bi.device_mix group by 1 order by 1`),
  ).toEqual(continued.map(({ month, rows }) => ({ month, rows })))
  // Months of two tables are compared, and the comparison says so.
  expect(
    await query(`select distinct to_char(month, 'YYYY-MM') as month, method_changed from bi.traffic_comparison
      where months_back = 1 and loaded_in = 'both' order by 1`),
  ).toEqual([
    { month: '2026-06', method_changed: false },
    { month: '2026-07', method_changed: true },
    { month: '2026-08', method_changed: false },
  ])
  expect(await query(`select pipeline, kind, month::text from bi.breaks`)).toEqual([
    { pipeline: 'traffic_and_engagement', kind: 'table', month: '2026-07-01' },
  ])
  // What was loaded beyond the end stays counted.
  expect(
    await query(`select pipeline, max(month)::text as last, max(ends)::text as ends from bi.coverage_months
    where cells_not_asked = 0 and pipeline in ('traffic_and_engagement', 'visits_and_pages') group by 1 order by 1`),
  ).toEqual([
    { pipeline: 'traffic_and_engagement', last: '2026-07-01', ends: '2026-06-01' },
    { pipeline: 'visits_and_pages', last: '2026-08-01', ends: null },
  ])
  // July was gone until the other pipeline had it, with the same figures.
  expect(
    await query(
      `select to_char(date, 'YYYY-MM') as month, sum(times_restated)::int as times, sum(visits_change)::int as change from bi.traffic_restatements group by 1 order by 1`,
    ),
  ).toEqual([
    { month: '2026-05', times: 0, change: 0 },
    { month: '2026-06', times: 0, change: 0 },
    { month: '2026-07', times: 9, change: 0 },
    { month: '2026-08', times: 0, change: 0 },
  ])
  // Why a figure changed is told of what the series shows: rows of the other pipeline from the end on, and that it continues.
  const told = (pipeline: string): string =>
    `select to_char(month, 'YYYY-MM') as month, array_agg(distinct why || coalesce(' ' || detail, '') order by why || coalesce(' ' || detail, '')) as why
      from bi.figure_changes where pipeline = '${pipeline}' and changed_at is not null group by 1 order by 1`
  expect(await query(told('traffic_and_engagement'))).toEqual([
    { month: '2026-05', why: ['came'] },
    { month: '2026-06', why: ['came'] },
    { month: '2026-07', why: ['came', 'came visits_and_pages', 'table visits_and_pages'] },
    { month: '2026-08', why: ['came visits_and_pages', 'table visits_and_pages'] },
  ])
  expect((await query(told('visits_and_pages'))).length).toBe(3)
  // A new method in the rows that continue it is marked as well; one in rows that are no longer shown is not.
  const noticed = (pipeline: string, startsOn: string): string => `insert into etl.breaks
      (pipeline_id, run_id, kind, starts_on, seen_back_to, columns, share, change, usual_share, usual_size, ask_number)
    select pipeline_id, 9, 'method', '${startsOn}', '${startsOn}', '{all_traffic_visits}', 1, 0.2, 0.1, 0.01, 1 from etl.pipelines where pipeline = '${pipeline}'`
  const isMarked = `select distinct method_changed from bi.traffic_comparison where months_back = 1 and loaded_in = 'both' and month = '2026-08-01'`
  await query(noticed('visits_and_pages', '2026-08-01'))
  expect(await query(isMarked)).toEqual([{ method_changed: true }])
  await query('delete from etl.breaks')
  await query(noticed('traffic_and_engagement', '2026-08-01'))
  expect(await query(isMarked)).toEqual([{ method_changed: false }])
  await query('delete from etl.breaks')
  // Tests of the dbt project read what was loaded lately, by either.
  const project = readFileSync(join(pipelinesOfRepository, '..', 'docs', 'dbt', 'models', 'semantic.yml'), 'utf8')
  const [, months = ''] = /(select month from bi\.coverage_months where \(pipeline = 'traffic_and_engagement'.*?'\{\{ var.*? days')\)/.exec(project.replaceAll(/\s+/g, ' ')) ?? [] // biome-ignore format: one look
  const lately = await query(months.replace(/\{\{.*\}\}/, '3'))
  expect(lately).toContainEqual({ month: expect.stringContaining('2026-08') })
})

test('every moment is told as readers saw it, also after the end was moved and taken back', async () => {
  await look()
  const written = readFileSync(fileOf('traffic_and_engagement'), 'utf8')
  const until = async (text: string): Promise<void> => {
    writeFileSync(fileOf('traffic_and_engagement'), text)
    await millrace('migrate')
    await look()
  }
  await until(written.replace('until: 2026-06', 'until: 2026-05'))
  await until(written.replace('until: 2026-06\nsuccessor: visits_and_pages\n', ''))
  await until(written)
  expect(new Set(seen.map(({ rows }) => JSON.stringify(rows))).size).toBe(4)
  for (const { at, rows } of seen) expect(await query(series(`bi.traffic_and_engagement_as_of('${at}')`))).toEqual(rows)
  expect(await query(series('(select * from bi.traffic_and_engagement_history where is_current) h'))).toEqual(seen.at(-1)?.rows)
  // One revision of what no end touched; the others stood, went and came back.
  expect(
    await query(
      `select to_char(date, 'YYYY-MM') as month, _version as version, count(*)::int as rows from bi.traffic_and_engagement_history group by 1, 2 order by 1`,
    ),
  ).toEqual([
    { month: '2026-05', version: 1, rows: 8 },
    { month: '2026-06', version: 1, rows: 9 + 9 + 9 },
    { month: '2026-07', version: 1, rows: 9 + 9 + 9 + 9 },
    { month: '2026-08', version: 1, rows: 9 + 9 },
  ])
})

test('summaries end where another pipeline continues, and have again what comes back: nothing is lost that is not loaded', async () => {
  const keywords = readFileSync(fileOf('keywords'), 'utf8')
  const months = 'select m.* from bi.keyword_months m order by month, domain, country'
  const moved = `select count(*)::int as moved from bi.keyword_movements where period = 'month' and months_back = 1 and starts_on > '2026-06-01'`
  await millrace('backfill', 'keywords', '--from', '2026-05', '--to', '2026-07', '--yes')
  const before = (await query(months)) as { month: string }[]
  const isMay = ({ month }: { month: string }): boolean => month === '2026-05-01'
  const isJuly = ({ month }: { month: string }): boolean => month === '2026-07-01'
  expect(before.filter(isJuly).length).toBeGreaterThan(0)
  writeFileSync(fileOf('keywords'), keywords.replace('schedule:', 'until: 2026-06\nsuccessor: search_terms\nschedule:'))
  writeFileSync(fileOf('search_terms'), keywords.replace('pipeline: keywords', 'pipeline: search_terms'))
  await millrace('new', 'migration', 'search_terms')
  await millrace('migrate')
  expect(await query(months)).toEqual(before.filter((one) => !isJuly(one)))
  expect(await query(moved)).toEqual([{ moved: 0 }])
  // Its rows are a share of what no summary tells: not of no domain.
  await millrace('backfill', 'search_terms', '--from', '2026-07', '--to', '2026-07', '--yes')
  expect(
    await query(`select distinct domains_loaded is null as unknown from bi.keyword_share_of_voice where month = '2026-07-01'`),
  ).toEqual([{ unknown: true }])
  const reader = await readerOf(db)
  const model = await loadSemantics([])
  const lacking = async (metric: string) =>
    (await answerQuery(reader, model, { metrics: [metric], period: { from: '2026-06', to: '2026-07' } })).months_missing
  expect([await lacking('clicks'), await lacking('keyword_clicks')]).toEqual([['2026-07'], []])
  await reader.close()
  // Nor does what is loaded of the months after the end bring them back.
  await millrace('replay', 'keywords', '--from', '2026-05', '--to', '2026-07')
  expect(await query(months)).toEqual(before.filter((one) => !isJuly(one)))
  const ended = readFileSync(fileOf('keywords'), 'utf8')
  writeFileSync(fileOf('keywords'), ended.replace('until: 2026-06', 'until: 2026-05'))
  await millrace('migrate')
  expect(await query(months)).toEqual(before.filter(isMay))
  writeFileSync(fileOf('keywords'), keywords)
  // It is filled again before readers of the view have to wait.
  await query(`create function public.looks() returns trigger language plpgsql as $$ begin
    if exists (select from pg_locks where pid = pg_backend_pid() and relation = 'bi.keywords'::regclass and mode = 'AccessExclusiveLock')
    then raise 'readers wait'; end if; return null; end $$`)
  await query('create trigger looks after insert on bi.keyword_months for each statement execute function public.looks()')
  await millrace('migrate')
  await query('drop function public.looks() cascade')
  expect(await query(months)).toEqual(before)
})

test('a new method stays marked under a new version, as long as rows of the former method are shown', async () => {
  const name = 'shopper_category_performance'
  const shipped = readFileSync(fileOf(name), 'utf8')
  const hidden = shipped.replace('schedule:', 'publish: false\nschedule:')
  const next = shipped.replace('version: 1', 'version: 2').replace(/ {4}cvr:.*\n/, '')
  const marks = `select distinct month::text, method_changed from bi.shopper_comparison
    where months_back = 1 and month in ('2026-07-01', '2026-08-01') and loaded_in = 'both' order by 1`
  const marked = [
    { month: '2026-07-01', method_changed: false },
    { month: '2026-08-01', method_changed: true },
  ]
  await millrace('backfill', name, '--from', '2026-06', '--to', '2026-08', '--yes')
  await query(`insert into etl.breaks
      (pipeline_id, run_id, kind, starts_on, seen_back_to, columns, share, change, usual_share, usual_size, ask_number)
    select pipeline_id, 9, 'method', '2026-08-01', '2026-08-01', '{revenue}', 1, 0.2, 0.1, 0.01, (select max(answer_id) + 1 from etl.answers)
    from etl.pipelines where pipeline = '${name}'`)
  expect(await query(marks)).toEqual(marked)
  writeFileSync(fileOf('next'), next.replace('schedule:', 'publish: false\nschedule:'))
  await millrace('new', 'migration', name)
  await millrace('migrate')
  await millrace('backfill', name, '--from', '2026-07', '--to', '2026-08', '--yes')
  writeFileSync(fileOf('next'), next)
  writeFileSync(fileOf(name), hidden)
  await millrace('migrate')
  expect(await query(marks)).toEqual(marked)
  // Asked for again since: all are of one method, but for June, which the new version does not have.
  await millrace('backfill', name, '--from', '2026-07', '--to', '2026-08', '--force', '--yes')
  expect(await query('select starts_on::text from bi.breaks where kind <> $$table$$')).toEqual([{ starts_on: '2026-08-01' }])
  await millrace('backfill', name, '--from', '2026-06', '--to', '2026-06', '--force', '--yes')
  expect(await query('select starts_on::text from bi.breaks where kind <> $$table$$')).toEqual([])
})

const dbtBin = process.env['MILLRACE_DBT_BIN'] ?? ''
test.skipIf(dbtBin === '')(
  'an incremental dbt model of the pipeline that ended follows loads of the one that continues it',
  async () => {
    const own = `dbt_successor_${process.pid}`
    await query(`create role ${own} login password '${own}' in role bi_reader`)
    await query(`alter role ${own} set default_transaction_read_only = off`)
    await query(`create schema analytics authorization ${own}`)
    const url = new URL(db.url)
    ;[url.username, url.password] = [own, own]
    const project = openDbtProject(dbtBin, url.href)
    try {
      project.write(
        'models/visit_totals.sql',
        `{{ config(materialized='incremental', schema='analytics', incremental_strategy='delete+insert', unique_key='month',
          post_hook="{{ delete_ended_months(source('millrace', 'traffic_and_engagement'), 'date') }}") }}
        select date as month, domain, sum(all_traffic_visits) as visits, now() as built_at
        from {{ source('millrace', 'traffic_and_engagement') }} where {{ in_changed_months('traffic_and_engagement', 'date') }} group by date, domain`,
      )
      const made = () => query('select month::text, domain, visits from analytics.visit_totals order by 1, 2')
      const wanted = () =>
        query(
          'select date::text as month, domain, sum(all_traffic_visits) as visits from bi.traffic_and_engagement group by 1, 2 order by 1, 2',
        )
      const run = () => project.run('run', '--select', 'visit_totals')
      run()
      expect(await made()).toEqual(await wanted())
      // Days before the next loads, so that no overlap brings what did not change.
      await query(`update analytics.visit_totals set built_at = now() + interval '3 days'`)
      await query(`update data.visits_and_pages_v1 set all_traffic_visits = all_traffic_visits + 7 where date = '2026-06-01'`)
      await query(`update data.visits_and_pages_v1 set all_traffic_visits = all_traffic_visits + 7 where date = '2026-08-01'`)
      await query(`update etl.load_rows set loaded_at = now() + interval '5 days'
        where window_from in ('2026-06-01', '2026-08-01') and pipeline_id = (select pipeline_id from etl.pipelines where pipeline = 'visits_and_pages')`)
      await millrace('backfill', 'visits_and_pages', '--from', '2026-09', '--to', '2026-09', '--yes')
      await query(`update etl.load_rows set loaded_at = now() + interval '5 days' where window_from = '2026-09-01'`)
      run()
      expect(await made()).toEqual(await wanted())
      // June is the former table's, which did not change.
      const rows = await db.query<{ month: string }>(
        `select month::text from analytics.visit_totals group by 1 having max(built_at) < now() + interval '1 day' order by 1`,
      )
      expect(rows.map(({ month }) => month)).toEqual(['2026-08-01', '2026-09-01'])
    } finally {
      project.remove()
      await query('drop schema analytics cascade')
      await dropRole(own)
    }
  },
  900_000,
)
