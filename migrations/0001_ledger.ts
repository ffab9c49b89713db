// The ledger: slices, units, jobs, answers, loads, runs and processes; and related tables. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const words = [
  `create schema if not exists data`,
  `create schema if not exists bi`,

  // Identity: landings and receipts carry it, so that a warehouse recognises its own.
  `create table etl.warehouse (
    only_one boolean primary key default true check (only_one),
    warehouse_id uuid not null default gen_random_uuid(),
    epoch integer not null default 1,
    created_at timestamptz not null default now(),
    home text,
    standing text not null default 'own' check (standing in ('own', 'copy', 'replaced')),
    standing_reason text,
    standing_since timestamptz
  )`,
  `insert into etl.warehouse default values`,
  // Whose rows these are: the service that each account bought from.
  `create table etl.origins (
    api text not null,
    account text not null,
    address text not null,
    key_sha256 text not null,
    noted_at timestamptz not null default now(),
    primary key (api, account)
  )`,
  // Its former names: landings under them are its own, and it deletes them only where no other warehouse uses them.
  `create table etl.former_names (
    warehouse_id uuid not null,
    epoch integer not null,
    is_ours boolean not null default false,
    until timestamptz not null default now(),
    primary key (warehouse_id, epoch)
  )`,
  // The order of answers: drawn when an intent commits, or when a walk begins.
  `create sequence etl.ask_numbers as bigint`,

  `create table etl.processes (
    process_id integer generated always as identity primary key,
    name text not null unique,
    host text not null,
    boot text not null,
    system_process_id integer not null,
    begun text not null,
    started_at timestamptz not null default now(),
    lease_until timestamptz not null,
    ended_at timestamptz
  )`,
  `create index processes_living on etl.processes (lease_until) where ended_at is null`,

  `create table etl.runs (
    run_id bigint generated always as identity primary key,
    command text not null,
    arguments jsonb not null default '{}',
    state text not null default 'running' check (state in ('running', 'done', 'failed', 'cancelled', 'interrupted')),
    process_id integer references etl.processes,
    started_at timestamptz not null default now(),
    begun_at_ask bigint not null default nextval('etl.ask_numbers'),
    finished_at timestamptz,
    cancel_requested_at timestamptz,
    summary jsonb
  )`,
  `create index runs_running on etl.runs (run_id) where state = 'running'`,

  // What purchases are charged to. Number 1: no tags. A changed set is a new row: earlier purchases keep the former one.
  `create table etl.tag_sets (
    tag_set_id integer generated always as identity primary key,
    tags jsonb not null unique
  )`,
  `insert into etl.tag_sets (tags) values ('{}')`,

  `create table etl.pipelines (
    pipeline_id integer generated always as identity primary key,
    pipeline text not null,
    version integer not null,
    parameters jsonb not null,
    source text not null,
    account text not null,
    window_every text not null check (window_every in ('month', 'week', 'day')),
    dimensions text[] not null,
    generation integer not null default 0,
    lists_sha256 text,
    former_lists_sha256 text,
    definition jsonb not null,
    tests jsonb not null default '[]',
    tag_set_id integer not null default 1 references etl.tag_sets,
    known_since timestamptz not null default now(),
    data_version text,
    updated_at timestamptz not null default now(),
    unique (pipeline, version, parameters)
  )`,

  `create table etl.slices (
    slice_id integer generated always as identity primary key,
    pipeline_id integer not null,
    "values" text[] not null,
    wanted_since integer not null,
    wanted_until integer,
    night_from date,
    unique (pipeline_id, "values")
  )`,
  `create index slices_wanted on etl.slices (pipeline_id, wanted_since, slice_id) where wanted_until is null`,

  // Lists that a definition reads from the database: what was read and used, or held for a person; and each reading of a run.
  `create table etl.lists (
    list_id bigint generated always as identity primary key,
    pipeline_id integer not null references etl.pipelines,
    dimension text not null,
    query text not null,
    "values" text[] not null,
    state text not null check (state in ('taken', 'held', 'dissolved')),
    came integer not null,
    gone integer not null,
    read_at timestamptz not null default now(),
    decided_at timestamptz,
    decided_by text
  )`,
  `create index lists_newest on etl.lists (pipeline_id, dimension, list_id)`,
  `create unique index lists_held on etl.lists (pipeline_id, dimension) where state = 'held'`,
  `create table etl.list_reads (
    run_id bigint not null references etl.runs,
    pipeline_id integer not null references etl.pipelines,
    dimension text not null,
    list_id bigint references etl.lists,
    outcome text not null check (outcome in ('taken', 'unchanged', 'held', 'failed')),
    "values" integer,
    message text,
    read_at timestamptz not null default now(),
    primary key (run_id, pipeline_id, dimension)
  )`,

  `create table etl.windows (
    pipeline_id integer not null references etl.pipelines,
    window_from date not null,
    closed_generation integer,
    closed_at timestamptz,
    closed_units bigint,
    closed_rows bigint,
    looked_at timestamptz,
    primary key (pipeline_id, window_from)
  )`,

  `create table etl.jobs (
    job_id bigint generated always as identity primary key,
    pipeline_id integer not null,
    kind text not null check (kind in ('walk', 'report')),
    reason text not null,
    guard text not null default 'usual' check (guard in ('usual', 'needs approval')),
    wanted_by text not null default 'beyond'
      check (wanted_by in ('night', 'beyond', 'range', 'force', 'approval')),
    window_from date not null,
    window_to date not null,
    slice_ids integer[] not null,
    cells integer not null,
    state text not null default 'open' check (state in ('open', 'held', 'failed', 'done', 'replaced')),
    forced boolean not null default false,
    released boolean not null default false,
    run_id bigint,
    former_job_id bigint,
    served_by bigint,
    approval_id bigint,
    holder integer references etl.processes,
    fence bigint not null default 0,
    attempts integer not null default 0,
    not_before timestamptz,
    error_code text,
    error_message text,
    ask_number bigint,
    asked_at timestamptz,
    answer_id bigint,
    account text not null,
    endpoint text,
    request jsonb,
    request_hash text,
    report_state text check (report_state in
      ('intent', 'submitted', 'ready', 'downloaded', 'failed', 'rejected', 'uncertain', 'expired')),
    report_id text,
    status_word text,
    polls integer not null default 0,
    next_poll_at timestamptz,
    retries integer not null default 0,
    said_quota numeric,
    estimated_quota numeric,
    used_quota numeric,
    reserved_credits numeric,
    reserves_all boolean not null default false,
    begun_landing text,
    tag_set_id integer,
    data_points_count bigint,
    submitted_at timestamptz,
    completed_at timestamptz,
    deadline_at timestamptz,
    receipt_at timestamptz,
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now(),
    check (window_from < window_to),
    check (holder is null or state = 'open')
  ) with (fillfactor = 80, autovacuum_analyze_scale_factor = 0.02)`,
  `create index jobs_ready on etl.jobs (pipeline_id, job_id) where state = 'open' and holder is null and not_before is null`,
  `create index jobs_waiting on etl.jobs (pipeline_id, not_before) where state = 'open' and holder is null and not_before is not null`,
  `create index jobs_asked on etl.jobs (pipeline_id, job_id) where state = 'open' and ask_number is not null`,
  `create index jobs_held_by on etl.jobs (holder) where holder is not null`,
  `create index jobs_trouble on etl.jobs (pipeline_id, state, job_id) where state in ('held', 'failed')`,
  `create index jobs_approvals on etl.jobs (approval_id) where approval_id is not null and ask_number is null`,
  `create unique index jobs_report_id on etl.jobs (account, report_id) where report_id is not null`,
  `create index jobs_purchases on etl.jobs (account, asked_at) where report_state is not null`,
  `create index jobs_bought on etl.jobs (ask_number) where report_state is not null`,
  `create index jobs_answer on etl.jobs (answer_id) where answer_id is not null and state in ('open', 'held', 'failed')`,

  // Purchases that wait for approval or have it; their jobs refer to it. At most one waits per pipeline and kind.
  `create table etl.approvals (
    approval_id bigint generated always as identity primary key,
    pipeline_id integer not null references etl.pipelines,
    kind text not null check (kind in ('night', 'backfill')),
    state text not null default 'waiting' check (state in ('waiting', 'approved', 'dissolved')),
    run_id bigint references etl.runs,
    reasons jsonb not null default '{}',
    window_from date,
    window_to date,
    units bigint not null default 0,
    reports integer not null default 0,
    credits bigint not null default 0,
    allowed bigint,
    digest text,
    asked_at timestamptz not null default now(),
    decided_at timestamptz,
    decided_by text,
    done_on date
  )`,
  `create unique index approvals_waiting on etl.approvals (pipeline_id, kind) where state = 'waiting'`,

  `create table etl.run_jobs (
    run_id bigint not null,
    job_id bigint not null,
    priority integer not null,
    units integer not null,
    slice_ids integer[],
    window_from date,
    window_to date,
    outcome text check (outcome in ('loaded', 'unchanged', 'waiting', 'held', 'failed', 'let go', 'replaced')),
    held_units integer not null default 0,
    passed_units integer not null default 0,
    finished_at timestamptz,
    primary key (run_id, job_id)
  ) with (autovacuum_analyze_scale_factor = 0.02)`,
  `create index run_jobs_open on etl.run_jobs (run_id, priority, job_id) where outcome is null`,
  `create index run_jobs_waiting on etl.run_jobs (job_id) where outcome is null`,

  // What many answers have in common, stored once. Only etl.shape_of inserts rows; none is changed.
  `create table etl.answer_shapes (
    shape_id integer generated always as identity primary key,
    digest bytea not null unique,
    asks text not null,
    metrics text[] not null,
    top_rows integer,
    dialect text,
    source_order jsonb,
    data_version text,
    missing_columns text[],
    partly_missing text[]
  )`,
  // The rows behind etl.answers, and behind etl.loads for an answer for one unit that its own job loaded: a walk is one row. Columns in order of
  // width, so that alignment loses no byte; a count of 0 is stored as NULL.
  `create table etl.answer_rows (
    answer_id bigint primary key,
    job_id bigint not null,
    asked_at timestamptz not null,
    bytes bigint not null,
    source_count bigint,
    loaded_at timestamptz,
    run_id bigint,
    rows_inserted bigint,
    rows_updated bigint,
    rows_ended bigint,
    rows_unchanged bigint,
    rows_quarantined bigint,
    rows_duplicates bigint,
    stood_at timestamptz,
    data_points_count bigint,
    pipeline_id integer not null references etl.pipelines,
    shape_id integer not null,
    window_from date not null,
    window_to date not null,
    milliseconds real,
    slice_id integer,
    times_incomplete smallint not null default 0,
    slice_ids integer[],
    sha256 bytea not null,
    landing text not null,
    source_last_updated text,
    verdict text,
    verdict_message text,
    drift jsonb,
    changes jsonb,
    check (num_nonnulls(slice_id, slice_ids) = 1)
  )`,
  `create index answer_rows_window on etl.answer_rows (pipeline_id, window_from, loaded_at)`,
  // All answers for one slice: the first index finds answers for it alone, the second packed ones.
  `create index answer_rows_slice on etl.answer_rows (slice_id, window_from) where slice_id is not null`,
  `create index answer_rows_packed on etl.answer_rows (pipeline_id, window_from) where slice_id is null`,
  `create index answer_rows_path on etl.answer_rows (landing) where strpos(landing, '/') > 0`,
  `create index answer_rows_run on etl.answer_rows (run_id) where run_id is not null`,
  `create index answer_rows_restated on etl.answer_rows (loaded_at) where coalesce(rows_updated, 0) + coalesce(rows_ended, 0) > 0`,
  `create index answer_rows_drift on etl.answer_rows (pipeline_id, loaded_at) where drift is not null`,
  `create index answer_rows_without_rows on etl.answer_rows (pipeline_id, window_from)
    where loaded_at is not null and rows_inserted is null and rows_updated is null and rows_unchanged is null`,

  // Slices, units, jobs and wait lists are inserted by the hundred thousand, under the lock of their pipeline's row. Pipelines and runs are never deleted:
  // foreign keys to them would be checked for each row without effect.
  // The smallest thing that is wanted. Four facts and nothing else: the answer its rows come from, the newest job that requests it, a
  // held answer, and why it is held.
  `create table etl.units (
    pipeline_id integer not null,
    window_from date not null,
    slice_id integer not null,
    unit_id bigint generated always as identity,
    ask_number bigint,
    answer_id bigint,
    job_id bigint,
    held_answer_id bigint,
    held_code text,
    primary key (pipeline_id, window_from, slice_id)
  ) with (fillfactor = 85, autovacuum_analyze_scale_factor = 0.02)`,
  `create unique index units_unit_id on etl.units (unit_id)`,
  `create index units_job on etl.units (job_id) where job_id is not null`,
  `create index units_held on etl.units (pipeline_id, held_answer_id) where held_answer_id is not null`,

  // Loads that are not stored with their answer: of an answer for several units, loaded before or for another job, or found unchanged.
  `create table etl.load_rows (
    load_id bigint primary key default nextval('etl.ask_numbers'),
    answer_id bigint not null references etl.answer_rows,
    job_id bigint not null,
    run_id bigint references etl.runs,
    loaded_at timestamptz not null default now(),
    rows_read bigint not null default 0,
    rows_inserted bigint not null default 0,
    rows_updated bigint not null default 0,
    rows_ended bigint not null default 0,
    rows_unchanged bigint not null default 0,
    rows_quarantined bigint not null default 0,
    rows_duplicates bigint not null default 0,
    pipeline_id integer not null references etl.pipelines,
    window_from date not null,
    units integer not null default 0,
    milliseconds real,
    outcome text not null check (outcome in ('loaded', 'unchanged')),
    slices_without_rows integer[] not null default '{}',
    drift jsonb,
    changes jsonb,
    check (outcome = 'unchanged' or
      rows_read = rows_inserted + rows_updated + rows_unchanged + rows_quarantined + rows_duplicates)
  )`,
  `create index load_rows_answer on etl.load_rows (answer_id, window_from)`,
  `create index load_rows_window on etl.load_rows (pipeline_id, window_from, outcome, loaded_at)`,
  `create index load_rows_restated on etl.load_rows (loaded_at) where rows_updated + rows_ended > 0`,
  `create index load_rows_drift on etl.load_rows (pipeline_id, loaded_at) where drift is not null`,
  `create index load_rows_run on etl.load_rows (run_id)`,
  `create index load_rows_without_rows on etl.load_rows (pipeline_id, window_from) where slices_without_rows <> '{}'`,

  // What a data point is, learnt from answers that agree with their own count.
  `create table etl.data_point_readings (
    account text not null,
    dataset text not null,
    readings text[] not null check (cardinality(readings) > 0),
    answer_id bigint not null references etl.answer_rows,
    updated_at timestamptz not null default now(),
    primary key (account, dataset)
  )`,

  `create table etl.requests (
    request_id bigint generated always as identity primary key,
    run_id bigint,
    job_id bigint,
    ask_number bigint,
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
    credits numeric,
    unpriced boolean not null default false,
    started_at timestamptz not null,
    milliseconds double precision not null
  )`,
  `create index requests_job on etl.requests (job_id)`,
  `create index requests_run on etl.requests (run_id)`,

  // Cost of requests that are charged one by one, by day. Each backend adds to a row of its own, so that none waits for another's commit.
  `create table etl.request_credits (
    day date not null,
    account text not null,
    pipeline_id integer not null references etl.pipelines,
    tag_set_id integer not null references etl.tag_sets,
    is_night boolean not null,
    slot integer not null,
    requests bigint not null,
    credits numeric not null,
    uncertain numeric not null,
    unpriced bigint not null,
    lost bigint not null default 0,
    primary key (day, account, pipeline_id, tag_set_id, is_night, slot)
  ) with (fillfactor = 50)`,

  // Balances that the service stated while nothing was in flight: the difference between two is what it charged.
  `create table etl.meter_readings (
    reading_id bigint generated always as identity primary key,
    api text not null,
    account text not null,
    read_at timestamptz not null default now(),
    remaining_requests numeric,
    remaining_credits numeric,
    counted_requests numeric not null,
    counted_reports numeric not null,
    difference numeric
  )`,
  // What the service charged: bills that show the price of a dataset. A bill that another one contradicts is dropped.
  `create table etl.prices (
    price_id bigint generated always as identity primary key,
    account text not null,
    dataset text not null,
    said_in text not null check (said_in in ('answer', 'balance')),
    job_id bigint,
    rows_asked bigint,
    rows bigint,
    metrics integer not null,
    "values" bigint not null,
    credits numeric not null,
    learned_at timestamptz not null default now(),
    dropped_at timestamptz
  )`,
  `create index prices_known on etl.prices (account, dataset) where dropped_at is null`,
  `create index meter_readings_account on etl.meter_readings (account, api, read_at)`,

  `create table etl.quarantine (
    quarantine_id bigint generated always as identity primary key,
    answer_id bigint not null references etl.answer_rows,
    job_id bigint not null,
    unit_id bigint,
    run_id bigint references etl.runs,
    pipeline text not null,
    part integer not null,
    line bigint not null,
    column_name text,
    reason text not null,
    raw text not null,
    state text not null default 'open' check (state in ('open', 'superseded')),
    created_at timestamptz not null default now(),
    resolved_at timestamptz
  )`,
  `create index quarantine_answer on etl.quarantine (answer_id)`,
  `create index quarantine_unit on etl.quarantine (unit_id)`,
  `create index quarantine_open on etl.quarantine (pipeline) where state = 'open'`,

  // What the tests of a definition found in units. Only those of a unit's loaded and held answers count: etl.failed_tests.
  `create table etl.test_failures (
    unit_id bigint not null,
    answer_id bigint not null references etl.answer_rows,
    test text not null,
    pipeline_id integer not null references etl.pipelines,
    window_from date not null,
    run_id bigint references etl.runs,
    kind text not null,
    on_failure text not null check (on_failure in ('warn', 'hold')),
    released boolean not null default false,
    rows_tested bigint not null,
    rows_failing bigint not null,
    found text,
    expected text,
    message text not null,
    tested_at timestamptz not null default clock_timestamp(),
    primary key (unit_id, answer_id, test)
  )`,
  `create index test_failures_pipeline on etl.test_failures (pipeline_id, test)`,
  `create index test_failures_tested on etl.test_failures (tested_at)`,

  // Loaded units of which only the first rows came. A row for another answer than the unit's own does not count.
  `create table etl.cut_units (
    unit_id bigint primary key,
    answer_id bigint not null,
    row_limit integer,
    share numeric
  )`,

  // Restatements that a run found, by window and column; and months from which the service counts by another method.
  `create table etl.restated (
    pipeline_id integer not null references etl.pipelines,
    run_id bigint not null,
    window_from date not null,
    column_name text not null,
    seen_at timestamptz not null,
    age integer not null,
    rows_compared bigint not null,
    units bigint not null,
    share double precision not null,
    size double precision not null,
    shift double precision not null,
    primary key (pipeline_id, run_id, window_from, column_name)
  )`,
  `create index restated_run on etl.restated (run_id)`,
  `create index restated_seen on etl.restated (seen_at)`,
  `create table etl.breaks (
    break_id bigint generated always as identity primary key,
    pipeline_id integer not null references etl.pipelines,
    run_id bigint not null,
    kind text not null check (kind in ('method', 'dialect', 'version')),
    starts_on date not null,
    seen_back_to date not null,
    columns text[] not null,
    share double precision not null,
    change double precision not null,
    usual_share double precision not null,
    usual_size double precision not null,
    ask_number bigint not null,
    data_version text,
    noticed_at timestamptz not null default clock_timestamp(),
    unique (pipeline_id, run_id)
  )`,

  // Credits of a month, as the last run of the pipeline forecast them.
  `create table etl.forecasts (
    account text not null,
    pipeline text not null,
    month date not null,
    run_id bigint not null,
    spent numeric not null,
    low numeric,
    high numeric,
    computed_at timestamptz not null default clock_timestamp(),
    primary key (account, pipeline, month)
  )`,

  `create table etl.events (
    event_id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    kind text not null,
    pipeline text,
    unit_id bigint,
    job_id bigint,
    run_id bigint,
    message text not null,
    details jsonb not null default '{}'
  )`,
  `create index events_at on etl.events (at)`,

  `create table etl.ticks (
    pipeline text not null,
    due_at timestamptz not null,
    claimed_by text not null,
    claimed_at timestamptz not null default now(),
    kind text not null check (kind in ('on time', 'caught up', 'skipped', 'released')),
    run_id bigint references etl.runs,
    finished_at timestamptz,
    primary key (pipeline, due_at)
  )`,

  // The last day with data, as a service stated it. A newer day starts a run, once for each pipeline (etl.ticks).
  `create table etl.releases (
    release_id bigint generated always as identity primary key,
    account text not null,
    every text not null check (every in ('month', 'day')),
    available_to date not null,
    heard_by text not null check (heard_by in ('message', 'poll')),
    wakes boolean not null default true,
    heard_at timestamptz not null default clock_timestamp(),
    unique (account, every, available_to)
  )`,
  `create table etl.subscriptions (
    account text not null,
    every text not null check (every in ('month', 'day')),
    subscription_id text not null,
    made_at timestamptz not null default now(),
    primary key (account, every)
  )`,

  // Views that `millrace migrate` made from files: a view whose file is gone is dropped.
  `create table etl.marts (
    name text primary key,
    published_at timestamptz not null default now()
  )`,

  // Which version of a pipeline readers of bi see, and since when. Of former versions bi shows the units for
  // which the published one had no answer when it was published, until it has one.
  `create table etl.published_versions (
    pipeline text not null,
    version integer not null,
    published_at timestamptz not null,
    primary key (pipeline, published_at)
  )`,
  // Which pipeline continues another one in bi, from which day on, and since when.
  `create table etl.hand_overs (
    pipeline text not null,
    successor text,
    starts_on date,
    since timestamptz not null,
    primary key (pipeline, since),
    check ((successor is null) = (starts_on is null))
  )`,
  `create table etl.kept_units (
    unit_id bigint not null,
    pipeline text not null,
    version integer not null,
    window_from date not null,
    cell jsonb not null,
    since timestamptz not null,
    until timestamptz,
    primary key (unit_id, since)
  )`,
  `create index kept_units_pipeline on etl.kept_units (pipeline, version)`,

  `create table etl.notifications (
    notification_id bigint generated always as identity primary key,
    cause text not null,
    kind text not null,
    severity text not null check (severity in ('critical', 'error', 'warning', 'info')),
    grouping text,
    pipeline text,
    message text not null,
    changed text,
    next_step text,
    details jsonb not null default '{}',
    raised_at timestamptz not null default now(),
    resolved_at timestamptz
  )`,
  `create unique index notifications_open on etl.notifications (cause) where resolved_at is null`,
  `create table etl.deliveries (
    notification_id bigint not null references etl.notifications,
    target text not null,
    event text not null check (event in ('raised', 'resolved')),
    attempts integer not null default 0,
    next_at timestamptz not null default now(),
    sending_at timestamptz,
    sent_at timestamptz,
    outcome text check (outcome in ('sent', 'uncertain', 'given up', 'not needed')),
    last_error text,
    primary key (notification_id, target, event)
  )`,
  `create index deliveries_due on etl.deliveries (next_at) where outcome is null`,

  // Rows that are locked, not read: a login that may only read the warehouse cannot lock them, while any login can take an advisory lock.
  // A lease is for work that must not be within a transaction: the named process has it until then.
  `create table etl.locks (
    name text primary key,
    held_by integer references etl.processes,
    held_until timestamptz
  )`,

  // One row per account, written at each request: the fill factor leaves room for its next version.
  `create table etl.pace (
    account text primary key,
    next_at timestamptz not null default clock_timestamp(),
    noted_at timestamptz not null default clock_timestamp(),
    requests_per_second double precision,
    ceiling double precision,
    changed_at timestamptz,
    refused_at timestamptz,
    trouble_place text,
    trouble_code text,
    trouble_message text,
    trouble_since timestamptz,
    trouble_seen_at timestamptz
  ) with (fillfactor = 50)`,
]

