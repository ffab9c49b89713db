// The words every stage shares. A type here is one noun of the pipeline; it holds data, never behaviour.
import type { RoundingMode } from './cast-cell.ts'
import type { ColumnType } from './column-types.ts'
import type { DataPointRule } from './data-point-counts.ts'
import type { DataTest } from './data-test.ts'
import type { DimensionTable } from './dimension-table.ts'
import type { GuardRule, Limits } from './limits.ts'

/** A calendar date as ISO text, `YYYY-MM-DD`. Data never holds a JavaScript `Date`. */
export type IsoDate = string

/** Half-open span of days, aligned to the pipeline's window size. People see it inclusive: `2026-01..2026-03`. */
export interface Window {
  readonly from: IsoDate
  /** First day that is no longer inside. */
  readonly to: IsoDate
}

/** The values of each dimension that one request asks for: one value, or several that one report asks for together. */
export type Slice = Readonly<Record<string, string | readonly string[]>>

export type ParamValue = string | number | boolean | readonly string[]

/** How a cell's spelling is brought to the one the warehouse uses: `period_start`, or the name of one of the source's spellings. */
export type Normalize = string

/** Where a column's value comes from: the response's field, the unit's window or slice, or the pipeline's parameters. */
export type ColumnOrigin = 'response' | 'window' | 'slice' | 'param'

export interface Column {
  readonly name: string
  readonly type: ColumnType
  readonly isKey: boolean
  readonly nullable: boolean
  readonly description: string
  /** Unit of measure in words, for the column's comment; null where the value has none. */
  readonly unit: string | null
  readonly origin: ColumnOrigin
  /** Names the field may have in the response, first match wins. Empty unless `origin` is `response`. */
  readonly from: readonly string[]
  /** Value used where the record lacks the field altogether; null: absent means NULL. A present null stays NULL. */
  readonly ifAbsent: string | null
  /** An answer may lack the field in every record, although earlier loads had it. Default: the units of such an answer are held. */
  readonly mayVanish?: boolean
  readonly normalize: Normalize | null
  /** null: a fraction in a column of whole numbers rejects its row. */
  readonly rounding: RoundingMode | null
}

/** What the table is looked up by besides its key. */
export interface TableIndex {
  /** In the order of the index. */
  readonly columns: readonly string[]
  /** `include` of the index: a query that needs no other column is answered by the index alone. */
  readonly include: readonly string[]
}

export interface Dimension {
  readonly name: string
  readonly values: readonly string[]
  /** Limit of packing: at most this many values go into one report. null: the source's own limit. No part of any unit's identity. */
  readonly bucket: number | null
  /** File the values were read from; null when they stand in the YAML or the database. */
  readonly file: string | null
  /** Why the file cannot be read. `values` is then empty, and its real values are not known. */
  readonly unread?: string
  /** The query that gives the values. `values` is empty until a run has read them. Default: the values do not come from the database. */
  readonly query?: ListQuery
}

/** A list in the database. */
export interface ListQuery {
  readonly sql: string
  /** A list that loses more than this share of its values is held (0..1). */
  readonly shrink: number
  readonly timeoutMs: number
  /** `values` holds what the query returned, now or at its last success. Default: no run has read the list yet. */
  readonly isRead?: boolean
}

export type WindowSize = 'day' | 'week' | 'month'

/** When the service publishes a month and when it may change it again: days of the following month, in `timeZone`. */
export interface PublicationCalendar {
  readonly publishedOn: number
  /** A window is published so many days after its end, and may change on any day. Default: `publishedOn` and `restatedOn` decide. */
  readonly afterDays?: number
  readonly restatedOn: readonly number[]
  readonly timeZone: string
  /** First day without data, of a table that the service ended. Default: the table has no end. */
  readonly until?: IsoDate
  /** Up to which day the service says that it has data, and when it said so. Default: it said nothing, the calendar alone decides. */
  readonly released?: { readonly availableTo: IsoDate; readonly heardMs: number }
}

export interface WindowRule {
  readonly every: WindowSize
  readonly from: IsoDate
  /** How many of the newest published windows are checked again for restated values. */
  readonly lookBack: number
  /** After so many days an answer is requested again, also without a restatement; its units are spread over as many nights. null: never. */
  readonly fullCheckDays: number | null
  readonly publication: PublicationCalendar
}

export interface Schedule {
  readonly cron: string
  readonly timeZone: string
  readonly overlap: 'queue' | 'skip'
  readonly catchUp: 'last' | 'all' | 'none'
}

/** What a run decides without a person where a choice costs money, and how a report is read. */
export interface ReportPolicy {
  /** What a data point is. Default `learn`. */
  readonly dataPoints?: DataPointRule
  /** Whether the last line of a report must end with a line break. Default required: else a report cut in its last line looks complete. */
  readonly finalNewline?: 'required' | 'optional'
  /** Which of several tables in the answer is read: its position in the file, or the name of its list. Default: the answer has one table. */
  readonly section?: number | string
  /** Send a submission again whose reply was lost (it may buy the report twice). Default false. */
  readonly resubmitUncertain: boolean
  /** Buy a report again that the service reports as failed and would not retry for free. Default false. */
  readonly resubmitFailed: boolean
}

