// Compares an answer with the loaded rows: its rows are in a table of the load's transaction, joined once by key; only differences are written.
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { ownPid, type Session } from '../db/session.ts'
import {
  type Counts,
  executePrepared,
  type Flags,
  type Lists,
  type Maybe,
  type Numbers,
  query,
  type Texts,
} from '../db/typed-row.ts'
import { type ChangesByUnit, changesBetween, readChanges, sumOfChanges } from './figure-changes.ts'
import {
  isOfValues,
  copiedColumns,
  dataTable,
  historyTable,
  inScope,
  lineage,
  measureColumns,
  names,
  sameKey,
  parsedKey,
  type UnitScope,
} from './table-columns.ts'

/** Rows of an answer, or of a part of it, with `_unit_id`. */
export type StagingTable = Awaited<ReturnType<typeof openStaging>>

/** Up to so many rows the comparison takes less time than an `analyze`. */
const largeRows = 5_000

const columnsOf = (definition: Definition): string =>
  [...copiedColumns(definition).map(({ name, type }) => `"${name}" ${type}`), '_unit_id bigint'].join(', ')

/**
 * The table is unlogged, since PostgreSQL reads such a table with several workers at once, and ends with the transaction, so that no dump and no reader sees it.
 * A tiny answer uses the session's own temporary table, which is there already, empty. `name`: quoted, with its schema. @param isNumbered rows have their place
 * in the answer as `_n`, from 1
 */
export const openStaging = async (
  session: Session,
  definition: Definition,
  { isTiny, isNumbered }: { readonly isTiny: boolean; readonly isNumbered: boolean },
) => {
  const columns = columnsOf(definition)
  if (isTiny && !isNumbered) {
    const name = `pg_temp."beside_${createHash('sha256').update(columns).digest('hex').slice(0, 12)}"`
    await sql`create temporary table if not exists ${sql.raw(name.slice('pg_temp.'.length))} (${sql.raw(columns)}) on commit delete rows`.execute(
      session.kysely,
    )
    return { name, table: sql.raw(name), isNumbered }
  }
  const name = `data."beside_${await ownPid(session)}"`
  const number = isNumbered ? '_n bigint generated always as identity (cache 10000), ' : ''
  await sql`create unlogged table ${sql.raw(`${name} (${number}${columns})`)}`.execute(session.kysely)
  return { name, table: sql.raw(name), isNumbered }
}

/** Call before the commit. */
export const closeStaging = async ({ kysely }: Session, { name }: StagingTable): Promise<void> => {
  if (!name.startsWith('pg_temp.')) await sql`drop table ${sql.raw(name)}`.execute(kysely)
}

/**
 * Planner settings of the comparison. Disks seek at little cost. The process waits for a large join, so several workers are worth it; the usual cost of a row
 * that a worker hands over would count rows which the join only compares. A merge join sorts both sides first, a hash join does not.
 */
const joinSettings = {
  work_mem: '256MB',
  random_page_cost: '1.1',
  parallel_setup_cost: '100',
  parallel_tuple_cost: '0',
  default_statistics_target: '10',
  enable_mergejoin: 'off',
} as const

/** Call once the rows are in, before they are read. */
export const prepareStaging = async ({ kysely }: Session, { table }: StagingTable, rows: number): Promise<void> => {
  if (rows <= largeRows) return
  await sql`select ${sql.join(Object.entries(joinSettings).map(([name, value]) => sql`set_config(${name}, ${value}, true)`))}`.execute(
    kysely,
  )
  await sql`analyze ${table}`.execute(kysely)
}

/**
 * Begins a load's transaction: rows written in it bear the run. Returns whether any row of the scope is loaded or has ended.
 * @param looks false: not checked
 */
