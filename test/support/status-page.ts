// The status page over a test database, with a ledger filled by hand so that every figure is known.
import { systemClock } from '../../src/core/clock.ts'
import type { Definition } from '../../src/core/types.ts'
import { secret } from '../../src/core/redact.ts'
import { noteCancel } from '../../src/ledger/release-unit.ts'
import type { NightPlan } from '../../src/web/plan-cache.ts'
import { noBudget } from '../../src/core/budget-scope.ts'
import { pricesOf } from '../../src/plan/price.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { createStatusApp } from '../../src/web/app.ts'
import { listen } from '../../src/web/web-server.ts'
import { shippedDefinitions } from './definitions.ts'
import type { TestDatabase } from './postgres.ts'

export const pageToken = 'page-token-0123456789abcdef'

export interface ServedPage {
  readonly url: string
  readonly errors: unknown[]
  close(): Promise<void>
}

export const servePage = async (
  db: Pick<TestDatabase, 'database'>,
  options: {
    token?: boolean
    overdue?: () => Promise<readonly string[]>
    definitions?: readonly Definition[]
    plan?: (signal: AbortSignal) => Promise<NightPlan>
    replay?: ((pipeline: string, month: string) => boolean) | null
    now?: () => number
  } = {},
): Promise<ServedPage> => {
  const errors: unknown[] = []
  const { database } = db
  const { kysely } = database
  const definitions = options.definitions ?? (await shippedDefinitions())
  const allowance = () => ({ requestsPerSecond: 10, budget: noBudget })
  const { app, close } = createStatusApp(
    {
      kysely,
      definitions,
      clock: { ...systemClock, now: options.now ?? systemClock.now },
      warehouse: 'test warehouse',
      actions: {
        cancel: async (runId) => {
          await noteCancel(kysely, runId, 'status page')
          return 'cancelled'
        },
        replay: options.replay ?? null,
      },
      hooks: null,
      overdue: options.overdue ?? (async () => []),
      priceOf: pricesOf({ allowance, database, sources: (await loadSourceFolders()).sources }, definitions),
      plan: options.plan ?? (async () => nightPlan),
      nextTicks: (count) => [
        {
          pipeline: 'keywords',
          timeZone: 'Europe/Berlin',
          at: Array.from({ length: count }, (_, day) => Date.UTC(2027, 0, 1 + day, 1, 30)),
        },
      ],
    },
    options.token === true ? secret('MILLRACE_WEB_TOKEN', pageToken) : null,
    (error) => errors.push(error),
  )
  const server = await listen(app, { host: '127.0.0.1', port: 0 })
  return {
    url: server.url,
    errors,
    close: async () => {
      close()
      await server.close()
    },
  }
}

/** One pipeline, two reasons: one goes with the next run, the other waits for a word. */
export const nightPlan: NightPlan = {
  reasons: [
    {
      pipeline: 'keywords',
      version: 1,
      reason: 'new month',
      from: '2026-10',
      to: '2026-10',
      units: 2,
      reports: 0,
      requests: 6,
      rows: null,
      credits: 6,
      held: false,
    },
    {
      pipeline: 'shopper_category_performance',
      version: 1,
      reason: 'new value',
      from: '2026-01',
      to: '2026-10',
      units: 300,
      reports: 3,
      requests: 12,
      rows: null,
      credits: null,
      held: true,
    },
  ],
  pipelines: [
    {
      ...{ pipeline: 'keywords', version: 1, name: 'keywords', done: 4, held: 0, notPublished: 2, seconds: 3 },
      changes: {
        isNew: false,
        lists: [{ dimension: 'domain', came: 1, left: 0, cameValues: [], leftValues: [] }],
        definition: [{ what: 'limits.attempts', from: '5', to: '3' }],
      },
    },
  ],
  asked: 7,
}

export type Scenery = 'empty' | 'loaded' | 'failing' | 'running'

/** Three months of two slices of keywords: units 1 to 6, each with the job and the answer of its number, in the state the scenery names. */
export const fillLedger = async (db: TestDatabase, scenery: Scenery): Promise<void> => {
  if (scenery === 'empty') return
  const { pool } = db.database
  await pool.query(`insert into etl.processes (name, host, boot, system_process_id, begun, lease_until) values
    ('host:1', 'host', '', 1, '', now() + interval '1 hour')`)
  await pool.query(`insert into etl.runs (command, arguments, state, process_id, started_at, finished_at, summary) values
    ('backfill', '{"pipelines": ["keywords"], "from": "2026-08", "to": "2026-10", "only": null, "force": false}', 'done', 1, now() - interval '2 hours',
      now() - interval '1 hour', '{"units": {"planned": 6, "loaded": 6, "unchanged": 0, "waiting": 0, "held": 0, "failed": 0},
        "pipelines": {"keywords": {"inserted": 2390, "updated": 10, "ended": 0, "quarantined": 0, "restated": ["2026-08"]}}}')`)
  await pool.query(`insert into etl.pipelines (pipeline, version, parameters, source, account, window_every, dimensions, generation, definition, tests)
    values ('keywords', 1, '{}', 'web-analytics.keywords', 'default', 'month', '{domain,country}', 1, '{}',
      '[{"name": "no_jump", "column": "clicks", "expects": "the sum of clicks is from 0.2 to 5 times that of the period before", "on_failure": "hold"}]')`)
  await pool.query(
    `insert into etl.slices (pipeline_id, "values", wanted_since) values (1, '{a.com,us}', 1), (1, '{b.com,us}', 1)`,
  )
  await pool.query(`insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, run_id, ask_number, answer_id, account)
    select 1, 'walk', 'new', m, m + interval '1 month', array[s], 1, 'done', 1, row_number() over (order by m, s), row_number() over (order by m, s), 'default'
    from generate_series('2026-08-01'::date, '2026-10-01', '1 month') m, generate_series(1, 2) s order by m, s`)
  await pool.query(`insert into etl.answer_rows (pipeline_id, job_id, answer_id, asked_at, landing, sha256, bytes, window_from, window_to, slice_id, shape_id, verdict)
    select 1, job_id, ask_number, now() - interval '1 hour', 'keywords/' || job_id, decode(repeat('aa', 32), 'hex'), 1000, window_from, window_to, slice_ids[1],
      etl.shape_of('x', '{}', null, null, null, null, null, null), 'good'
    from etl.jobs order by job_id`)
  await pool.query(`insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id)
    select 1, window_from, slice_ids[1], ask_number, answer_id from etl.answers order by answer_id`)
  await pool.query(`insert into etl.run_jobs (run_id, job_id, priority, units, outcome, finished_at)
    select 1, job_id, 1, 1, 'loaded', now() - interval '1 hour' from etl.jobs`)
  await pool.query(`insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated, loaded_at, drift)
    select answer_id, 1, window_from, job_id, 1, 'loaded', 1, 400, case when job_id = 1 then 390 else 400 end, case when job_id = 1 then 10 else 0 end,
      now() - interval '1 hour', case when job_id = 2 then '{"unknownColumns": ["surprise"]}'::jsonb end from etl.answers order by answer_id`)
  if (scenery === 'failing') await breakUnits(db)
  if (scenery === 'running') await startRun(db)
}