const views = [
  `create function etl.window_end(window_from date, window_every text) returns date language sql immutable
    return (window_from + case window_every when 'day' then interval '1 day' when 'week' then interval '7 days' else interval '1 month' end)::date`,

  // Name of a window for people: 2026-01, 2026-01-05, 2026-01-05..2026-01-11.
  `create function etl.window_name(window_from date, window_every text) returns text language sql immutable
    return case window_every when 'month' then to_char(window_from, 'YYYY-MM') when 'day' then to_char(window_from, 'YYYY-MM-DD')
      else to_char(window_from, 'YYYY-MM-DD') || '..' || to_char(window_from + 6, 'YYYY-MM-DD') end`,

  // pipeline/v1/2026-01/country=us;domain=a.com: the same as unitKey() in the program.
  `create function etl.unit_key(pipeline text, version integer, window_from date, window_every text, dimensions text[], "values" text[])
    returns text language sql immutable
    return pipeline || '/v' || version || '/' || etl.window_name(window_from, window_every)
      || coalesce('/' || (select string_agg(d || '=' || v, ';' order by d collate "C") from unnest(dimensions, "values") as x (d, v)), '')`,

  `create function etl.slice_of(dimensions text[], "values" text[]) returns jsonb language sql immutable
    return coalesce((select jsonb_object_agg(d, v) from unnest(dimensions, "values") as x (d, v)), '{}'::jsonb)`,

  // A verdict's message has one line per code, with the number of the first held unit: each unit is released by its own.
  `create function etl.held_sentence(message text, code text, unit_id bigint) returns text language sql immutable
    return regexp_replace(coalesce(substring(message from code || ': ([^' || chr(10) || ']*)'), message),
      '\`millrace release [0-9]+\`', '\`millrace release ' || unit_id || '\`')`,

  // Why the tests of its definition hold a unit's answer.
  `create function etl.test_sentence(unit_id bigint, answer_id bigint) returns text language sql stable
    return (select string_agg(f.message, ' ' order by f.test) || ' If the new answer is right, \`millrace release ' || test_sentence.unit_id || '\` loads it.'
      from etl.test_failures f where f.unit_id = test_sentence.unit_id and f.answer_id = test_sentence.answer_id and f.on_failure = 'hold')`,

  // The shape of an answer with these values, inserted where there is none. It waits for a transaction that inserts the same one.
  `create function etl.shape_of(of_asks text, of_metrics text[], of_top integer, of_dialect text, of_order jsonb, of_version text, of_missing text[], of_partly text[])
    returns integer language plpgsql as $$
    declare
      key bytea := sha256(convert_to(jsonb_build_array(of_asks, of_metrics, of_top, of_dialect, of_order, of_version, of_missing, of_partly)::text, 'UTF8'));
      found_id integer;
    begin
      select shape_id into found_id from etl.answer_shapes where digest = key;
      if found_id is null then
        insert into etl.answer_shapes (digest, asks, metrics, top_rows, dialect, source_order, data_version, missing_columns, partly_missing)
          values (key, of_asks, of_metrics, of_top, of_dialect, of_order, of_version, of_missing, of_partly)
          on conflict (digest) do update set digest = excluded.digest returning shape_id into found_id;
      end if;
      return found_id;
    end $$`,
  // Folder of a unit's landings, as landingLocator() of the program names it except for rare letters: keywords_v1/2026-01-01/a.com_us-1f0c9a2b3d4e/.
  `create function etl.landing_folder(pipeline_id integer, slice_id integer, window_from date) returns text language sql stable
    return (select p.pipeline || '_v' || p.version || '/' || to_char(landing_folder.window_from, 'YYYY-MM-DD') || '/'
      || left(array_to_string(array(
          select left(regexp_replace(regexp_replace(lower(v collate "C"), '[^a-z0-9.-]+', '_', 'g'), '\\.{2,}', '_', 'g'), 40)
          from unnest(s."values") with ordinality as x (v, place) order by place), '_'), 80)
      || '-' || left(encode(sha256(convert_to(etl.unit_key(p.pipeline, p.version, landing_folder.window_from, p.window_every, p.dimensions, s."values"),
        'UTF8')), 'hex'), 12) || '/'
      from etl.pipelines p, etl.slices s where p.pipeline_id = landing_folder.pipeline_id and s.slice_id = landing_folder.slice_id)`,
  // The part of a landing's name that its row lacks: its name in its unit's folder where that has the answer's number, else all of it.
  `create function etl.landing_name(locator text, folder text, answer_id bigint) returns text language sql immutable
    return case when starts_with(locator, folder) and strpos(substr(locator, length(folder) + 1), '/') = 0
      and split_part(substr(locator, length(folder) + 1), '-', 2) = answer_id::text then substr(locator, length(folder) + 1) else locator end`,
  // Answers with all columns. A query joins only the tables whose columns it uses.
  `create view etl.answers as
    select a.answer_id, a.pipeline_id, a.job_id, a.answer_id as ask_number, a.asked_at, a.stood_at,
      case when strpos(a.landing, '/') > 0 then a.landing else etl.landing_folder(a.pipeline_id, a.slice_id, a.window_from) || a.landing end as landing,
      encode(a.sha256, 'hex') as sha256, a.bytes, a.window_from, a.window_to, a.slice_id,
      coalesce(a.slice_ids, array[a.slice_id]) as slice_ids, h.asks, h.metrics, a.source_last_updated, a.source_count,
      a.data_points_count, h.top_rows, h.source_order, h.dialect, h.data_version, h.missing_columns, h.partly_missing, a.times_incomplete, a.verdict, a.verdict_message
    from etl.answer_rows a left join etl.answer_shapes h on h.shape_id = a.shape_id`,
  // All loads. The condition on loaded answers is outside the union: an arm with its own condition would be read whole where an index gives the newest.
  `create view etl.loads as select * from (
    select load_id, answer_id, pipeline_id, window_from, job_id, run_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_ended,
      rows_unchanged, rows_quarantined, rows_duplicates, slices_without_rows, drift, loaded_at, milliseconds, changes from etl.load_rows
    union all
    select answer_id as load_id, answer_id, pipeline_id, window_from, job_id, run_id, 'loaded'::text as outcome, 1 as units,
      coalesce(rows_inserted, 0) + coalesce(rows_updated, 0) + coalesce(rows_unchanged, 0) + coalesce(rows_quarantined, 0) + coalesce(rows_duplicates, 0),
      coalesce(rows_inserted, 0), coalesce(rows_updated, 0), coalesce(rows_ended, 0), coalesce(rows_unchanged, 0), coalesce(rows_quarantined, 0),
      coalesce(rows_duplicates, 0), case when rows_inserted is null and rows_updated is null and rows_unchanged is null then array[slice_id] else '{}' end,
      drift, loaded_at, milliseconds, changes from etl.answer_rows) l where loaded_at is not null`,
  // Those of them that brought no row for a slice.
  `create view etl.loads_without_rows as
    select answer_id, pipeline_id, window_from, loaded_at, load_id, slices_without_rows from etl.load_rows where slices_without_rows <> '{}'
    union all
    select answer_id, pipeline_id, window_from, loaded_at, answer_id, array[slice_id] from etl.answer_rows
    where loaded_at is not null and rows_inserted is null and rows_updated is null and rows_unchanged is null`,

  // State of a unit for people, from its pointers and its job (null: none requests it).
  `create function etl.unit_state(u etl.units, j etl.jobs) returns text language sql stable
    return case when (u).held_answer_id is not null or (j).state = 'held' then 'held'
      when (j).state = 'failed' then 'failed'
      when (j).state = 'open' and (j).holder is not null then 'running'
      when (j).state = 'open' and (j).error_code = 'NO_DEFINITION' then 'waiting'
      when (j).state = 'open' and (j).answer_id is not null then 'landed'
      when (j).state = 'open' and ((j).not_before is not null or (j).report_state in ('submitted', 'ready')) then 'waiting'
      when (j).state = 'open' then 'planned'
      when (u).answer_id is not null then 'loaded' else 'planned' end`,

  // What is requested together: the value, or the list of them, of each dimension.
  `create function etl.box_slice(dimensions text[], slice_ids integer[]) returns jsonb language sql stable
    return coalesce((select jsonb_object_agg(d.name, case when cardinality(d.listed) = 1 then to_jsonb(d.listed[1]) else to_jsonb(d.listed) end)
      from (select n.name, array_agg(distinct s."values"[n.place] order by s."values"[n.place]) as listed
        from unnest(dimensions) with ordinality as n (name, place) cross join etl.slices s
        where s.slice_id = any(slice_ids) group by n.name) d), '{}'::jsonb)`,

  // Every unit with its names and its state; for people and for reads of few units, not for planning.
  `create view etl.unit_list as
    select u.unit_id, etl.unit_key(p.pipeline, p.version, u.window_from, p.window_every, p.dimensions, s."values") as unit_key,
      p.pipeline_id, p.pipeline, p.version, u.window_from, etl.window_end(u.window_from, p.window_every) as window_to,
      etl.slice_of(p.dimensions, s."values") as slice, u.slice_id, s.wanted_until is null as wanted,
      etl.unit_state(u, j) as state,
      coalesce(u.held_code, j.error_code) as error_code,
      case when u.held_code = 'TEST_FAILED' then etl.test_sentence(u.unit_id, u.held_answer_id)
        when u.held_code is not null then coalesce((select etl.held_sentence(a.verdict_message, u.held_code, u.unit_id) from etl.answers a where a.answer_id = u.held_answer_id), j.error_message)
        else j.error_message end as error_message,
      j.not_before, coalesce(j.attempts, 0) as attempts, u.ask_number, u.answer_id, u.job_id, u.held_answer_id, u.held_code
    from etl.units u join etl.pipelines p using (pipeline_id) join etl.slices s on s.slice_id = u.slice_id
      left join etl.jobs j on j.job_id = u.job_id`,

  // For bi.<pipeline>_as_of: true where the function is inlined in its query, else an error. PostgreSQL inlines it unless its argument is a
  // subquery or volatile; run by itself it would read every revision of every month. The second line names the caller, in the server's language.
  // It runs with the settings of its caller: no name in it depends on search_path, no backslash on standard_conforming_strings.
  `create function etl.assert_part_of_question(called text) returns boolean language plpgsql stable set search_path = pg_catalog, pg_temp as $$
    declare stack text;
    begin
      get diagnostics stack = pg_context;
      if split_part(stack, chr(10), 2) ~ (called || '["«»“”](?![(])') then
        raise exception using errcode = 'feature_not_supported',
          message = format('bi.%s cannot take its moment from a query in its argument: it would read every revision of every month', called),
          hint = format('Write the moment as a literal, a parameter or with now(); or take it from a query in FROM: select k.* from (select … as at) m cross join lateral bi.%s(m.at) k', called);
      end if;
      return true;
    end $$`,
  // Before PostgreSQL 17 only the owner may analyze a table; the loader does not own those of bi. `millrace roles` lets it call this.
  `create function etl.analyze_published(relation regclass) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
    begin
      if not exists (select from pg_class c where c.oid = relation and c.relkind = 'r' and c.relnamespace = 'bi'::regnamespace) then
        raise exception using errcode = 'insufficient_privilege', message = format('%s is no table of bi', relation);
      end if;
      execute format('analyze %s', relation);
    end $$`,
  'revoke execute on function etl.analyze_published(regclass) from public',
  // Tests that loaded rows fail, or that keep an answer from being loaded.
  `create view etl.failed_tests as
    select p.pipeline_id, p.pipeline, p.version, f.window_from, u.slice_id, f.unit_id, f.test, f.kind, f.on_failure,
      case when u.held_answer_id = f.answer_id then 'held' when f.released then 'released' else 'warned' end as outcome,
      f.rows_tested, f.rows_failing, f.found, f.expected, f.message, f.tested_at, f.run_id, f.answer_id
    from etl.test_failures f join etl.units u on u.unit_id = f.unit_id and f.answer_id in (u.answer_id, u.held_answer_id)
      join etl.pipelines p on p.pipeline_id = f.pipeline_id`,

  // Units whose newest answer was cut at its limit: released by a person, or held.
  `create view etl.capped_units as
    select u.unit_id, u.pipeline_id, u.window_from, c.row_limit from etl.cut_units c
      join etl.units u on u.unit_id = c.unit_id and u.answer_id = c.answer_id where c.row_limit is not null and u.held_code is distinct from 'CAPPED'
    union all
    select u.unit_id, u.pipeline_id, u.window_from, null from etl.units u where u.held_answer_id is not null and u.held_code = 'CAPPED'`,
  // For readers of bi, who see nothing of etl: is_final calls it once per query. Its body is text: of `begin atomic` Citus would have views of `bi`, and so
  // the tables of `data`, depend on tables of the ledger, and refuse to distribute them.
  `create function etl.capped_unit_ids() returns setof bigint language sql stable parallel safe security definer set search_path = pg_catalog, pg_temp
    as 'select c.unit_id from etl.capped_units c'`,

  // Units that are requested or held, from the indexes that contain only those.
  `create view etl.open_units as
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, u.answer_id, u.job_id, etl.unit_state(u, j) as state
    from etl.units u left join etl.jobs j on j.job_id = u.job_id where u.job_id is not null
    union all
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, u.answer_id, u.job_id, 'held'
    from etl.units u where u.job_id is null and u.held_answer_id is not null`,

  // Units that are held or failed, from the indexes of troubled jobs: no open unit is read. Units that wait for approval are not here: etl.approvals.
  `create view etl.troubled_units as
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, u.job_id, case when u.held_answer_id is not null then 'held' else j.state end as state,
      coalesce(u.held_code, j.error_code) as error_code, j.error_message
    from etl.jobs j join etl.units u on u.job_id = j.job_id where j.state in ('held', 'failed') and j.guard = 'usual'
    union all
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, u.job_id, 'held', u.held_code, etl.held_sentence(a.verdict_message, u.held_code, u.unit_id)
    from etl.units u left join etl.jobs j on j.job_id = u.job_id left join etl.answers a on a.answer_id = u.held_answer_id
    where u.held_answer_id is not null and coalesce(j.state, 'done') not in ('held', 'failed')`,

  // Each window that has units: one look into the key of etl.units a window, however many units there are.
  `create view etl.window_list as
    with recursive found (pipeline_id, window_from) as (
      select p.pipeline_id, (select min(u.window_from) from etl.units u where u.pipeline_id = p.pipeline_id) from etl.pipelines p
      union all
      select f.pipeline_id, (select min(u.window_from) from etl.units u where u.pipeline_id = f.pipeline_id and u.window_from > f.window_from)
      from found f where f.window_from is not null)
    select p.pipeline_id, p.pipeline, p.version, f.window_from, w.closed_generation is not null and w.closed_units is not null as closed,
      w.closed_units, w.closed_rows, w.looked_at
    from found f join etl.pipelines p on p.pipeline_id = f.pipeline_id
      left join etl.windows w on w.pipeline_id = f.pipeline_id and w.window_from = f.window_from
    where f.window_from is not null`,

  // Units by window and state. Closed windows as they were counted at closing, with the loaded units of slices that had left the lists by then, which are few;
  // all units are read in open windows only.
  `create view etl.window_states as
    select w.pipeline_id, w.pipeline, w.version, w.window_from, 'loaded' as state, true as loaded, false as open, w.closed_units + coalesce(g.units, 0) as units
    from etl.window_list w left join (select c.pipeline_id, c.window_from, count(*) as units
      from etl.slices s join etl.windows c on c.pipeline_id = s.pipeline_id and c.closed_generation >= s.wanted_until
        cross join lateral (select u.answer_id from etl.units u where u.pipeline_id = c.pipeline_id and u.window_from = c.window_from
          and u.slice_id = s.slice_id offset 0) u
      where s.wanted_until is not null and u.answer_id is not null group by 1, 2) g on g.pipeline_id = w.pipeline_id and g.window_from = w.window_from
    where w.closed
    union all
    select w.pipeline_id, w.pipeline, w.version, w.window_from, case when c.loaded then 'loaded' else 'planned' end, c.loaded, false, c.units
    from etl.window_list w cross join lateral (select u.answer_id is not null as loaded, count(*) as units from etl.units u
      where u.pipeline_id = w.pipeline_id and u.window_from = w.window_from and u.job_id is null and u.held_answer_id is null group by 1) c
    where not w.closed
    union all
    select p.pipeline_id, p.pipeline, p.version, o.window_from, o.state, o.loaded, true, o.units
    from (select u.pipeline_id, u.window_from, u.state, u.answer_id is not null as loaded, count(*) as units
      from etl.open_units u group by 1, 2, 3, 4) o join etl.pipelines p on p.pipeline_id = o.pipeline_id`,

  // Rows and times by window: rows of closed windows as they were counted, of open ones what loads brought minus what they ended.
  `create view etl.window_loads as
    select w.pipeline_id, w.pipeline, w.version, w.window_from,
      coalesce(case when w.closed then w.closed_rows end, (select sum(l.rows_inserted - l.rows_ended) from etl.loads l
        where l.pipeline_id = w.pipeline_id and l.window_from = w.window_from and l.outcome = 'loaded'), 0)::bigint as "rows",
      t.loaded_at as last_loaded_at, greatest(t.loaded_at, t.unchanged_at, w.looked_at) as last_checked_at
    from etl.window_list w cross join lateral (select
      (select max(l.loaded_at) from etl.loads l
        where l.pipeline_id = w.pipeline_id and l.window_from = w.window_from and l.outcome = 'loaded') as loaded_at,
      (select max(l.loaded_at) from etl.loads l
        where l.pipeline_id = w.pipeline_id and l.window_from = w.window_from and l.outcome = 'unchanged') as unchanged_at) t`,

  // Each window that begins in the months from a pipeline's oldest to its newest one, planned or not, up to the end of its table: a month is complete with all of
  // its weeks or days, also those before `window.from` and those to come. A closed window has all slices that were wanted at its generation.
  `create view etl.expected_windows as
    select p.pipeline_id, p.pipeline, p.version, e.at::date as window_from, case when w.closed_units is not null then w.closed_generation end as closed_generation
    from (select l.pipeline_id, min(l.window_from)::timestamp as oldest, max(l.window_from)::timestamp as newest from etl.window_list l group by 1) s
      join etl.pipelines p on p.pipeline_id = s.pipeline_id
      cross join lateral (select case p.window_every when 'day' then 1 when 'week' then 7 else 31 end as days,
        case p.window_every when 'day' then interval '1 day' when 'week' then interval '7 days' else interval '1 month' end as step) x
      cross join lateral generate_series(s.oldest - (extract(day from s.oldest)::integer - 1) / x.days * x.step,
        date_trunc('month', s.newest) + interval '1 month' - interval '1 day', x.step) as e (at)
      left join etl.windows w on w.pipeline_id = p.pipeline_id and w.window_from = e.at::date
    where e.at <= s.newest or coalesce(e.at < (p.definition #>> '{window,publication,until}')::date, true)`,

  // Cells (a wanted slice in an expected window) without a row, and why. Loaded cells are never read: of closed windows only newer slices are.
  `create view etl.missing_cells as
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, case o.state when 'held' then 'held' when 'failed' then 'failed'
        when 'planned' then 'not asked' else 'under way' end as reason, coalesce(u.held_code, j.error_code) as error_code
    from etl.open_units o join etl.units u on u.unit_id = o.unit_id join etl.slices s on s.slice_id = u.slice_id and s.wanted_until is null
      left join etl.jobs j on j.job_id = u.job_id where o.answer_id is null
    union all
    select u.pipeline_id, u.window_from, u.slice_id, u.unit_id, 'not asked', null
    from etl.window_list w join etl.units u on u.pipeline_id = w.pipeline_id and u.window_from = w.window_from
      join etl.slices s on s.slice_id = u.slice_id and s.wanted_until is null
    where not w.closed and u.answer_id is null and u.job_id is null and u.held_answer_id is null
    union all
    select e.pipeline_id, e.window_from, s.slice_id, null, 'not asked', null
    from etl.expected_windows e join etl.slices s on s.pipeline_id = e.pipeline_id and s.wanted_until is null
      and s.wanted_since > coalesce(e.closed_generation, -1)
    where not exists (select from etl.units u where u.pipeline_id = e.pipeline_id and u.window_from = e.window_from and u.slice_id = s.slice_id)
    union all
    select distinct u.pipeline_id, u.window_from, u.slice_id, u.unit_id, case when u.held_answer_id is null then 'service had none' else 'held' end, u.held_code
    from etl.loads_without_rows l cross join lateral unnest(l.slices_without_rows) as x (slice_id)
      join etl.units u on u.pipeline_id = l.pipeline_id and u.window_from = l.window_from and u.slice_id = x.slice_id and u.answer_id = l.answer_id
      join etl.slices s on s.slice_id = u.slice_id and s.wanted_until is null`,

  `create view etl.published_now as
    select distinct on (pipeline) pipeline, version, published_at from etl.published_versions order by pipeline, published_at desc`,
  // When the published version had an answer for a unit of a former one: matched by values and parameters, in any order.
  `create view etl.kept_cells as
    select k.unit_id, k.pipeline, k.version, k.since, coalesce(k.until, n.handed_over_at) as until, k.until is not null or n.is_there is true as is_over
    from etl.kept_units k left join lateral (
      -- The slices of an answer that another version requested are that version's.
      select greatest(v.published_at, (select min(l.loaded_at) from etl.loads l join etl.answers a on a.answer_id = l.answer_id
          join etl.pipelines o on o.pipeline_id = a.pipeline_id join etl.slices x on x.pipeline_id = o.pipeline_id
            and x."values" = array(select k.cell ->> d from unnest(o.dimensions) with ordinality as y (d, place) order by place)
          where l.pipeline_id = u.pipeline_id and l.window_from = u.window_from and x.slice_id = any(a.slice_ids))) as handed_over_at, true as is_there
      from etl.published_now v join etl.pipelines p on p.pipeline = v.pipeline and p.version = v.version and k.cell - p.dimensions = p.parameters
        join etl.slices s on s.pipeline_id = p.pipeline_id
          and s."values" = array(select k.cell ->> d from unnest(p.dimensions) with ordinality as x (d, place) order by place)
        join etl.units u on u.pipeline_id = p.pipeline_id and u.window_from = k.window_from and u.slice_id = s.slice_id and u.answer_id is not null
      where v.pipeline = k.pipeline limit 1) n on k.until is null`,

  // The newest load of each pipeline and version.
  `create view etl.last_loads as
    select distinct on (w.pipeline_id) w.pipeline_id, w.pipeline, w.version, l.load_id, l.loaded_at, l.drift
    from etl.window_list w cross join lateral (select * from etl.loads x
      where x.pipeline_id = w.pipeline_id and x.window_from = w.window_from and x.outcome = 'loaded' order by x.loaded_at desc limit 1) l
    order by w.pipeline_id, l.loaded_at desc`,

  // Outcomes of the units of each run: its summary at the end, else counted from the jobs it waits for.
  `create view etl.run_list as
    select r.run_id, r.command, r.arguments, r.state, p.name as process, r.started_at, r.finished_at, o.planned, o.loaded, o.unchanged, o.waiting,
      o.held, o.failed
    from etl.runs r left join etl.processes p on p.process_id = r.process_id cross join lateral (
      select (s ->> 'planned')::bigint as planned, (s ->> 'loaded')::bigint as loaded, (s ->> 'unchanged')::bigint as unchanged,
        (s ->> 'waiting')::bigint as waiting, (s ->> 'held')::bigint as held, (s ->> 'failed')::bigint as failed
      from (select r.summary -> 'units' as s) told where s is not null
      union all
      select coalesce(sum(w.units) filter (where w.outcome is distinct from 'replaced'), 0),
        coalesce(sum(w.units - w.held_units - w.passed_units) filter (where w.outcome = 'loaded'), 0),
        coalesce(sum(case w.outcome when 'unchanged' then w.units - w.held_units when 'loaded' then w.passed_units end), 0),
        coalesce(sum(w.units) filter (where w.outcome = 'waiting'), 0),
        coalesce(sum(case w.outcome when 'held' then w.units when 'replaced' then 0 else w.held_units end), 0),
        coalesce(sum(w.units) filter (where w.outcome = 'failed'), 0)
      from etl.run_jobs w where w.run_id = r.run_id and r.summary -> 'units' is null having r.summary -> 'units' is null) o`,

  // Purchases: the jobs that buy or bought a report.
  `create view etl.reports as
    select j.job_id, j.run_id, j.account, p.pipeline, p.version, j.window_from, j.window_to, j.cells, j.endpoint, j.request_hash, j.request,
      j.report_state as state, j.report_id, j.status_word, j.polls, j.next_poll_at, j.retries, j.estimated_quota, j.used_quota,
      j.data_points_count, j.error_message, j.created_at, j.submitted_at, j.completed_at, j.deadline_at, j.updated_at, j.former_job_id,
      j.state as job_state, j.answer_id
    from etl.jobs j join etl.pipelines p using (pipeline_id) where j.report_state is not null`,

  // Every credit, by what it was spent on. A purchase, made or intended, whose price is not known yet counts with its estimate, or with 1.
  `create view etl.spending as
    select j.account, p.pipeline, j.pipeline_id, coalesce(j.tag_set_id, p.tag_set_id) as tag_set_id,
      (coalesce(j.asked_at, j.created_at) at time zone 'UTC')::date as day, count(*) filter (where j.report_state <> 'intent') as reports,
      0::bigint as requests, sum(j.used_quota) as used_quota,
      sum(case when j.used_quota is null and j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain', 'expired')
        then coalesce(j.estimated_quota, 0) else 0 end) as reserved_quota,
      count(*) filter (where j.used_quota is null and j.estimated_quota is null
        and j.report_state in ('intent', 'submitted', 'ready', 'downloaded', 'uncertain', 'expired')) as unpriced
    from etl.jobs j join etl.pipelines p using (pipeline_id) where j.report_state is not null group by 1, 2, 3, 4, 5
    union all
    select c.account, p.pipeline, c.pipeline_id, c.tag_set_id, c.day, 0, sum(c.requests)::bigint, sum(c.credits), 0, sum(c.unpriced)::bigint
    from etl.request_credits c join etl.pipelines p using (pipeline_id) group by 1, 2, 3, 4, 5`,

  `create view etl.quota as
    select s.account, s.pipeline, s.day, sum(s.reports)::bigint as reports, sum(s.requests)::bigint as requests, sum(s.used_quota) as used_quota,
      sum(s.reserved_quota) as reserved_quota, sum(s.unpriced)::bigint as unpriced
    from etl.spending s group by 1, 2, 3`,
]

