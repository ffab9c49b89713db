// The statements of a merge. Counts come from RETURNING: a command tag counts rows sent, not rows written, on a distributed table.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { MergeContext } from './merge-context.ts'
import { protectedTable } from './protected-keys.ts'
import { sameUnit, unitIdOf } from './merge-scope.ts'
import {
  bareStagedRows,
  dataTable,
  historyTable,
  joinedScopeOf,
  measureColumns,
  names,
  rowExpressions,
  sameKey,
  scopeOf,
  stagedColumns,
  stagedKey,
  stagedRows,
} from './table-columns.ts'
import type { Counts } from '../db/row.ts'

const differenceTable = sql.raw('pg_temp."difference"')

/**
 * `outside`: rows written that the scope does not answer for. `late`: rows whose end would not lie after their beginning, because another load
 * wrote them meanwhile.
 */
type Counted = Counts<'n'> & Partial<Counts<'outside' | 'late'>>

const count = async (context: MergeContext, statement: RawBuilder<Counted>): Promise<number> => {
  const { rows } = await statement.execute(context.session.kysely)
  const { n = '0', outside = '0', late = '0' } = rows[0] ?? {}
  if (outside !== '0') throw outsideOf(context, outside)
  if (late !== '0') throw overtaken(context)
  return Number(n)
}

const outsideOf = ({ scope }: MergeContext, outside: string): EtlError =>
  new EtlError(
    'WRONG_ECHO',
    `${scope.name}: ${outside} rows of the answer lie outside the window or the values asked for. Nothing was loaded; check its landing and correct the definition.`,
  )

/** Only loads that overlap and did not lock their units could do this to each other. */
const overtaken = ({ scope }: MergeContext): EtlError =>
  new EtlError(
    'DATABASE',
    `${scope.name}: another load wrote the same rows while this one was merged. Nothing was loaded; it is tried again.`,
  )

const stamp = ({ loadedAt }: MergeContext): RawBuilder<unknown> => sql`${loadedAt}::timestamptz`