/** Unit 1 has an answer that is held, unit 2 a job that failed, unit 3 a report of which nobody knows whether it was bought. */
const breakUnits = async ({ database: { pool } }: TestDatabase): Promise<void> => {
  await pool.query(`insert into etl.answer_rows (pipeline_id, job_id, answer_id, asked_at, landing, sha256, bytes, window_from, window_to, slice_id, shape_id,
      verdict, verdict_message)
    values (1, 1, 7, now(), 'keywords/7', decode(repeat('bb', 32), 'hex'), 400, '2026-08-01', '2026-09-01', 1,
      etl.shape_of('x', '{}', null, null, null, null, null, null), 'good', 'Lost <b>60 %</b> of its rows.')`)
  await pool.query(`update etl.units set held_answer_id = 7, held_code = 'SHRUNK' where unit_id = 1`)
  await pool.query(`insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, account, error_code, error_message)
    values (1, 'walk', 'new', '2026-08-01', '2026-09-01', '{2}', 1, 'failed', 'default', 'BAD_RESPONSE', 'The page is HTML.')`)
  await pool.query(`insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, account, error_code, error_message,
      ask_number, report_state, endpoint, request_hash, request, estimated_quota)
    values (1, 'report', 'new', '2026-09-01', '2026-10-01', '{1}', 1, 'held', 'default', 'REPORT_UNCERTAIN', 'Nobody knows whether it was bought.',
      9, 'uncertain', 'report', 'h', '{}', 12)`)
  await pool.query('update etl.units set job_id = unit_id + 5 where unit_id in (2, 3)')
  await pool.query(`insert into etl.quarantine (answer_id, job_id, unit_id, pipeline, part, line, column_name, reason, raw) values
    (7, 1, 1, 'keywords', 1, 7, 'clicks', 'not a number', '<script>alert(1)</script>,12x'),
    (7, 1, null, 'keywords', 1, 8, 'domain', 'not a domain', '?,12')`)
  await pool.query(`insert into etl.test_failures (unit_id, answer_id, test, pipeline_id, window_from, kind, on_failure, rows_tested, rows_failing, found, message)
    values (4, 4, 'words', 1, '2026-09-01', 'accepted', 'warn', 400, 2, 'x', 'words: 2 of 400 rows have another value, for example ''<script>alert(2)</script>''.')`)
}

/** All six units are asked for again, by the jobs 7 to 12: two are loaded, the third is at work. */
const startRun = async ({ database: { pool } }: TestDatabase): Promise<void> => {
  await pool.query(
    `insert into etl.runs (command, state, process_id, started_at) values ('backfill', 'running', 1, now() - interval '10 minutes')`,
  )
  await pool.query(`insert into etl.jobs (pipeline_id, kind, reason, window_from, window_to, slice_ids, cells, state, run_id, account, holder)
    select 1, 'walk', 'forced', window_from, window_to, slice_ids, 1, case when job_id <= 2 then 'done' else 'open' end, 2, 'default',
      case when job_id = 3 then 1 end from etl.jobs order by job_id`)
  await pool.query('update etl.units set job_id = unit_id + 6 where unit_id > 2')
  await pool.query(`insert into etl.run_jobs (run_id, job_id, priority, units, outcome)
    select 2, job_id, 1, 1, case when job_id <= 8 then 'loaded' end from etl.jobs where job_id > 6`)
}

/** What the next scenery is filled into. */
export const emptyLedger = (db: TestDatabase): Promise<unknown> =>
  db.database.pool.query(
    'truncate etl.pipelines, etl.slices, etl.jobs, etl.run_jobs, etl.units, etl.windows, etl.processes, etl.runs restart identity cascade',
  )

/** As many units more of one window, loaded or not asked for yet, of slices of their own. */
export const addUnits = async ({ database: { pool } }: TestDatabase, windowFrom: string, number: number): Promise<void> => {
  await pool.query(
    `insert into etl.slices (pipeline_id, "values", wanted_since) select 1, array['many' || n, 'us'], 1 from generate_series(1, $1::int) n`,
    [number],
  )
  await pool.query(
    `insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id)
      select 1, $1, slice_id, 1, 1 from etl.slices where "values"[1] like 'many%'`,
    [windowFrom],
  )
}