const pipelineOfRow = 'The pipeline and version: etl.pipelines.'
const jobOfRow = 'The job: etl.jobs.'
const runOfRow = 'The run: etl.runs.'
const unitOfRow = 'The unit: etl.units.'
const answerOfRow = 'The answer: etl.answers.'
const windowFrom = 'First day of the window.'
const spanFrom = 'First day of the first window.'
const spanTo = 'The day after the last day of the last window.'
const account = 'Name of the API key that was used; default is WEB_ANALYTICS_API_KEY. Never the key.'
const landing = 'Name of the raw bytes in the landing folder or bucket.'
const sha256 = 'SHA-256 of the raw bytes in hexadecimal.'
const bytes = 'Size of the raw bytes before compression. Unit: bytes.'
const askNumber = 'Its position among all answers: for each unit, the highest number wins.'
const dataPoints = 'Data points in the report, as the service stated; NULL where it stated none.'
const pipelineName = 'The pipeline.'
const version = "The pipeline's version."
const tagSet = 'The tags it is charged to: etl.tag_sets.'
const unitsCounted = 'Unit: units.'

type About = readonly [about: string, columns: Readonly<Record<string, string>>]

const reportWords = {
  endpoint: 'Path of the service the report is submitted to, without host and key; NULL for a walk.',
  request: 'The request as submitted, without the key; NULL for a walk.',
  request_hash: 'Hash of the request, to recognise the same request; NULL for a walk.',
  report_id: "The service's id of the report; NULL until it is known.",
  status_word: 'The last status that the service gave it.',
  polls: 'How often its status was polled.',
  next_poll_at: 'Earliest next poll.',
  retries: 'How often the service was asked for a free retry; of a walk: runs during which its pages changed.',
  estimated_quota: 'What the report was expected to cost. Unit: credits.',
  used_quota: 'What the service said the report cost; NULL while unknown. Unit: credits.',
  data_points_count: dataPoints,
  submitted_at: 'When the service accepted it.',
  completed_at: 'When the service first called it done, or when it failed or was given up; NULL again after a free retry.',
  deadline_at: 'When waiting for it ends.',
} as const

