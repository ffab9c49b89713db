// Rows in PostgreSQL's COPY text format, written into chunks of bytes.

export interface ParsedChunk {
  /** Tab-separated cells, \N for NULL, one line a row. */
  readonly copy: Buffer
  readonly rows: number
  /** Gives the memory back for rows to come; `copy` must not be read afterwards. Not calling it only costs memory. */
  readonly release: () => void
}

/** Bytes under construction; `at` is where the next goes. */
export interface CopyWriter {
  bytes: Buffer
  at: number
  rows: number
}

const firstBytes = 320 * 1024
const chunkBytes = 192 * 1024
/** Less than this is copied out, so that the memory stays with the writer. */
const smallBytes = 96 * 1024
/** Memory kept for writers to come. */
const mostSpare = 8

const spare: Buffer[] = []

const freshBytes = (): Buffer => spare.pop() ?? Buffer.allocUnsafeSlow(firstBytes)

/** Memory that is taken anew for each chunk makes the collector run for nothing else. */
const keepSpare = (bytes: Buffer): void => {
  if (bytes.length === firstBytes && spare.length < mostSpare) spare.push(bytes)
}

/** Rows in COPY's text format, into bytes that are used again. */
export const createCopyWriter = (): CopyWriter => ({ bytes: freshBytes(), at: 0, rows: 0 })

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

/** COPY's text format: backslash, tab and line ends. */
export const escapeCell = (cell: string): string =>
  special.test(cell) ? cell.replaceAll(specials, (character) => escapes[character] ?? character) : cell

/** Appends one row; who writes it counts it. */
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
}

/** A chunk once there is enough, or whatever there is with `last`; then nothing may be written any more. */
export const takeChunk = (writer: CopyWriter, last: boolean): ParsedChunk | null => {
  const { bytes, at, rows } = writer
  if (!last && (rows === 0 || at < chunkBytes)) return null
  const isSmall = at < smallBytes
  const copy = isSmall ? Buffer.from(bytes.subarray(0, at)) : bytes.subarray(0, at)
  if (last && isSmall) keepSpare(bytes)
  if (last) writer.bytes = Buffer.alloc(0)
  else if (!isSmall) writer.bytes = freshBytes()
  writer.at = 0
  writer.rows = 0
  return rows === 0 ? null : { copy, rows, release: isSmall ? () => undefined : once(() => keepSpare(bytes)) }
}

const once = (act: () => void): (() => void) => {
  let isDone = false
  return () => {
    if (!isDone) act()
    isDone = true
  }
}
