// The tables of one answer, one below the other or in files of their own: which of them the definition reads (`report.section`), by place or by name.
import { excerpt } from '../core/cast-cell.ts'
import { counted } from '../core/counted.ts'
import { EtlError } from '../core/errors.ts'
import { eachElement, eachField, skipValue } from './json-scan.ts'
import { measurePlaces } from './parse-plan.ts'
import { addUnknown } from './parse-report.ts'
import type { RowSink } from './row-sink.ts'

/** Takes note of another table. Throws BAD_RESPONSE where the definition does not tell them apart. @param label its name in the answer; null: it has none */
export const beginTable = (sink: RowSink, line: number, names: readonly string[], label: string | null): void => {
  const { tables, plan, file, part } = sink
  tables.count += 1
  const hasName = label !== null || (file !== null && tables.part !== part)
  const isNamed = typeof plan.section === 'number' || (plan.section !== null && hasName)
  if (tables.count > 1 && !isNamed)
    throw new EtlError(
      'BAD_RESPONSE',
      `Part ${part}, line ${line}: a second table begins (${excerpt(names.join(', '))}) under that of ${excerpt(tables.names.join(', '))}. Nothing was loaded. ` +
        `To read the first of them write \`report: { section: 1 }\` into the definition, or the place${hasName ? ' or name' : ''} of another${label === null ? offered(sink) : `, such as '${excerpt(label)}'`}; the next run uses it.`,
    )
  ;[tables.names, tables.part] = [names, part]
}

/** Whether the table is the definition's. @param place among the tables, from 1 */
export const isWanted = ({ tables, plan: { section }, file }: RowSink, place: number, label: string | null): boolean => {
  const name = label ?? file?.name ?? null
  const isIt = typeof section === 'number' ? section === place : section === null || name === null || section === name
  tables.found ||= isIt
  return isIt
}

/** Counts a record of another table: the service's own count includes it. */
export const leaveTable = ({ report }: RowSink, cells: number): void => {
  report.passedOver += 1
  report.cellsLeftOut.most += cells
}

const openBrace = 123

/** Counts the records of a list that the definition does not read; elements that are no objects do not count. */
export const leaveList = (sink: RowSink, bytes: Buffer, listAt: number): void => {
  eachElement(bytes, listAt, 1, (_, recordAt, depth) => {
    if (bytes[recordAt] !== openBrace) return skipValue(bytes, recordAt, depth)
    let fields = 0
    const end = eachField(bytes, recordAt, depth, () => {
      fields += 1
    })
    leaveTable(sink, fields)
    return end
  })
}

/** At the end of the answer. Throws BAD_RESPONSE where it has tables, and not the one that the definition names. */
export const checkTables = (sink: RowSink): void => {
  const { tables, plan, part } = sink
  if (tables.count === 0 || tables.found) return
  const wanted = typeof plan.section === 'number' ? `table ${plan.section}` : `'${plan.section}'`
  throw new EtlError(
    'BAD_RESPONSE',
    `Part ${part} holds ${counted(tables.count, 'table')}${offered(sink)}; \`report.section\` of the definition names ${wanted}. Nothing was loaded.`,
  )
}

const offered = ({ file }: RowSink): string => (file === null ? '' : ` (files: ${excerpt(file.of.join(', '), 300)})`)

/** What to do where a table lacks part of the key. @param what the service calls by another name now */
export const ifRenamed = (what: 'column' | 'field', sink: RowSink): string =>
  `Nothing was loaded. If the service renamed a ${what}, name it in \`from\` of the column; if the answer holds several tables${offered(sink)}, ` +
  'write the place or name of yours: `report: { section: 2 }`; otherwise check the landed file.'

/** A field by its name. The same place and name give the same object, by which records of one shape are recognised. */
export interface NamedField {
  /** Its name, where no column has it. */
  readonly stranger: string | null
  /** Whether its value names the table. */
  readonly isLabel: boolean
}

/** A table of records without a name. */
interface Unnamed {
  readonly place: number
  readonly strangers: Set<string>
  hasMeasure: boolean
}

/**
 * Decides which table a JSON record is of. A record that names its table is told apart by that name. Without a name, records of one table share
 * a field that no column has, or have one of the definition's measures; a field that some of them lack makes no other table.
 * @param has whether the record at hand has a field of that column
 */
export const createDetector = (sink: RowSink, has: (place: number) => boolean, textAt: (from: number, to: number) => string) => {
  const { plan, tables, report } = sink
  const shape: NamedField[] = []
  /** The record before: its fields, its part, and whether it was of another table. `isNew`: a field of this record differs. */
  let [length, part, wasOther, isNew] = [0, 0, false, false]
  const named = new Map<string, number>()
  const unnamed: Unnamed[] = []
  const own = plan.columns.map(({ column }) => column.name)
  const measures = measurePlaces(plan)
  let strangers: string[] = []
  let label: string | null = null
  const begin = (line: number, from: readonly string[] = []): number => {
    beginTable(sink, line, [...strangers, ...from], label)
    return tables.count
  }
  const placeOf = (hasMeasure: boolean, line: number): number => {
    if (label !== null) {
      const place = named.get(label) ?? begin(line)
      named.set(label, place)
      return place
    }
    const isPlain = strangers.length === 0 && !hasMeasure
    const isOf = (one: Unnamed): boolean =>
      (one.hasMeasure && (hasMeasure || isPlain)) ||
      (one.strangers.size === 0 && !one.hasMeasure) ||
      strangers.some((name) => one.strangers.has(name))
    let found = (measures.length > 0 ? unnamed.find(isOf) : unnamed[0]) ?? (isPlain ? unnamed[0] : undefined)
    if (found === undefined) {
      found = { place: begin(line, hasMeasure ? own : []), strangers: new Set(), hasMeasure }
      unnamed.push(found)
    }
    found.hasMeasure ||= hasMeasure
    for (const name of strangers) found.strangers.add(name)
    return found.place
  }
  const judge = (isOwn: boolean, line: number): boolean => {
    strangers = shape.slice(0, length).flatMap(({ stranger }) => stranger ?? [])
    if (!isOwn && !isWanted(sink, placeOf(measures.some(has), line), label)) return true
    for (const name of strangers) addUnknown(report, name)
    return false
  }
  return {
    begin: (): void => {
      label = null
    },
    /** @param place among the record's fields @param from where its value begins */
    add: <Field extends NamedField>(field: Field, place: number, from: number, to: number): Field => {
      if (shape[place] !== field) {
        shape[place] = field
        isNew = true
      }
      if (field.isLabel) label ??= textAt(from, to)
      return field
    },
    /** Whether the record is of another table and is left; if not, reports fields that no column has. Throws BAD_RESPONSE. @param isOwn see `RecordLane` */
    isOther: (isOwn: boolean, line: number, fields: number): boolean => {
      // Most records have the fields of the record before.
      if (isNew || fields !== length || part !== sink.part || label !== null) {
        ;[length, part, isNew] = [fields, sink.part, false]
        wasOther = judge(isOwn, line)
      }
      if (wasOther) leaveTable(sink, fields)
      return wasOther
    },
  }
}
