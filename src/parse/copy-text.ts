// Rows in PostgreSQL's COPY text format, in chunks of bytes.

export interface ParsedChunk {
  /** Tab-separated cells, \\N for NULL, one line a row. */
  readonly copy: Buffer
  readonly rows: number
}

/** Rows that are not handed out yet. */
export interface CopyWriter {
  lines: string[]
  characters: number
}

const chunkCharacters = 192 * 1024

export const createCopyWriter = (): CopyWriter => ({ lines: [], characters: 0 })

const special = /[\\\t\n\r]/
const specials = /[\\\t\n\r]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\t': '\\t', '\n': '\\n', '\r': '\\r' }

/** COPY's text format: backslash, tab and line ends. */
export const escapeCell = (cell: string): string =>
  special.test(cell) ? cell.replaceAll(specials, (character) => escapes[character] ?? character) : cell

export const copyNull = '\\N'

/** A cell as COPY reads it. */
export const cellText = (value: string | null | undefined): string => (value == null ? copyNull : escapeCell(value))

/** Appends one row. @param cells as COPY reads them @param suffix COPY text behind them */
export const writeRow = (writer: CopyWriter, cells: readonly string[], suffix = ''): void => {
  const line = `${cells.join('\t')}${suffix}\n`
  writer.lines.push(line)
  writer.characters += line.length
}

/** A chunk once there is enough, or whatever there is with `last`. */
export const takeChunk = (writer: CopyWriter, last: boolean): ParsedChunk | null => {
  const { lines, characters } = writer
  if (lines.length === 0 || (!last && characters < chunkCharacters)) return null
  writer.lines = []
  writer.characters = 0
  return { copy: Buffer.from(lines.join('')), rows: lines.length }
}
