// How the ledger's columns are read and written: bigint and numeric are text in JavaScript, timestamps ISO text (see connect.ts).
import type { ColumnType as SqlColumn } from 'kysely'

/** Read as text; written as text, number or bigint. */
export type BigintText = SqlColumn<string, string | number | bigint, string | number | bigint>
/** As `BigintText`; left out or null on writing: NULL. */
export type NullableBigint = SqlColumn<
  string | null,
  string | number | bigint | null | undefined,
  string | number | bigint | null
>
/** From a sequence, never written. */
export type GeneratedBigint = SqlColumn<string, never, never>
/** jsonb: parsed on reading, JSON text on writing. */
export type Json = SqlColumn<unknown, string, string>
/** ISO text; left out on writing: the column's default, the database's clock. */
export type Timestamp = SqlColumn<string, string | undefined, string>
/** ISO text; left out on writing: NULL. */
export type NullableTimestamp = SqlColumn<string | null, string | null | undefined, string | null>