const testFailureSeen = {
  pipeline_id: pipelineOfRow,
  window_from: windowFrom,
  unit_id: unitOfRow,
  answer_id: answerOfRow,
  run_id: 'The run that tested it: etl.runs; NULL where none did.',
  test: 'Name of the test in the definition.',
  kind: 'range, accepted, not_null, sum_of, ratio or restated.',
  on_failure: 'warn (the rows are loaded) or hold (the answer waits for a person).',
  rows_tested: 'Rows that the test applies to. Unit: rows.',
  rows_failing: 'Rows that fail the test; 0 for ratio and restated, which compare sums. Unit: rows.',
  found: 'An example of what is wrong, or the sum that was found; NULL where there is none.',
  expected: 'The sum it was compared with; NULL where the test compares none.',
  message: 'What was expected and what was found.',
  tested_at: 'When it was tested.',
} as const
const testFailure = { ...testFailureSeen, released: 'Whether a person released the answer although it fails.' }

const shapeWords = {
  asks: 'Digest of the request without values, windows and metrics.',
  metrics: 'Metrics that were requested.',
  top_rows: 'If set, only this many first rows of each unit and period were requested and count as complete. Unit: rows.',
  source_order: 'Order of the rows as the service states it: sort and asc of meta.query, unchanged; NULL where it states none.',
  dialect: 'API dialect of the request: v4 or v5; NULL: the source has only one.',
  data_version: 'Version of the data or method that the service names with the answer; NULL: it names none.',
  missing_columns: 'Columns of the definition that none of its records has; NULL: not read yet.',
  partly_missing: 'Columns of the definition that some of its records lack; NULL: not read yet.',
} as const

