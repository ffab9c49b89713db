// JSON pages, arrays and NDJSON as rows; numbers keep every digit the service sent.
import { EtlError, messageOf } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import { CellError } from './cast.ts'
import { createCopyWriter, type ParsedChunk } from './copy-text.ts'
import { ColumnError, castRow, keyOf, type ParsePlan, type PlannedColumn } from './plan.ts'
import { addReject, addUnknown, type ParseReport } from './report.ts'

type JsonObject = Readonly<Record<string, unknown>>

const isObject = (value: unknown): value is JsonObject => typeof value === 'object' && value !== null && !Array.isArray(value)

/** Number tokens a double would not give back: many digits, exponents, trailing zeros after the point, negative zero. */
const fragileNumber =
  /[:[,]\s*-?(?:\d{16,}|\d+\.\d*0\s*[,}\]]|(?=[\d.]{17,})\d+\.\d+|\d+(?:\.\d+)?[eE]|0(?:\.0+)?\s*[,}\]](?<=-0(?:\.0+)?\s*[,}\]]))/

/** A number as the text it came as; without a prototype, so that nothing parsed from JSON is taken for one. */
interface NumberText {
  readonly number: string
}
const isNumberText = (value: unknown): value is NumberText =>
  isObject(value) && typeof value['number'] === 'string' && Object.getPrototypeOf(value) === null

const numberText = (source: string): NumberText => Object.freeze(Object.assign(Object.create(null), { number: source }))

const parseExact = (text: string): unknown => {
  if (!fragileNumber.test(text)) return JSON.parse(text)
  const reviver = (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' && context?.source !== undefined ? numberText(context.source) : value
  return JSON.parse(text, reviver)
}

const excerpt = (text: string): string => text.slice(0, 80).replaceAll(/\s+/g, ' ')

const notJson = (part: number, text: string, cause: unknown): EtlError =>
  new EtlError(
    'BAD_RESPONSE',
    `Part ${part} is not JSON (${messageOf(cause)}): "${excerpt(text)}". Nothing was loaded; it is asked for again.`,
    { cause },
  )

const tryParse = (text: string): { value: unknown } | null => {
  try {
    return { value: parseExact(text) }
  } catch {
    return null
  }
}

/** The records of a page: under `keywords`, else the one array of the object, else the array itself. */
const recordsOf = (value: unknown, part: number): readonly unknown[] => {
  if (Array.isArray(value)) return value
  if (isObject(value)) {
    if (Array.isArray(value['keywords'])) return value['keywords']
    const arrays = Object.values(value).filter(Array.isArray)
    if (arrays.length === 1 && arrays[0] !== undefined) return arrays[0]
  }
  throw new EtlError(
    'BAD_RESPONSE',
    `Part ${part} holds no list of records: "${excerpt(JSON.stringify(value) ?? '')}". Nothing was loaded.`,
  )
}

interface JsonRecord {
  readonly value: unknown
  /** Index of the record, from 1; the line for NDJSON. */
  readonly line: number
}

async function* jsonRecords(body: AsyncIterable<Uint8Array>, part: number): AsyncGenerator<JsonRecord> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let text = ''
  let isLines: boolean | null = null
  let line = 0
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true })
      isLines ??= looksLikeLines(text)
      if (isLines !== true) continue
      const end = text.lastIndexOf('\n')
      if (end < 0) continue
      for (const one of text.slice(0, end).split('\n')) yield* lineRecord(one, (line += 1), part)
      text = text.slice(end + 1)
    }
    text += decoder.decode()
  } catch (error) {
    if (error instanceof TypeError)
      throw new EtlError('BAD_RESPONSE', `Part ${part} has bytes that are no UTF-8. Nothing was loaded; it is asked for again.`, {
        cause: error,
      })
    throw error
  }
  if (isLines === true || looksLikeLines(`${text}\n`) === true) {
    for (const one of text.split('\n')) yield* lineRecord(one, (line += 1), part)
    return
  }
  yield* wholeDocument(text, part)
}

/** One object a line, told by the first line; null while there is no whole line yet. */
const looksLikeLines = (text: string): boolean | null => {
  const end = text.indexOf('\n')
  if (end < 0) return null
  const first = tryParse(text.slice(0, end))
  if (first === null || !isObject(first.value)) return false
  return (
    !Object.values(first.value).some((value) => Array.isArray(value) && value.some(isObject)) &&
    !Array.isArray(first.value['keywords'])
  )
}

