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

/** What is asked for of each thing a pipeline runs for: one value, or several that are asked for together in one report. */
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
  /** No record of an answer need have the field, whatever the loads before had. Default: such an answer is held. */
  readonly mayVanish?: boolean
  readonly normalize: Normalize | null
  /** null: a fraction does not fit a column of whole numbers, and its row is rejected. */
  readonly rounding: RoundingMode | null
}

/** What the table is looked up by besides its key. */
export interface TableIndex {
  /** In the order of the index. */
  readonly columns: readonly string[]
  /** Carried along unordered, so that a question that needs no other column never reads the table. */
  readonly include: readonly string[]
}

export interface Dimension {
  readonly name: string
  readonly values: readonly string[]
  /** Limit of packing: at most this many values go into one report. null: the source's own limit. No part of any unit's identity. */
  readonly bucket: number | null
  /** File the values were read from; null when they stand in the YAML or the database. */
  readonly file: string | null
  /** What is wrong with that file, where it cannot be taken in: `values` is empty, and what it lists is not known. */
  readonly unread?: string
  /** Where they are read from the database: `values` is empty until a run has read them. Default: they are not. */
  readonly query?: ListQuery
}

/** A list in the database. */
export interface ListQuery {
  readonly sql: string
  /** A list that loses more than this share of its values is held (0..1). */
  readonly shrink: number
  readonly timeoutMs: number
  /** The dimension's values are what it gave, or gave before. Default: they were not read yet, and are not known. */
  readonly isRead?: boolean
}

export type WindowSize = 'day' | 'week' | 'month'

/** When the service publishes a month and when it may change it again: days of the following month, in `timeZone`. */
export interface PublicationCalendar {
  readonly publishedOn: number
  /** A window is there so many days after its end, and may change on any day. Default: the days of the month count. */
  readonly afterDays?: number
  readonly restatedOn: readonly number[]
  readonly timeZone: string
  /** First day of which there are no data any more, of a table that ends. Default: it goes on. */
  readonly until?: IsoDate
  /** What the service itself said: up to which day there are data, and when it said so. Default: nothing, the calendar alone counts. */
  readonly released?: { readonly availableTo: IsoDate; readonly heardMs: number }
}

export interface WindowRule {
  readonly every: WindowSize
  readonly from: IsoDate
  /** How many of the newest published windows are checked again for restated values. */
  readonly lookBack: number
  /** Days after which an answer is asked about again whatever the calendar says, its units spread over as many nights; null: never. */
  readonly fullCheckDays: number | null
  readonly publication: PublicationCalendar
}

export interface Schedule {
  readonly cron: string
  readonly timeZone: string
  readonly overlap: 'queue' | 'skip'
  readonly catchUp: 'last' | 'all' | 'none'
}

/** What to do by itself when the service's answer leaves a choice that costs money, and how its count is read. */
export interface ReportPolicy {
  /** What a data point is. Default `learn`. */
  readonly dataPoints?: DataPointRule
  /** Whether the last line of a report ends as the others do. Default required: a body that was cut there would look whole. */
  readonly finalNewline?: 'required' | 'optional'
  /** Which of several tables in the answer is read: its place in the file, or the name of its list. Default: there is one. */
  readonly section?: number | string
  /** Send a submission again whose reply was lost (it may buy the report twice). Default false. */
  readonly resubmitUncertain: boolean
  /** Buy a report again that the service reports as failed and would not retry for free. Default false. */
  readonly resubmitFailed: boolean
}

/** The span that the date of one row stands for. */
export interface RowPeriod {
  readonly every: WindowSize
  /** The key holds what decides it, so that a table's rows of another span are told apart. */
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
  /** The pipeline that goes on where this one ends. Default: none. */
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
  /** Day of the following month on which a month must be loaded, in the time zone of the service's calendar; null: late data are no cause. */
  readonly expect: { readonly monthBy: number } | null
  /** What the rows of a unit must be, tested before they are loaded. */
  readonly tests: readonly DataTest[]
  readonly publish: boolean
  readonly period: RowPeriod
  /** Those that key columns join to, by name: every load adds to them in this order. */
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
 * What is asked for in one go: every combination of the values, over one window or several consecutive ones. A walk asks for one unit. The key is for
 * messages: the unit's where it is one unit, else `pipeline/v1/2024-01..2026-12/country=3 values;domain=100 values`.
 */
export interface Box extends Omit<Unit, 'slice'> {
  /** One value, or the list of them, of each dimension. */
  readonly slice: Slice
}

export type JobKind = 'walk' | 'report'

/** `replaced`: other jobs ask for its units now; a late id of it is still taken in. */
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
  /** What was asked for; the parser believes the bytes. */
  readonly format: 'json' | 'csv'
  /** Number of the part within the unit, from 1 and without gaps. */
  readonly part: number
  readonly body: AsyncIterable<Uint8Array>
  /** The service said that there is nothing in it, so that no bytes are no damage. Default false. */
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