const answerWords = {
  answer_id: 'Number of the answer: its ask number.',
  pipeline_id: pipelineOfRow,
  job_id: 'The job it came for: etl.jobs.',
  asked_at: 'When the answer was requested.',
  stood_at: 'When the service last said that nothing has changed since; NULL: it was not asked.',
  bytes,
  window_from: spanFrom,
  window_to: spanTo,
  slice_id: 'The slice it answers for: etl.slices; NULL: several.',
  source_last_updated: 'last_updated as the service sent it with the answer; NULL where it sent none.',
  source_count: 'Rows that exist, as the service states; NULL where it does not. Unit: rows.',
  data_points_count: dataPoints,
  times_incomplete: "How often the bytes received for it disagreed with the service's count.",
  verdict: 'good, or the error code it was refused with; NULL: not judged yet.',
  verdict_message: 'Why it was refused; NULL where it was not.',
} as const

const loadWords = {
  load_id: 'Number of the load.',
  answer_id: answerOfRow,
  pipeline_id: pipelineOfRow,
  window_from: windowFrom,
  job_id: 'The job that loaded it: etl.jobs.',
  run_id: runOfRow,
  outcome: 'loaded, or unchanged where the service had nothing new.',
  units: `Units that the answer was loaded for. ${unitsCounted}`,
  rows_read: 'Rows in the answer: inserted, updated, unchanged, quarantined and duplicates together. Unit: rows.',
  rows_inserted: 'Rows that were new. Unit: rows.',
  rows_updated: 'Rows that got another value; the old one went to history. Unit: rows.',
  rows_ended: 'Rows missing from the answer; they went to history. Unit: rows.',
  rows_unchanged: 'Rows that were there already. Unit: rows.',
  rows_quarantined: 'Rows that were rejected: etl.quarantine. Unit: rows.',
  rows_duplicates: 'Duplicate rows, without the one that was kept. Unit: rows.',
  slices_without_rows: 'Slices of these units for which the answer has no row. Unit: numbers of etl.slices.',
  drift: 'How the answer differed in shape from the definition; NULL where it did not.',
  loaded_at: 'When it was loaded: exactly the _loaded_at of its rows.',
  milliseconds: 'How long it took; NULL where it was not measured. Unit: milliseconds.',
  changes:
    'Changed rows by numeric column: rows (how many), size and shift (sums of the changes as parts of the larger value, without and with sign); NULL where none changed.',
} as const

