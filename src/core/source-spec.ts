// What a source declares about itself, so that definitions are checked against it without loading its code paths.
import type { ZodType } from 'zod'
import type { DimensionTableSpec } from './dimension-table.ts'
import type { ColumnType, Definition, Normalize, ParamValue, Window, WindowSize } from './types.ts'

export interface FieldSpec {
  readonly type: ColumnType
  readonly description: string
  readonly unit?: string
  readonly nullable?: boolean
  /** Other spellings the response may use for the field. */
  readonly aliases?: readonly string[]
  /** The interface's declared default, used only where the field is absent from the record. */
  readonly ifAbsent?: string
  readonly normalize?: Normalize
}

export interface DimensionSpec {
  readonly description: string
  readonly required: boolean
  /** How many values one request may name. 1: each is asked for on its own; more: the response says of each row whose it is. */
  readonly mostPerRequest: number
  readonly normalize?: Normalize
  /** A value to begin with, for the files of a new dataset. */
  readonly example?: string
  /** Pattern each value must match, and how to say so. */
  readonly pattern?: RegExp
  readonly expected?: string
}

/** How much of the calendar one request may ask for. */
export interface PackingSpec {
  /** Consecutive windows. */
  readonly windows: number
  /** Windows times combinations of values. Default: as many as planning takes in one step. */
  readonly cells?: number
}

/** A spelling that the service varies and the warehouse does not: of a country, of a domain. */
export interface Spelling {
  /** A cell of an answer as the warehouse writes it. */
  write(cell: string): string
  /** What is wrong with a value of a definition's list, and what to write instead; null: it is written as the warehouse writes it. */
  problem(value: string): string | null
}

/** How the answers of a source look, as far as parsing needs to know. */
export interface AnswerForm {
  /** The list of a JSON page that holds the records. Default: the only list of objects. */
  readonly recordsIn?: string
  /** By the name that columns, fields and dimensions put into `normalize`, beside `period_start`, which every source has. Default: none. */
  readonly spellings?: Readonly<Record<string, Spelling>>
  /** The span a request for the window asks for, where that can be wider: its other rows are passed over. Default: the window. */
  readonly spanOf?: (definition: Definition, window: Window) => Window
}

/** The API a source belongs to: `web-analytics` of `web-analytics.keywords`. */
export const apiNameOf = (source: string): string => source.split('.', 1)[0] ?? source

/** The parameter that says what span a row is for, and the span each of its values means. */
export interface PeriodSpec {
  readonly param: string
  readonly every: Readonly<Record<string, WindowSize>>
}

export interface SpecProblem {
  /** Where in the YAML, for example `params`, `granularity`. */
  readonly path: readonly string[]
  /** What was found, what was expected, what to do. */
  readonly message: string
}

export interface SourceSpec extends AnswerForm {
  /** `<folder under sources>.<dataset>`, for example `web-analytics.keywords`. */
  readonly name: string
  /** `walk`: answers come at once, in pages. `report`: submitted, polled, downloaded; costs quota. */
  readonly kind: 'walk' | 'report'
  readonly description: string
  /** Checks `params` of a definition; unknown names are errors. */
  readonly params: ZodType<Readonly<Record<string, ParamValue>>>
  /** Parameters that say how an answer is handed over, not what it says: no part of a key. Default: none. */
  readonly deliveryParams?: readonly string[]
  readonly dimensions: Readonly<Record<string, DimensionSpec>>
  /** Fields of the response known beforehand: they supply type, description, aliases a definition leaves out. */
  readonly fields: Readonly<Record<string, FieldSpec>>
  /** Whether a column may name a response field that is not in `fields` (batch metrics are an open set). */
  readonly openFields: boolean
  /** Window sizes the source can be asked for; absent: every size. */
  readonly windowSizes?: readonly WindowSize[]
  /** Default: one window a request. */
  readonly packing?: PackingSpec
  /** Default: a row is for the whole window. */
  readonly period?: PeriodSpec
  /** Tables of `bi` by the key column that joins to each. Default: none; the calendar, `dim_date`, is there for every source. */
  readonly dimensionTables?: Readonly<Record<string, DimensionTableSpec>>
  /** Which dataset a definition asks for, where the source offers several; its answers are counted alike. Default: the source is the dataset. */
  readonly datasetOf?: (definition: Definition) => string
  /** What is wrong with a definition though each of its parts is right. */
  readonly problems?: (definition: Pick<Definition, 'params' | 'window'>) => readonly SpecProblem[]
}
