// Rows in PostgreSQL's COPY text format, in chunks of bytes.

export interface ParsedChunk {
  /** Tab-separated cells, \\N for NULL, one line a row. */
  readonly copy: Buffer
  readonly rows: number
}

export type CopyWriter = ReturnType<typeof createCopyWriter>

const chunkBytes = 192 * 1024
const firstBytes = 16 * 1024

/** Rows that are not handed out yet: the bytes up to `at`. */
export const createCopyWriter = () => ({ bytes: Buffer.alloc(0) as Buffer, at: 0, rows: 0 })

const special = /[\\\t\n\r]/
const specials = /[\\\t\n\r]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** COPY's text format: backslash, tab and line ends. */
export const escapeCell = (cell: string): string =>
  special.test(cell) ? cell.replaceAll(specials, (character) => escapes[character] ?? character) : cell

/** A cell as COPY reads it. */
export const cellText = (value: string | null | undefined): string => (value == null ? '\\N' : escapeCell(value))

/** Makes room for `more` bytes. The buffer may be another one afterwards. */
export const ensureRoom = (writer: CopyWriter, more: number): void => {
  const needed = writer.at + more
  if (needed <= writer.bytes.length) return
  const grown = Buffer.allocUnsafeSlow(Math.max(writer.bytes.length * 2, needed, firstBytes))
  writer.bytes.copy(grown, 0, 0, writer.at)
  writer.bytes = grown
}

export const writeBytes = (writer: CopyWriter, source: Uint8Array): void => {
  ensureRoom(writer, source.length)
  const { bytes } = writer
  let to = writer.at
  // A cell is so short that a call costs more than its bytes.
  for (let at = 0; at < source.length; at += 1) bytes[to++] = source[at] ?? 0
  writer.at = to
}

/** A chunk once there is enough, or whatever there is with `last`. */
export const takeChunk = (writer: CopyWriter, last: boolean): ParsedChunk | null => {
  const { bytes, at, rows } = writer
  if (rows === 0 || (!last && at < chunkBytes)) return null
  writer.bytes = last ? Buffer.alloc(0) : Buffer.allocUnsafeSlow(bytes.length)
  writer.at = 0
  writer.rows = 0
  return { copy: bytes.subarray(0, at), rows }
}
