// The CSV tokenizer (RFC 4180, and LF, CRLF or CR as line ends): one record's cells, and where the next begins.

const lf = 10
const cr = 13
const quote = 34
const comma = 44

/** A record, and where it lies in its text. */
export interface CsvRecord {
  readonly cells: readonly string[]
  /** Behind its last character, before its line end. */
  readonly end: number
  /** Where the next record begins; the same as `end` where the line end is missing. */
  readonly next: number
  /** Line ends inside quoted cells. */
  readonly breaks: number
  /** A closing quote is followed by something else than a comma or a line end: the cells mean nothing, and the record ends with that line. */
  readonly isMalformed: boolean
}

/**
 * The record that begins at `start`; null where a quote is open at the end of the text.
 * @param isQuoting false: a quote is a character like any other
 */
export const readRecord = (text: string, start: number, isQuoting = true): CsvRecord | null => {
  const cells: string[] = []
  let breaks = 0
  let isMalformed = false
  for (let at = start; ; at += 1) {
    if (isQuoting && text.charCodeAt(at) === quote) {
      const close = closingQuote(text, at + 1)
      if (close < 0) return null
      const inside = text.slice(at + 1, close)
      breaks += countBreaks(inside)
      cells.push(inside.includes('"') ? inside.replaceAll('""', '"') : inside)
      at = close + 1
      isMalformed = at < text.length && cellEnd(text, at) > at
      if (isMalformed) at = lineEnd(text, at)
    } else {
      const end = cellEnd(text, at)
      cells.push(text.slice(at, end))
      at = end
    }
    if (text.charCodeAt(at) !== comma) return { cells, end: at, next: afterBreak(text, at), breaks, isMalformed }
  }
}

/** A comma or a line end, or the end of the text. */
const cellEnd = (text: string, from: number): number => {
  let at = from
  for (; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    // Letters and digits stand behind all that end a cell.
    if (code <= comma && (code === comma || code === lf || code === cr)) break
  }
  return at
}

const closingQuote = (text: string, from: number): number => {
  let at = text.indexOf('"', from)
  while (at >= 0 && text.charCodeAt(at + 1) === quote) at = text.indexOf('"', at + 2)
  return at
}

const lineEnd = (text: string, from: number): number => {
  let at = from
  while (at < text.length && text.charCodeAt(at) !== lf && text.charCodeAt(at) !== cr) at += 1
  return at
}

/** Behind the line end at `at`, `at` itself where there is none. */
export const afterBreak = (text: string, at: number): number => {
  const code = text.charCodeAt(at)
  if (code === lf) return at + 1
  if (code !== cr) return at
  return text.charCodeAt(at + 1) === lf ? at + 2 : at + 1
}

/** Line ends in `text`; a CRLF is one. */
export const countBreaks = (text: string): number => {
  let breaks = 0
  for (let at = lineEnd(text, 0); at < text.length; at = lineEnd(text, afterBreak(text, at))) breaks += 1
  return breaks
}