export const beginLoad = async (
  { kysely }: Session,
  definition: Definition,
  scope: UnitScope,
  { runId, looks }: { readonly runId: number; readonly looks: boolean },
): Promise<boolean> => {
  // Citus cannot read an empty list of columns from its nodes.
  const isIn = (table: RawBuilder<unknown>) => sql`exists (select 1 from ${table} t where ${isOfValues(definition, scope, 't')})`
  const rows = await executePrepared(
    kysely,
    sql<Flags<'found'>>`select set_config('millrace.run_id', ${String(runId)}, true),
      ${looks ? sql`${isIn(dataTable(definition))} or ${isIn(historyTable(definition))}` : sql`false`} as found`,
  )
  return rows[0]?.found === true
}

export type Loaded = Awaited<ReturnType<typeof loadedRows>>

/** What is loaded of a scope. Call with its units locked. */
export const loadedRows = async ({ kysely }: Session, definition: Definition, scope: UnitScope) => {
  const rows = await query<Counts<'unit_id' | 'n'> & Maybe<Texts<'newest'>>>(kysely)`
    select t._unit_id as unit_id, count(*) as n, max(t._loaded_at)::text as newest from ${dataTable(definition)} t
    where ${inScope(definition, scope, 't')} group by 1`
  return {
    /** Includes numbers that are no units of the answer. */
    byUnit: new Map(rows.map((row) => [Number(row.unit_id), Number(row.n)])),
    rows: rows.reduce((sum, row) => sum + Number(row.n), 0),
    /** The newest moment that one of these rows bears; null: there are no rows. */
    newest: rows.reduce<string | null>(
      (newest, row) => (newest === null || (row.newest ?? '') > newest ? row.newest : newest),
      null,
    ),
  }
}

/**
 * The load's moment, ISO time: later than every row that it replaces and than any ended revision, even if the clock stands still or goes back. Also whether keys
 * of the scope have ended revisions, whose numbers continue. @param after moments it must follow; null: there is none
 */
export const momentOf = async (
  { kysely }: Session,
  definition: Definition,
  scope: UnitScope,
  after: readonly (string | null)[],
) => {
  const follows = after.map((one) => sql`${one}::timestamptz + interval '1 microsecond'`)
  const [row] = await query<Texts<'at'> & Flags<'has_history'>>(kysely)`
    select ended is not null as has_history, to_char(greatest(${sql.join([sql`transaction_timestamp()`, sql`ended + interval '1 microsecond'`, ...follows])}) at time zone 'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at
    from (select max(h._valid_to) as ended from ${historyTable(definition)} h where ${isOfValues(definition, scope, 'h')}) past`
  if (row === undefined) throw new EtlError('INTERNAL', `${definition.pipeline}: the time of the load could not be read.`)
  return { loadedAt: row.at, hasHistory: row.has_history }
}

/** Table of the transaction: keys whose rows must not end, because the answer has a record of them that could not be loaded. */
const protectedTable = sql.raw('pg_temp."protected"')

/** Fills the table of protected keys; false where there is none. @param keys parsed key columns, in key order */
export const protectKeys = async (
  { kysely }: Session,
  definition: Definition,
  keys: readonly (readonly (string | null)[])[],
): Promise<boolean> => {
  const inAnswer = parsedKey(definition)
  if (keys.length === 0 || inAnswer.length === 0) return false
  const list = sql.join(inAnswer.map((column) => sql`${sql.ref(column.name)} ${sql.raw(column.type)}`))
  await sql`create temporary table "protected" (${list}) on commit drop`.execute(kysely)
  const records = keys.map((key) => Object.fromEntries(inAnswer.map((column, index) => [column.name, key[index] ?? null])))
  await sql`insert into ${protectedTable} select ${names(inAnswer)}
    from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as x(${list})`.execute(kysely)
  return true
}

/** What is compared, and how it is written. */
interface Comparison {
  readonly session: Session
  readonly definition: Definition
  /** Units that keep what they have are left out of it. */
  readonly scope: UnitScope
  readonly staging: StagingTable
  readonly runId: number
  readonly moment: Awaited<ReturnType<typeof momentOf>>
  /** Rows of the scope in `staging`, and loaded. */
  readonly came: number
  readonly loaded: number
  /** See `protectKeys`. */
  readonly hasProtected: boolean
  /** Whether rows that the answer lacks end. */
  readonly mayEnd: boolean
}

