// The roles of a warehouse apart: who changes its shape, who loads it, who reads it; as SQL that a superuser runs.

export interface RoleNames {
  readonly owner: string
  readonly loader: string
  readonly reader: string
}

export const roleNames: RoleNames = { owner: 'millrace_owner', loader: 'millrace_loader', reader: 'bi_reader' }

const makeRole = (name: string): string =>
  `do $$ begin create role ${name} nologin; exception when duplicate_object or unique_violation then null; end $$;`

/** Runs `statement` with %I put in for each row of `query`. */
const forEach = (query: string, statement: string): string =>
  `do $$ declare one record; begin for one in ${query} loop execute format('${statement}', one.schema, one.name); end loop; end $$;`

const relations = (schemas: string, kinds: string): string =>
  `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in (${schemas}) and c.relkind in (${kinds}) order by 2`

const tables = "'r', 'p', 'v'"

/**
 * Idempotent, in one transaction; needs a warehouse that was migrated. The loader owns the tables of `data`, since PostgreSQL lets only an owner attach
 * a month; the owner is its member, so that views of the owner read them. Names go into the text unquoted: lower-case letters and _ only.
 */
export const rolesSql = ({ owner, loader, reader }: RoleNames = roleNames): string =>
  [
    '-- Run as a superuser after `millrace migrate`, and again after each migration that adds a table. Running it twice changes nothing.',
    'begin;',
    ...[owner, loader, reader].map(makeRole),
    `alter role ${reader} set default_transaction_read_only = on;`,
    `alter role ${reader} set statement_timeout = '60s';`,
    `grant ${loader} to ${owner};`,
    `do $$ begin execute format('grant connect, create, temporary on database %I to ${owner}', current_database());`,
    `  execute format('grant connect, temporary on database %I to ${loader}', current_database());`,
    `  execute format('grant connect on database %I to ${reader}', current_database()); end $$;`,
    `create schema if not exists pgboss;`,
    `alter schema pgboss owner to ${loader};`,
    `comment on schema pgboss is 'The queue of units. Operators read etl instead.';`,
    ...['etl', 'data', 'bi', 'staging'].map((schema) => `alter schema ${schema} owner to ${owner};`),
    '-- Everything in etl and bi is the owner’s, everything in data, staging and the queue the loader’s.',
    forEach(relations("'etl', 'bi'", tables), `alter table %I.%I owner to ${owner}`),
    forEach(relations("'data', 'staging', 'pgboss'", tables), `alter table %I.%I owner to ${loader}`),
    forEach(
      `select n.nspname as schema, p.oid::regprocedure::text as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'bi'`,
      `alter routine %2$s owner to ${owner}`,
    ),
    forEach(
      `select n.nspname as schema, p.oid::regprocedure::text as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = 'pgboss'`,
      `alter routine %2$s owner to ${loader}`,
    ),
    forEach(
      `select n.nspname as schema, t.typname as name from pg_type t join pg_namespace n on n.oid = t.typnamespace where n.nspname = 'pgboss' and t.typtype = 'e'`,
      `alter type %I.%I owner to ${loader}`,
    ),
    '-- The loader writes the ledger, adds to dimensions and refreshes summaries; the record of migrations it only reads.',
    `grant usage on schema etl, bi, data, staging to ${loader};`,
    `grant create on schema data, staging to ${loader};`,
    `grant select, insert, update, delete on all tables in schema etl to ${loader};`,
    `grant usage on all sequences in schema etl to ${loader};`,
    `revoke insert, update, delete on etl.kysely_migration, etl.kysely_migration_lock from ${loader};`,
    `grant select on all tables in schema bi to ${loader};`,
    forEach(
      `${relations("'bi'", "'r'").replace(' order by 2', '')} and c.relname like 'dim\\_%%' and c.relname <> 'dim_date'`,
      `grant insert on %I.%I to ${loader}`,
    ).replaceAll('%%', '%'),
    forEach(
      `${relations("'bi'", "'r'").replace(' order by 2', '')} and c.relname not like 'dim\\_%%'`,
      `grant insert, delete on %I.%I to ${loader}`,
    ).replaceAll('%%', '%'),
    '-- Readers see bi and nothing else, also what comes later.',
    `grant usage on schema bi to ${reader};`,
    `grant select on all tables in schema bi to ${reader};`,
    `grant execute on all functions in schema bi to ${reader};`,
    `alter default privileges for role ${owner} in schema bi grant select on tables to ${reader}, ${loader};`,
    `alter default privileges for role ${owner} in schema bi grant execute on functions to ${reader};`,
    `alter default privileges for role ${owner} in schema etl grant select, insert, update, delete on tables to ${loader};`,
    'commit;',
    '',
  ].join('\n')
