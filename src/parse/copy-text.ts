// Rows in PostgreSQL's COPY text format, gathered into chunks.

export interface ParsedChunk {
  /** Tab-separated cells, \N for NULL, one line a row. */
  readonly copy: Buffer
  readonly rows: number
}

const special = /[\\\t\n\r\b\f\v]/
const escapes: Readonly<Record<string, string>> = {
  '\\': '\\\\',
  '\t': '\\t',
  '\n': '\\n',
  '\r': '\\r',
  '\b': '\\b',
  '\f': '\\f',
  '\v': '\\v',
}

const escapeCell = (cell: string): string =>
  special.test(cell) ? cell.replaceAll(/[\\\t\n\r\b\f\v]/g, (character) => escapes[character] ?? character) : cell

const chunkCharacters = 128 * 1024

export interface CopyWriter {
  add(values: readonly (string | null)[]): void
  /** A chunk once there is enough, or whatever there is with `last`. */
  take(last: boolean): ParsedChunk | null
}

export const createCopyWriter = (): CopyWriter => {
  let text = ''
  let rows = 0
  return {
    add: (values) => {
      for (let index = 0; index < values.length; index += 1) {
        const value = values[index]
        text += index === 0 ? '' : '\t'
        text += value === null || value === undefined ? '\\N' : escapeCell(value)
      }
      text += '\n'
      rows += 1
    },
    take: (last) => {
      if (rows === 0 || (!last && text.length < chunkCharacters)) return null
      const chunk = { copy: Buffer.from(text), rows }
      text = ''
      rows = 0
      return chunk
    },
  }
}