const relations: Readonly<Record<string, About>> = {
  marts: [
    'Views and summaries of bi that `millrace migrate` made from files under marts/. One row per mart.',
    { name: 'Its name in bi: the name of the file without .sql.', published_at: 'When it was first published.' },
  ],
  published_versions: [
    'Which version of a pipeline bi shows, and since when. One row each time another one was published.',
    { pipeline: pipelineName, version, published_at: 'When it was published; -infinity: the first.' },
  ],
  hand_overs: [
    'Which pipeline continues another one in bi, and since when. One row each time this changed.',
    {
      pipeline: pipelineName,
      successor: 'The pipeline whose rows bi shows instead; NULL: bi shows all of its own.',
      starts_on: 'From this day on; NULL: bi shows all of its own.',
      since: 'When it changed; -infinity: always.',
    },
  ],
  published_now: [
    'The version of each pipeline that bi shows.',
    { pipeline: pipelineName, version, published_at: 'Since when; -infinity: it was the first.' },
  ],
  kept_units: [
    'Units of former versions for which the published one had no answer when it was published: bi shows their rows until it has one.',
    {
      unit_id: 'The unit: etl.unit_list.',
      pipeline: pipelineName,
      version: 'The former version.',
      window_from: windowFrom,
      cell: 'Values of its dimensions and parameters, by name.',
      since: 'When another version was published.',
      until: 'When another version took over; NULL: see etl.kept_cells.',
    },
  ],
  kept_cells: [
    'etl.kept_units with the moment the published version had an answer for the unit.',
    {
      unit_id: 'The unit.',
      pipeline: pipelineName,
      version: 'The former version.',
      since: 'When another version was published.',
      until: 'That moment; NULL: not yet, bi shows the rows.',
      is_over: 'Whether there is one. Faster to query than until, which is searched among all loads of the window.',
    },
  ],
  warehouse: [
    'The identity of this warehouse, one row. Landings and receipts carry it, so that a clone is not taken for the original.',
    {
      only_one: 'Always true: there is one row.',
      warehouse_id: 'Name of the warehouse, globally unique.',
      epoch: 'Grows when the warehouse was restored or cloned, to distinguish what came after from what came before.',
      created_at: 'When the ledger was made.',
      home: 'Server (its system identifier) and database (its number there) that last held the ledger; NULL before the first run.',
      standing:
        'own; copy (restored, cloned or moved, not declared yet: it buys and deletes nothing); replaced (another database took its place).',
      standing_reason: 'How it was found to be a copy or replaced; NULL where it is neither.',
      standing_since: 'When that was found; NULL where it is neither.',
    },
  ],
  origins: [
    'One row per account of an API: the service its rows came from. With another service, every command that buys stops.',
    {
      api: 'The API: a folder of sources.',
      account,
      address: 'Host and port of the service.',
      key_sha256: 'Beginning of the SHA-256 of the key, in hexadecimal: distinguishes keys, reveals none.',
      noted_at: 'When it was last recorded.',
    },
  ],
  former_names: [
    'Names of the warehouse before it was restored, cloned or moved. It reads landings under them as its own.',
    {
      warehouse_id: 'The warehouse: etl.warehouse, or the one it is a clone of.',
      epoch: 'The epoch.',
      is_ours: 'Whether this warehouse may delete landings of that name: no other one uses them.',
      until: 'When its name changed.',
    },
  ],
  processes: [
    'One row per process that works on jobs. One lease covers all its jobs; when it expires, the process loses them.',
    {
      process_id: 'Number of the process here.',
      name: 'Its name, unique over all hosts and starts.',
      host: 'Machine it runs or ran on.',
      boot: 'Identifies the boot of the machine; empty where the system has no identifier.',
      system_process_id: 'Its number on that machine.',
      begun: 'Distinguishes it from a later process with the same number; empty where the system cannot.',
      started_at: 'When it began.',
      lease_until: 'When its lease ends unless renewed.',
      ended_at: 'When it ended or was found dead; NULL while it runs.',
    },
  ],
  runs: [
    'One row per run: an invocation that works on units.',
    {
      run_id: 'Number of the run.',
      command: 'The command: run, backfill, replay, schedule, demo and so on.',
      arguments: 'What the command was started with; never a key.',
      state: 'running, done, failed (some units failed or are held), cancelled or interrupted.',
      process_id: 'The process it is or was part of: etl.processes.',
      started_at: 'When it began.',
      begun_at_ask: 'Ask number drawn when it began: later requests have a higher one.',
      finished_at: 'When it ended; NULL while it runs.',
      cancel_requested_at: 'When its cancellation was requested; NULL: never.',
      summary: 'The numbers it ended with: units, rows, requests, reports, quota, bytes.',
    },
  ],
  pipelines: [
    'One row per pipeline, version and set of key parameters; in it, window and slice identify a unit.',
    {
      pipeline_id: 'Number of the pipeline and version here.',
      pipeline: pipelineName,
      version,
      parameters: 'The parameters that are part of the key.',
      source: 'The source and dataset, for example web-analytics.keywords.',
      account,
      window_every: 'Size of its windows: month, week or day.',
      dimensions: "Names of its dimensions, in the order of a slice's values.",
      generation: 'Grows whenever its lists change.',
      lists_sha256: 'Digest of the lists as they were last read.',
      former_lists_sha256: 'The same before the lists last changed.',
      definition: 'The part of the definition that fetching needs, as of the last plan.',
      tests: 'The tests of the definition, as of the last plan: name, column, expects, on_failure.',
      tag_set_id: `${tagSet} As of the last plan.`,
      known_since: 'When it was first planned.',
      data_version: 'Version of the data that the service named in the last night with a load; NULL: it named none.',
      updated_at: 'When this row last changed.',
    },
  ],
  tag_sets: [
    'Sets of tags that pipelines had or have. A purchase keeps the set it was made with.',
    { tag_set_id: 'Number of the set; 1 is the empty one.', tags: 'Names and values, as in tags of a definition.' },
  ],
  slices: [
    'One row per slice: one value of each dimension of a pipeline.',
    {
      slice_id: 'Number of the slice.',
      pipeline_id: pipelineOfRow,
      values: 'One value of each dimension, in the order of etl.pipelines.dimensions.',
      wanted_since: 'The generation of the lists since which it is wanted.',
      wanted_until: 'The generation in which it left the lists; NULL while it is wanted. Its rows stay.',
      night_from: 'First day of the oldest window that nights request without approval; older ones need it. NULL: none.',
    },
  ],
  lists: [
    'One row per change of a list that a definition reads from the database (for_each: query).',
    {
      list_id: 'Number of the list.',
      pipeline_id: pipelineOfRow,
      dimension: 'What the values are of, for example domain.',
      query: 'The query, as in the definition.',
      values: 'The values it gave.',
      state:
        'taken (the newest one of these is used), held (empty or much shorter than before: it waits for a person, millrace approve) or dissolved (held, and then the query gave other values).',
      came: 'Values that were not in the list before. Unit: values.',
      gone: 'Values of the list before that are not in it. Unit: values.',
      read_at: 'When it was read.',
      decided_at: 'When a person decided; NULL where no decision was needed.',
      decided_by: 'The person; NULL where no decision was needed.',
    },
  ],
  list_reads: [
    'One row per run and list that was read from the database for it.',
    {
      run_id: runOfRow,
      pipeline_id: pipelineOfRow,
      dimension: 'What the values are of.',
      list_id: 'The list that the run used: etl.lists; NULL where there was none.',
      outcome: 'taken (other values than before), unchanged, held or failed (with these two, the list before was used).',
      values: 'How many values the query gave; NULL where it failed. Unit: values.',
      message: 'Why it was held or failed; NULL where it was not.',
      read_at: 'When it was read.',
    },
  ],
  windows: [
    'One row per window with what is known of it as a whole. A closed window is complete; its units are not read again.',
    {
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      closed_generation:
        'The generation of the lists up to which every unit is loaded and none is requested or held; NULL: open.',
      closed_at: 'When it was closed.',
      closed_units: `Loaded units when it was closed. ${unitsCounted}`,
      closed_rows: 'Current rows when it was closed. Unit: rows.',
      looked_at: 'When a check last found that the service has nothing new for it.',
    },
  ],
  units: [
    'One row per unit: one window and one slice, the smallest thing that is wanted, counted, loaded and proved complete. Names and states: etl.unit_list.',
    {
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      slice_id: 'The slice: etl.slices.',
      unit_id: 'Number of the unit; data rows name it as _unit_id.',
      ask_number: 'Ask number of the answer its rows come from; NULL: never loaded.',
      answer_id: 'The answer its rows come from: etl.answers; NULL: never loaded.',
      job_id: 'The newest job that requests it: etl.jobs; NULL where none does.',
      held_answer_id: 'An answer that waits for a person: etl.answers; NULL where none does.',
      held_code: 'Why that answer waits, as a code of docs/operations.md.',
    },
  ],
  jobs: [
    'One row per job: what is requested together, page by page (one unit) or as a report (one to thousands of units): every combination of its slices and windows.',
    {
      job_id: 'Number of the job.',
      pipeline_id: pipelineOfRow,
      kind: 'walk (page by page) or report (bought, then downloaded).',
      reason: 'Why it was planned.',
      guard: 'usual, or needs approval: it waits for a person (millrace approve) because the night would cost more than usual.',
      wanted_by:
        'What first requested it, kept over failures and retries: night (as usual), beyond (a night, beyond its usual), range, force or approval.',
      window_from: spanFrom,
      window_to: spanTo,
      slice_ids: 'Its slices: etl.slices.',
      cells: `Units it requests. ${unitsCounted}`,
      state:
        'open (is or will be worked on), held (waits for a person), failed (the next run tries again), done, or replaced (other jobs request its units).',
      forced: 'Whether it is to be loaded even where nothing changed.',
      released: 'Whether a person released the held answer, to load as it is.',
      run_id: 'The run that planned it: etl.runs.',
      former_job_id: 'The job whose request it repeats: etl.jobs; NULL: none.',
      served_by: 'A job of another version with the same request, whose answer this one uses; NULL where there is none.',
      approval_id: 'The approval it waits for or has: etl.approvals; NULL where none is needed.',
      holder: 'The process that works on it: etl.processes; NULL while none does.',
      fence: 'Grows with each claim; a write with an older number changes nothing.',
      attempts: 'Attempts so far that count against the limit.',
      not_before: 'Earliest next attempt; NULL: at once.',
      error_code: 'Code of the last error, as in docs/operations.md; NULL where there is none.',
      error_message: 'What went wrong and what to do about it.',
      ask_number: `${askNumber} NULL: only planned, not requested yet.`,
      asked_at: 'When it was requested.',
      answer_id: 'The answer that came or that is to be loaded: etl.answers; NULL while there is none.',
      account,
      ...reportWords,
      said_quota: 'What the service had named as its price; NULL where it named none. Unit: credits.',
      report_state:
        'intent (about to be sent), submitted, ready, downloaded, failed, rejected, uncertain (reply lost) or expired; NULL where nothing was bought.',
      tag_set_id: `${tagSet} NULL before its request.`,
      reserved_credits: 'Reserved for pages in flight, except those of unknown price; NULL: nothing is. Unit: credits.',
      reserves_all: 'Whether a page in flight reserves all that is left of its budgets until its bill is known.',
      begun_landing:
        'Landings with the paid pages of an interrupted walk, which resumes from there; separated by blanks. NULL: none.',
      receipt_at: 'When the receipt of the purchase was written beside the landings; NULL: not yet.',
      created_at: 'When it was planned.',
      updated_at: 'When this row last changed.',
    },
  ],
  approvals: [
    'One row per purchase that waits for approval or has it; its jobs refer to it. A new plan is a new row.',
    {
      approval_id: 'Number of the approval.',
      pipeline_id: pipelineOfRow,
      kind: 'night (a run found more than its guard allows) or backfill (a range that a person named).',
      state: 'waiting, approved, or dissolved (it was planned again or withdrawn).',
      run_id: 'The run that found it: etl.runs.',
      reasons: 'Units by the reason for their request.',
      window_from: 'First day of the first window; NULL where it has no jobs of its own.',
      window_to: 'The day after the last day of the last window; NULL where it has no jobs of its own.',
      units: `How many it is for. ${unitsCounted}`,
      reports: 'Reports it takes. Unit: reports.',
      credits: 'Their estimated cost. Unit: credits.',
      allowed: 'The nightly limit then; NULL where there was none. Unit: credits.',
      digest: 'Digest of the lists, limits and guard of the plan; a change dissolves it.',
      asked_at: 'When it was found.',
      decided_at: 'When it was approved or dissolved; NULL while it waits.',
      decided_by: 'Who approved it, and by which command.',
      done_on: 'The day its last report can be bought within the budgets; NULL where that is not known.',
    },
  ],
  run_jobs: [
    'One row per run and job: what the run waits for and what became of it. The only record of waiting.',
    {
      run_id: runOfRow,
      job_id: jobOfRow,
      priority: 'The lowest number runs first.',
      units: `Units of the job that the run requested. ${unitsCounted}`,
      slice_ids: 'Slices it requested, where it requested a part of the job; NULL: all.',
      window_from: 'First day of the first window of that part; NULL: all windows.',
      window_to: 'The day after the last day of that part; NULL: all windows.',
      outcome:
        'loaded, unchanged, waiting, held, failed, let go (the run does not wait any more) or replaced; NULL while the run waits.',
      held_units: `Units that are held although the job was loaded. ${unitsCounted}`,
      passed_units: `Units left unchanged because they have an answer that was requested later. ${unitsCounted}`,
      finished_at: 'When the outcome was known.',
    },
  ],
  answer_shapes: [
    'What many answers have in common, stored once: their request and what their records lack.',
    { shape_id: 'Number of the shape.', digest: 'SHA-256 of the other columns, by which a shape is found again.', ...shapeWords },
  ],
  answer_rows: [
    'Rows behind etl.answers, and behind etl.loads where an answer for one unit was loaded by the job it came for. Written here, read there.',
    {
      ...answerWords,
      shape_id: 'What it has in common with others: etl.answer_shapes.',
      slice_ids: 'Slices it answers for; NULL: one.',
      sha256: 'SHA-256 of the raw bytes.',
      landing: 'Name of its landing in the folder etl.landing_folder of its unit; with a slash: all of the name.',
      loaded_at: 'When it was first loaded; NULL: never, or see etl.load_rows.',
      run_id: 'The run that loaded it: etl.runs; NULL: see loaded_at.',
      rows_inserted: 'Rows that were new; NULL: none. Unit: rows.',
      rows_updated: 'Rows that got another value; NULL: none. Unit: rows.',
      rows_ended: 'Rows missing from the answer; NULL: none. Unit: rows.',
      rows_unchanged: 'Rows that were there already; NULL: none. Unit: rows.',
      rows_quarantined: 'Rows that were rejected; NULL: none. Unit: rows.',
      rows_duplicates: 'Rows that came more than once; NULL: none. Unit: rows.',
      milliseconds: loadWords.milliseconds,
      drift: loadWords.drift,
      changes: loadWords.changes,
    },
  ],
  answers: [
    'One row per answer: the unchanged bytes received for a job, and what they cover.',
    {
      ...answerWords,
      ...shapeWords,
      ask_number: `${askNumber} The same as answer_id.`,
      slice_ids: 'Slices it answers for: etl.slices.',
      landing,
      sha256,
    },
  ],
  load_rows: ['Rows behind etl.loads that are not in etl.answer_rows. Written here, read there.', loadWords],
  loads: [
    'One row per answer and window: what it did to the table, committed together with the rows. A row leads here by _unit_id (its window) and _loaded_at.',
    loadWords,
  ],
  loads_without_rows: [
    'Loads of etl.loads that brought no row for a slice.',
    {
      answer_id: answerOfRow,
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      loaded_at: loadWords.loaded_at,
      load_id: loadWords.load_id,
      slices_without_rows: loadWords.slices_without_rows,
    },
  ],
  data_point_readings: [
    'One row per account and dataset: what its data points count, as far as its answers show.',
    {
      account: 'The account, as in the definition.',
      dataset: 'Source and dataset, for example web-analytics.report/traffic_and_engagement.',
      readings: 'What may be counted: rows, cells (rows times metrics), non_empty_cells. One: settled.',
      answer_id: 'The newest answer that ruled a reading out, or the first: etl.answers.',
      updated_at: 'When that was.',
    },
  ],
  requests: [
    'One row per HTTP request sent to the service: each attempt of a page, submission, poll or download.',
    {
      request_id: 'Number of the request.',
      run_id: 'The run that sent it: etl.runs; NULL outside a run.',
      job_id: 'The job it was sent for: etl.jobs; NULL where it is for none.',
      ask_number: 'Ask number of the answer it belongs to; NULL where it is for none.',
      account,
      method: 'HTTP method.',
      endpoint: 'Path at the service, without host and key.',
      parameters: 'Parameters without the key.',
      part: 'Which part of the answer, from 1; NULL where it brings none.',
      attempt: 'Which attempt, from 1.',
      status: 'HTTP status; NULL where no answer came.',
      error_code: 'Code of the error, as in docs/operations.md; NULL where it went well.',
      bytes: 'Size of the answer. Unit: bytes.',
      sha256: 'SHA-256 of the answer in hexadecimal; NULL where it was not kept.',
      credits: 'What it cost, where each request is charged; NULL where it is free, or its price is unknown. Unit: credits.',
      unpriced: 'Whether it is paid for and its price is unknown.',
      started_at: 'When it was sent.',
      milliseconds: 'From sending to the end of the answer. Unit: milliseconds.',
    },
  ],
  request_credits: [
    'Cost of requests that are charged one by one. One row per day, account, pipeline, set of tags and writer: add them up.',
    {
      day: 'The day (UTC).',
      account,
      pipeline_id: pipelineOfRow,
      tag_set_id: tagSet,
      is_night: 'Whether a night (run, schedule) sent them; else a range that a person named.',
      slot: 'Which writer; -1: added up after the day was over.',
      requests: 'Requests that cost something. Unit: requests.',
      credits: 'What they cost. Unit: credits.',
      uncertain:
        'Of the credits, those of requests with an incomplete answer: the service may not have charged them. Unit: credits.',
      unpriced: 'Of the requests, those of unknown price: their credits are not counted. Unit: requests.',
      lost: 'Of these, those whose process was killed before it read their bill. Unit: requests.',
    },
  ],
  prices: [
    'What the service charged for pages: one row per bill with news about the price of a dataset. Bills that are not dropped agree with each other.',
    {
      price_id: 'Number of the bill.',
      account,
      dataset: 'The source, or the table of a source that has several.',
      said_in: 'Its source: answer (the answer itself), or balance (two readings around it).',
      job_id: jobOfRow,
      rows_asked: 'The most rows that were requested; NULL: no limit was sent. Unit: rows.',
      rows: 'Rows that came; NULL where unknown. Unit: rows.',
      metrics: 'Metrics that were requested. Unit: metrics.',
      values: 'Combinations of values and periods that were requested. Unit: units.',
      credits: 'What it cost. Unit: credits.',
      learned_at: 'When it was seen.',
      dropped_at: 'When another bill contradicted it; NULL: it counts.',
    },
  ],
  meter_readings: [
    'Balance of an account as the service stated it while nothing of the account was in flight. Two readings in a month show what it charged.',
    {
      reading_id: 'Number of the reading.',
      api: 'The API that was asked.',
      account,
      read_at: 'When it was asked.',
      remaining_requests: 'Requests left; NULL where it does not say. Unit: credits.',
      remaining_credits: 'Credits left for reports; NULL where it does not say. Unit: credits.',
      counted_requests: 'Credits of all requests on record by then, over all time. Unit: credits.',
      counted_reports: 'Credits of all reports on record by then, over all time. Unit: credits.',
      difference:
        'What the service charged since the reading before, beyond what is on record: other users of the key, or requests of a killed process; below 0: it did not charge requests without an answer. NULL: the first of a month, or the service refilled the account. Unit: credits.',
    },
  ],
  quarantine: [
    'One row per rejected record, with the raw record and the reason.',
    {
      quarantine_id: 'Number of the rejected record.',
      answer_id: 'The answer it came in: etl.answers.',
      job_id: jobOfRow,
      unit_id: 'The unit: etl.units; NULL where the record names no unit.',
      run_id: runOfRow,
      pipeline: pipelineName,
      part: 'Which part of the landing, from 1.',
      line: 'Which line or record of the part, from 1.',
      column_name: 'The column that was refused; NULL where it was the whole record.',
      reason: 'Why it was refused.',
      raw: 'The record as it came.',
      state: 'open; superseded: a later load replaces it.',
      created_at: 'When it was refused.',
      resolved_at: 'When it was no longer open.',
    },
  ],
  test_failures: [
    'One row per unit, answer and test of the definition that its rows failed. What holds now: etl.failed_tests.',
    testFailure,
  ],
  cut_units: [
    'Loaded units of which only the first rows came. One row per unit; it counts while the unit has the same answer.',
    {
      unit_id: unitOfRow,
      answer_id: 'The answer: etl.answers.',
      row_limit:
        'The row limit that the answer reached: there may be more. NULL where only the first rows were wanted. Unit: rows.',
      share: 'Share of the total that the loaded rows have, by the service. Unit: fraction.',
    },
  ],
  capped_units: [
    'Units whose newest answer was cut at its limit: released by a person, or held.',
    {
      unit_id: unitOfRow,
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      row_limit: 'The limit; NULL where the answer is held. Unit: rows.',
    },
  ],
  failed_tests: [
    'Tests of definitions that loaded rows fail, or that keep an answer from being loaded. One row per unit, answer and test.',
    {
      pipeline: pipelineName,
      version,
      slice_id: 'The slice: etl.slices.',
      outcome: 'held (the answer waits for a person), released (a person allowed it) or warned (loaded).',
      ...testFailureSeen,
    },
  ],
  restated: [
    'What a run found restated. One row per pipeline, run, window and numeric column; none where no value changed.',
    {
      pipeline_id: pipelineOfRow,
      run_id: 'The run: etl.runs.',
      window_from: windowFrom,
      column_name: 'The column of the table.',
      seen_at: 'The last load of the run that changed the window.',
      age: 'Windows that had ended after this one by then, at most 3. Unit: windows.',
      rows_compared: 'Rows that had an earlier value. Unit: rows.',
      units: 'Units of these rows. Unit: units.',
      share:
        'Rows with another value in the column, as a part of the window; units that the run did not request count as unchanged. Unit: fraction.',
      size: 'Mean change of those rows, without sign, as a part of the larger value. Unit: fraction.',
      shift: 'The same with sign. Unit: fraction.',
    },
  ],
  breaks: [
    'Windows from which the service counts by another method. One row per pipeline, version and run that noticed it.',
    {
      break_id: 'Number of the break.',
      pipeline_id: pipelineOfRow,
      run_id: 'The run that noticed it: etl.runs.',
      kind: 'version: the service names another version of its data; dialect: the requests changed to another API dialect; method: anything else.',
      starts_on: 'First day of the first window that is loaded by the new method; earlier ones follow the former.',
      seen_back_to: 'First day of the oldest window in which a cell changed in the same way since.',
      columns: 'Columns that changed; the one that changed most comes first. None: no column changed beyond what is usual.',
      share: 'Rows of a window that changed in the first column. Unit: fraction.',
      change: 'Mean change of the first column, as a part of the former value. Unit: fraction.',
      usual_share: 'The largest share of a window that usual restatements change, the median over windows. Unit: fraction.',
      usual_size: 'By how much they change it at most, the median over windows. Unit: fraction of the larger value.',
      ask_number: 'Answers with this ask number or a higher one follow the new method.',
      data_version: 'The version that the service names since then; NULL: another kind.',
      noticed_at: 'When it was noticed.',
    },
  ],
  forecasts: [
    'Credits of a month, as the last run of the pipeline in it forecast them. One row per account, pipeline and month.',
    {
      account: 'The account whose key is used.',
      pipeline: 'The pipeline, over its versions.',
      month: 'First day of the month (UTC).',
      run_id: runOfRow,
      spent: 'Credits spent and reserved by then. Unit: credits.',
      low: 'Credits at the end of the month, at least; NULL: unknown. Unit: credits.',
      high: 'The same at most; equal to low if the price is known. Unit: credits.',
      computed_at: 'When it was computed.',
    },
  ],
  events: [
    'One row per action of a person outside a run: unit released or retried, run cancelled.',
    {
      event_id: 'Number of the event.',
      at: 'When it happened.',
      kind: 'What was done: released, retried, cancelled and so on.',
      pipeline: 'The pipeline; NULL where it concerns none.',
      unit_id: 'The unit: etl.units; NULL where it concerns none.',
      job_id: 'The job: etl.jobs; NULL where it concerns none.',
      run_id: 'The run: etl.runs; NULL where it concerns none.',
      message: 'What happened, in words.',
      details: 'The same for machines.',
    },
  ],
  ticks: [
    'One row per scheduled time of a pipeline, so that several schedulers run it once.',
    {
      pipeline: pipelineName,
      due_at: 'The scheduled time.',
      claimed_by: 'The scheduler that took it.',
      claimed_at: 'When it was taken.',
      kind: 'on time, caught up (after a time without a scheduler), skipped, or released (the service announced new data).',
      run_id: 'The run it started: etl.runs; NULL where it started none.',
      finished_at: 'When that run ended.',
    },
  ],
  releases: [
    'The last day an account has data for, as its service said. One row per new day.',
    {
      release_id: 'Number of the release.',
      account: 'The API and the account in it.',
      every: 'Of which data: month or day.',
      available_to: 'The last day there are data for.',
      heard_by: 'message (a webhook of the service whose sender was checked) or poll (its capabilities).',
      wakes: 'Whether it starts a run of each scheduled pipeline; false where it was known before a schedule waited for it.',
      heard_at: 'When it was recorded; the due_at of the ticks it starts in etl.ticks.',
    },
  ],
  subscriptions: [
    'Subscriptions to the messages of a service. The address they go to is a secret and not stored.',
    {
      account: 'The API and the account in it.',
      every: 'Of which data: month or day.',
      subscription_id: "The service's name for it; its messages contain it.",
      made_at: 'When it was created.',
    },
  ],
  notifications: [
    'One row per cause of an alarm; open until the cause is gone.',
    {
      notification_id: 'Number of the notification.',
      cause: 'What it is about; open once at most.',
      kind: 'failure, held, late, drift, quarantine, quota, approval and so on: the kinds of alarms.',
      severity: 'critical, error, warning or info.',
      grouping:
        'What causes of several pipelines have in common, such as an error code: one message reports all of them. NULL: nothing.',
      pipeline: 'The pipeline; NULL where it concerns none.',
      message: 'The problem, in words.',
      changed: 'What changed: since when, and what is still there. NULL where nothing more is known.',
      next_step: 'What to do. NULL where there is nothing to do.',
      details: 'The same for machines; of failed and held units also which they are and the load each had by then.',
      raised_at: 'When it was first seen.',
      resolved_at: 'When it was gone; NULL while it is open.',
    },
  ],
  deliveries: [
    'One row per message: a notification, a target and an event.',
    {
      notification_id: 'The notification: etl.notifications.',
      target: 'Name of the target, never its address.',
      event: 'raised or resolved.',
      attempts: 'How often it was tried.',
      next_at: 'Earliest next try, after quiet hours or a failed try.',
      sending_at: 'Since when it is being sent; NULL while it is not.',
      sent_at: 'When the target accepted it; NULL: not yet.',
      outcome:
        'sent; uncertain (the sender ended meanwhile, and the target could not detect a repetition); given up; not needed (over before it was sent). NULL: to be sent.',
      last_error: 'Why the last try failed.',
    },
  ],
  locks: [
    'Names that transactions lock while they work: a budget, a month of a table, what is published. And leases, for work outside transactions.',
    {
      name: 'What is locked. The lock is its row lock.',
      held_by: 'Of a lease: the process that has it, see etl.processes. NULL: not taken yet.',
      held_until: 'Of a lease: until when, unless it is renewed.',
    },
  ],
  pace: [
    'One row per account, for all machines: when its next request may be sent, its rate since a refusal, and since when it has a problem.',
    {
      account: 'The API and the account in it; never its key.',
      next_at: 'When the next request may be sent, so that all machines together keep the rate; later after a refusal.',
      noted_at: 'When that was noted. In the future: the database clock was set back; the difference to next_at counts.',
      requests_per_second:
        'Requests per second after the last halving; it grows each second since. NULL: never refused, the set rate applies.',
      ceiling: 'Requests per second that are not exceeded for an hour after the last refusal; NULL: not known yet.',
      changed_at: 'When it was last halved.',
      refused_at: 'When the refusal came after which it was halved.',
      trouble_place: 'What does not answer: the account as a whole, or a path; NULL: no problem.',
      trouble_code: 'Why, as a code of docs/operations.md.',
      trouble_message: 'What the service says or does, in words.',
      trouble_since: 'Since when.',
      trouble_seen_at: 'When that was last tried. Long ago: the process that tried has ended.',
    },
  ],
  kysely_migration: [
    'One row per migration that was applied.',
    { name: 'Its file, without the ending.', timestamp: 'When it was applied, as ISO text.' },
  ],
  kysely_migration_lock: [
    'One row that migrations lock, so that two never run at once.',
    { id: 'Always migration_lock.', is_locked: '1 where a migration holds it; the lock that counts is the row lock.' },
  ],
  unit_list: [
    'Every unit with its name and state. Query a few units at a time: there may be millions.',
    {
      unit_id: unitOfRow,
      unit_key: 'Pipeline, version, window and slice as one text; the same input gives the same key.',
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      window_from: windowFrom,
      window_to: 'The day after the last day of the window.',
      slice: 'One value for each dimension.',
      slice_id: 'The slice: etl.slices.',
      wanted: 'Whether the lists still contain it.',
      state: 'planned, running, waiting, landed, loaded, failed (the next run tries again) or held (waits for a person).',
      error_code: 'Why it is held, or the last error of its job, as a code of docs/operations.md.',
      error_message: 'What went wrong and what to do about it.',
      not_before: 'Earliest next attempt; NULL: at once.',
      attempts: 'Attempts of its job so far that count against the limit.',
      ask_number: 'Ask number of the answer its rows come from; NULL: never loaded.',
      answer_id: 'The answer its rows come from: etl.answers; NULL: never loaded.',
      job_id: 'The newest job that requests it: etl.jobs; NULL where none does.',
      held_answer_id: 'An answer that waits for a person: etl.answers; NULL where none does.',
      held_code: 'Why that answer waits.',
    },
  ],
  open_units: [
    'Units that a job requests or that have a held answer.',
    {
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      slice_id: 'The slice: etl.slices.',
      unit_id: unitOfRow,
      answer_id: 'The answer its rows come from: etl.answers; NULL: never loaded.',
      job_id: 'The job that requests it: etl.jobs; NULL where none does.',
      state: 'As in etl.unit_list.',
    },
  ],
  troubled_units: [
    'Units that are held or failed.',
    {
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      slice_id: 'The slice: etl.slices.',
      unit_id: unitOfRow,
      job_id: 'The job that requests it: etl.jobs; NULL where none does.',
      state: 'held or failed.',
      error_code: 'Why, as a code of docs/operations.md.',
      error_message: 'What went wrong and what to do about it.',
    },
  ],
  window_list: [
    'One row per window that has units.',
    {
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      window_from: windowFrom,
      closed: 'Whether it is closed: its units and rows were counted then.',
      closed_units: `Loaded units when it was closed. ${unitsCounted}`,
      closed_rows: 'Current rows when it was closed. Unit: rows.',
      looked_at: 'When a check last found that the service has nothing new for it.',
    },
  ],
  window_states: [
    'Units by window and state: closed windows as counted at closing, with slices that had left the lists; open ones as of now.',
    {
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      window_from: windowFrom,
      state: 'As in etl.unit_list.',
      loaded: 'Whether they were loaded at least once.',
      open: 'Whether they are requested or held.',
      units: `How many. ${unitsCounted}`,
    },
  ],
  expected_windows: [
    "One row per window that begins between a pipeline's oldest and newest month, planned or not.",
    {
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      window_from: windowFrom,
      closed_generation: 'All slices wanted by this generation are loaded; NULL: the window is open.',
    },
  ],
  missing_cells: [
    'One row per wanted slice and expected window that has no row of data.',
    {
      pipeline_id: pipelineOfRow,
      window_from: windowFrom,
      slice_id: 'The slice: etl.slices.',
      unit_id: `${unitOfRow.slice(0, -1)}; NULL where none was planned.`,
      reason: 'service had none, held, failed, under way or not asked.',
      error_code: 'Why it is held or failed, as a code of docs/operations.md.',
    },
  ],
  window_loads: [
    'Rows and times by window: closed windows as counted at closing, open ones as of now.',
    {
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      window_from: windowFrom,
      rows: 'Current rows. Unit: rows.',
      last_loaded_at: 'The last load.',
      last_checked_at: 'When the service was last asked whether anything changed.',
    },
  ],
  last_loads: [
    'The newest load of each pipeline and version.',
    {
      pipeline_id: pipelineOfRow,
      pipeline: pipelineName,
      version,
      load_id: 'The load: etl.loads.',
      loaded_at: 'When it was loaded.',
      drift: 'How its answer differed in shape from the definition; NULL where it did not.',
    },
  ],
  run_list: [
    'Every run with what became of its units.',
    {
      run_id: 'Number of the run.',
      command: 'The command.',
      arguments: 'What the command was started with; never a key.',
      state: 'running, done, failed (some units failed or are held), cancelled or interrupted.',
      process: 'Name of the process it is or was part of.',
      started_at: 'When it began.',
      finished_at: 'When it ended; NULL while it runs.',
      planned: `Units it requested. ${unitsCounted}`,
      loaded: `Of these, units that were loaded. ${unitsCounted}`,
      unchanged: `Of these, units in which the service had nothing new. ${unitsCounted}`,
      waiting: `Of these, units that wait for a later run. ${unitsCounted}`,
      held: `Of these, units that wait for a person. ${unitsCounted}`,
      failed: `Of these, units that failed. ${unitsCounted}`,
    },
  ],
  reports: [
    'Purchases: one row per job that buys or bought a report.',
    {
      job_id: jobOfRow,
      run_id: 'The run that planned it: etl.runs.',
      account,
      pipeline: pipelineName,
      version,
      window_from: spanFrom,
      window_to: spanTo,
      cells: `Units it is bought for. ${unitsCounted}`,
      ...reportWords,
      state: 'intent (about to be sent), submitted, ready, downloaded, failed, rejected, uncertain (reply lost) or expired.',
      error_message: 'Why it failed or was rejected.',
      created_at: 'When the job was planned.',
      updated_at: 'When the job last changed.',
      former_job_id: 'The job whose request it repeats: etl.jobs; NULL: none.',
      job_state: 'State of the job, as in etl.jobs.',
      answer_id: 'The answer that came: etl.answers; NULL while there is none.',
    },
  ],
  spending: [
    'Every credit that was spent or reserved, by what it is charged to. One row per account, pipeline and version, set of tags and day (UTC); reports and requests in separate rows.',
    {
      account,
      pipeline: pipelineName,
      pipeline_id: pipelineOfRow,
      tag_set_id: tagSet,
      day: 'The day of the request, in UTC.',
      reports: 'Reports sent; 0 where the row is of requests. Unit: reports.',
      requests: 'Requests that cost something; 0 where the row is of reports. Unit: requests.',
      used_quota: 'Of reports: their cost as the service stated it, NULL until then; of requests: their price. Unit: credits.',
      reserved_quota: 'Estimated cost of reports that the service has not billed yet. Unit: credits.',
      unpriced: 'Paid reports and requests whose price is not known yet: their credits are not counted.',
    },
  ],
  quota: [
    'Credits spent and reserved. One row per account, pipeline and day (UTC).',
    {
      account,
      pipeline: pipelineName,
      day: 'The day of the request, in UTC.',
      reports: 'Reports sent. Unit: reports.',
      requests: 'Requests that cost something. Unit: requests.',
      used_quota: 'What they cost; NULL until the service states it. Unit: credits.',
      reserved_quota: 'Estimated cost of reports that the service has not billed yet. Unit: credits.',
      unpriced: 'Paid reports and requests whose price is not known yet: their credits are not counted.',
    },
  ],
}

