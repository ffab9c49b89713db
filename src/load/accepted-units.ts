// The units of one window that take an answer, in a table of the session: merges of many units name it instead of values.
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Box, Definition } from '../core/types.ts'
import type { Session } from '../db/session.ts'
import type { HeldCode } from './merge-context.ts'
import { type AcceptedTable, type ManyUnits, sameUnit, unitColumns } from './merge-scope.ts'
import type { Numbers, Row } from '../db/row.ts'

/** What became of a unit: `accepted`, `skipped` (it holds a newer answer), or the code it is held with. */
export type UnitOutcome = 'accepted' | 'skipped' | HeldCode

const known = new WeakMap<object, Map<string, AcceptedTable>>()

/** An empty table: `_unit_id`, `_outcome` and the columns that tell units apart. Its rows go with the transaction that inserts them. */
export const openAccepted = async (session: Session, definition: Definition, box: Box): Promise<AcceptedTable> => {
  const columns = unitColumns(definition)
  for (const [name, value] of Object.entries(box.slice))
    if (typeof value !== 'string' && !columns.some((column) => column.name === name)) throw cannotShare(box, name)
  const list = columns.map(({ name, type }) => `"${name}" ${type} not null`)
  const tables = known.get(session.client) ?? new Map<string, AcceptedTable>()
  known.set(session.client, tables)
  const existing = tables.get(list.join())
  if (existing !== undefined) return existing
  const name = sql.table(`pg_temp.accepted_${createHash('sha256').update(list.join()).digest('hex').slice(0, 12)}`)
  const key = columns.length === 0 ? '' : `, primary key (${columns.map((column) => `"${column.name}"`).join(', ')})`
  await sql`create temporary table if not exists ${name} (_unit_id bigint not null, _outcome text not null${sql.raw(
    [...list.map((one) => `, ${one}`), key].join(''),
  )}) on commit delete rows`.execute(session.kysely)
  const table = { name, columns }
  tables.set(list.join(), table)
  return table
}

const cannotShare = (box: Box, dimension: string): EtlError =>
  new EtlError(
    'DEFINITION',
    `${box.key}: the answer has rows of several values of ${dimension}, and no key column says which row is whose. ` +
      `Name a field of the response in columns.${dimension}.from, or ask for one value at a time.`,
  )

/** Units the merge must leave alone after all. */
export const markOutcome = async (
  session: Session,
  { accepted }: ManyUnits,
  held: readonly { readonly unitId: number | string; readonly code: string }[],
): Promise<void> => {
  if (held.length === 0) return
  await sql`update ${accepted.name} taken set _outcome = held.code
    from unnest(${held.map(({ unitId }) => String(unitId))}::bigint[], ${held.map(({ code }) => code)}::text[]) as held (unit_id, code)
    where taken._unit_id = held.unit_id`.execute(session.kysely)
}

/** Whose a record is, and what became of that unit. */
export interface Attributed {
  readonly unitId: number
  readonly outcome: UnitOutcome
}

/** Whose records these are; null where they are no unit's of the table. @param keys staged key columns, in key order */
export const attribute = async (
  session: Session,
  { accepted }: ManyUnits,
  key: readonly { readonly name: string }[],
  keys: readonly (readonly (string | null)[])[],
): Promise<readonly (Attributed | null)[]> => {
  if (keys.length === 0) return []
  const places = accepted.columns.map(({ name }) => key.findIndex((column) => column.name === name))
  const records = keys.map((values, at) => ({
    _at: at,
    ...Object.fromEntries(accepted.columns.map(({ name }, index) => [name, values[places[index] ?? -1] ?? null])),
  }))
  const list = sql.raw(['_at integer', ...accepted.columns.map(({ name, type }) => `"${name}" ${type}`)].join(', '))
  const { rows } = await sql<Numbers<'at'> & Row<'etl.units', 'unit_id'> & Pick<Attributed, 'outcome'>>`
    select record._at as at, taken._unit_id as unit_id, taken._outcome as outcome
    from jsonb_to_recordset(${JSON.stringify(records)}::jsonb) as record (${list})
      join ${accepted.name} taken on ${sameUnit(accepted, 'taken', 'record')}`.execute(session.kysely)
  const found = new Map(rows.map((row) => [row.at, { unitId: Number(row.unit_id), outcome: row.outcome }]))
  return keys.map((_, at) => found.get(at) ?? null)
}

/** Numbers of the units that take the answer, as an array. */
export const acceptedUnits = ({ name }: AcceptedTable): RawBuilder<unknown> =>
  sql`array(select _unit_id from ${name} where _outcome = 'accepted')`
