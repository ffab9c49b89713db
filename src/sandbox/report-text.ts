// A report's bytes: CSV with its quirks or one JSON object a line, with the faults that lie in the content.
import type { Fault, FaultKind } from './fault-kinds.ts'
import { hashText } from './hash.ts'
import type { Settings } from './sandbox-options.ts'
import type { ReportQuery, ReportWorld } from './report-query.ts'
import { reportRows, type ReportRow, shapeOf } from './report-rows.ts'

export type ContentFaults = ReadonlyMap<FaultKind, Fault>

interface ReportText {
  readonly query: ReportQuery
  readonly world: ReportWorld
  readonly csv: Settings['csv']
  readonly faults: ContentFaults
  /** Data rows; 0 gives the answer for no data. */
  readonly rows: number
  /** The service's key, for the fault that shows it. */
  readonly key: string
}

const chunkLength = 128 * 1024
const noData = 'No data returned'

/** The whole report as chunks, each made on demand. */
export function* reportText(report: ReportText): Generator<Buffer> {
  const cut = report.faults.get('cut-line-end')
  if (cut === undefined) return yield* wholeText(report)
  let last: Buffer | null = null
  for (const chunk of wholeText(report)) {
    if (last !== null) yield last
    last = chunk
  }
  if (last !== null) yield last.subarray(0, Math.max(0, last.length - (cut.by ?? 1)))
}

function* wholeText(report: ReportText): Generator<Buffer> {
  if (report.query.format === 'json') return yield* buffered(jsonLines(report))
  const { csv } = report
  if (csv.bom) yield Buffer.from('\ufeff')
  if (report.rows === 0) return yield Buffer.from(`${noData}${csv.crlf ? '\r\n' : '\n'}`)
  yield* buffered(csvLines(report))
}

function* buffered(lines: Iterable<string>): Generator<Buffer> {
  let chunk = ''
  for (const line of lines) {
    chunk += line
    if (chunk.length < chunkLength) continue
    yield Buffer.from(chunk)
    chunk = ''
  }
  if (chunk !== '') yield Buffer.from(chunk)
}

function* rowsOf(report: ReportText): Generator<ReportRow> {
  const { faults, query, rows, world } = report
  const most = faults.has('half-report') ? Math.floor(rows / 2) : rows
  let number = 0
  for (const row of reportRows(query, world)) {
    number += 1
    if (number > most) return
    if (!isHit(faults, 'missing-row', number)) yield row
  }
}

type Layout = ReturnType<typeof layoutOf>

/** `order`: for each column of the file, its place in the row. */
const layoutOf = ({ query, csv, world }: ReportText) => {
  const shape = shapeOf(query)
  const names = [...shape.keys, ...shape.metrics]
  const order = names.map((_, index) => index)
  const rank = (index: number): number => hashText(names[index] ?? '', world.seed)
  if (csv.shuffleColumns) order.sort((a, b) => rank(a) - rank(b))
  return { order, names, shape }
}

function* csvLines(report: ReportText): Generator<string> {
  const { csv, faults } = report
  const end = csv.crlf ? '\r\n' : '\n'
  const layout = layoutOf(report)
  const header = layout.order.map((index) => layout.names[index] ?? '')
  if (csv.extraColumn) header.push('source_version')
  if (faults.has('quoted-newline')) header.push('note')
  if (faults.has('key-echo')) header.push('asked_with')
  yield header.join(',') + end
  for (const { row, number } of sentRows(report, layout)) yield csvLine(report, layout, row, number) + end
}

/** Each row as it is sent, with its place among the rows of the file. */
function* sentRows(report: ReportText, layout: Layout): Generator<{ readonly row: ReportRow; readonly number: number }> {
  let number = 0
  for (const made of rowsOf(report)) {
    number += 1
    for (const row of withRowFaults(made, number, layout, report.faults)) yield { row, number }
  }
}

const csvLine = (report: ReportText, { order, shape }: Layout, row: ReportRow, number: number): string => {
  const { csv, faults } = report
  const cells = order.map((index) => csvCell(dated(report, row, index), index >= shape.keys.length, number, csv.nulls))
  if (csv.extraColumn) cells.push(String(7 + (number % 3)))
  if (faults.has('quoted-newline')) cells.push(number % 3 === 0 ? '"a note, with\na ""second"" line"' : 'plain')
  if (faults.has('key-echo')) cells.push(`api_key=${report.key}`)
  if (isHit(faults, 'short-row', number)) cells.splice(-2)
  if (isHit(faults, 'unclosed-quote', number)) cells[0] = `"${cells[0] ?? ''}`
  return cells.join(',')
}

const dated = ({ csv, query }: ReportText, row: ReportRow, index: number): string | null => {
  const value = row[index] ?? null
  const asMonth = index === 2 && csv.months === 'month' && query.tables.every(({ granularity }) => granularity === 'monthly')
  return asMonth && value !== null ? value.slice(0, 7) : value
}

const csvCell = (value: string | null, isMetric: boolean, number: number, nulls: Settings['csv']['nulls']): string => {
  if (value === null) return isMetric && (nulls === 'null' || (nulls === 'mixed' && number % 2 === 0)) ? 'null' : ''
  return /[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value
}

const isHit = (faults: ContentFaults, kind: FaultKind, number: number): boolean => {
  const fault = faults.get(kind)
  return fault !== undefined && (fault.row ?? 1) === number
}

/** The row as it is sent: changed, or twice. */
const withRowFaults = (row: ReportRow, number: number, { shape }: Layout, faults: ContentFaults): ReportRow[] => {
  if (faults.size === 0) return [row]
  const first = shape.keys.length
  let sent = row
  if (isHit(faults, 'bad-number', number)) sent = sent.with(first, '12.3x')
  if (isHit(faults, 'nul-bytes', number)) sent = sent.with(0, `${sent[0]?.slice(0, 3) ?? ''}\0${sent[0]?.slice(3) ?? ''}`)
  if (isHit(faults, 'duplicate-rows', number)) return [sent, sent]
  if (isHit(faults, 'conflicting-rows', number)) return [sent, sent.with(first, '1234567.89')]
  return [sent]
}

function* jsonLines(report: ReportText): Generator<string> {
  const { faults, csv } = report
  if (report.rows === 0) return
  const layout = layoutOf(report)
  for (const { row, number } of sentRows(report, layout)) {
    const fields = layout.order.map((index) => jsonField(report, layout, row, index))
    if (csv.extraColumn) fields.push('"source_version":7')
    if (faults.has('quoted-newline')) fields.push('"note":"a note, with\\na \\"second\\" line"')
    if (faults.has('key-echo')) fields.push(`"asked_with":${JSON.stringify(`api_key=${report.key}`)}`)
    if (isHit(faults, 'short-row', number)) fields.splice(-2)
    const line = `{${fields.join(',')}}\n`
    yield isHit(faults, 'unclosed-quote', number) ? line.replace('"', '') : line
  }
}

const jsonField = (report: ReportText, { names, shape }: Layout, row: ReportRow, index: number): string => {
  const value = dated(report, row, index)
  const name = names[index] ?? ''
  const isNumber = index >= shape.keys.length && value !== null && /^-?\d+(\.\d+)?(e-?\d+)?$/.test(value)
  const isId = name === 'category_id'
  return `"${name}":${value === null ? 'null' : isNumber || isId ? value : JSON.stringify(value)}`
}
