// Table and history of shopper_category_performance. Frozen once applied: a later change is a new migration. Imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table data.shopper_category_performance_v1 (
    "date" date not null,
    "granularity" text not null,
    "domain" text not null,
    "category_id" bigint not null,
    "product_views" numeric,
    "units_sold" numeric,
    "revenue" numeric,
    "cvr" numeric,
    _unit_id bigint not null,
    _run_id bigint not null default current_setting('millrace.run_id')::bigint,
    _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp(),
    primary key ("date", "granularity", "domain", "category_id")
  ) partition by range ("date")`,

  `create table data.shopper_category_performance_v1_history (
    "date" date not null,
    "granularity" text not null,
    "domain" text not null,
    "category_id" bigint not null,
    "product_views" numeric,
    "units_sold" numeric,
    "revenue" numeric,
    "cvr" numeric,
    _unit_id bigint not null,
    _run_id bigint not null,
    _revision integer not null,
    _loaded_at timestamptz not null,
    _valid_from timestamptz not null,
    _valid_to timestamptz not null,
    _ended_run_id bigint not null,
    primary key ("date", "granularity", "domain", "category_id", "_revision")
  )`,
  // Finds the rows of a unit, in any partition.
  `create index on data.shopper_category_performance_v1 using brin (_unit_id)`,
  `create index on data.shopper_category_performance_v1_history using brin (_unit_id)`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
