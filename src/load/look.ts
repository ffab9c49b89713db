// The look before a merge: what is loaded of the scope, from which moment on it may change, and which units the answer must leave alone.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Session } from '../db/session.ts'
import { markOutcome } from './accepted-units.ts'
import type { HeldUnit, MergeContext, MergeRequest } from './merge-context.ts'
import { type ManyUnits, type MergeScope, type OneUnit, sameUnit } from './merge-scope.ts'
import { protectedTable } from './protected-keys.ts'
import { dataTable, historyTable, joinedScopeOf, scopeOf, stagedRows } from './table-columns.ts'
import type { Counts, Flags, Texts } from '../db/row.ts'

/** What is known before the table is read. */
export interface LookOptions {
  readonly hasProtected: boolean
  /** Rows of the one unit in staging, none of them repeated as far as is known. */
  readonly staged: number
  /** Keys of the one unit whose records were rejected or conflict. */
  readonly refused: number
}

type Looked = Counts<'previous' | 'staged'> & Texts<'at'> & Flags<'has_history'>

type Found = Pick<MergeContext, 'held' | 'withoutRows'>

/** Units found to be held are marked as such: the scope is without them from here on. */
export const lookAtScope = async (session: Session, request: MergeRequest, options: LookOptions): Promise<MergeContext> =>
  request.scope.kind === 'one'
    ? lookAtUnit(session, request, request.scope, options)
    : request.scope.isWhole && !options.hasProtected
      ? lookAtWhole(session, request, request.scope)
      : lookAtUnits(session, request, request.scope, options)

