// Separate roles of a warehouse (owner for DDL, loader, reader), as SQL that a superuser runs.

/** docs/security.md. */
const names = { owner: 'millrace_owner', loader: 'millrace_loader', reader: 'bi_reader' }
const { owner, loader, reader } = names

/** Members may have no rights in a database yet: `rolesSql` grants them after its migrations. */
export const loaderRole = loader

/**
 * Session settings by role. A role's settings are not inherited by the logins that are its members, so each login gets them too, unless it has its own.
 * A reader's query may take up to a minute, and its transactions must not block vacuum for long; DDL must not make readers queue for long; a
 * loader waits for another load, but not for ever.
 */
export const sessionLimits: Readonly<Record<keyof typeof names, Readonly<Record<string, string>>>> = {
  owner: { lock_timeout: '2min', idle_in_transaction_session_timeout: '15min' },
  loader: { lock_timeout: '15min', idle_in_transaction_session_timeout: '15min' },
  reader: {
    default_transaction_read_only: 'on',
    statement_timeout: '60s',
    // JIT compilation of a plan over many months takes longer than the query: 5.2 s instead of 20 ms were seen.
    jit: 'off',
    lock_timeout: '30s',
    idle_in_transaction_session_timeout: '5min',
  },
}

const limitSessions = (): string[] => {
  const all = (['owner', 'loader', 'reader'] as const).flatMap((word) =>
    Object.entries(sessionLimits[word]).map(([name, value]) => ({ role: names[word], name, value })),
  )
  const values = all.map(({ role, name, value }) => `('${role}', '${name}', '${value}')`).join(', ')
  return [
    '-- Limits of a session. Logins do not inherit them, so each gets those it has not set itself: run this again after making one.',
    ...all.map(({ role, name, value }) => `alter role ${role} set ${name} = '${value}';`),
    `do $$ declare one record; begin
  for one in select r.rolname as login, l.name, l.value from (values ${values}) as l (role, name, value)
    join pg_roles g on g.rolname = l.role join pg_auth_members m on m.roleid = g.oid join pg_roles r on r.oid = m.member
    where r.rolcanlogin and not r.rolsuper and r.rolname <> current_user and (l.role <> '${reader}' or not pg_has_role(r.oid, '${loader}', 'member'))
      and not exists (select 1 from unnest(r.rolconfig) as s (setting) where split_part(s.setting, '=', 1) = l.name)
  loop execute format('alter role %I set %s = %L', one.login, one.name, one.value); end loop; end $$;`,
  ]
}

const makeRole = (name: string): string =>
  `do $$ begin create role ${name} nologin; exception when duplicate_object or unique_violation then null; end $$;`

/** Runs `statement` for each row of `query`; %I takes its `schema` and `name`. */
const forEach = (query: string, statement: string): string =>
  `do $$ declare one record; begin for one in ${query} loop execute format('${statement}', one.schema, one.name); end loop; end $$;`

const relations = (schemas: string, kinds: string, more = ''): string =>
  `select n.nspname as schema, c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname in (${schemas}) and c.relkind in (${kinds})${more} order by 2`

const tables = "'r', 'p', 'v'"

/** Views of bi call functions of etl with the reader's rights. Some databases grant new functions to no role, so readers are granted these. */
export const functionsOfViews = `select '' as schema, oid::regprocedure::text as name from pg_proc
    where pronamespace = 'etl'::regnamespace and proname <> 'analyze_published'`

/**
 * Idempotent, one transaction; needs a migrated warehouse. The loader owns the tables of `data`, because PostgreSQL lets only a table's owner attach
 * a partition; the owner is a member of the loader, so that the owner's views can read them.
 */
