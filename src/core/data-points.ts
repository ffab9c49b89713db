// What a service may mean by the data points it counts in a report, and which meanings agree with what arrived.

/** `rows`; `cells`: rows times metrics asked for; `non_empty_cells`: those of them that hold a value. */
export const dataPointReadings = ['rows', 'cells', 'non_empty_cells'] as const
export type DataPointReading = (typeof dataPointReadings)[number]

/** What a definition says of it: one reading, `learn` from answers that agree, or `ignore` the count. */
export type DataPointRule = DataPointReading | 'learn' | 'ignore'

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
}

const spanOf = ({ rows, metrics, filled }: Arrived, reading: DataPointReading): Span | null => {
  if (reading === 'rows') return rows
  return reading === 'non_empty_cells' ? filled : { least: rows.least * metrics, most: rows.most * metrics }
}

/** Rows and cells are counted one way or the other, cells without a value by the record: only there anything between is possible. */
const holds = (reading: DataPointReading, { least, most }: Span, announced: number): boolean =>
  reading === 'non_empty_cells' ? announced >= least && announced <= most : announced === least || announced === most

/** Those of `readings` by which the report is as large as announced. */
export const agreeing = (
  announced: number,
  arrived: Arrived,
  readings: readonly DataPointReading[],
): readonly DataPointReading[] =>
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

/** `600 data points` as a person compares them. */
export const showArrived = ({ rows, metrics, filled }: Arrived): string => {
  const cells = `${show({ least: rows.least * metrics, most: rows.most * metrics })} cells`
  const values = filled === null ? '' : `, ${show(filled)} of them not empty`
  return `${show(rows)} ${rows.most === 1 ? 'row' : 'rows'} (${cells}${values})`
}

const show = ({ least, most }: Span): string => (least === most ? String(least) : `${least} to ${most}`)