/** Rows by number of the unit. */
type RowsByUnit = ReadonlyMap<number, number>

/** What was written, by unit; null: a key of the answer comes twice, and what was done must be rolled back. */
export interface Written {
  readonly inserted: RowsByUnit
  readonly updated: RowsByUnit
  readonly ended: RowsByUnit
  /** Of the rows updated. */
  readonly changes: ChangesByUnit
}

const differenceTable = sql.raw('pg_temp."difference"')

type Kind = 'added' | 'changed' | 'missing' | 'kept'

/** Writes the difference. Throws the server's unique violation where a new key comes twice. */
export const writeDifference = async (comparison: Comparison): Promise<Written | null> => {
  const nothing: RowsByUnit = new Map()
  if (comparison.loaded === 0 && comparison.scope.leftOut.length === 0)
    return { inserted: await insertFrom(comparison, staged(comparison)), updated: nothing, ended: nothing, changes: new Map() }
  if (comparison.moment.hasHistory) await continueRevisions(comparison)
  const kinds = await findDifference(comparison)
  // Keys of loaded rows are unique, so each of them is matched once or missing, unless a key of the answer comes twice.
  const matched = comparison.came - sumOf(kinds.added) - kinds.foreign
  if (matched + sumOf(kinds.missing) + sumOf(kinds.kept) !== comparison.loaded) return null
  const { mayEnd } = comparison
  const ended = kinds.missing.size === 0 || !mayEnd ? nothing : await endMissing(comparison, kinds.missing)
  const updated = kinds.changed.size === 0 ? nothing : await updateChanged(comparison, kinds.changed)
  const added = sql`(select * from ${differenceTable} where _kind = 'added')`
  const inserted = kinds.added.size === 0 ? nothing : await insertFrom(comparison, added)
  await sql`drop table ${differenceTable}`.execute(comparison.session.kysely)
  return { inserted, updated, ended, changes: kinds.changes }
}

export const sumOf = (rows: RowsByUnit): number => [...rows.values()].reduce((sum, one) => sum + one, 0)

/** Rows of the answer for units that take it, as a table. */
export const staged = ({ staging, scope: { leftOut } }: Pick<Comparison, 'staging' | 'scope'>): RawBuilder<unknown> =>
  leftOut.length === 0
    ? staging.table
    : sql`(select * from ${staging.table} b where b._unit_id <> all(${leftOut.map(String)}::bigint[]))`