function* lineRecord(text: string, line: number, part: number): Generator<JsonRecord> {
  if (text.trim() === '') return
  const parsed = tryParse(text)
  if (parsed === null)
    throw new EtlError(
      'TRUNCATED',
      `Part ${part}, line ${line} is not JSON: "${excerpt(text)}". The body was cut off or damaged; it is asked for again.`,
    )
  yield { value: parsed.value, line }
}

function* wholeDocument(text: string, part: number): Generator<JsonRecord> {
  let value: unknown
  try {
    value = parseExact(text)
  } catch (cause) {
    throw notJson(part, text, cause)
  }
  let line = 0
  for (const record of recordsOf(value, part)) yield { value: record, line: (line += 1) }
}

/** Text of a field as the column's cast wants it; null for NULL. */
const cellText = ({ column }: PlannedColumn, value: unknown): string | null => {
  if (value === null) return null
  if (isNumberText(value)) return value.number
  if (typeof value === 'string') return column.type === 'text' || column.type === 'text[]' || value !== '' ? value : null
  if (typeof value === 'number' || typeof value === 'boolean') return String(value)
  if (Array.isArray(value) && column.type === 'text[]')
    return JSON.stringify(value.map((item) => (isNumberText(item) ? item.number : item)))
  throw new CellError(`${Array.isArray(value) ? 'a list' : 'an object'} stands where ${column.type} is expected`)
}

const fieldReader = (plan: ParsePlan, record: () => JsonObject) => {
  const exact = plan.columns.map(({ column }) => (column.from.length > 0 ? column.from : [column.name]))
  return (place: number): string | null => {
    const planned = plan.columns[place]
    if (planned === undefined) return null
    for (const name of exact[place] ?? []) {
      const value = record()[name]
      if (value !== undefined) return cellText(planned, value)
    }
    return planned.column.ifAbsent
  }
}

const raw = (value: unknown): string =>
  JSON.stringify(value, (_key, item) => (isNumberText(item) ? item.number : item)) ?? String(value)

const rowProblem = (plan: ParsePlan, value: unknown, values: (string | null)[]): ColumnError | null => {
  if (!isObject(value)) return new ColumnError(null, 'the record is not an object')
  try {
    castRow(
      plan,
      fieldReader(plan, () => value),
      values,
    )
    return null
  } catch (error) {
    if (error instanceof ColumnError) return error
    if (error instanceof CellError) return new ColumnError(null, error.message)
    throw error
  }
}

/** Rows of one JSON part as COPY text; rejects and unknown fields go to `report`. */
export async function* parseJson(
  payload: Payload,
  body: AsyncIterable<Uint8Array>,
  plan: ParsePlan,
  report: ParseReport,
): AsyncGenerator<ParsedChunk> {
  const writer = createCopyWriter()
  const values: (string | null)[] = []
  const known = new Set([...plan.columns.flatMap(({ column }) => [...column.from, column.name]), ...plan.knownElsewhere])
  for await (const { value, line } of jsonRecords(body, payload.part)) {
    if (isObject(value)) for (const name in value) if (!known.has(name)) addUnknown(report, name)
    const problem = rowProblem(plan, value, values)
    if (problem === null) {
      writer.add(values)
      report.read += 1
      report.rows += 1
      const chunk = writer.take(false)
      if (chunk !== null) yield chunk
    } else {
      const key = isObject(value)
        ? keyOf(
            plan,
            fieldReader(plan, () => value),
          )
        : null
      addReject(report, { part: payload.part, line, column: problem.column, reason: problem.message, raw: raw(value), key })
    }
  }
  const last = writer.take(true)
  if (last !== null) yield last
}

/** Records of accepted rows by their number in the part, from 1; returns how many rows were accepted. */
export async function* jsonRawRecords(
  payload: Payload,
  body: AsyncIterable<Uint8Array>,
  plan: ParsePlan,
  wanted: ReadonlySet<number>,
): AsyncGenerator<{ ordinal: number; line: number; raw: string }, number, void> {
  let ordinal = 0
  const values: (string | null)[] = []
  for await (const { value, line } of jsonRecords(body, payload.part)) {
    if (rowProblem(plan, value, values) !== null) continue
    ordinal += 1
    if (wanted.has(ordinal)) yield { ordinal, line, raw: raw(value) }
  }
  return ordinal
}
