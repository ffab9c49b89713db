// Comments for the catalog, made from the definitions, and the dimension table that each key column of the facts joins to.
import { type RawBuilder, sql } from 'kysely'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { RoundingMode } from '../core/cast-cell.ts'
import type { Column, Definition } from '../core/types.ts'
import { relationColumns } from '../db/catalog.ts'
import type { Db } from '../db/tables.ts'
import type { Texts } from '../db/typed-row.ts'

/** `Clicks to the domain. Unit: clicks. From the field clicks. NULL means no data, never 0.` */
export const columnComment = (column: Column): string => {
  const parts = [sentence(column.description || column.name)]
  if (column.unit !== null) parts.push(`Unit: ${column.unit}.`)
  if (column.origin === 'response') parts.push(`From the field ${column.from[0] ?? column.name}.`)
  else
    parts.push(
      { window: 'From the requested period.', slice: 'As requested.', param: 'As requested in the parameters.' }[column.origin],
    )
  if (column.rounding !== null) parts.push(roundedWords[column.rounding])
  if (column.ifAbsent !== null) parts.push(`${column.ifAbsent} where the record lacks the field, NULL where it is null.`)
  else if (column.nullable) parts.push('NULL means no data, never 0.')
  if (column.isKey) parts.push('Part of the key.')
  return parts.join(' ')
}

const roundedWords: Readonly<Record<RoundingMode, string>> = {
  half_up: 'Rounded to whole numbers, half away from zero.',
  half_even: 'Rounded to whole numbers, half to even.',
  down: 'Cut to whole numbers.',
}