const functions: Readonly<Record<string, string>> = {
  window_end: 'The day after the last day of a window.',
  window_name: 'Name of a window for people: 2026-01, 2026-01-05, or 2026-01-05..2026-01-11.',
  unit_key: 'Pipeline, version, window and slice of a unit as one text.',
  slice_of: 'Values by the names of their dimensions.',
  shape_of: 'The shape of an answer with these values; created where there is none.',
  landing_folder: "Folder of a unit's landings.",
  landing_name: "The part of a landing's name that is stored with its answer.",
  assert_part_of_question:
    'True where bi.<pipeline>_as_of is inlined in its query; an error where it is not, because its moment comes from a subquery.',
  analyze_published: 'Renews the statistics of a table of bi, with the rights of its owner.',
  test_sentence: "Why the tests of its definition hold a unit's answer.",
  held_sentence: 'The sentence for one code in the message of a verdict, with the number of the unit to release.',
  capped_unit_ids: 'Units whose newest answer was cut at its limit, for is_final.',
  unit_state: 'State of a unit for people, from its pointers and the job that requests it.',
  box_slice: 'Slices as one value: a value or a list of values for each dimension.',
}

const comments = async (database: Kysely<unknown>): Promise<void> => {
  const { rows } = await sql<{ name: string; kind: string }>`
    select relname as name, case relkind when 'v' then 'view' else 'table' end as kind from pg_class
    where relnamespace = 'etl'::regnamespace and relkind in ('r', 'v')`.execute(database)
  for (const [name, [about, columns]] of Object.entries(relations)) {
    const kind = rows.find((row) => row.name === name)?.kind ?? 'table'
    await sql`comment on ${sql.raw(kind)} ${sql.table(`etl.${name}`)} is ${sql.lit(about)}`.execute(database)
    for (const [column, text] of Object.entries(columns))
      await sql`comment on column ${sql.ref(`etl.${name}.${column}`)} is ${sql.lit(text)}`.execute(database)
  }
  for (const [name, about] of Object.entries(functions))
    await sql`comment on function ${sql.table(`etl.${name}`)} is ${sql.lit(about)}`.execute(database)
}

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of [...words, ...views]) await sql.raw(statement).execute(database)
  await comments(database)
}