/** @param loaded newest moment a row of the scope bears @param ended last end of one */
const moment = (loaded: RawBuilder<unknown>, ended: RawBuilder<unknown>, { lastLoad }: MergeRequest): RawBuilder<unknown> => {
  const last = lastLoad === undefined ? sql`null::timestamptz` : lastLoad
  return sql`to_char(greatest(transaction_timestamp(), ${loaded} + interval '1 microsecond', ${ended}, ${last} + interval '1 microsecond')
    at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

const contextOf = (
  session: Session,
  request: MergeRequest,
  row: Looked | undefined,
  hasProtected: boolean,
  found: Found,
): MergeContext => {
  if (row === undefined) throw new EtlError('INTERNAL', `${request.scope.name}: what is loaded of it could not be counted.`)
  return {
    ...request,
    session,
    loadedAt: row.at,
    previousRows: Number(row.previous),
    stagedRows: Number(row.staged),
    hasHistory: row.has_history,
    hasProtected,
    ...found,
    isJudged: true,
  }
}

const lookAtUnit = async (
  session: Session,
  request: MergeRequest,
  scope: OneUnit,
  { hasProtected, staged, refused }: LookOptions,
): Promise<MergeContext> => {
  const { rows } = await lookAtRows(session, request, scope, staged)
  const withoutRows = staged + refused === 0 ? 'all' : []
  const context = contextOf(session, request, rows[0], hasProtected, { held: [], withoutRows })
  const code = heldCode(request.shrink, { staged, refused, previous: context.previousRows })
  if (code === null) return context
  return { ...context, held: [{ unitId: null, code, rows: staged, previousRows: context.previousRows }] }
}

const lookAtRows = (session: Session, request: MergeRequest, scope: MergeScope, staged: number) => {
  const { definition } = request
  return sql<Looked>`
    select previous, ${staged}::bigint as staged, past.ended is not null as has_history,
      ${moment(sql`loaded`, sql`past.ended`, request)} as at
    from (select count(*) as previous, max(t._loaded_at) as loaded from ${dataTable(definition)} t
        where ${scopeOf(definition, scope, 't')}) present,
      (select max(h._valid_to) as ended from ${historyTable(definition)} h where ${scopeOf(definition, scope, 'h')}) past`.execute(
    session.kysely,
  )
}

interface UnitRows {
  /** Rows that can be loaded. */
  readonly staged: number
  /** Records that cannot. */
  readonly refused: number
  readonly previous: number
}

/** The same is said in SQL in `lookAtUnits`. */
const heldCode = (shrink: number | null, { staged, refused, previous }: UnitRows): HeldUnit['code'] | null => {
  if (shrink === null) return null
  if (staged === 0 && refused > 0) return 'TOO_MANY_REJECTS'
  if (previous === 0) return null
  return staged === 0 || previous - staged - refused > shrink * previous ? 'SHRUNK' : null
}

interface LookedAtUnits extends Looked {
  readonly held: readonly HeldUnit[]
  readonly without_rows: readonly number[]
}

/** All units of a box at once; which of them lose rows shows in the difference. */
const lookAtWhole = async (session: Session, request: MergeRequest, scope: ManyUnits): Promise<MergeContext> => {
  const { rows } = await lookAtRows(session, request, scope, request.rows)
  const found = { held: [], withoutRows: 'unknown' } as const
  return { ...contextOf(session, request, rows[0], false, found), isJudged: request.shrink === null }
}

/** Unit by unit: those that would lose too much, or that have nothing but rejected records, are held. */
export const lookAtUnits = async (
  session: Session,
  request: MergeRequest,
  scope: ManyUnits,
  { hasProtected }: LookOptions,
): Promise<MergeContext> => {
  const { definition, staging, shrink } = request
  const { accepted } = scope
  const refused = hasProtected
    ? sql`select taken._unit_id as unit_id, count(*) as n from ${protectedTable} p join ${accepted.name} taken
        on ${sameUnit(accepted, 'taken', 'p')} group by 1`
    : sql`select null::bigint as unit_id, 0::bigint as n where false`
  const code =
    shrink === null
      ? sql`null`
      : sql`case when staged = 0 and refused > 0 then 'TOO_MANY_REJECTS'
          when previous > 0 and (staged = 0 or previous - staged - refused > ${shrink}::float8 * previous) then 'SHRUNK' end`
  const { rows } = await sql<LookedAtUnits>`
    with came as (select _unit as unit_id, count(*) as n from ${stagedRows(definition, scope, staging.table)} came group by 1),
      present as (select taken._unit_id as unit_id, count(*) as n, max(t._loaded_at) as loaded from ${dataTable(definition)} t
        join ${accepted.name} taken on taken._outcome = 'accepted' and ${sameUnit(accepted, 'taken', 't')}
        where ${joinedScopeOf(definition, scope, 't')} group by 1),
      refused as (${refused}),
      units as (select taken._unit_id as unit_id, coalesce(came.n, 0) as staged, coalesce(refused.n, 0) as refused,
          coalesce(present.n, 0) as previous, present.loaded
        from ${accepted.name} taken left join came on came.unit_id = taken._unit_id left join refused on refused.unit_id = taken._unit_id
          left join present on present.unit_id = taken._unit_id where taken._outcome = 'accepted'),
      judged as (select *, ${code} as code from units),
      past as (select max(h._valid_to) as ended from ${historyTable(definition)} h where ${scopeOf(definition, scope, 'h')})
    select coalesce(sum(staged) filter (where code is null), 0)::bigint as staged,
      coalesce(sum(previous) filter (where code is null), 0)::bigint as previous,
      (select ended is not null from past) as has_history,
      ${moment(sql`max(loaded)`, sql`(select ended from past)`, request)} as at,
      coalesce(jsonb_agg(jsonb_build_object('unitId', unit_id, 'code', code, 'rows', staged, 'previousRows', previous) order by unit_id)
        filter (where code is not null), '[]') as held,
      coalesce(jsonb_agg(unit_id) filter (where code is null and staged + refused = 0), '[]') as without_rows from judged`.execute(
    session.kysely,
  )
  const held = rows[0]?.held ?? []
  await markOutcome(
    session,
    scope,
    held.map(({ unitId, code: why }) => ({ unitId: unitId ?? 0, code: why })),
  )
  const rest = held.length === 0 ? scope : { ...scope, isWhole: false }
  const found = { held, withoutRows: rows[0]?.without_rows ?? [] }
  return contextOf(session, { ...request, scope: rest }, rows[0], hasProtected, found)
}
