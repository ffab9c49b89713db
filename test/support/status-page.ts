// The status page over a test database, with a ledger filled by hand so that every figure is known.
import { systemClock } from '../../src/core/clock.ts'
import { secret } from '../../src/core/redact.ts'
import { noteCancel, releaseByPerson, retryByPerson } from '../../src/ledger/actions.ts'
import { createStatusApp } from '../../src/web/app.ts'
import { listen } from '../../src/web/server.ts'
import { shippedDefinitions } from './definitions.ts'
import type { TestDatabase } from './postgres.ts'

export const pageToken = 'page-token-0123456789abcdef'

export interface ServedPage {
  readonly url: string
  readonly errors: unknown[]
  close(): Promise<void>
}

export const servePage = async (
  db: TestDatabase,
  options: { token?: boolean; overdue?: () => Promise<readonly string[]> } = {},
): Promise<ServedPage> => {
  const errors: unknown[] = []
  const { kysely } = db.database
  const { app, close } = createStatusApp({
    context: {
      kysely,
      definitions: await shippedDefinitions(),
      clock: systemClock,
      warehouse: 'test warehouse',
      actions: {
        release: (unitId) => releaseByPerson(kysely, unitId, 'status page'),
        retry: (unitId) => retryByPerson(kysely, unitId, 'status page'),
        cancel: async (runId) => {
          await noteCancel(kysely, runId, 'status page')
          return 'cancelled'
        },
      },
      overdue: options.overdue ?? (async () => []),
      nextTicks: (count) => [
        {
          pipeline: 'keywords',
          timeZone: 'Europe/Berlin',
          at: Array.from({ length: count }, (_, day) => Date.UTC(2027, 0, 1 + day, 1, 30)),
        },
      ],
    },
    token: options.token === true ? secret('MILLRACE_WEB_TOKEN', pageToken) : null,
    onError: (error) => errors.push(error),
  })
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

export type Scenery = 'empty' | 'loaded' | 'failing' | 'running'

/** Three months of two slices of keywords and a report pipeline, in the state the scenery names. */
export const fillLedger = async (db: TestDatabase, scenery: Scenery): Promise<void> => {
  if (scenery === 'empty') return
  const { pool } = db.database
  await pool.query(`insert into etl.runs (command, state, host, process_id, started_at, finished_at) values
    ('backfill', 'done', 'host', 1, now() - interval '2 hours', now() - interval '1 hour')`)
  await pool.query(`insert into etl.units (unit_key, pipeline, version, window_from, window_to, slice, state, run_id, landing,
      landing_sha256, landing_bytes, loaded_at, loaded_edition, loaded_rows)
    select 'keywords@1/' || to_char(m, 'YYYY-MM') || '/' || d, 'keywords', 1, m, m + interval '1 month',
      jsonb_build_object('domain', d, 'country', 'us'), 'loaded', 1, 'keywords/' || d, repeat('a', 64), 1000, now() - interval '1 hour', 1, 400
    from generate_series('2026-08-01'::date, '2026-10-01', '1 month') m, unnest(array['a.com', 'b.com']) d order by m, d`)
  await pool.query(`insert into etl.run_units (run_id, unit_id, edition, outcome, finished_at)
    select 1, unit_id, 1, 'loaded', now() - interval '1 hour' from etl.units`)
  await pool.query(`insert into etl.loads (unit_id, edition, run_id, outcome, rows_read, rows_inserted, rows_updated, loaded_at, drift)
    select unit_id, 1, 1, 'loaded', 400, case when unit_id = 1 then 390 else 400 end, case when unit_id = 1 then 10 else 0 end,
      now() - interval '1 hour', case when unit_id = 2 then '{"unknownColumns": ["surprise"]}'::jsonb end from etl.units`)
  if (scenery === 'failing') await breakUnits(db)
  if (scenery === 'running') await startRun(db)
}

const breakUnits = async ({ database: { pool } }: TestDatabase): Promise<void> => {
  await pool.query(
    `update etl.units set state = 'held', error_code = 'SUSPICIOUS', error_message = 'Lost <b>60 %</b> of its rows.' where unit_id = 1`,
  )
  await pool.query(
    `update etl.units set state = 'failed', error_code = 'BAD_RESPONSE', error_message = 'The page is HTML.' where unit_id = 2`,
  )
  await pool.query(`insert into etl.reports (unit_id, edition, account, pipeline, endpoint, request_hash, request, state, estimated_quota)
    values (3, 1, 'default', 'keywords', 'report', 'h', '{}', 'uncertain', 12)`)
  await pool.query(`insert into etl.quarantine (unit_id, edition, pipeline, part, line, column_name, reason, raw)
    values (1, 1, 'keywords', 1, 7, 'clicks', 'not a number', '<script>alert(1)</script>,12x')`)
}

const startRun = async ({ database: { pool } }: TestDatabase): Promise<void> => {
  await pool.query(`insert into etl.runs (command, state, host, process_id, started_at) values
    ('backfill', 'running', 'host', 1, now() - interval '10 minutes')`)
  await pool.query(`insert into etl.run_units (run_id, unit_id, edition, outcome)
    select 2, unit_id, 1, case when unit_id <= 2 then 'loaded' end from etl.units`)
  await pool.query(`update etl.units set state = 'running' where unit_id = 3`)
}
