// Table and history of charges. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table data.charges_v1 (
    "date" date not null,
    "customer" text not null,
    "charge" text not null,
    "amount" bigint,
    "amount_refunded" bigint,
    "currency" text,
    "status" text,
    _unit_id bigint not null,
    _run_id bigint not null default current_setting('millrace.run_id')::bigint,
    _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp(),
    primary key ("date", "customer", "charge")
  ) partition by range ("date")`,

  `create table data.charges_v1_history (
    "date" date not null,
    "customer" text not null,
    "charge" text not null,
    "amount" bigint,
    "amount_refunded" bigint,
    "currency" text,
    "status" text,
    _unit_id bigint not null,
    _run_id bigint not null,
    _revision integer not null,
    _loaded_at timestamptz not null,
    _valid_from timestamptz not null,
    _valid_to timestamptz not null,
    _ended_run_id bigint not null,
    primary key ("date", "customer", "charge", "_revision")
  )`,

  'create index on data.charges_v1 using brin (_unit_id)',

  'create index on data.charges_v1_history using brin (_unit_id)',

  `create table bi.dim_customer (
    "customer" text primary key,
    "region" text,
    first_seen_at timestamptz not null default now()
  )`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
