// The plan of parsing, compiled once for an answer: its columns, their casts, and the places of the key among them.
import { type Cast, castPeriod, CellError, excerpt, type UnrequestedRow, UnaskedError } from '../core/cast-cell.ts'
import { columnTypes } from '../core/column-types.ts'
import type { AnswerDialect, AnswerForm } from '../core/source-spec.ts'
import type { Box, Column, Definition, Window } from '../core/types.ts'
import { maxKeyBytes } from './parse-limits.ts'
import type { UnitMark } from './unit-mark.ts'

/** How a column's cells become values. */
export type PlannedColumn = Readonly<ReturnType<typeof plannedColumn>>

/** `mark` writes the unit's number behind each row and counts by unit. Default: rows need no unit. */
export type ParsePlan = Readonly<ReturnType<typeof compileParsePlan>> & { readonly mark?: UnitMark }

/** A field's name in one spelling: lower case, underscores for spaces, no blanks around it. */
export const fieldName = (name: string): string => name.trim().toLowerCase().replaceAll(/\s+/g, '_')

/**
 * All that parsing needs of a definition, once for an answer. @param form how the source's answers look @param dialect in which this one was requested
 * @param counted metrics whose values are counted, those of another definition that bought the answer among them
 */
export const compileParsePlan = (
  definition: Definition,
  box: Box,
  form: AnswerForm,
  dialect?: string | null,
  counted: readonly string[] = [],
) => {
  const other = form.dialects?.[dialect ?? '']
  const asked = { ...box, span: form.spanOf?.(definition, box.window) ?? box.window }
  const inAnswer = definition.columns.filter((column) => column.origin === 'response')
  const others = definition.columns.filter((column) => column.origin !== 'response')
  const columns = inAnswer.map((column) =>
    plannedColumn(column, other, compileCast(column, definition, asked, form), isPlain(column, box)),
  )
  return {
    /** Those that come with the answer, in the definition's order, which is the order of the COPY. */
    columns,
    /** Fields of `counted` that no column reads. */
    others: counted.map(fieldName).filter((name) => !columns.some(({ names }) => names.includes(name))),
    /** Places of the key's columns among them, in the key's order. */
    keyPlaces: definition.key.map((name) => inAnswer.findIndex((column) => column.name === name)).filter((place) => place >= 0),
    /** Columns of the definition that come from elsewhere: an answer that has them, too, is no drift. */
    knownElsewhere: new Set(others.map((column) => fieldName(column.name))),
    /** The list of a JSON page that holds the records; null: the only list of objects. */
    recordsIn: other?.recordsIn ?? form.recordsIn ?? null,
    /** Fields in which a JSON record may say the name of its table. */
    tableIn: form.tableIn ?? [],
    /** Which of several tables in a body is read: its place from 1, or the name of its list; null: there is one. */
    section: definition.report.section ?? null,
    /** Bytes of a part once inflated. */
    maxBytes: definition.limits.maxBodyBytes,
  }
}

/** @param isPlain the cell is the value: no spelling to correct, no requested values to compare with */
const plannedColumn = (column: Column, dialect: AnswerDialect | undefined, cast: Cast, isPlain: boolean) => ({
  column: isLacked(column, dialect) ? { ...column, ifAbsent: null } : column,
  /** The version of the service that answered has no such field. */
  isLacked: isLacked(column, dialect),
  cast,
  isPlain,
  /** The form of cells that are copied unchanged; null: each cell is cast, and results are remembered, since many cells repeat. */
  copiedAs: isPlain ? columnTypes[column.type].copiedAs : null,
  /** Names of the field in the answer as `fieldName` spells them, best first. */
  names: namesOf(column, dialect),
})

const spellingsOf = ({ name, from }: Pick<Column, 'name' | 'from'>): readonly string[] => (from.length > 0 ? from : [name])

/** Whether the dialect has no such field. */
export const isLacked = (column: Column, dialect: AnswerDialect | undefined): boolean =>
  spellingsOf(column).some((name) => dialect?.lacks.includes(name))

/** The dialect's own name for it comes first. */
export const namesOf = (column: Pick<Column, 'name' | 'from'>, dialect: AnswerDialect | undefined): readonly string[] => {
  const names = spellingsOf(column)
  return [...new Set([...names.flatMap((name) => dialect?.fields[name] ?? []), ...names].map(fieldName))]
}

/** A cell that does not fit, with its column; null where the record as a whole does not. */
export class RowError extends Error {
  override readonly name = 'RowError'
  readonly column: string | null
  /** The row is right but was not requested; null: it is no row. */
  readonly stray: UnrequestedRow | null
  /** See `RejectedRow`. */
  readonly isUnasked: boolean

  constructor(column: string | null, message: string, stray: UnrequestedRow | null = null, isUnasked = false) {
    super(message)
    this.column = column
    this.stray = stray
    this.isUnasked = isUnasked
  }
}

/** The text of a planned column's cell, null for NULL. Throws CellError. */
export type CellOf = (place: number) => string | null

