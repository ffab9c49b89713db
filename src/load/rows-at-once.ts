// The first load of few rows without a staging table: the rows are a value of the statement that inserts them.
import { type RawBuilder, sql } from 'kysely'
import type { DimensionTable } from '../core/dimension-table.ts'
import type { Box, Definition } from '../core/types.ts'
import { slot } from '../db/prepared.ts'
import { failedTests, formerWindows, mostFormer } from './data-tests.ts'
import { dimensionInserts, textOf, textColumns } from './dimensions.ts'
import { type OneUnit, oneUnit, unitIdOf } from './merge-scope.ts'
import { type PublishedSummaries, summaryQuery } from './summaries.ts'
import { dataTable, historyTable, names, rowExpressions, scopeOf, stagedColumns, stagedKey } from './table-columns.ts'

/** A backslash other than that of NULL begins an escape. */
const escapes = /\\(?!N(?:[\t\n]|$))/
const escaped: Readonly<Record<string, string>> = { '\\\\': '\\', '\\t': '\t', '\\n': '\n', '\\r': '\r' }

/** The rows as one text, and what stands in it for the end of a row, the end of a cell, and NULL. */
export interface RowsText {
  readonly rows: string
  readonly row_end: string
  readonly cell_end: string
  readonly null_as: string
}

const copyText = { row_end: '\n', cell_end: '\t', null_as: '\\N' } as const
/** Where cells hold what separates them in COPY's format: separators made for that, which hardly any text has. */
const separated = { row_end: '\u001e', cell_end: '\u001f', null_as: '\u001d' } as const

/**
 * Rows in COPY's text format as a value; no rows are ''. null where only COPY can read them: a table of a single column, where an empty cell
 * and no cell look the same, and texts that hold every separator.
 */
export const textOfRows = (definition: Definition, copy: Buffer): RowsText | null => {
  if (stagedColumns(definition).length < 2) return null
  const text = copy.toString('utf8').slice(0, -1)
  if (!escapes.test(text)) return { rows: text, ...copyText }
  if (Object.values(separated).some((one) => text.includes(one))) return null
  const rows = text.split('\n').map((line) => line.split('\t').map(separatedCell).join(separated.cell_end))
  return { rows: rows.join(separated.row_end), ...separated }
}

const separatedCell = (cell: string): string =>
  cell === copyText.null_as ? separated.null_as : cell.replaceAll(/\\[\\tnr]/g, (one) => escaped[one] ?? one)

/** A unit whose values are slots: `from`, `to` and `slice.<name>`. null where there are several values of something. */
export const unitOfSlots = (box: Box, unitId: RawBuilder<unknown>): OneUnit | null => {
  const entries = Object.entries(box.slice)
  if (entries.some(([, value]) => typeof value !== 'string')) return null
  const slice = Object.fromEntries(entries.map(([name]) => [name, slot(`slice.${name}`)]))
  return oneUnit({ key: slot('key'), window: { from: slot('from'), to: slot('to') }, slice }, unitId)
}

/** Slot for what the source calls the unit's value of a dimension. */
const textSlot = ({ name }: DimensionTable, column: string): string => `${name}.${column}`

/** What fills the slots that rows, scope and dimensions have. */
export const slotsOf = (box: Box, { dimensionTables, window }: Definition): Record<string, string | null> => {
  const values: Record<string, string | null> = { from: box.window.from, to: box.window.to }
  for (const [place, former] of formerWindows(box.window, window.every).entries())
    Object.assign(values, { [`former ${place} from`]: former.from, [`former ${place} to`]: former.to })
  for (const [name, value] of Object.entries(box.slice)) if (typeof value === 'string') values[`slice.${name}`] = value
  for (const table of dimensionTables) {
    const value = box.slice[table.column]
    if (typeof value === 'string')
      for (const column of textColumns(table)) values[textSlot(table, column)] = textOf(table, column, value)
  }
  return values
}

/** What the statement is made of; no value of an answer stands in it. */
export interface RowsAtOnce {
  readonly definition: Definition
  /** Of slots; see `unitOfSlots`. */
  readonly unit: OneUnit
  readonly published: PublishedSummaries
  /**
   * Entries of the WITH that lock what says the unit is ours, the last of them `millrace_taken`: one row where it is and `conditions` hold,
   * else none, and then nothing is done.
   */
  readonly taken: (conditions: RawBuilder<unknown>) => RawBuilder<unknown>
}

