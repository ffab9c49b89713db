// The rows of raw statements: a column of a table is typed from `Tables`, what is computed by its kind. Nothing checks a raw statement's own word.
import type { Selectable } from 'kysely'
import type { Tables } from './tables.ts'

/** Columns as they are read: `Row<'etl.units', 'slice_id' | 'window_from'>`. */
export type Row<Table extends keyof Tables, Column extends keyof Selectable<Tables[Table]>> = Readonly<
  Pick<Selectable<Tables[Table]>, Column>
>

/** The same where there may be none: a left join, an aggregate over no rows. */
export type Maybe<Of> = { readonly [Column in keyof Of]: Of[Column] | null }

/** bigint and numeric, such as count() and sum(): text in JavaScript. */
export type Counts<Name extends string> = Readonly<Record<Name, string>>

/** integer and float8. */
export type Numbers<Name extends string> = Readonly<Record<Name, number>>

/** Conditions, such as exists(). */
export type Flags<Name extends string> = Readonly<Record<Name, boolean>>

/** Names, and what else is text by nature. */
export type Texts<Name extends string> = Readonly<Record<Name, string>>

/** The column's values as an array: `array_agg`. */
export type Lists<Of> = { readonly [Column in keyof Of]: readonly NonNullable<Of[Column]>[] }
