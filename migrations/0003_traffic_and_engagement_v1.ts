// Table and history of traffic_and_engagement. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table data.traffic_and_engagement_v1 (
    "date" date not null,
    "granularity" text not null,
    "domain" text not null,
    "country" text not null,
    "include_subdomains" boolean not null,
    "all_traffic_visits" numeric,
    "mobile_visits" numeric,
    "desktop_visits" numeric,
    "desktop_unique_visitors" numeric,
    "mobile_unique_visitors" numeric,
    "all_page_views" numeric,
    _unit_id bigint not null,
    _run_id bigint not null default current_setting('millrace.run_id')::bigint,
    _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp(),
    primary key ("date", "granularity", "domain", "country", "include_subdomains")
  ) partition by range ("date")`,

  `create table data.traffic_and_engagement_v1_history (
    "date" date not null,
    "granularity" text not null,
    "domain" text not null,
    "country" text not null,
    "include_subdomains" boolean not null,
    "all_traffic_visits" numeric,
    "mobile_visits" numeric,
    "desktop_visits" numeric,
    "desktop_unique_visitors" numeric,
    "mobile_unique_visitors" numeric,
    "all_page_views" numeric,
    _unit_id bigint not null,
    _run_id bigint not null,
    _revision integer not null,
    _loaded_at timestamptz not null,
    _valid_from timestamptz not null,
    _valid_to timestamptz not null,
    _ended_run_id bigint not null,
    primary key ("date", "granularity", "domain", "country", "include_subdomains", "_revision")
  )`,
  // Finds the rows of a unit, in any partition.
  `create index on data.traffic_and_engagement_v1 using brin (_unit_id)`,
  `create index on data.traffic_and_engagement_v1_history using brin (_unit_id)`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
