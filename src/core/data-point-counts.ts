// What a service may mean by the data points it counts in a report, and which meanings agree with what arrived.

/** `rows`; `cells`: rows times requested metrics; `non_empty_cells`: cells that hold a value. */
export const dataPointReadings = ['rows', 'cells', 'non_empty_cells'] as const
export type DataPointReading = (typeof dataPointReadings)[number]

/** The same, with every duplicate counted. Never learnt, only set by a definition: else a row that came twice could hide a missing row. */
export const repeatedReadings = ['rows_with_duplicates', 'cells_with_duplicates', 'non_empty_cells_with_duplicates'] as const

export type AnyReading = DataPointReading | (typeof repeatedReadings)[number]
export const allReadings: readonly AnyReading[] = [...dataPointReadings, ...repeatedReadings]

/** A definition's rule: one reading, `learn` from answers that agree, or `ignore` the count. */
export type DataPointRule = AnyReading | 'learn' | 'ignore'

/** A number that is not known exactly, because an unreadable record may hold some values or none. */
export interface Span {
  readonly least: number
  readonly most: number
}

/** The size of a report as it arrived. Rejected rows count; identical rows count once. */
export interface Arrived {
  /** Rows with the same key but other values: `least` counts them once, `most` counts each. */
  readonly rows: Span
  readonly metrics: number
  /** null: not counted. */
  readonly filled: Span | null
  /** Counted with every duplicate. */
  readonly all: { readonly rows: number; readonly filled: Span | null }
}

const times = ({ least, most }: Span, factor: number): Span => ({ least: least * factor, most: most * factor })

const spanOf = ({ rows, metrics, filled, all }: Arrived, reading: AnyReading): Span | null => {
  const allRows = { least: all.rows, most: all.rows }
  const spans: Readonly<Record<AnyReading, Span | null>> = {
    rows,
    cells: times(rows, metrics),
    non_empty_cells: filled,
    rows_with_duplicates: allRows,
    cells_with_duplicates: times(allRows, metrics),
    non_empty_cells_with_duplicates: all.filled,
  }
  return spans[reading]
}

/** A service counts rows and cells by `least` or by `most`. It counts non-empty cells record by record: there any number between is possible. */
const holds = (reading: AnyReading, { least, most }: Span, announced: number): boolean =>
  reading.startsWith('non_empty_cells') ? announced >= least && announced <= most : announced === least || announced === most

/** The readings under which the report has the announced size. */
export const matchingReadings = <Reading extends AnyReading>(
  announced: number,
  arrived: Arrived,
  readings: readonly Reading[],
): readonly Reading[] =>
  readings.filter((reading) => {
    const span = spanOf(arrived, reading)
    return span !== null && holds(reading, span, announced)
  })

/** How full the report is; decides where several readings are still possible. */
export interface Coverage {
  /** Most rows that are possible; null: a dimension that the request does not name multiplies them. */
  readonly mostRows: number | null
  /** Share of the requested cells (windows times slices) that have a row. */
  readonly share: number
}

/** From here on no large part of a report can be missing without whole cells missing too. */
const fullShare = 0.9

/**
 * Whether rows may be missing although a reading agrees: with two metrics, half a report counted in rows looks like a whole one counted in cells.
 * Then only the request can decide; where it cannot, the report is not proved complete.
 */
export const mayLackRows = (announced: number, arrived: Arrived, { mostRows, share }: Coverage): boolean => {
  if (announced <= arrived.rows.most) return false
  return mostRows === null ? share < fullShare : announced <= mostRows
}

/** `2 rows (12 cells, 11 of them not empty)`, as a person compares them. */
export const showArrived = ({ rows, metrics, filled, all }: Arrived): string => {
  const cells = `${show(times(rows, metrics))} ${rows.most * metrics === 1 ? 'cell' : 'cells'}`
  const values = filled === null ? '' : `, ${show(filled)} of them not empty`
  const repeated = all.rows > rows.most ? `, ${all.rows} rows with duplicates` : ''
  return `${show(rows)} ${rows.most === 1 ? 'row' : 'rows'} (${cells}${values}${repeated})`
}

const show = ({ least, most }: Span): string => (least === most ? String(least) : `${least} to ${most}`)
