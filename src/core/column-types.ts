// The types that a column may have. Each property names the files that read it. To add a type, add an entry here and its cast in core/cast-cell.ts;
// where another type can hold all its values, name the new type in that one's `holds`.
import {
  type Cast,
  castBoolean,
  castDate,
  castInteger,
  castNumeric,
  castText,
  castTextArray,
  castTimestamp,
  type RoundingMode,
  safeDigits,
} from './cast-cell.ts'

export interface ColumnTypeEntry {
  /** The type's name in PostgreSQL's catalog: load/drift.ts; exports find the type by it (semantic/export). */
  readonly catalog: string
  /** Its word in a data contract (ODCS): semantic/documents.ts. CSV guards a `string` against spreadsheets (semantic/export/export-view.ts). */
  readonly contract: 'string' | 'integer' | 'number' | 'boolean' | 'date' | 'array'
  /** How Parquet files hold it: semantic/export/parquet.ts. */
  readonly parquet: 'text' | 'long' | 'int' | 'decimal' | 'boolean' | 'days' | 'microseconds' | 'list'
  /** Makes the cast that rounds to a whole number; null: the type is no whole number. parse/parse-plan.ts, definition/columns.ts, definition/attributes.ts. */
  readonly rounded: ((mode: RoundingMode) => Cast) | null
  /** An empty cell and null words are values, not NULL: parse/csv-reader.ts, parse/json-row.ts, run/rows-of-job.ts, load/duplicates.ts. */
  readonly isText: boolean
  /** Its values are added up, compared and tested: load/figure-changes.ts, definition/data-tests.ts. */
  readonly isNumber: boolean
  /** Several values in a cell: JSON sends a list (parse/json-row.ts), no key can hold it (definition/columns.ts), tests read each (load/run-data-tests.ts), a data contract names its items (semantic/documents.ts). */
  readonly isList: boolean
  /** JSON may send the words true and false: parse/json-row.ts. */
  readonly takesWords: boolean
  /** The form of a default for an absent field; null: the type allows none. definition/columns.ts. */
  readonly ifAbsent: RegExp | null
  /** Whether every value fits into an index entry beside the key; `one`: one such column fits, two may not. definition/compile.ts. */
  readonly fitsIndex: boolean | 'one'
  /** Other types whose values it can all hold: publish/versions.ts. */
  readonly holds: readonly string[]
  /** Whether a test can list its values: definition/data-tests.ts. */
  readonly isListable: boolean
  /** A cell's text as PostgreSQL reads it: parse/parse-plan.ts. */
  readonly cast: Cast
  /** Cells that are copied byte by byte, because the cast would give the same bytes; a number: whole numbers of at most so many digits; null: none. parse/parse-plan.ts, parse/row-cells.ts. */
  readonly copiedAs: 'text' | 'numeric' | number | null
  /** A cell of a made-up answer, with the day it is for: run/recorded-answers.ts. */
  readonly example: (day: string) => string
}

const rest = {
  rounded: null,
  isText: false,
  isNumber: false,
  isList: false,
  takesWords: false,
  ifAbsent: null,
  isListable: false,
  holds: [],
  fitsIndex: true,
  copiedAs: null,
} as const

const type = (
  catalog: string,
  parquet: ColumnTypeEntry['parquet'],
  contract: ColumnTypeEntry['contract'],
  more: Partial<ColumnTypeEntry> & Pick<ColumnTypeEntry, 'cast' | 'example'>,
): ColumnTypeEntry => ({ ...rest, ...more, catalog, parquet, contract })

const whole = (name: string, bits: bigint) => ({
  ...{ isNumber: true, isListable: true, copiedAs: safeDigits(bits), example: () => '2' },
  cast: castInteger(name, bits),
  rounded: (mode: RoundingMode) => castInteger(name, bits, mode),
})

/** By the type's name in definitions, which is also valid SQL. */
export const columnTypes = {
  text: type('text', 'text', 'string', {
    ...{
      isText: true,
      takesWords: true,
      ifAbsent: /^/,
      isListable: true,
      holds: ['integer', 'bigint', 'numeric', 'boolean', 'date'],
      fitsIndex: false,
      copiedAs: 'text',
      cast: castText,
      example: () => 'example',
    },
  }),
  bigint: type('bigint', 'long', 'integer', { ...whole('bigint', 64n), holds: ['integer'], ifAbsent: /^-?\d{1,18}$/ }),
  integer: type('integer', 'int', 'integer', { ...whole('integer', 32n), ifAbsent: /^-?\d{1,9}$/ }),
  numeric: type('numeric', 'decimal', 'number', {
    ...{ isNumber: true, holds: ['integer', 'bigint'], ifAbsent: /^-?\d+(\.\d+)?$/, copiedAs: 'numeric' },
    ...{ cast: castNumeric, fitsIndex: 'one', example: () => '1.5' },
  }),
  boolean: type('boolean', 'boolean', 'boolean', {
    ...{ takesWords: true, ifAbsent: /^(true|false)$/, cast: castBoolean, example: () => 'true' },
  }),
  date: type('date', 'days', 'date', {
    ...{ ifAbsent: /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/, cast: castDate, example: (day) => day },
  }),
  timestamptz: type('timestamp with time zone', 'microseconds', 'date', {
    ...{ cast: castTimestamp, example: (day) => `${day}T00:00:00Z` },
  }),
  'text[]': type('text[]', 'list', 'array', {
    ...{ isList: true, isListable: true, fitsIndex: false, cast: castTextArray, example: () => '"[""example""]"' },
  }),
}

export type ColumnType = keyof typeof columnTypes

export const isTypeName = (name: string): name is ColumnType => Object.hasOwn(columnTypes, name)
export const typeNames: readonly ColumnType[] = Object.keys(columnTypes).filter(isTypeName)