/** The span that the date of one row stands for. */
export interface RowPeriod {
  readonly every: WindowSize
  /** The parameter that decides the span is in the key, so that rows of different spans do not collide. */
  readonly isInKey: boolean
}

/** A checked, frozen YAML file. */
export interface Definition {
  readonly file: string
  readonly pipeline: string
  readonly version: number
  readonly description: string
  /** `web-analytics.keywords`: the folder under `sources/` and the dataset in it. */
  readonly source: string
  readonly params: Readonly<Record<string, ParamValue>>
  /** Name of the key and account, `default` unless the definition says otherwise. */
  readonly account: string
  readonly dimensions: readonly Dimension[]
  readonly window: WindowRule
  /** The pipeline that continues this one after its table's end. Default: none. */
  readonly successor?: string
  readonly schedule: Schedule | null
  readonly columns: readonly Column[]
  /** Key column names in the order of the primary key. */
  readonly key: readonly string[]
  readonly indexes: readonly TableIndex[]
  readonly limits: Limits
  readonly report: ReportPolicy
  /** null: the definition says `off`. */
  readonly guard: GuardRule | null
  /** What its purchases are charged to: `{ client: 'acme' }`. */
  readonly tags: Readonly<Record<string, string>>
  /** Day of the following month by which a month must be loaded, in the calendar's time zone; null: late data raise no alarm. */
  readonly expect: { readonly monthBy: number } | null
  /** Tests of the rows of a unit before they are loaded. */
  readonly tests: readonly DataTest[]
  readonly publish: boolean
  readonly period: RowPeriod
  /** Dimension tables that key columns join to, sorted by name: every load writes them in this order, which prevents deadlocks. */
  readonly dimensionTables: readonly DimensionTable[]
}

/** The smallest thing that is wanted, counted, proved complete and loaded: one window and one value of each dimension. */
export interface Unit {
  readonly key: string
  readonly pipeline: string
  readonly version: number
  readonly window: Window
  /** One value of each dimension. */
  readonly slice: Readonly<Record<string, string>>
}

/**
 * What one job requests: every combination of the values, over one or several consecutive windows. A walk requests one unit. The key is for
 * messages: the unit's key, or of several units `pipeline/v1/2024-01..2026-12/country=3 values;domain=100 values`.
 */
export interface Box extends Omit<Unit, 'slice'> {
  /** One value, or the list of them, of each dimension. */
  readonly slice: Slice
}

export type JobKind = 'walk' | 'report'

/** `replaced`: other jobs request its units now; a report id that comes late is still recorded. */
export const jobStates = ['open', 'held', 'failed', 'done', 'replaced'] as const
export type JobState = (typeof jobStates)[number]

/** What people see of a unit; derived from its pointers and its job. */
export const unitStates = ['planned', 'running', 'waiting', 'landed', 'loaded', 'failed', 'held'] as const
/** `waiting` carries a not-before time and costs no attempt; `held` waits for a person. */
export type UnitState = (typeof unitStates)[number]

export const reportStates = ['intent', 'submitted', 'ready', 'downloaded', 'failed', 'rejected', 'uncertain', 'expired'] as const
export type ReportState = (typeof reportStates)[number]

/** One page or one report file as the service sent it. */
export interface Payload {
  /** The format that was requested; the parser goes by the bytes. */
  readonly format: 'json' | 'csv'
  /** Number of the part within the unit, from 1 and without gaps. */
  readonly part: number
  readonly body: AsyncIterable<Uint8Array>
  /** The service said that the part holds no data: an empty body is then no damage. Default false. */
  readonly mayBeEmpty?: boolean
  /** Where the service answers in several files: the name of this one, and of all. */
  readonly file?: { readonly name: string; readonly of: readonly string[] }
}

/** A record that could not become a row. */
export interface Reject {
  /** Part of the landing, from 1. */
  readonly part: number
  /** Line of the file for CSV and NDJSON, index of the record (from 1) for a JSON page. */
  readonly line: number
  readonly column: string | null
  readonly reason: string
  readonly raw: string
}

export type RowCounts = ReturnType<typeof zeroCounts>

export const zeroCounts = () => ({
  read: 0,
  inserted: 0,
  updated: 0,
  ended: 0,
  unchanged: 0,
  quarantined: 0,
  duplicates: 0,
})

/** What the service said of an answer as a whole; equal fingerprints mean nothing changed. */
export interface Fingerprint {
  readonly lastUpdated: string | null
  readonly count: number | null
  /** Version of the data or of their method, where the service names one. */
  readonly dataVersion?: string | null | undefined
}
