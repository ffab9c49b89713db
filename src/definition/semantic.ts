// What figures mean: subjects over views of bi, their dimensions and metrics, and over which dimensions a metric adds up.
import type { Place } from './yaml-file.ts'

/** Lengths of a period, from short to long. */
export const calendarGrains = ['day', 'week', 'month', 'quarter', 'year'] as const
/** By bi.dim_date, which knows the month the fiscal year begins with. */
const fiscalGrains = ['fiscal_quarter', 'fiscal_year'] as const
export const grains = [...calendarGrains, ...fiscalGrains] as const
export type Grain = (typeof grains)[number]
export const isFiscal = (grain: Grain): boolean => (fiscalGrains as readonly Grain[]).includes(grain)
/** What is told by quarter and year is told by fiscal ones, too. */
export const withFiscal = (known: readonly Grain[]): readonly Grain[] => [
  ...known,
  ...fiscalGrains.filter((grain) => known.some((one) => grain === `fiscal_${one}`)),
]

/** How a figure is written: `share` is a fraction shown as a percentage, `money` US dollars. */
export const figureFormats = ['count', 'decimal', 'share', 'money'] as const
export type FigureFormat = (typeof figureFormats)[number]

/** Where an entry stands, for messages. */
export interface EntryPlace extends Place {
  readonly file: string
}

/** Members of a dimension that must not meet in one figure. */
export type Overlap =
  | { readonly kind: 'none' }
  /** One member holds all others (worldwide and single countries). Unless a question chooses, `default` says which side counts. */
  | { readonly kind: 'whole'; readonly whole: string; readonly default: 'whole' | 'parts' }
  /** Every figure has exactly one member (granularity); unless a question chooses, this one. */
  | { readonly kind: 'one'; readonly value: string }

/** Something figures can be asked by or filtered by. */
export interface SemanticDimension {
  readonly at: EntryPlace
  readonly name: string
  readonly about: string
  /** Of the subject's view, or of the entity's table where `of` is set. */
  readonly column: string
  readonly synonyms: readonly string[]
  readonly overlap: Overlap
  readonly type: 'text' | 'number'
  /** Every value there can be; a table of bi and its column that hold them; null: not known, or as the entity has them. */
  readonly values: readonly string[] | { readonly table: string; readonly column: string } | null
  /** Table in bi that the column leads to, and its key there; null: it is a plain attribute. */
  readonly entity: { readonly table: string; readonly key: string } | null
  /** Dimension of the same subject whose entity has this as an attribute; null: it stands in the view itself. */
  readonly of: string | null
  /** Table in bi that has the attribute by the entity's key; null: the entity's own. */
  readonly table: string | null
}

/** How a metric is made from rows. Expressions are SQL over the columns of the view. */
export type Formula =
  | { readonly kind: 'sum' | 'count_distinct' | 'min' | 'max'; readonly of: string }
  /** Average of `of` weighted by `weight`, over rows that have both. */
  | { readonly kind: 'mean'; readonly of: string; readonly weight: string }
  /** The value below which that part of the rows' values is: 0.5 is the median. */
  | { readonly kind: 'quantile'; readonly of: string; readonly at: number }
  /** Two sums of the same subject divided, over rows that have both: `of` by `to`, names of metrics. */
  | { readonly kind: 'ratio'; readonly of: string; readonly to: string }
  /** An SQL expression over figures of the same subject (`parts`), each over rows that have all of them. */
  | { readonly kind: 'derived'; readonly of: string; readonly parts: readonly string[] }
  | WindowFormula

/** A sum of the same subject (`of`), set against other rows of the answer. */
type WindowFormula =
  /** Divided by that of all values of a dimension. */
  | { readonly kind: 'share'; readonly of: string; readonly over: string }
  /** Added up from the first period asked for, or from the first of each year, quarter, ... */
  | { readonly kind: 'cumulative'; readonly of: string; readonly each: Grain | null }
  /** Of the period and those before it, so many together. */
  | { readonly kind: 'rolling'; readonly of: string; readonly periods: number }

/** Metrics of the two months that an `against` is made of, the later one first; null: it is none. */
export const againstOf = (formula: Formula): readonly [string, string] | null =>
  formula.kind === 'ratio' && formula.to === `${formula.of}_before` ? [formula.of, formula.to] : null

/** null: the figure is made of its own rows alone. */
export const windowOf = ({ formula }: Pick<Metric, 'formula'>): WindowFormula | null =>
  formula.kind === 'share' || formula.kind === 'cumulative' || formula.kind === 'rolling' ? formula : null

/** Metrics that other tools can say: they add up what is there, so a part of a whole and a sum over periods would be wrong where a row is missing. */
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
  /** Condition on rows of slices of which the figure is known; null: of all that have a row. */
  readonly known: string | null
  readonly unit: string
  readonly format: FigureFormat
  readonly synonyms: readonly string[]
  /** Dimensions, or the time, over which it does not add up, each with the reason. */
  readonly neverOver: ReadonlyMap<string, string>
  /** Dimensions whose values together each row holds the figure of; so which of them are loaded changes it. */
  readonly wholeOf: readonly string[]
  /** Lengths of period it may be asked for; a subset of the subject's. */
  readonly grains: readonly Grain[]
}

/** One view of bi in words. */
export interface Subject {
  readonly at: EntryPlace
  readonly name: string
  readonly about: string
  readonly view: string
  /** Whose loads decide what is there, what is final and what was restated; null: none. */
  readonly pipeline: string | null
  /** Other views that show the same figures ready-made. */
  readonly shownBy: readonly string[]
  /** Columns that make a row of the view unique. */
  readonly grain: readonly string[]
  /** Columns of the grain that tell apart what is loaded together; two periods are compared slice by slice. */
  readonly slice: readonly string[]
  /** The column periods are told by, and their lengths: the first is that of the rows. null: there is no time. */
  readonly time: { readonly column: string; readonly grains: readonly Grain[] } | null
  readonly dimensions: ReadonlyMap<string, SemanticDimension>
  readonly metrics: ReadonlyMap<string, Metric>
}

/** Every subject, by name. Names of metrics are unique over all of them. */
export interface SemanticModel {
  readonly subjects: ReadonlyMap<string, Subject>
}

/** The view can be asked as it was believed at a moment: bi.<pipeline>_as_of. */
export const knowsThePast = ({ view, pipeline }: Pick<Subject, 'view' | 'pipeline'>): boolean => view === pipeline
