// A dashboard of a BI tool, as a file describes it: charts over views of bi, and the filters above them.

/** A `trend` shows the newest period's figure large, with its change and a line; a `tile` the newest period's texts. */
export type ChartKind = 'trend' | 'tile' | 'line' | 'bar' | 'table'
/** How figures of a chart are written: `share` is a fraction shown as a percentage, `change` the same with its sign, `points` percentage points, `money` US dollars. */
export type NumberFormat = 'count' | 'decimal' | 'share' | 'change' | 'points' | 'money'

/** One chart or table. Its SQL is PostgreSQL over a view of `bi`. */
export interface Chart {
  readonly name: string
  readonly about: string
  /** Whose parameters its rows have; null: rows of every pipeline. */
  readonly pipeline: string | null
  /** View of `bi` it reads. */
  readonly view: string
  readonly kind: ChartKind
  /** Column of the period on the axis; null in a table. */
  readonly period: string | null
  /** SQL by the name it is shown under. */
  readonly measures: ReadonlyMap<string, string>
  readonly by: readonly string[]
  /** Columns of a table that shows rows as they are; empty: measures by `by`. */
  readonly columns: readonly string[]
  /** A column or a measure each; most significant first. */
  readonly order: readonly { readonly name: string; readonly descending: boolean }[]
  /** Rows of a table at most. */
  readonly rows: number
  /** A condition in SQL of its own; null: none. */
  readonly where: string | null
  /** Columns over whose values nothing adds up: where several meet, a measure is NULL. */
  readonly neverAcross: readonly string[]
  readonly format: NumberFormat
  /** Ranks: the axis begins at 1, at the top. */
  readonly isRank: boolean
  /** Of single columns and measures of a table. */
  readonly formats: ReadonlyMap<string, NumberFormat>
  /** Of the twelve columns of a dashboard. */
  readonly width: number
  /** In steps of eight pixels. */
  readonly height: number
}

/** A choice above the charts that narrows those with the column. */
export interface ValueFilter {
  readonly kind: 'value'
  readonly name: string
  readonly view: string
  readonly column: string
  /** One value is always chosen, to begin with the first or the last in order; null: none or any number. */
  readonly one: 'first' | 'last' | null
  /** Charts it narrows; null: all. */
  readonly charts: readonly string[] | null
}

/** A span of time, for every chart with a period. */
export interface TimeFilter {
  readonly kind: 'time'
  readonly name: string
}

export type DashboardFilter = ValueFilter | TimeFilter

/** One checked file of `dashboards/`, frozen. */
export interface Dashboard {
  readonly file: string
  /** The file's name without its ending; part of its address. */
  readonly name: string
  readonly title: string
  readonly about: string
  readonly filters: readonly DashboardFilter[]
  readonly charts: readonly Chart[]
}
