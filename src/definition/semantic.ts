// The semantic model: subjects over views of bi, their dimensions and metrics, and over which dimensions a metric adds up.
import type { Place } from './yaml-file.ts'

/** Lengths of a period, from short to long. */
export const calendarGrains = ['day', 'week', 'month', 'quarter', 'year'] as const
/** From bi.dim_date, which has the first month of the fiscal year. */
const fiscalGrains = ['fiscal_quarter', 'fiscal_year'] as const
export const grains = [...calendarGrains, ...fiscalGrains] as const
export type Grain = (typeof grains)[number]
export const isFiscal = (grain: Grain): boolean => (fiscalGrains as readonly Grain[]).includes(grain)
/** Adds the fiscal quarter and year to the calendar ones. */
export const withFiscal = (known: readonly Grain[]): readonly Grain[] => [
  ...known,
  ...fiscalGrains.filter((grain) => known.some((one) => grain === `fiscal_${one}`)),
]

/** How a figure is written: `share` is a fraction shown as a percentage, `money` US dollars. */
export const figureFormats = ['count', 'decimal', 'share', 'money'] as const
export type FigureFormat = (typeof figureFormats)[number]

/** The place of an entry in its file, for messages. */
export interface EntryPlace extends Place {
  readonly file: string
}

/** Members of a dimension that must not be combined in one figure. */
export type Overlap =
  | { readonly kind: 'none' }
  /** One member contains all others (worldwide contains countries). `default`: the side that counts unless a question chooses. */
  | { readonly kind: 'whole'; readonly whole: string; readonly default: 'whole' | 'parts' }
  /** Every figure has exactly one member (granularity). `value`: the member unless a question chooses. */
  | { readonly kind: 'one'; readonly value: string }

/** A dimension by which questions can group or filter. */
export interface SemanticDimension {
  readonly at: EntryPlace
  readonly name: string
  readonly about: string
  /** Column of the subject's view; of the entity's table where `of` is set. */
  readonly column: string
  readonly synonyms: readonly string[]
  readonly overlap: Overlap
  readonly type: 'text' | 'number'
  /** All possible values, or the table and column of bi that hold them; null: not known, or the entity's table has them. */
  readonly values: readonly string[] | { readonly table: string; readonly column: string } | null
  /** Table in bi that the column refers to, and its key; null: a plain attribute. */
  readonly entity: { readonly table: string; readonly key: string } | null
  /** Dimension of the same subject whose entity has this attribute; null: the view itself has it. */
  readonly of: string | null
  /** Table in bi with the attribute by the entity's key; null: the entity's own table. */
  readonly table: string | null
}

/** How a metric is computed from rows. Expressions are SQL over the view's columns. */
export type Formula =
  | { readonly kind: 'sum' | 'count_distinct' | 'min' | 'max'; readonly of: string }
  /** Average of `of` weighted by `weight`, over rows that have both. */
  | { readonly kind: 'mean'; readonly of: string; readonly weight: string }
  /** The value below which the share `at` of the rows lies; 0.5 is the median. */
  | { readonly kind: 'quantile'; readonly of: string; readonly at: number }
  /** Metric `of` divided by metric `to`: two sums of the same subject, over rows that have both. */
  | { readonly kind: 'ratio'; readonly of: string; readonly to: string }
  /** An SQL expression over figures of the same subject (`parts`), each over rows that have all of them. */
  | { readonly kind: 'derived'; readonly of: string; readonly parts: readonly string[] }
  | WindowFormula

/** A sum of the same subject (`of`), compared with or added to other rows of the answer. */
type WindowFormula =
  /** Divided by the sum over all values of the dimension `over`. */
  | { readonly kind: 'share'; readonly of: string; readonly over: string }
  /** Added up from the first period of the question, or from the first of each year, quarter, ... */
  | { readonly kind: 'cumulative'; readonly of: string; readonly each: Grain | null }
  /** Added up over so many periods, up to the row's own. */
  | { readonly kind: 'rolling'; readonly of: string; readonly periods: number }

/** The two metrics (later month, month before) that an `against` compares; null: the formula is no `against`. */
export const againstOf = (formula: Formula): readonly [string, string] | null =>
  formula.kind === 'ratio' && formula.to === `${formula.of}_before` ? [formula.of, formula.to] : null

/** null: the figure needs only its own rows. */
export const windowOf = ({ formula }: Pick<Metric, 'formula'>): WindowFormula | null =>
  formula.kind === 'share' || formula.kind === 'cumulative' || formula.kind === 'rolling' ? formula : null

/** Metrics that other tools can express: they only add up existing rows, so shares and sums over periods would be wrong where a row is missing. */
export const plainMetrics = ({ metrics }: Pick<Subject, 'metrics'>): Metric[] =>
  [...metrics.values()].filter((metric) => windowOf(metric) === null)

export const partsOf = (formula: Formula): readonly string[] => {
  if (formula.kind === 'ratio') return [formula.to, formula.of]
  if (formula.kind === 'derived') return formula.parts
  return windowOf({ formula }) === null ? [] : [formula.of]
}

export interface Metric {
  readonly at: EntryPlace
  readonly name: string
  readonly about: string
  readonly formula: Formula
  /** Condition on rows, as SQL; null: every row counts. */
  readonly where: string | null
  /** Condition on rows for which the figure is known; null: for every row. */
  readonly known: string | null
  readonly unit: string
  readonly format: FigureFormat
  readonly synonyms: readonly string[]
  /** Dimensions, or the time, over which it does not add up, each with the reason. */
  readonly neverOver: ReadonlyMap<string, string>
  /** Dimensions whose values each row already covers as a whole, so that the figure depends on which values are loaded. */
  readonly wholeOf: readonly string[]
  /** Lengths of period that a question may use; a subset of the subject's. */
  readonly grains: readonly Grain[]
}

/** A view of bi with its meaning. */
export interface Subject {
  readonly at: EntryPlace
  readonly name: string
  readonly about: string
  readonly view: string
  /** The pipeline whose loads decide which data exist, are final or restated; null: none. */
  readonly pipeline: string | null
  /** Other views that show the same figures ready-made. */
  readonly shownBy: readonly string[]
  /** Columns that make a row of the view unique. */
  readonly grain: readonly string[]
  /** Columns of the grain that identify a slice; two periods are compared slice by slice. */
  readonly slice: readonly string[]
  /** The column of the period and the lengths of period; the first is the length in the rows. null: no time. */
  readonly time: { readonly column: string; readonly grains: readonly Grain[] } | null
  readonly dimensions: ReadonlyMap<string, SemanticDimension>
  readonly metrics: ReadonlyMap<string, Metric>
}

/** Every subject, by name. Names of metrics are unique over all of them. */
export interface SemanticModel {
  readonly subjects: ReadonlyMap<string, Subject>
}

/** Whether questions can query the data as of a moment: bi.<pipeline>_as_of. */
export const hasAsOf = ({ view, pipeline }: Pick<Subject, 'view' | 'pipeline'>): boolean => view === pipeline