export const rolesSql = (): string =>
  [
    '-- Run as a superuser, or a managed server’s administrator, after `millrace migrate`, and again after each migration that adds a table. Running it twice changes nothing.',
    'begin;',
    ...[owner, loader, reader].map(makeRole),
    '-- A managed server lends no superuser. Its administrator, whose the warehouse is so far, hands it over as a member.',
    `do $$ begin if not (select rolsuper from pg_roles where rolname = current_user) then grant ${owner}, ${loader} to current_user; end if; end $$;`,
    `grant ${loader} to ${owner};`,
    '-- Lists that definitions read by a query are read as a reader (for_each: query).',
    `grant ${reader} to ${loader};`,
    ...limitSessions(),
    `do $$ begin execute format('grant connect, create, temporary on database %I to ${owner}', current_database());`,
    `  execute format('grant connect, temporary on database %I to ${loader}', current_database());`,
    `  execute format('grant connect on database %I to ${reader}', current_database()); end $$;`,
    ...['etl', 'data', 'bi'].map((schema) => `alter schema ${schema} owner to ${owner};`),
    '-- Everything in etl and bi is the owner’s, everything in data the loader’s.',
    `grant create on schema data to ${loader};`,
    forEach(relations("'etl', 'bi'", tables), `alter table %I.%I owner to ${owner}`),
    `alter sequence etl.ask_numbers owner to ${owner};`,
    forEach(relations("'data'", tables), `alter table %I.%I owner to ${loader}`),
    forEach(
      `select n.nspname as schema, p.oid::regprocedure::text as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname in ('etl', 'bi')`,
      `alter routine %2$s owner to ${owner}`,
    ),
    '-- The loader writes the ledger, adds to dimensions, applies attributes and refreshes summaries; the record of migrations it only reads.',
    `grant usage on schema etl, bi, data to ${loader};`,
    `grant select, insert, update, delete on all tables in schema etl to ${loader};`,
    `grant usage on all sequences in schema etl to ${loader};`,
    // A restored warehouse must set the sequence above the numbers that it finds.
    `grant update on sequence etl.ask_numbers to ${loader};`,
    `revoke insert, update, delete on etl.kysely_migration, etl.kysely_migration_lock from ${loader};`,
    `grant select on all tables in schema bi to ${loader};`,
    forEach(
      relations("'bi'", "'r'", " and c.relname like 'dim\\_%' and c.relname <> 'dim_date'"),
      `grant insert, update on %I.%I to ${loader}`,
    ),
    `grant insert, update on bi.attribute_versions to ${loader};`,
    forEach(
      relations("'bi'", "'r'", " and c.relname not like 'dim\\_%' and c.relname <> 'attribute_versions'"),
      `grant insert, delete on %I.%I to ${loader}`,
    ),
    '-- Also where new functions are withheld from everybody. Statistics of bi are renewed with the owner’s rights.',
    `grant execute on all functions in schema etl to ${loader};`,
    '-- Readers see bi and nothing else, also what comes later.',
    `grant usage on schema bi to ${reader};`,
    `grant select on all tables in schema bi to ${reader};`,
    `grant execute on all functions in schema bi to ${reader};`,
    forEach(functionsOfViews, `grant execute on function %2$s to ${reader}`),
    '-- By default everybody may make tables in public (in a database that came from PostgreSQL 14), temporary ones, and large objects.',
    `do $$ begin execute format('revoke temporary on database %I from public', current_database());`,
    `  if to_regnamespace('public') is not null then revoke create on schema public from public; end if; end $$;`,
    forEach(
      `select '' as schema, oid::regprocedure::text as name from pg_proc where pronamespace = 'pg_catalog'::regnamespace and proname in ('lo_creat', 'lo_create', 'lo_from_bytea')`,
      'revoke execute on function %2$s from public',
    ),
    `alter default privileges for role ${owner} in schema bi grant select on tables to ${reader}, ${loader};`,
    `alter default privileges for role ${owner} in schema bi grant execute on functions to ${reader};`,
    `alter default privileges for role ${owner} in schema etl grant select, insert, update, delete on tables to ${loader};`,
    `alter default privileges for role ${owner} in schema etl grant usage on sequences to ${loader};`,
    `alter default privileges for role ${owner} in schema etl grant execute on functions to ${loader};`,
    'commit;',
    '',
  ].join('\n')
