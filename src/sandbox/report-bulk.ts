// Reports of any size, fast: rows put together from pieces of text made beforehand. For benchmarks; the values mean nothing.
import { combine, hashText, unit } from './hash.ts'
import type { ReportQuery, ReportWorld, TableQuery } from './report-query.ts'
import { type ReportRow, reportRows, shapeOf } from './report-rows.ts'
import { vtableOf } from './vtables.ts'

const pieceCount = 1024
const rowsPerChunk = 2048
/** Ranks that a restatement takes away at the start and adds at the end. */
const movedByRestatement = 3

/** Two values with the commas before them; pairs halve the work of putting a row together. */
const pairs = (seed: number, values: number): string[] =>
  Array.from({ length: pieceCount }, (_, index) => {
    let piece = ''
    for (let value = 0; value < values; value += 1) piece += `,${cellText(combine(combine(seed, index), value))}`
    return piece
  })

const cellText = (hash: number): string => {
  if (hash % 32 === 0) return ''
  const size = 10 ** (1 + 6 * unit(combine(hash, 1)))
  return hash % 3 === 0 ? String(Math.round(size)) : size.toFixed(2)
}

/** `rows` data lines without header or quirks, in chunks of text. A row's key is unique within the report. */
export function* bulkLines(query: ReportQuery, world: ReportWorld, rows: number): Generator<string> {
  const [table] = query.tables
  if (table === undefined) return
  const prefixes = prefixMaker(table)
  const values = shapeOf(query).metrics.length
  const seed = hashText(query.tables.map(({ dates, places }) => `${dates.join()}|${places.join()}`).join(';'), world.seed)
  const columns: string[][] = []
  for (let done = 0; done < values; done += 2) columns.push(pairs(combine(seed, done), Math.min(2, values - done)))
  const generation = table.dates.reduce((sum, date) => sum + (world.generations.get(date.slice(0, 7)) ?? 0), 0)
  const first = generation * movedByRestatement
  for (let start = first; start < first + rows; start += rowsPerChunk) {
    let chunk = ''
    const end = Math.min(start + rowsPerChunk, first + rows)
    for (let row = start; row < end; row += 1) {
      let hash = combine(seed, row)
      if (generation > 0 && combine(hash, generation) % 10 < 3) hash = combine(hash, generation)
      chunk += prefixes(row)
      for (let column = 0; column < columns.length; column += 1) {
        chunk += columns[column]?.[hash % pieceCount] ?? ''
        hash = (Math.imul(hash, 0x2c1b3c6d) + 0x9e3779b9) >>> 0
        hash ^= hash >>> 15
        hash >>>= 0
      }
      chunk += '\n'
    }
    yield chunk
  }
}

/** Begins a row: within the domains asked for where the table has a free dimension, else with invented domains after them. */
const prefixMaker = (table: TableQuery): ((row: number) => string) => {
  const heads: string[] = []
  for (const domain of table.domains)
    for (const place of table.places) for (const date of table.dates) heads.push(`${domain},${place},${date}`)
  if ((vtableOf(table)?.dimension ?? null) !== null)
    return (row) => `${heads[row % heads.length] ?? ''},site-${Math.floor(row / heads.length) + 1}.example`
  const tails: string[] = []
  for (const place of table.places) for (const date of table.dates) tails.push(`,${place},${date}`)
  return (row) => heads[row] ?? `site-${Math.floor(row / tails.length) + 1}.example${tails[row % tails.length] ?? ''}`
}

/** Whether the report is made fast: it has as many rows as was set, whatever it asks for. */
export const isBulk = ({ tables, kind }: ReportQuery, { reportRows: wanted }: ReportWorld): boolean =>
  wanted !== null && kind === 'report' && tables.length === 1

/** The rows of either kind of report as cells, for whatever needs to look into them. */
export function* allRows(query: ReportQuery, world: ReportWorld, rows: number): Generator<ReportRow> {
  if (!isBulk(query, world)) return yield* reportRows(query, world)
  for (const chunk of bulkLines(query, world, rows))
    for (const line of chunk.split('\n')) if (line !== '') yield line.split(',').map((cell) => (cell === '' ? null : cell))
}