const lineage = (context: MergeContext, alias: string, revision: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`${unitIdOf(context.scope, alias)}, ${context.runId}::bigint, ${revision}, ${stamp(context)}`

const lineageNames = sql.raw('_unit_id, _run_id, _revision, _loaded_at')

/** A key that ended and comes back goes on with its revisions. */
const pastRevisions = (context: MergeContext, alias: string): { join: RawBuilder<unknown>; revision: RawBuilder<unknown> } => {
  if (!context.hasHistory) return { join: sql``, revision: sql`1` }
  const { definition, scope } = context
  const staged = stagedKey(definition)
  const keys = staged.length === 0 ? sql`true as whole` : names(staged)
  const group = staged.length === 0 ? sql`` : sql`group by ${names(staged)}`
  return {
    join: sql`left join (select ${keys}, max(h._revision) as revision from ${historyTable(definition)} h
      where ${scopeOf(definition, scope, 'h')} ${group}) past on ${sameKey(definition, 'past', alias)}`,
    revision: sql`coalesce(past.revision, 0) + 1`,
  }
}

/** How new rows are inserted. */
export interface InsertOptions {
  /** A month that is not attached yet; default the whole table. */
  readonly target?: RawBuilder<unknown>
  /** `order by` of the staged rows, named `s`. */
  readonly order?: RawBuilder<unknown>
}

/** Every staged row is new: nothing of the scope is loaded. */
export const insertAll = (context: MergeContext, { target, order = sql`` }: InsertOptions): Promise<number> => {
  const { definition, scope, staging } = context
  const past = pastRevisions(context, 's')
  return count(
    context,
    sql<Counted>`
      with new as (
        insert into ${target ?? dataTable(definition)} (${names(definition.columns)}, ${lineageNames})
        select ${sql.join(rowExpressions(definition, scope, 's'))}, ${lineage(context, 's', past.revision)}
        from ${stagedRows(definition, scope, staging.table)} s ${past.join} ${order} returning 1
      ) select (select count(*) from new) as n, ${outsideOfStaged(context)} as outside`,
  )
}

/** Rows of many units were found by what tells them apart; a unit's own are all that is staged, and each must be its own. */
const outsideOfStaged = ({ definition, scope, staging }: MergeContext): RawBuilder<unknown> => {
  if (scope.kind === 'many') return sql`0::bigint`
  const values = rowExpressions(definition, scope, 's')
  const named = definition.columns.map((column, place) => sql`${values[place]} as ${sql.ref(column.name)}`)
  return sql`(select count(*) from (select ${sql.join(named)} from ${sql.raw(staging.table)} s) t
    where (${scopeOf(definition, scope, 't')}) is not true)`
}

/** Counts of rows. */
export interface Applied {
  readonly inserted: number
  readonly updated: number
  readonly ended: number
  /** False where a staged key comes twice: then the rest means nothing. */
  readonly isDistinct: boolean
}

/** Writes the difference that was found, and drops it. */
export const applyDifference = async (context: MergeContext, kinds: Kinds): Promise<Applied> => {
  const matched = context.stagedRows - kinds.added
  // Keys of loaded rows are unique, so each of them is matched once or missing, unless a staged key comes twice.
  const isDistinct = context.hasProtected || matched + kinds.missing === context.previousRows
  if (!isDistinct) return { inserted: 0, updated: 0, ended: 0, isDistinct }
  const ended = kinds.missing === 0 || !context.mayEnd ? 0 : await endMissing(context)
  const updated = kinds.changed === 0 ? 0 : await updateChanged(context)
  const inserted = kinds.added === 0 ? 0 : await insertAdded(context)
  await dropDifference(context)
  return { inserted, updated, ended, isDistinct }
}

/** Idempotent. */
export const dropDifference = async ({ session }: MergeContext): Promise<void> => {
  await sql`drop table ${differenceTable}`.execute(session.kysely)
}

/** Counts of keys in the difference. */
export interface Kinds {
  readonly added: number
  readonly changed: number
  readonly missing: number
}

/** One hash join of the answer with the loaded rows keeps only what differs, in a table of the transaction. */
export const findDifference = async (context: MergeContext): Promise<Kinds> => {
  const { definition, scope, staging, session } = context
  const measures = measureColumns(definition)
  const keyed = stagedKey(definition).map(
    (column) => sql`coalesce(${sql.ref(`s.${column.name}`)}, ${sql.ref(`t.${column.name}`)}) as ${sql.ref(column.name)}`,
  )
  const values = measures.filter((column) => column.origin === 'response').map((column) => sql.ref(`s.${column.name}`))
  const differs = measures.map((column) => sql`${sql.ref(`s.${column.name}`)} is distinct from ${sql.ref(`t.${column.name}`)}`)
  // Of a whole box only the rows that differ are asked whose they are.
  const isWhole = scope.kind === 'many' && scope.isWhole
  const unit = scope.kind === 'one' || isWhole ? sql`` : sql`, _unit`
  const staged = sql`(select true as _staged${unit}, ${names(stagedColumns(definition))}
    from ${bareStagedRows(definition, scope, staging.table)} came)`
  const notProtected = context.hasProtected
    ? sql`and not exists (select 1 from ${protectedTable} p where ${sameKey(definition, 'p', 't')})`
    : sql``
  await sql`
    create temporary table ${sql.raw('"difference"')} on commit drop as ${isWhole ? sql`select found.*, taken._unit_id as _unit from (` : sql``}
    select case when t._revision is null then 'added' when s._staged is null then 'missing' else 'changed' end as _kind${unit},
      ${sql.join([...keyed, ...values])}
    from ${staged} s
    full join (select * from ${dataTable(definition)} t where ${scopeOf(definition, scope, 't')}) t on ${sameKey(definition, 's', 't')}
    where t._revision is null or (s._staged is null ${notProtected})
      or (s._staged is not null and (${differs.length === 0 ? sql`false` : sql.join(differs, sql` or `)}))
    ${isWhole ? sql`) found left join ${scope.accepted.name} taken on ${sameUnit(scope.accepted, 'taken', 'found')}` : sql``}`.execute(
    session.kysely,
  )
  const { rows } = await sql<Counts<'added' | 'changed' | 'missing'>>`
    select count(*) filter (where _kind = 'added') as added, count(*) filter (where _kind = 'changed') as changed,
      count(*) filter (where _kind = 'missing') as missing from ${differenceTable}`.execute(session.kysely)
  const [row] = rows
  const kinds = { added: Number(row?.added ?? 0), changed: Number(row?.changed ?? 0), missing: Number(row?.missing ?? 0) }
  if (kinds.added + kinds.changed + kinds.missing > 1_000) await sql`analyze ${differenceTable}`.execute(session.kysely)
  return kinds
}

const historyNames = (context: MergeContext): RawBuilder<unknown> =>
  sql`${names(context.definition.columns)}, ${lineageNames}, _valid_from, _valid_to, _ended_run_id`

const historyValues = (context: MergeContext): RawBuilder<unknown> =>
  sql`${names(context.definition.columns)}, ${lineageNames}, _loaded_at, ${stamp(context)}, ${context.runId}::bigint`

const endMissing = (context: MergeContext): Promise<number> => {
  const { definition, scope } = context
  return count(
    context,
    sql<Counted>`
      with ended as (
        delete from ${dataTable(definition)} t using ${differenceTable} d
        where d._kind = 'missing' and ${sameKey(definition, 'd', 't')} and ${joinedScopeOf(definition, scope, 't')} returning t.*
      ), kept as (
        insert into ${historyTable(definition)} (${historyNames(context)}) select ${historyValues(context)} from ended
        returning _valid_from >= _valid_to as late
      ) select count(*) as n, count(*) filter (where late) as late from kept`,
  )
}

const updateChanged = (context: MergeContext): Promise<number> => {
  const { definition, scope } = context
  const where = sql`d._kind = 'changed' and ${sameKey(definition, 'd', 't')} and ${joinedScopeOf(definition, scope, 't')}`
  const assignments = measureColumns(definition)
    .filter((column) => column.origin === 'response')
    .map((column) => sql`${sql.ref(column.name)} = ${sql.ref(`d.${column.name}`)}`)
  return count(
    context,
    sql<Counted>`
      with kept as (
        insert into ${historyTable(definition)} (${historyNames(context)})
        select ${historyValues(context)} from (select t.* from ${dataTable(definition)} t, ${differenceTable} d where ${where}) old
        returning _revision, _valid_from >= _valid_to as late
      ), changed as (
        update ${dataTable(definition)} t set ${sql.join(assignments)}, _unit_id = ${unitIdOf(scope, 'd')},
          _run_id = ${context.runId}::bigint, _revision = t._revision + 1, _loaded_at = ${stamp(context)}
        from ${differenceTable} d where ${where} returning t._revision
      ), old as (select count(*) as rows, count(*) filter (where late) as late, coalesce(sum(_revision + 1), 0) as revisions from kept)
      -- What was kept must be what was replaced: another load may have replaced it between the two.
      select new.rows as n, old.late + (case when (old.rows, old.revisions) = (new.rows, new.revisions) then 0 else 1 end) as late
      from old, (select count(*) as rows, coalesce(sum(_revision), 0) as revisions from changed) new`,
  )
}

const insertAdded = (context: MergeContext): Promise<number> => {
  const { definition, scope } = context
  const past = pastRevisions(context, 'd')
  const inside = scope.kind === 'one' ? scopeOf(definition, scope, 't') : sql`true`
  return count(
    context,
    sql<Counted>`
      with new as (
        insert into ${dataTable(definition)} as t (${names(definition.columns)}, ${lineageNames})
        select ${sql.join(rowExpressions(definition, scope, 'd'))}, ${lineage(context, 'd', past.revision)}
        from ${differenceTable} d ${past.join} where d._kind = 'added' returning (${inside}) as inside
      ) select count(*) as n, count(*) filter (where inside is not true) as outside from new`,
  )
}
