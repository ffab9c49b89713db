// The ledger: runs, units, reports, requests, loads, quota, quarantine and events. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create schema if not exists data`,
  `create schema if not exists bi`,

  `create table etl.runs (
    run_id bigint generated always as identity primary key,
    command text not null,
    arguments jsonb not null default '{}',
    state text not null default 'running' check (state in ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    host text not null,
    process_id integer not null,
    started_at timestamptz not null default now(),
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    summary jsonb
  )`,

  `create table etl.units (
    unit_id bigint generated always as identity primary key,
    unit_key text not null unique,
    pipeline text not null,
    version integer not null,
    window_from date not null,
    window_to date not null,
    slice jsonb not null,
    state text not null default 'planned'
      check (state in ('planned', 'running', 'waiting', 'landed', 'loaded', 'failed', 'held')),
    edition integer not null default 1,
    attempts integer not null default 0,
    fence bigint not null default 0,
    lease_owner text,
    lease_until timestamptz,
    not_before timestamptz,
    error_code text,
    error_message text,
    released boolean not null default false,
    forced boolean not null default false,
    run_id bigint references etl.runs,
    landing text,
    landing_sha256 text,
    landing_bytes bigint,
    loaded_at timestamptz,
    loaded_edition integer,
    loaded_load_id bigint,
    loaded_rows bigint,
    loaded_sha256 text,
    loaded_landing text,
    source_last_updated text,
    source_count bigint,
    checked_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    check (window_from < window_to)
  )`,
  `create index units_pipeline on etl.units (pipeline, version, window_from)`,
  `create index units_open on etl.units (state, not_before) where state <> 'loaded'`,

  `create table etl.run_units (
    run_id bigint not null references etl.runs,
    unit_id bigint not null references etl.units,
    edition integer not null,
    outcome text check (outcome in ('loaded', 'unchanged', 'waiting', 'held', 'failed')),
    finished_at timestamptz,
    primary key (run_id, unit_id)
  )`,
  `create index run_units_unit on etl.run_units (unit_id)`,

  `create table etl.reports (
    report_key bigint generated always as identity primary key,
    unit_id bigint not null references etl.units,
    edition integer not null,
    submission integer not null default 1,
    run_id bigint references etl.runs,
    account text not null,
    pipeline text not null,
    endpoint text not null,
    request_hash text not null,
    request jsonb not null,
    state text not null check (state in
      ('intent', 'submitted', 'ready', 'downloaded', 'failed', 'rejected', 'uncertain', 'expired')),
    report_id text,
    status_word text,
    polls integer not null default 0,
    next_poll_at timestamptz,
    retries integer not null default 0,
    estimated_quota bigint,
    used_quota bigint,
    data_points_count bigint,
    error_message text,
    created_at timestamptz not null default now(),
    submitted_at timestamptz,
    completed_at timestamptz,
    deadline_at timestamptz,
    updated_at timestamptz not null default now(),
    unique (unit_id, edition, submission)
  )`,
  `create unique index reports_report_id on etl.reports (account, report_id) where report_id is not null`,
  `create index reports_account_month on etl.reports (account, created_at)`,
  `create index reports_open on etl.reports (state) where state in ('intent', 'submitted', 'ready', 'uncertain')`,

  `create table etl.requests (
    request_id bigint generated always as identity primary key,
    run_id bigint,
    unit_id bigint,
    edition integer,
    account text not null,
    method text not null,
    endpoint text not null,
    parameters jsonb not null default '{}',
    part integer,
    attempt integer not null default 1,
    status integer,
    error_code text,
    bytes bigint not null default 0,
    sha256 text,
    started_at timestamptz not null,
    milliseconds double precision not null
  )`,
  `create index requests_unit on etl.requests (unit_id, edition)`,
  `create index requests_run on etl.requests (run_id)`,

  `create table etl.loads (
    load_id bigint generated always as identity primary key,
    unit_id bigint not null references etl.units,
    edition integer not null,
    run_id bigint references etl.runs,
    report_key bigint references etl.reports,
    outcome text not null check (outcome in ('loaded', 'unchanged')),
    landing text,
    landing_sha256 text,
    landing_bytes bigint,
    source_last_updated text,
    source_count bigint,
    rows_read bigint not null default 0,
    rows_inserted bigint not null default 0,
    rows_updated bigint not null default 0,
    rows_ended bigint not null default 0,
    rows_unchanged bigint not null default 0,
    rows_quarantined bigint not null default 0,
    rows_duplicates bigint not null default 0,
    drift jsonb,
    loaded_at timestamptz not null default now(),
    milliseconds double precision,
    check (outcome = 'unchanged' or
      rows_read = rows_inserted + rows_updated + rows_unchanged + rows_quarantined + rows_duplicates)
  )`,
  `create index loads_unit on etl.loads (unit_id, load_id)`,
  `create index loads_run on etl.loads (run_id)`,

  `create table etl.quarantine (
    quarantine_id bigint generated always as identity primary key,
    unit_id bigint not null references etl.units,
    edition integer not null,
    run_id bigint references etl.runs,
    pipeline text not null,
    landing text,
    part integer not null,
    line bigint not null,
    column_name text,
    reason text not null,
    raw text not null,
    state text not null default 'open' check (state in ('open', 'resolved', 'superseded')),
    created_at timestamptz not null default now(),
    resolved_at timestamptz
  )`,
  `create index quarantine_unit on etl.quarantine (unit_id, edition)`,
  `create index quarantine_open on etl.quarantine (pipeline) where state = 'open'`,

  `create table etl.events (
    event_id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    kind text not null,
    pipeline text,
    unit_id bigint,
    run_id bigint,
    report_key bigint,
    message text not null,
    details jsonb not null default '{}'
  )`,
  `create index events_at on etl.events (at)`,

  `create view etl.quota as
    select account, pipeline, (created_at at time zone 'UTC')::date as day,
      count(*) filter (where state <> 'intent') as reports,
      sum(used_quota) as used_quota,
      sum(case when used_quota is null and state in ('intent', 'submitted', 'ready', 'uncertain')
        then coalesce(estimated_quota, 0) else 0 end) as reserved_quota
    from etl.reports group by 1, 2, 3`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
