// What a source declares about itself, so that definitions can be checked without running the source.
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
  /** How many values one request may name. 1: one request a value; more: each row of the response names its value. */
  readonly mostPerRequest: number
  readonly normalize?: Normalize
  /** A value for the files of a new dataset. */
  readonly example?: string
  /** Pattern each value must match, and how to say so. */
  readonly pattern?: RegExp
  readonly expected?: string
}

/** Limits of one request for a dataset, where they differ from those of its source. */
export interface DatasetLimits {
  /** Most values of each dimension. */
  readonly values?: Readonly<Record<string, number>>
  /** Months, the first and the last included. */
  readonly months?: number
  /** Only the first so many rows of each combination are requested: so many count as complete. Default: all. */
  readonly top?: number
  /** The field that says which share of the whole a row is; summed over a combination. Default: the service has no such field. */
  readonly shareField?: string
  /** Most rows of a combination of values and period that an answer holds: with exactly so many it may be truncated. Default: no limit. */
  readonly rows?: number
}

/** Brings values that the service spells in several ways (countries, domains) to one spelling. */
export interface Spelling {
  /** A cell of an answer as the warehouse writes it. */
  write(cell: string): string
  /** Why a value of a definition's list has the wrong spelling, and what to write instead; null: the spelling is right. */
  problem(value: string): string | null
}

/** How answers in a dialect differ from the source's own form. */
export interface AnswerDialect {
  readonly recordsIn?: string
  /** What a field is called. */
  readonly fields: Readonly<Record<string, string>>
  /** Fields that no record has: NULL, whatever `if_absent` says. */
  readonly lacks: readonly string[]
}

/** The form of a source's answers, for the parser. */
export interface AnswerForm {
  /** The list of a JSON page that holds the records. Default: the only list of objects. */
  readonly recordsIn?: string
  /** Fields in which a JSON record may name its table, where an answer has several. Default: none. */
  readonly tableIn?: readonly string[]
  /** By dialect: the form of answers that were requested in it. Default: the source has one dialect. */
  readonly dialects?: Readonly<Record<string, AnswerDialect>>
  /** By the name that columns, fields and dimensions give as `normalize`; `period_start` is built in. Default: none. */
  readonly spellings?: Readonly<Record<string, Spelling>>
  /** The span that a request for the window covers, where it is wider: rows outside the window are skipped. Default: the window. */
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
  /** Parameters that change how an answer is delivered, not its content: no part of a key. Default: none. */
  readonly deliveryParams?: readonly string[]
  readonly dimensions: Readonly<Record<string, DimensionSpec>>
  /**
   * The dimensions of the dataset that `params` (as written) name, where they depend on it. `dimensions` is then for a dataset that is not known.
   * @param forEach names that the definition runs for
   */
  readonly dimensionsOf?: (
    params: Readonly<Record<string, unknown>>,
    forEach: readonly string[],
  ) => Readonly<Record<string, DimensionSpec>>
  /** The parameters with defaults that depend on the dataset. Default: as they are. */
  readonly withDefaults?: <Given extends Readonly<Record<string, unknown>>>(params: Given) => Given
  /** Columns that identify rows of the dataset beside its dimensions; null: the source does not know them. */
  readonly splitOf?: (table: string) => readonly string[] | null
  /** Known fields of the response: they supply the type, description and aliases that a definition leaves out. */
  readonly fields: Readonly<Record<string, FieldSpec>>
  /** Whether a column may name a response field that is not in `fields` (batch metrics are an open set). */
  readonly openFields: boolean
  /** Window sizes that the source offers. Default: every size. */
  readonly windowSizes?: readonly WindowSize[]
  /** Limits of one request: consecutive windows; cells, which are windows times combinations of values. Default: one window; the cells of one planning step. */
  readonly packing?: { readonly windows: number; readonly cells?: number }
  /** Limits of the dataset that the parameters name. Default: those of the dimensions and of `packing`. */
  readonly limitsOf?: (params: Readonly<Record<string, unknown>>) => DatasetLimits
  /** Default: a row is for the whole window. */
  readonly period?: PeriodSpec
  /** Tables of `bi` by the key column that joins to each. Default: none; the calendar, `dim_date`, is there for every source. */
  readonly dimensionTables?: Readonly<Record<string, DimensionTableSpec>>
  /** Pages of a walk cost credits. `seen`: prices that other accounts paid; real prices are learned from bills. Default: pages are free, prices of reports not known. */
  readonly billing?: { readonly seen: readonly NamedPrice[] }
  /** The dataset that a definition requests, where the source offers several: all answers of a dataset count alike. Default: the source is the dataset. */
  readonly datasetOf?: (definition: { readonly params: Readonly<Record<string, unknown>> }) => string
  /** Problems of a definition as a whole, found where each of its parts is valid. */
  readonly problems?: (definition: ParamsAndWindow) => readonly SpecProblem[]
}

/** The parts of a definition that `problems` checks together. */
export interface ParamsAndWindow {
  readonly params: Readonly<Record<string, unknown>>
  readonly window: Pick<Definition['window'], 'every'>
}

/** Names an account of an API; a `Definition` fits. `source` may also be the API's name alone. */
export type AccountOf = Pick<Definition, 'source' | 'account'>

/** The source with the dimensions of the dataset that a definition names. */
export const withDatasetDimensions = <Spec extends SourceSpec>(
  source: Spec,
  params: Readonly<Record<string, unknown>>,
  forEach: readonly string[],
): Spec => (source.dimensionsOf === undefined ? source : { ...source, dimensions: source.dimensionsOf(params, forEach) })

/** One dataset that a service offers. */
export interface Dataset {
  readonly table: string
  readonly metrics: readonly string[]
  /** Filters that a request may have; null: the service does not say. */
  readonly filters: readonly string[] | null
  /** By parameter of a definition: the values that the dataset accepts. */
  readonly choices: Readonly<Record<string, readonly string[]>>
  /** Columns that identify rows beside the period and the filters; null: the service does not say. */
  readonly dimensions: readonly string[] | null
  /** What the service says of the dataset, and of its metrics and dimensions by name; empty where it says nothing. */
  readonly about: string
  readonly descriptions: Readonly<Record<string, string>>
  /** First and last month with data, YYYY-MM; null: the service does not say. */
  readonly from: string | null
  readonly to: string | null
}