/** One hash join of the answer with the loaded rows keeps only what differs, in a table of the transaction. */
const findDifference = async (comparison: Comparison) => {
  const { definition, scope, session } = comparison
  const either = [...parsedKey(definition).map(({ name }) => name), '_unit_id'].map(
    (name) => sql`coalesce(${sql.ref(`s.${name}`)}, ${sql.ref(`t.${name}`)}) as ${sql.ref(name)}`,
  )
  const others = copiedColumns(definition).filter(({ name }) => !parsedKey(definition).some((column) => column.name === name))
  const differs = [...measureColumns(definition).map(({ name }) => name), '_unit_id'].map(
    (name) => sql`${sql.ref(`s.${name}`)} is distinct from ${sql.ref(`t.${name}`)}`,
  )
  const isKept = comparison.hasProtected
    ? sql`exists (select 1 from ${protectedTable} p where ${sameKey(definition, 'p', 't')})`
    : sql`false`
  const came = sql`(select true as _came, b.* from ${staged(comparison)} b)`
  // A row whose number somebody changed to another unit's still belongs to the answer by its key.
  const isLeftOut = sql`t._unit_id = any(${scope.leftOut.map(String)}::bigint[])`
  await sql`
    create temporary table ${sql.raw('"difference"')} on commit drop as
    select case when t._revision is null then 'added' when s._came is not null then 'changed' when ${isKept} then 'kept' else 'missing' end as _kind,
      ${isLeftOut} as _is_foreign, ${changesBetween(definition, comparison.came)} as _changes, ${sql.join([...either, ...others.map(({ name }) => sql.ref(`s.${name}`))])}
    from ${came} s
    full join (select * from ${dataTable(definition)} t where ${isOfValues(definition, scope, 't')}) t on ${sameKey(definition, 's', 't')}
    where t._revision is null or case when s._came is null then not ${isLeftOut} else ${sql.join(differs, sql` or `)} end`.execute(
    session.kysely,
  )
  const rows = await query<Texts<'kind'> & Counts<'unit_id' | 'n' | 'foreign'> & Lists<Numbers<'changes'>>>(session.kysely)`
    select _kind as kind, _unit_id as unit_id, count(*) as n, count(*) filter (where _is_foreign) as foreign,
      ${sumOfChanges(definition, '_changes')} as changes from ${differenceTable} group by 1, 2`
  const of = (kind: Kind): RowsByUnit =>
    new Map(rows.filter((row) => row.kind === kind).map((row) => [Number(row.unit_id), Number(row.n)]))
  const kinds = {
    added: of('added'),
    changed: of('changed'),
    missing: of('missing'),
    kept: of('kept'),
    /** Rows among the changed that bear the number of a unit that is left out. */
    foreign: rows.reduce((sum, row) => sum + Number(row.foreign), 0),
    changes: new Map(
      rows.flatMap((row) =>
        row.kind === 'changed' ? [[Number(row.unit_id), readChanges(definition, row.changes, comparison.came)]] : [],
      ),
    ),
  }
  if (rows.reduce((sum, row) => sum + Number(row.n), 0) > 1_000) await sql`analyze ${differenceTable}`.execute(session.kysely)
  return kinds
}

/** Counts come from RETURNING: a command tag counts rows sent, not rows written, on a distributed table. */
type Counted = Counts<'n'> & Partial<Counts<'late'>>

const written = async (
  { session, definition }: Comparison,
  statement: RawBuilder<Counted>,
  expected: RowsByUnit,
): Promise<RowsByUnit> => {
  const { rows } = await statement.execute(session.kysely)
  const { n = '0', late = '0' } = rows[0] ?? {}
  if (late === '0' && Number(n) === sumOf(expected)) return expected
  throw new EtlError(
    'DATABASE',
    `data.${definition.pipeline}_v${definition.version}: ${n} rows were written where ${sumOf(expected)} were to be: somebody else, or a trigger or rule ` +
      'of the table, writes the same rows. Nothing was loaded; it is tried again.',
  )
}

const lineageNames = sql.raw(Object.keys(lineage).join(', '))

const stamp = ({ moment }: Comparison): RawBuilder<unknown> => sql`${moment.loadedAt}::timestamptz`

/** The newest ended revision of each key, and when it ended. */
const pastOf = ({ definition, scope }: Comparison): RawBuilder<unknown> => {
  const inAnswer = parsedKey(definition)
  return sql`(select ${inAnswer.length === 0 ? sql`true as whole` : names(inAnswer)}, max(h._revision) as revision, max(h._valid_to) as ended
    from ${historyTable(definition)} h where ${isOfValues(definition, scope, 'h')} ${inAnswer.length === 0 ? sql`` : sql`group by ${names(inAnswer)}`})`
}

/** A row that somebody put in by hand has revision 1: where its key has ended revisions, it gets the next number. */
const continueRevisions = async (comparison: Comparison): Promise<void> => {
  const { definition, scope, session } = comparison
  await sql`update ${dataTable(definition)} t set _revision = past.revision + 1, _loaded_at = greatest(t._loaded_at, past.ended)
    from ${pastOf(comparison)} past
    where ${sameKey(definition, 'past', 't')} and ${isOfValues(definition, scope, 't')} and t._revision <= past.revision`.execute(
    session.kysely,
  )
}

