// Table and history of keywords. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table data.keywords_v1 (
    "month" date not null,
    "domain" text not null,
    "country" text not null,
    "traffic_source" text not null,
    "web_source" text not null,
    "branded_type" text not null,
    "keyword" text not null,
    "top_url" text not null,
    "clicks" numeric,
    "traffic_share" numeric,
    "difficulty" numeric,
    "competition" numeric,
    "primary_intent" text,
    "secondary_intent" text,
    "volume" numeric,
    "cpc" numeric,
    "cpc_low_bid" numeric,
    "cpc_high_bid" numeric,
    "zero_clicks_share" numeric,
    "position" numeric,
    "serp_features" text[],
    _unit_id bigint not null,
    _run_id bigint not null default current_setting('millrace.run_id')::bigint,
    _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp(),
    primary key ("month", "domain", "country", "traffic_source", "web_source", "branded_type", "keyword", "top_url")
  ) partition by range ("month")`,
  // Clicks of some keywords over all domains: read from the index alone.
  `create index on data.keywords_v1 ("keyword", "country", "month", "traffic_source", "web_source", "branded_type", "domain") include ("clicks")`,

  `create table data.keywords_v1_history (
    "month" date not null,
    "domain" text not null,
    "country" text not null,
    "traffic_source" text not null,
    "web_source" text not null,
    "branded_type" text not null,
    "keyword" text not null,
    "top_url" text not null,
    "clicks" numeric,
    "traffic_share" numeric,
    "difficulty" numeric,
    "competition" numeric,
    "primary_intent" text,
    "secondary_intent" text,
    "volume" numeric,
    "cpc" numeric,
    "cpc_low_bid" numeric,
    "cpc_high_bid" numeric,
    "zero_clicks_share" numeric,
    "position" numeric,
    "serp_features" text[],
    _unit_id bigint not null,
    _run_id bigint not null,
    _revision integer not null,
    _loaded_at timestamptz not null,
    _valid_from timestamptz not null,
    _valid_to timestamptz not null,
    _ended_run_id bigint not null,
    primary key ("month", "domain", "country", "traffic_source", "web_source", "branded_type", "keyword", "top_url", "_revision")
  )`,
  // Finds the rows of a unit, in any partition.
  `create index on data.keywords_v1 using brin (_unit_id)`,
  `create index on data.keywords_v1_history using brin (_unit_id)`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
