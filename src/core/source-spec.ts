// What a source declares about itself, so that definitions are checked against it without loading its code paths.
import type { ZodType } from 'zod'
import type { ColumnType } from './column-types.ts'
import type { DimensionTableSpec } from './dimension-table.ts'
import type { NamedPrice } from './learned-price.ts'
import type { Definition, Normalize, ParamValue, Window, WindowSize } from './types.ts'

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

/** How much one request for a dataset may name, where that differs from the rest of its source. */
export interface DatasetLimits {
  /** By dimension: its values. */
  readonly values?: Readonly<Record<string, number>>
  /** Months, the first and the last included. */
  readonly months?: number
  /** Only the first so many rows of each combination are wanted: they are complete by declaration. Default: all. */
  readonly top?: number
  /** The field whose sum over the rows of a combination is their share of the whole. Default: the service says nothing of it. */
  readonly shareField?: string
  /** Rows of each combination of values and period that an answer holds at most: as many may be cut. Default: as many as there are. */
  readonly rows?: number
}

/** A spelling that the service varies and the warehouse does not: of a country, of a domain. */
export interface Spelling {
  /** A cell of an answer as the warehouse writes it. */
  write(cell: string): string
  /** What is wrong with a value of a definition's list, and what to write instead; null: it is written as the warehouse writes it. */
  problem(value: string): string | null
}

/** How the answers of a dialect differ. */
export interface AnswerDialect {
  readonly recordsIn?: string
  /** What a field is called. */
  readonly fields: Readonly<Record<string, string>>
  /** Fields that no record has: NULL, whatever `if_absent` says. */
  readonly lacks: readonly string[]
}

/** How the answers of a source look, as far as parsing needs to know. */
export interface AnswerForm {
  /** The list of a JSON page that holds the records. Default: the only list of objects. */
  readonly recordsIn?: string
  /** Fields in which a JSON record may say which table it is of, where an answer has several. Default: none. */
  readonly tableIn?: readonly string[]
  /** Answers that were asked for in another dialect than the source's own names are in, by its name. Default: there is one. */
  readonly dialects?: Readonly<Record<string, AnswerDialect>>
  /** By the name that columns, fields and dimensions put into `normalize`, beside `period_start`, which every source has. Default: none. */
  readonly spellings?: Readonly<Record<string, Spelling>>
  /** The span a request for the window asks for, where that can be wider: its other rows are passed over. Default: the window. */
  readonly spanOf?: (definition: Definition, window: Window) => Window
}

/** The API a source belongs to: `web-analytics` of `web-analytics.keywords`. */
export const apiNameOf = (source: string): string => source.split('.', 1)[0] ?? source

/** `web-analytics/main`: accounts of two APIs may be named alike. */
export const accountName = ({ source, account }: AccountOf): string => `${apiNameOf(source)}/${account}`

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
  /**
   * Where they depend on the dataset: those of the one that the parameters name, as they were written. `dimensions` is then what an unknown dataset has.
   * @param forEach names that the definition runs for
   */
  readonly dimensionsOf?: (
    params: Readonly<Record<string, unknown>>,
    forEach: readonly string[],
  ) => Readonly<Record<string, DimensionSpec>>
  /** The parameters with defaults that depend on the dataset. Default: as they are. */
  readonly withDefaults?: <Given extends Readonly<Record<string, unknown>>>(params: Given) => Given
  /** What tells rows of the dataset apart beside its dimensions, where the source knows; null: it does not. */
  readonly splitOf?: (table: string) => readonly string[] | null
  /** Fields of the response known beforehand: they supply type, description, aliases a definition leaves out. */
  readonly fields: Readonly<Record<string, FieldSpec>>
  /** Whether a column may name a response field that is not in `fields` (batch metrics are an open set). */
  readonly openFields: boolean
  /** Window sizes the source can be asked for; absent: every size. */
  readonly windowSizes?: readonly WindowSize[]
  /** Consecutive windows of one request, and windows times combinations of values. Default: one window; as many cells as planning takes in one step. */
  readonly packing?: { readonly windows: number; readonly cells?: number }
  /** Of the dataset that the parameters name. Default: those of the dimensions, and of `packing`. */
  readonly limitsOf?: (params: Readonly<Record<string, unknown>>) => DatasetLimits
  /** Default: a row is for the whole window. */
  readonly period?: PeriodSpec
  /** Tables of `bi` by the key column that joins to each. Default: none; the calendar, `dim_date`, is there for every source. */
  readonly dimensionTables?: Readonly<Record<string, DimensionTableSpec>>
  /** Of a walk: its pages are paid for. Prices are learned from bills; this is what others were seen to pay. Default: pages are free, and of reports nothing is known. */
  readonly billing?: { readonly seen: readonly NamedPrice[] }
  /** Which dataset a definition asks for, where the source offers several; its answers are counted alike. Default: the source is the dataset. */
  readonly datasetOf?: (definition: { readonly params: Readonly<Record<string, unknown>> }) => string
  /** What is wrong with a definition though each of its parts is right. */
  readonly problems?: (definition: ParamsAndWindow) => readonly SpecProblem[]
}

/** What a source looks at as a whole. */
export interface ParamsAndWindow {
  readonly params: Readonly<Record<string, unknown>>
  readonly window: Pick<Definition['window'], 'every'>
}

/** Whose key, of which API: a definition is one. `source` may also be the API's name alone. */
export type AccountOf = Pick<Definition, 'source' | 'account'>

/** The source with the dimensions of the dataset that a definition names. */
export const ofDataset = <Spec extends SourceSpec>(
  source: Spec,
  params: Readonly<Record<string, unknown>>,
  forEach: readonly string[],
): Spec => (source.dimensionsOf === undefined ? source : { ...source, dimensions: source.dimensionsOf(params, forEach) })

/** One dataset that a service offers. */
export interface Dataset {
  readonly table: string
  readonly metrics: readonly string[]
  /** What it can be asked by; null: the service does not say. */
  readonly filters: readonly string[] | null
  /** By the parameter of a definition: what the dataset can be asked with. */
  readonly choices: Readonly<Record<string, readonly string[]>>
  /** Columns that tell rows apart beside the period and what is asked for; null where the service does not say. */
  readonly dimensions: readonly string[] | null
  /** What the service says of the dataset, and of its metrics and dimensions by name; empty where it says nothing. */
  readonly about: string
  readonly descriptions: Readonly<Record<string, string>>
  /** First and last month there is, YYYY-MM; null where the service does not say. */
  readonly from: string | null
  readonly to: string | null
}
