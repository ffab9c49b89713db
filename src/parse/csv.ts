// CSV as a stream of rows: header-mapped, every record counted, what does not fit rejected with its line and raw text.
import { type Parser, parse } from 'csv-parse'
import { EtlError, isEtlError, messageOf } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import { CellError, isNullWord } from './cast.ts'
import { createCopyWriter, type ParsedChunk } from './copy-text.ts'
import { ColumnError, castRow, keyOf, type ParsePlan } from './plan.ts'
import { addMissing, addReject, addUnknown, type ParseReport } from './report.ts'

interface CsvRecord {
  readonly record: readonly string[]
  readonly raw: string
  readonly info: { readonly lines: number }
}

/** A record of the file, with the line it begins on. */
interface Record {
  readonly cells: readonly string[]
  readonly raw: string
  readonly line: number
  readonly isMultiline: boolean
}

/** A record that a quote may have stretched over its neighbours is longer than this. */
const maxRecordBytes = 4 * 1024 * 1024
const noData = /^no data returned/i

export interface Utf8Watch {
  /** Whether bytes seen so far were not UTF-8. */
  broken: boolean
}

const truncated = (why: string): EtlError =>
  new EtlError(
    'TRUNCATED',
    `The CSV ends inside a record (${why}): the body was cut off, or a quote is not closed. It is downloaded again; nothing was loaded.`,
  )

async function* records(body: AsyncIterable<Uint8Array>): AsyncGenerator<Record[]> {
  const parser: Parser = parse({
    bom: true,
    info: true,
    raw: true,
    relax_quotes: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: maxRecordBytes,
  })
  let failure: unknown = null
  parser.on('error', (error) => {
    failure = error
  })
  let lines = 0
  const drain = (): Record[] => {
    const batch: Record[] = []
    for (let found = parser.read() as CsvRecord | null; found !== null; found = parser.read() as CsvRecord | null) {
      // `lines` counts the line breaks up to the end of the record.
      const isMultiline = /\n|\r(?!\n)/.test(found.raw.replace(/[\r\n]+$/, '').replace(/^[\r\n]+/, ''))
      const span = isMultiline ? found.raw.trim().split(/\r\n|\n|\r/).length : 1
      batch.push({
        cells: found.record,
        raw: found.raw.replace(/[\r\n]+$/, '').replace(/^[\r\n]+/, ''),
        line: Math.max(found.info.lines - span + 1, lines + 1),
        isMultiline,
      })
      lines = found.info.lines
    }
    return batch
  }
  const check = (): void => {
    if (failure === null) return
    if (typeof failure === 'object' && 'code' in failure && failure.code === 'CSV_MAX_RECORD_SIZE')
      throw new EtlError(
        'BAD_RESPONSE',
        `A CSV record has more than ${maxRecordBytes} bytes; a quote is probably not closed. Nothing was loaded.`,
      )
    throw isEtlError(failure) ? failure : truncated(messageOf(failure))
  }
  try {
    for await (const chunk of body) {
      const written = new Promise<void>((resolve) => parser.write(chunk, () => resolve()))
      const batch = drain()
      if (failure === null) await written
      check()
      const more = drain()
      yield batch.length === 0 ? more : [...batch, ...more]
    }
    const ended = new Promise<void>((resolve) => {
      parser.once('end', () => resolve())
      parser.once('error', () => resolve())
      parser.end()
    })
    const rest = drain()
    parser.resume()
    const tail: Record[] = []
    parser.on('data', () => undefined)
    await ended
    check()
    yield [...rest, ...tail]
  } finally {
    parser.destroy()
  }
}

/** For each planned column the place of its cell in a record; -1 where the file lacks it. */
interface Header {
  readonly places: readonly number[]
  readonly width: number
}

const readHeader = (cells: readonly string[], plan: ParsePlan, report: ParseReport): Header => {
  const found = cells.map((cell) => cell.trim().toLowerCase())
  const twice = found.find((name, index) => name !== '' && found.indexOf(name) !== index)
  if (twice !== undefined)
    throw new EtlError(
      'BAD_RESPONSE',
      `The CSV header names '${twice}' twice, so its cells mean nothing. Ask the service; nothing was loaded.`,
    )
  const places = plan.columns.map(({ names }) => names.map((name) => found.indexOf(name)).find((place) => place >= 0) ?? -1)
  for (const [index, { column, names }] of plan.columns.entries()) {
    if (places[index] !== -1) continue
    if (column.isKey) {
      throw new EtlError(
        'BAD_RESPONSE',
        `The CSV has no column ${names.join(' or ')} (part of the key). Found: ${cells.slice(0, 20).join(', ').slice(0, 200)}. If the service renamed it, set \`from\` of column ${column.name}.`,
      )
    }
    addMissing(report, column.name)
  }
  for (const [index, name] of found.entries())
    if (!places.includes(index) && !plan.knownElsewhere.has(name)) addUnknown(report, cells[index]?.trim() ?? name)
  return { places, width: cells.length }
}

