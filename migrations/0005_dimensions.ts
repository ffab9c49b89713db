// Dimensions that BI tools join to: real tables with primary keys. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

/** Counts the blanks where a keyword is plain words with single blanks, as nearly all are: a regular expression takes ten times as long. */
const words = `case when keyword ~ '[^ -~]|  |^ | $' then array_length(regexp_split_to_array(btrim(keyword), '\\s+'), 1)
      else length(keyword) - length(replace(keyword, ' ', '')) + 1 end`

const statements = [
  `create schema if not exists bi`,
  // Fiscal columns follow the calendar until `millrace migrate` is told the first month of the fiscal year (setFiscalYear).
  `create table bi.dim_date (
    date date primary key,
    year integer not null,
    quarter integer not null,
    quarter_start date not null,
    quarter_name text not null,
    month integer not null,
    month_start date not null,
    month_name text not null,
    month_label text not null,
    week_start date not null,
    iso_year integer not null,
    iso_week integer not null,
    iso_week_name text not null,
    day_of_week integer not null,
    days_in_month integer not null,
    fiscal_year integer not null,
    fiscal_quarter integer not null,
    fiscal_month integer not null,
    fiscal_year_name text not null,
    fiscal_quarter_name text not null
  )`,
  `insert into bi.dim_date
    select d::date, extract(year from d)::integer, extract(quarter from d)::integer, date_trunc('quarter', d)::date, to_char(d, 'YYYY "Q"Q'),
      extract(month from d)::integer, date_trunc('month', d)::date, to_char(d, 'FMMonth'), to_char(d, 'Mon YYYY'), date_trunc('week', d)::date,
      extract(isoyear from d)::integer, extract(week from d)::integer, to_char(d, 'IYYY-"W"IW'), extract(isodow from d)::integer,
      extract(day from date_trunc('month', d) + interval '1 month' - interval '1 day')::integer,
      extract(year from d)::integer, extract(quarter from d)::integer, extract(month from d)::integer, to_char(d, '"FY"YYYY'), to_char(d, '"FY"YYYY "Q"Q')
    from generate_series('2015-01-01'::timestamp, '2049-12-31', '1 day') d`,
  `create table bi.dim_domain (
    domain text primary key,
    first_seen_at timestamptz not null default now()
  )`,
  `create table bi.dim_country (
    country text primary key,
    name text,
    first_seen_at timestamptz not null default now()
  )`,
  `create table bi.dim_category (
    category_id bigint primary key,
    name text,
    first_seen_at timestamptz not null default now()
  )`,
  `create table bi.dim_keyword (
    keyword text primary key,
    words integer not null generated always as (${words}) stored,
    first_seen_at timestamptz not null default now()
  )`,
  // Attributes of values that people maintain (attributes/*.csv, *.sql): one row per value and period of validity.
  `create table bi.attribute_versions (
    subject text not null,
    value text not null,
    attributes jsonb not null,
    valid_from timestamptz not null default clock_timestamp(),
    valid_to timestamptz,
    file text not null,
    primary key (subject, value, valid_from)
  )`,
  `create unique index attribute_versions_current on bi.attribute_versions (subject, value) where valid_to is null`,
  `comment on table bi.attribute_versions is 'Attributes that people maintain and the service does not have: groups, names, terms, page types. One row per value and period of validity.'`,
  `comment on column bi.attribute_versions.subject is 'Kind of the value, for example domain or category_id; pattern for page types.'`,
  `comment on column bi.attribute_versions.value is 'The value.'`,
  `comment on column bi.attribute_versions.attributes is 'Its attributes by name.'`,
  `comment on column bi.attribute_versions.valid_from is 'When it was first applied.'`,
  `comment on column bi.attribute_versions.valid_to is 'When it was changed or left its file; NULL while it is current.'`,
  `comment on column bi.attribute_versions.file is 'The file it came from.'`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
