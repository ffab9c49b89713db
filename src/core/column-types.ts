// The types a column may have, each with all that is known of it. A new type is one entry here and its cast in parse/cast.ts; the compiler names the two tables by type that want one, too (parse-plan.ts, example-answer.ts).

export interface ColumnTypeEntry {
  /** As PostgreSQL's catalog writes it. */
  readonly catalog: string
  /** Its word in a data contract (ODCS). */
  readonly contract: 'string' | 'integer' | 'number' | 'boolean' | 'date' | 'array'
  /** How Parquet files hold it. */
  readonly parquet: 'text' | 'long' | 'int' | 'decimal' | 'boolean' | 'days' | 'microseconds' | 'list'
  /** Whole numbers can be rounded. */
  readonly isWhole: boolean
  /** Figures of it are added up, compared and tested. */
  readonly isNumber: boolean
  /** Several values in a cell: JSON sends a list, and no key can hold it. */
  readonly isList: boolean
  /** JSON may send the words true and false. */
  readonly takesWords: boolean
  /** Its values are any text, or hold some. */
  readonly holdsText: boolean
  /** What may stand for a field that is absent; null: nothing. */
  readonly ifAbsent: RegExp | null
  /** Whether a test can list its values. */
  readonly isListable: boolean
}

const rest = {
  isWhole: false,
  isNumber: false,
  isList: false,
  takesWords: false,
  holdsText: false,
  ifAbsent: null,
  isListable: false,
} as const

const type = (
  catalog: string,
  parquet: ColumnTypeEntry['parquet'],
  contract: ColumnTypeEntry['contract'],
  more: Partial<ColumnTypeEntry> = {},
): ColumnTypeEntry => ({ ...rest, ...more, catalog, parquet, contract })

const whole = { isNumber: true, isListable: true, isWhole: true } as const

/** By its name in definitions, which SQL understands as well. */
export const columnTypes = {
  text: type('text', 'text', 'string', { takesWords: true, holdsText: true, ifAbsent: /^/, isListable: true }),
  bigint: type('bigint', 'long', 'integer', { ...whole, ifAbsent: /^-?\d{1,18}$/ }),
  integer: type('integer', 'int', 'integer', { ...whole, ifAbsent: /^-?\d{1,9}$/ }),
  numeric: type('numeric', 'decimal', 'number', { isNumber: true, ifAbsent: /^-?\d+(\.\d+)?$/ }),
  boolean: type('boolean', 'boolean', 'boolean', { takesWords: true, ifAbsent: /^(true|false)$/ }),
  date: type('date', 'days', 'date', { ifAbsent: /^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/ }),
  timestamptz: type('timestamp with time zone', 'microseconds', 'date'),
  'text[]': type('text[]', 'list', 'array', { isList: true, isListable: true, holdsText: true }),
}

export type ColumnType = keyof typeof columnTypes

const isName = (name: string): name is ColumnType => Object.hasOwn(columnTypes, name)
export const typeNames: readonly ColumnType[] = Object.keys(columnTypes).filter(isName)