/** Inserts rows whose key is not loaded. A key that ended and comes back continues its revisions. */
const insertFrom = async (comparison: Comparison, rows: RawBuilder<unknown>): Promise<RowsByUnit> => {
  const { definition, moment, session, runId } = comparison
  const past = moment.hasHistory ? sql`left join ${pastOf(comparison)} past on ${sameKey(definition, 'past', 'd')}` : sql``
  const found = await query<Counts<'unit_id' | 'n'>>(session.kysely)`
    with new as (
      insert into ${dataTable(definition)} (${names(copiedColumns(definition))}, ${lineageNames})
      select ${sql.join(copiedColumns(definition).map(({ name }) => sql.ref(`d.${name}`)))}, d._unit_id, ${runId}::bigint,
        ${moment.hasHistory ? sql`coalesce(past.revision, 0) + 1` : sql`1`}, ${stamp(comparison)}
      from ${rows} d ${past} returning _unit_id
    ) select _unit_id as unit_id, count(*) as n from new group by 1`
  return new Map(found.map((row) => [Number(row.unit_id), Number(row.n)]))
}

const historyNames = (definition: Definition): RawBuilder<unknown> =>
  sql`${names(definition.columns)}, ${lineageNames}, _valid_from, _valid_to, _ended_run_id`

const historyValues = (comparison: Comparison): RawBuilder<unknown> =>
  sql`${names(comparison.definition.columns)}, ${lineageNames}, _loaded_at, ${stamp(comparison)}, ${comparison.runId}::bigint`

/** Leaves out lists of values: they would be checked for each row that is looked up by its key, so the planner would rather read the whole month. */
const isDifferent = ({ definition, scope: { window, slice } }: Comparison, kind: Kind): RawBuilder<unknown> => {
  const ones = Object.fromEntries(Object.entries(slice).filter(([, value]) => typeof value === 'string'))
  return sql`d._kind = ${kind} and ${sameKey(definition, 'd', 't')} and ${isOfValues(definition, { window, slice: ones }, 't')}`
}

const endMissing = (comparison: Comparison, expected: RowsByUnit): Promise<RowsByUnit> => {
  const { definition } = comparison
  return written(
    comparison,
    sql<Counted>`
      with ended as (
        delete from ${dataTable(definition)} t using ${differenceTable} d where ${isDifferent(comparison, 'missing')} returning t.*
      ), kept as (
        insert into ${historyTable(definition)} (${historyNames(definition)}) select ${historyValues(comparison)} from ended
        returning _valid_from >= _valid_to as late
      ) select count(*) as n, count(*) filter (where late) as late from kept`,
    expected,
  )
}

const updateChanged = (comparison: Comparison, expected: RowsByUnit): Promise<RowsByUnit> => {
  const { definition } = comparison
  const where = isDifferent(comparison, 'changed')
  const assignments = [...measureColumns(definition).map(({ name }) => name), '_unit_id'].map(
    (name) => sql`${sql.ref(name)} = ${sql.ref(`d.${name}`)}`,
  )
  return written(
    comparison,
    sql<Counted>`
      with kept as (
        insert into ${historyTable(definition)} (${historyNames(definition)})
        select ${historyValues(comparison)} from (select t.* from ${dataTable(definition)} t, ${differenceTable} d where ${where}) old
        returning _revision, _valid_from >= _valid_to as late
      ), changed as (
        update ${dataTable(definition)} t set ${sql.join(assignments)}, _run_id = ${comparison.runId}::bigint, _revision = t._revision + 1,
          _loaded_at = ${stamp(comparison)}
        from ${differenceTable} d where ${where} returning t._revision
      ), old as (select count(*) as rows, count(*) filter (where late) as late, coalesce(sum(_revision + 1), 0) as revisions from kept)
      -- The rows moved to the history must be the rows replaced: another load may have replaced some between the two statements.
      select new.rows as n, old.late + (case when (old.rows, old.revisions) = (new.rows, new.revisions) then 0 else 1 end) as late
      from old, (select count(*) as rows, coalesce(sum(_revision), 0) as revisions from changed) new`,
    expected,
  )
}
