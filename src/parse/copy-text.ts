// Rows in PostgreSQL's COPY text format, written into chunks of bytes.

export interface ParsedChunk {
  /** Tab-separated cells, \N for NULL, one line a row. */
  readonly copy: Buffer
  readonly rows: number
}

/** Bytes under construction; `at` is where the next goes. */
export interface CopyWriter {
  bytes: Buffer
  at: number
  rows: number
}

const firstBytes = 320 * 1024
const chunkBytes = 192 * 1024

export const createCopyWriter = (): CopyWriter => ({ bytes: Buffer.allocUnsafeSlow(firstBytes), at: 0, rows: 0 })

/** Makes room for `more` bytes. The buffer may be another one afterwards. */
export const ensureRoom = (writer: CopyWriter, more: number): void => {
  if (writer.at + more <= writer.bytes.length) return
  const grown = Buffer.allocUnsafeSlow(Math.max(writer.bytes.length * 2, writer.at + more))
  writer.bytes.copy(grown, 0, 0, writer.at)
  writer.bytes = grown
}

const special = /[\\\t\n\r]/
const specials = /[\\\t\n\r]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

export const escapeCell = (cell: string): string =>
  special.test(cell) ? cell.replaceAll(specials, (character) => escapes[character] ?? character) : cell

/** Appends one row. */
export const writeRow = (writer: CopyWriter, values: readonly (string | null)[]): void => {
  let row = ''
  for (let index = 0; index < values.length; index += 1) {
    const value = values[index] ?? null
    if (index > 0) row += '\t'
    row += value === null ? '\\N' : escapeCell(value)
  }
  row += '\n'
  ensureRoom(writer, row.length * 3)
  writer.at += writer.bytes.write(row, writer.at, 'utf8')
  writer.rows += 1
}

/** A chunk once there is enough, or whatever there is with `last`. The writer goes on in fresh memory. */
export const takeChunk = (writer: CopyWriter, last: boolean): ParsedChunk | null => {
  if (writer.rows === 0 || (!last && writer.at < chunkBytes)) return null
  const chunk = { copy: writer.bytes.subarray(0, writer.at), rows: writer.rows }
  writer.bytes = last ? Buffer.alloc(0) : Buffer.allocUnsafeSlow(firstBytes)
  writer.at = 0
  writer.rows = 0
  return chunk
}