/** Holds where everything is as a first load of the rows needs it. */
export const isTaken = sql`exists (select 1 from millrace_taken)`

/** Rows that were inserted. */
export const insertedRows = sql`(select count(*) from millrace_inserted)`

/**
 * Entries of a WITH that insert the rows, with their dimensions and summaries, or nothing at all: where rows of the unit are loaded or
 * have ended, where a key comes twice, or where a row lies outside the unit. Slots: those of `RowsText`, `row_count`, `run_id`, and those of
 * `slotsOf`.
 */
export const insertAtOnce = (request: RowsAtOnce): RawBuilder<unknown> => {
  const { definition, unit, published } = request
  const columns = names(definition.columns)
  const lineage = sql.raw('_unit_id, _run_id, _revision, _loaded_at')
  const facts = sql`(select * from millrace_rows)`
  return sql.join([
    ...rowTables(definition, unit),
    request.taken(conditions(request)),
    sql`millrace_inserted as (insert into ${dataTable(definition)} (${columns}, ${lineage})
      select ${columns}, ${lineage} from millrace_rows where ${isTaken} returning 1)`,
    ...dimensionInserts(definition, unit, {
      textOf: (table, column) => slot(textSlot(table, column)),
      rows: () => facts,
      when: sql`${isTaken} and ${hasRows}`,
      areFew: true,
    }),
    ...published.summaries.map(
      (mart, index) => sql`${sql.raw(`summary${index}`)} as (insert into ${sql.table(`bi.${mart.name}`)}
        select * from (${summaryQuery(mart, facts)}) summed where ${isTaken})`,
    ),
  ])
}

const hasRows = sql`exists (select 1 from millrace_rows)`

/** The answer's lines cut into cells, the cells cast, the unit's own values and lineage beside them. */
const rowTables = (definition: Definition, unit: OneUnit): RawBuilder<unknown>[] => {
  const cells = stagedColumns(definition).map(
    ({ name, type }, index) => sql`(cells[${sql.lit(index + 1)}])::${sql.raw(type)} as ${sql.ref(name)}`,
  )
  const values = rowExpressions(definition, unit, 's')
  const named = definition.columns.map(({ name }, place) => sql`${values[place]} as ${sql.ref(name)}`)
  return [
    sql`millrace_lines as (select string_to_array(line, ${slot('cell_end')}::text, ${slot('null_as')}::text) as cells
      from string_to_table(${slot('rows')}::text, ${slot('row_end')}::text) as line)`,
    sql`millrace_cells as (select ${sql.join(cells)} from millrace_lines)`,
    sql`millrace_rows as materialized (select ${sql.join(named)}, ${unitIdOf(unit, 's')} as _unit_id,
      ${slot('run_id')}::bigint as _run_id, 1 as _revision, transaction_timestamp() as _loaded_at from millrace_cells s)`,
  ]
}

const conditions = ({ definition, unit, published }: RowsAtOnce): RawBuilder<unknown> => {
  const staged = stagedKey(definition)
  const twice = staged.length === 0 ? sql`having count(*) > 1` : sql`group by ${names(staged)} having count(*) > 1`
  return sql.join(
    [
      sql`not exists (select 1 from ${dataTable(definition)} t where ${scopeOf(definition, unit, 't')})`,
      sql`not exists (select 1 from ${historyTable(definition)} h where ${scopeOf(definition, unit, 'h')})`,
      sql`not exists (select 1 from millrace_rows ${twice})`,
      sql`not exists (select 1 from millrace_rows t where (${scopeOf(definition, unit, 't')}) is not true)`,
      sql`(select count(*) from millrace_rows) = ${slot('row_count')}::bigint`,
      ...(definition.tests.length === 0 ? [] : [passesTests(definition, unit)]),
      published.isStill,
    ],
    sql` and `,
  )
}

/** Failures are noted by staging and merge. */
const passesTests = (definition: Definition, unit: OneUnit): RawBuilder<unknown> => {
  const former = Array.from({ length: mostFormer }, (_, place) => ({
    from: slot(`former ${place} from`),
    to: slot(`former ${place} to`),
  }))
  return sql`not exists (${failedTests({ definition, scope: unit, rows: sql`millrace_rows`, former })})`
}
