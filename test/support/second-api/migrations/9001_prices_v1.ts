// Table and history of prices. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table data.prices_v1 (
    "month" date not null,
    "shop" text not null,
    "currency" text not null,
    "product" text not null,
    "price" numeric,
    _unit_id bigint not null,
    _run_id bigint not null default current_setting('millrace.run_id')::bigint,
    _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp(),
    primary key ("month", "shop", "currency", "product")
  ) partition by range ("month")`,

  `create table data.prices_v1_history (
    "month" date not null,
    "shop" text not null,
    "currency" text not null,
    "product" text not null,
    "price" numeric,
    _unit_id bigint not null,
    _run_id bigint not null,
    _revision integer not null,
    _loaded_at timestamptz not null,
    _valid_from timestamptz not null,
    _valid_to timestamptz not null,
    _ended_run_id bigint not null,
    primary key ("month", "shop", "currency", "product", "_revision")
  )`,

  'create index on data.prices_v1 using brin (_unit_id)',

  'create index on data.prices_v1_history using brin (_unit_id)',

  `create table bi.dim_shop (
    "shop" text primary key,
    "quarter" text,
    first_seen_at timestamptz not null default now()
  )`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