/** Throws RowError. */
export const castCell = ({ column, cast }: PlannedColumn, cellOf: CellOf, place: number): string | null => {
  try {
    const cell = cellOf(place)
    if (cell !== null) return cast(cell)
    if (column.isKey) throw new CellError('part of the key has no value')
    if (!column.nullable) throw new CellError('the column has no value and may not be NULL')
    return null
  } catch (error) {
    if (error instanceof CellError) throw new RowError(column.name, error.message, error.stray, error instanceof UnaskedError)
    throw error
  }
}

/** Places of the columns that the service counts where it counts cells. */
export const measurePlaces = ({ columns }: ParsePlan): readonly number[] =>
  columns.flatMap(({ column }, place) => (column.isKey ? [] : [place]))

/** Measures of the row that have a value, readable or not. */
export const filledCells = (plan: ParsePlan, cellOf: CellOf): number =>
  measurePlaces(plan).filter((place) => {
    try {
      return (cellOf(place) ?? '') !== ''
    } catch (error) {
      if (error instanceof CellError) return true
      throw error
    }
  }).length

/** Why the key is too long, or null. Its columns must be readable. */
export const keyProblem = (plan: ParsePlan, cellOf: CellOf): RowError | null => {
  const bytes = keyOf(plan, cellOf).map((value) => Buffer.byteLength(value ?? ''))
  const total = bytes.reduce((sum, one) => sum + one, 0)
  if (total <= maxKeyBytes) return null
  const widest = plan.keyPlaces[bytes.indexOf(Math.max(...bytes))]
  return new RowError(
    widest === undefined ? null : (plan.columns[widest]?.column.name ?? null),
    `the key has ${total} bytes, at most ${maxKeyBytes} fit an index entry`,
  )
}

/** The key of a row that was rejected or is of another period; null in place of a cell that cannot be read. */
export const keyOf = (plan: ParsePlan, cellOf: CellOf): (string | null)[] =>
  plan.keyPlaces.map((place) => {
    const planned = plan.columns[place]
    try {
      return planned === undefined ? null : castCell(planned, cellOf, place)
    } catch (error) {
      if (!(error instanceof RowError)) throw error
      return error.stray?.period ?? null
    }
  })

/** What an answer may hold: the box that wants it, and the requested span, which may be wider. */
interface AskedFor extends Box {
  readonly span: Window
}

/** The cast of one column of one answer: its spelling, its type, and whether the value was requested at all. */
const compileCast = (column: Column, definition: Definition, box: AskedFor, form: AnswerForm): Cast => {
  const typed = typedCast(column, definition)
  const spell = spellingOf(column, form)
  const belongs = membership(column, box, (value) => typed(spell === null ? value : spell(value)))
  if (spell === null && belongs === null) return typed
  return (cell) => {
    const value = typed(spell === null ? cell : spell(cell))
    return belongs === null ? value : belongs(value)
  }
}

/** How the source spells the column's cells; null where they are taken as they come. */
const spellingOf = ({ normalize }: Column, { spellings }: AnswerForm): Cast | null =>
  normalize === null || normalize === 'period_start' ? null : (spellings?.[normalize]?.write ?? null)

/** Whether a cell is taken as it stands, so that its bytes need no cast. */
const isPlain = (column: Column, box: Box): boolean =>
  column.normalize === null && !isPeriod(column) && box.slice[column.name] === undefined

const typedCast = (column: Column, definition: Definition): Cast => {
  const { type, rounding } = column
  const { cast, rounded } = columnTypes[type]
  if (rounding !== null && rounded !== null) return rounded(rounding)
  if (column.normalize !== 'period_start') return cast
  return castPeriod(definition.window.every === 'month' && definition.period.every === 'month')
}

const isPeriod = (column: Column): boolean => column.normalize === 'period_start' || (column.isKey && column.type === 'date')

/**
 * Refuses rows that were not requested. Null where the column does not tell units apart.
 * @param canonical a value of the slice as the answer would spell it after its cast: `007` is category 7
 */
const membership = (column: Column, box: AskedFor, canonical: Cast): Cast | null => {
  if (isPeriod(column)) return insideWindow(column, box)
  const wanted = box.slice[column.name]
  if (wanted === undefined) return null
  const values = [wanted].flat().map(canonical)
  const exactly = new Set(values)
  const alike = Map.groupBy(column.normalize === null ? values : [], folded)
  return (value) => {
    if (exactly.has(value)) return value
    const [one, ...others] = alike.get(folded(value)) ?? []
    // It may be a requested value in another spelling, so it is no stray.
    if (one === undefined || others.length > 0) throw new UnaskedError(`${column.name} '${excerpt(value, 60)}' was not requested`)
    return one
  }
}

/** A form that is the same for names that people take for the same: `LEVI’S ` is `Levi's`. The service writes brands as its shops do. */
const folded = (name: string): string =>
  name.normalize('NFC').trim().replaceAll(/\s+/g, ' ').replaceAll('&amp;', '&').replaceAll(/[‘’]/g, "'").toLowerCase()

const insideWindow = (column: Column, { window: { from, to }, span }: AskedFor): Cast => {
  return (value) => {
    if (value >= from && value < to) return value
    const isExpected = value >= span.from && value < span.to
    throw new CellError(`${column.name} ${value} is outside the requested period, from ${span.from} to before ${span.to}`, {
      ...{ period: value, isExpected },
    })
  }
}
