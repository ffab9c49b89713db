// What a service may mean by the data points it counts in a report, and which meanings agree with what arrived.

/** `rows`; `cells`: rows times metrics asked for; `non_empty_cells`: those of them that hold a value. */
export const dataPointReadings = ['rows', 'cells', 'non_empty_cells'] as const
export type DataPointReading = (typeof dataPointReadings)[number]

/** The same where a service counts each of identical rows. Only a definition can say so: learnt, a row that came twice would hide one that did not come. */
export const repeatedReadings = ['rows_with_duplicates', 'cells_with_duplicates', 'non_empty_cells_with_duplicates'] as const

export type AnyReading = DataPointReading | (typeof repeatedReadings)[number]
export const allReadings: readonly AnyReading[] = [...dataPointReadings, ...repeatedReadings]

/** What a definition says of it: one reading, `learn` from answers that agree, or `ignore` the count. */
export type DataPointRule = AnyReading | 'learn' | 'ignore'

/** Where a number is not known exactly: a record that cannot be read may hold some values or none. */
export interface Span {
  readonly least: number
  readonly most: number
}

/** A report as it arrived. Rejected rows count; of identical rows one does. */
export interface Arrived {
  /** `least` counts rows that share a key and differ once, `most` each of them. */
  readonly rows: Span
  readonly metrics: number
  /** null: not counted. */
  readonly filled: Span | null
  /** With each of identical rows. */
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

/** Rows and cells are counted one way or the other, cells without a value by the record: only there anything between is possible. */
const holds = (reading: AnyReading, { least, most }: Span, announced: number): boolean =>
  reading.startsWith('non_empty_cells') ? announced >= least && announced <= most : announced === least || announced === most

/** Those of `readings` by which the report is as large as announced. */
export const agreeing = <Reading extends AnyReading>(
  announced: number,
  arrived: Arrived,
  readings: readonly Reading[],
): readonly Reading[] =>
  readings.filter((reading) => {
    const span = spanOf(arrived, reading)
    return span !== null && holds(reading, span, announced)
  })

/** How full the report is, for readings that are still open. */
export interface Coverage {
  /** Rows there can be at most; null: a dimension that is not asked for multiplies them. */
  readonly mostRows: number | null
  /** Share of the cells asked for (windows times slices) that have a row. */
  readonly share: number
}

/** From here on no large part of a report can be missing without whole cells missing too. */
const fullShare = 0.9

/**
 * Whether rows may be missing although another reading agrees: half a report counted by rows is a whole one of two metrics counted by cells.
 * Then only what was asked for can tell, and where it cannot the report is not proved complete.
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