/** Text of a planned column's cell as its cast wants it; null for NULL. */
const cellReader = (plan: ParsePlan, header: Header, cells: () => readonly string[], watch: Utf8Watch) => {
  const isText = plan.columns.map(({ column }) => column.type === 'text')
  const nullable = plan.columns.map(({ column }) => column.nullable)
  return (place: number): string | null => {
    const at = header.places[place] ?? -1
    if (at < 0) return null
    const cell = cells()[at] ?? ''
    if (watch.broken && cell.includes('\ufffd')) throw new CellError('the cell has bytes that are no UTF-8')
    if (isText[place] === true) return cell === '' && nullable[place] === true ? null : cell
    return isNullWord(cell) ? null : cell
  }
}

/** Rows of one CSV part as COPY text; rejects and drift go to `report`. Throws TRUNCATED or BAD_RESPONSE for the part as a whole. */
export async function* parseCsv(
  payload: Payload,
  body: AsyncIterable<Uint8Array>,
  plan: ParsePlan,
  report: ParseReport,
  watch: Utf8Watch,
): AsyncGenerator<ParsedChunk> {
  const writer = createCopyWriter()
  const values: (string | null)[] = []
  for await (const { record, header } of dataRecords(body, plan, report)) {
    const read = cellReader(plan, header, () => record.cells, watch)
    const problem = rowProblem(record, header, () => castRow(plan, read, values))
    if (problem === null) {
      writer.add(values)
      report.read += 1
      report.rows += 1
      const chunk = writer.take(false)
      if (chunk !== null) yield chunk
    } else {
      const key = record.cells.length === header.width ? keyOf(plan, read) : null
      addReject(report, {
        part: payload.part,
        line: record.line,
        column: problem.column,
        reason: problem.message,
        raw: record.raw,
        key,
      })
    }
  }
  const last = writer.take(true)
  if (last !== null) yield last
}

async function* dataRecords(
  body: AsyncIterable<Uint8Array>,
  plan: ParsePlan,
  report: ParseReport,
): AsyncGenerator<{ record: Record; header: Header }> {
  let header: Header | null = null
  let seen = false
  for await (const batch of records(body)) {
    for (const record of batch) {
      if (header !== null) {
        yield { record, header }
        continue
      }
      if (!seen && noData.test(record.cells[0]?.trim() ?? '')) {
        report.empty = true
        return
      }
      seen = true
      header = readHeader(record.cells, plan, report)
    }
  }
  if (header === null) throw truncated('it has no header')
  if (report.read === 0) report.empty = true
}

/** null: the row is good and its values are in place. */
const rowProblem = (record: Record, header: Header, cast: () => void): ColumnError | null => {
  if (record.cells.length !== header.width) {
    const what = `the record has ${record.cells.length} cells, the header ${header.width}`
    // A quote that is not closed swallows the rows after it; counting those as one reject would lose them.
    if (record.isMultiline)
      throw new EtlError(
        'BAD_RESPONSE',
        `Line ${record.line}: ${what} and spans several lines, so a quote is misplaced and rows cannot be told apart. Nothing was loaded.`,
      )
    return new ColumnError(null, what)
  }
  try {
    cast()
    return null
  } catch (error) {
    if (error instanceof ColumnError) return error
    if (error instanceof CellError) return new ColumnError(null, error.message)
    throw error
  }
}

/** Records of accepted rows by their number in the part, from 1; returns how many rows were accepted. */
export async function* csvRecords(
  body: AsyncIterable<Uint8Array>,
  plan: ParsePlan,
  wanted: ReadonlySet<number>,
  watch: Utf8Watch,
  report: ParseReport,
): AsyncGenerator<{ ordinal: number; line: number; raw: string }, number, void> {
  let ordinal = 0
  const values: (string | null)[] = []
  for await (const { record, header } of dataRecords(body, plan, report)) {
    if (
      rowProblem(record, header, () =>
        castRow(
          plan,
          cellReader(plan, header, () => record.cells, watch),
          values,
        ),
      ) !== null
    )
      continue
    ordinal += 1
    if (wanted.has(ordinal)) yield { ordinal, line: record.line, raw: record.raw }
  }
  return ordinal
}
