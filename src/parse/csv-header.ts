// The CSV's header: which cell belongs to which column, and what differs from the definition.
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
}

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
  return { width: cells.length, places }
}

const shown = (cells: readonly string[]): string => excerpt(cells.slice(0, 30).join(', '), 300)

const bad = (part: number, what: string): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `The CSV header of part ${part} ${what}. Nothing was loaded. ` +
      'If the service renamed a column, name it in `from` of the column; otherwise check the landed file.',
  )