const sentence = (text: string): string => (/[.!?]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`)

/** Descriptions of the columns that every table or view has, by name. */
export const lineageComments: Readonly<Record<string, string>> = {
  _unit_id:
    'The unit of the row: etl.unit_list. With _loaded_at it identifies the load (etl.loads), and so the answer, landing, job and requests.',
  _run_id: 'The run that loaded the row: etl.runs.',
  _revision: 'Revision number of the row, from 1.',
  _loaded_at: 'When this value was loaded: loaded_at of its load in etl.loads.',
  _valid_from: 'When this value was loaded.',
  _valid_to: 'When this value was replaced, or its row was missing from a newer answer.',
  _ended_run_id: 'The run that replaced or ended it: etl.runs.',
  valid_from: 'When this value was loaded, or its version published.',
  valid_to:
    'When this value was replaced, its row was missing from a newer answer, or another version was published; NULL while current.',
  _version: 'Version of the pipeline that loaded the value.',
  is_current: 'Whether this is the current value.',
  is_final:
    'Whether the period is older than the look-back and its rows were not cut off at a limit. A full check or --force may still change it.',
  restated_at: 'When its current revision was loaded; NULL for the first revision.',
}

/** Columns of bi.freshness, by name. */
export const freshnessComments: Readonly<Record<string, string>> = {
  pipeline: 'The pipeline.',
  version: "The pipeline's version.",
  newest_window: 'First day of the newest window that is loaded.',
  oldest_window: 'First day of the oldest window that is loaded.',
  last_loaded_at: 'When a unit was last loaded.',
  last_checked_at: 'When the service was last asked whether anything changed.',
  units_loaded: 'Units loaded at least once, also of slices that left the lists. Unit: units.',
  units_waiting: 'Units that wait for a report, the rate limit or a budget. Unit: units.',
  units_held: 'Units that wait for a person. Unit: units.',
  units_failed: 'Units that failed and are tried again by the next run. Unit: units.',
  rows_loaded: 'Current rows of the loaded units. Unit: rows.',
  slices_left: 'Slices that left the lists: their rows stay, nothing more is requested. Unit: slices.',
}

/** A dimension table in words: its name in bi, what it is, and its columns, the key first. */
interface DimensionWords {
  readonly name: string
  readonly about: string
  readonly columns: Readonly<Record<string, string>>
}

/** The one dimension table that no source declares: the calendar, which every source has (migrations/0005_dimensions.ts). */
export const calendar: DimensionWords = {
  name: 'dim_date',
  about: 'Every day from 2015 to 2049, without a gap. Join month or date.',
  columns: {
    date: 'The day.',
    year: 'Its year.',
    quarter: 'Its quarter, 1 to 4.',
    quarter_start: "Its quarter's first day.",
    quarter_name: 'Its quarter as sortable text, for example 2026 Q2.',
    month: 'Its month, 1 to 12.',
    month_start: "Its month's first day.",
    month_name: "Its month's name in English.",
    month_label: 'Its month as text, for example Apr 2026.',
    week_start: 'The Monday of its ISO week.',
    iso_year: 'The year its ISO week belongs to.',
    iso_week: 'Its ISO week, 1 to 53.',
    iso_week_name: 'Its ISO week as sortable text, for example 2026-W07.',
    day_of_week: 'Monday 1 to Sunday 7.',
    days_in_month: 'Days of its month. Unit: days.',
    fiscal_year:
      'Its fiscal year, named after the calendar year it ends in; the calendar year unless MILLRACE_FISCAL_YEAR_FROM is set.',
    fiscal_quarter: 'Its quarter of the fiscal year, 1 to 4.',
    fiscal_month: 'Its month of the fiscal year, 1 to 12.',
    fiscal_year_name: 'Its fiscal year as text, for example FY2026.',
    fiscal_quarter_name: 'Its fiscal quarter as sortable text, for example FY2026 Q1.',
  },
}

/** The calendar and the dimension tables that the facts join to, each once. */
export const dimensionWords = (definitions: readonly Definition[]): readonly DimensionWords[] => {
  const tables = new Map(definitions.flatMap(({ dimensionTables }) => dimensionTables.map((table) => [table.name, table])))
  const names = [...tables.keys()].sort()
  return [calendar, ...names.flatMap((name) => tables.get(name) ?? []).map(wordsOf)]
}

const wordsOf = ({ name, description, column, key, columns = {} }: DimensionTable): DimensionWords => ({
  name,
  about: description,
  columns: {
    [column]: key,
    ...Object.fromEntries(Object.entries(columns).map(([other, { description: text }]) => [other, text])),
    first_seen_at: 'When it was first loaded.',
  },
})

/** `One row for each month, domain.` */
export const grainOf = (definition: Definition): string => `One row for each ${definition.key.join(', ')}.`

/** COMMENT takes no parameters, so the text is a quoted literal. */
export const commentOn = (
  kind: 'schema' | 'table' | 'view' | 'column' | 'function',
  object: RawBuilder<unknown>,
  text: string,
): RawBuilder<unknown> => sql`comment on ${sql.raw(kind)} ${object} is ${sql.lit(text)}`

/** Writes the comments of an object and its columns where they differ; without a text the comment stays as it is. @param name with its schema */
export const commentAll = async (
  trx: Db,
  kind: 'table' | 'view',
  name: string,
  text: string | null,
  columns: readonly Texts<'name' | 'about'>[],
): Promise<void> => {
  if (text !== null) await commentOn(kind, sql.table(name), text).execute(trx)
  const known = new Map((await relationColumns(trx, name)).map((column) => [column.name, column.about]))
  for (const { name: column, about } of columns)
    if (about !== '' && known.get(column) !== about) await commentOn('column', sql.ref(`${name}.${column}`), about).execute(trx)
}

/** A join from the facts to a dimension table. */
export interface Join {
  /** Column of the facts. */
  readonly column: string
  /** Dimension table in bi; `to`: its key column. */
  readonly table: string
  readonly to: string
  /** The values come from the calendar or a list, not from rows: so few that a summary can afford a foreign key. */
  readonly isOfUnits: boolean
}

/** Periods join to the calendar, whatever the source. */
export const joinsOf = ({ dimensionTables }: Pick<Definition, 'dimensionTables'>): readonly Join[] => [
  ...['month', 'date'].map((column) => ({ column, table: calendar.name, to: 'date', isOfUnits: true })),
  ...dimensionTables.map(({ column, name, isAskedFor }) => ({ column, table: name, to: column, isOfUnits: isAskedFor })),
]
