// The CSV's header: which cell belongs to which column, and what differs from the definition. A file of several tables has one for each.
import { EtlError } from '../core/errors.ts'
import { maxColumns } from './parse-limits.ts'
import { fieldName, type ParsePlan } from './parse-plan.ts'
import { excerpt } from './raw-text.ts'
import { addUnknown, type ParseReport } from './parse-report.ts'

/** What the first line says. */
export interface Header {
  /** Cells of a record. */
  readonly width: number
  /** For each planned column the place of its cell; -1 where the file lacks it. */
  readonly places: readonly number[]
  /** Place of the period, in which a row has a date; -1: none. */
  readonly dateAt: number
}

/** Of a table that is not the definition's. */
export const foreignHeader = (cells: readonly string[], { columns }: ParsePlan): Header => {
  const dates = columns.flatMap(({ column, names }) => (column.isKey && column.type === 'date' ? names : []))
  return { width: cells.length, places: [], dateAt: cells.findIndex((cell) => dates.includes(fieldName(cell))) }
}

/** Whether a record under a header is the header of another table: words alone, one of them a name of the key. A row has a date. */
export const isHeader = (cells: readonly string[], { columns, keyPlaces }: ParsePlan): boolean =>
  cells.every((cell) => /^[a-z_][a-z0-9_ ]*$/i.test(cell)) &&
  keyPlaces.some((place) => cells.some((cell) => columns[place]?.names.includes(fieldName(cell))))

/** Maps the header by name. Throws BAD_RESPONSE where a name stands twice or a key column is missing. */
export const readHeader = (cells: readonly string[], part: number, plan: ParsePlan, report: ParseReport): Header => {
  if (cells.length > maxColumns) throw bad(part, `has ${cells.length} columns, at most ${maxColumns} are read`)
  const found = cells.map(fieldName)
  const twice = found.find((name, index) => name !== '' && found.indexOf(name) !== index)
  if (twice !== undefined) throw bad(part, `names '${excerpt(twice)}' twice, so its cells mean nothing`)
  const places = plan.columns.map(({ names }) => names.map((name) => found.indexOf(name)).find((place) => place >= 0) ?? -1)
  for (const [index, { column, names }] of plan.columns.entries()) {
    if (places[index] === -1 && column.isKey) {
      const expected = `expected ${names.map((name) => `'${name}'`).join(' or ')} for key column '${column.name}'`
      throw bad(part, `lacks part of the key: found ${shown(cells)}; ${expected}`)
    }
  }
  for (const [index, name] of found.entries()) {
    if (!places.includes(index) && !plan.knownElsewhere.has(name)) addUnknown(report, excerpt(cells[index]?.trim() ?? name))
  }
  return { ...foreignHeader(cells, plan), places }
}

const shown = (cells: readonly string[]): string => excerpt(cells.slice(0, 30).join(', '), 300)

const bad = (part: number, what: string): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `The CSV header of part ${part} ${what}. Nothing was loaded. ` +
      'If the service renamed a column, name it in `from` of the column; if the file holds several tables, write the place of yours: `report: { section: 2 }`; otherwise check the landed file.',
  )
