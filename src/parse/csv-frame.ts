// Where a CSV record ends (RFC 4180, and LF, CRLF or CR as line ends), told from the bytes alone.

const lf = 10
const cr = 13
const quote = 34
const comma = 44

export interface Frame {
  readonly start: number
  /** Behind the record's last byte, before its line end. */
  readonly end: number
  /** Where the next record begins. */
  readonly next: number
  /** Line ends inside quoted cells. */
  readonly breaks: number
  /** A closing quote is followed by something else than a comma or a line end; the record goes to the end of that line. */
  readonly isMalformed: boolean
  /** The record's line end was there. */
  readonly isTerminated: boolean
}

/** `cut`: bytes are missing to tell the record's end. `open`: so they are, and a quote is open. */
export type Framed = Frame | 'cut' | 'open'

/** The record that begins at `start`. @param isLast nothing comes after these bytes */
export const frameRecord = (bytes: Buffer, start: number, isLast: boolean): Framed => {
  let at = start
  let isQuoted = false
  for (;;) {
    if (bytes[at] === quote) {
      isQuoted = true
      const closed = closingQuote(bytes, at + 1, isLast)
      if (closed < 0) return closed === -1 ? 'open' : 'cut'
      at = closed + 1
      const byte = bytes[at]
      if (byte === comma) {
        at += 1
        continue
      }
      const end = byte === undefined || byte === lf || byte === cr ? at : lineEnd(bytes, at)
      return finish(bytes, start, end, isLast, isQuoted, end !== at)
    }
    while (at < bytes.length && bytes[at] !== comma && bytes[at] !== lf && bytes[at] !== cr) at += 1
    if (bytes[at] !== comma) return finish(bytes, start, at, isLast, isQuoted, false)
    at += 1
  }
}

/** Place of the quote that closes the cell; -1 where it is not there, -2 where the byte after it is not there. */
const closingQuote = (bytes: Buffer, from: number, isLast: boolean): number => {
  let at = from
  for (;;) {
    at = bytes.indexOf(quote, at)
    if (at < 0) return -1
    if (at + 1 >= bytes.length) return isLast ? at : -2
    if (bytes[at + 1] !== quote) return at
    at += 2
  }
}

const lineEnd = (bytes: Buffer, from: number): number => {
  let at = from
  while (at < bytes.length && bytes[at] !== lf && bytes[at] !== cr) at += 1
  return at
}

const finish = (bytes: Buffer, start: number, end: number, isLast: boolean, isQuoted: boolean, isMalformed: boolean): Framed => {
  // A CR at the very end may be half of a CRLF.
  if (!isLast && (end >= bytes.length || (bytes[end] === cr && end + 1 >= bytes.length))) return 'cut'
  const next = afterBreak(bytes, end)
  return { start, end, next, breaks: isQuoted ? countBreaks(bytes, start, end) : 0, isMalformed, isTerminated: next > end }
}

/** Behind the line end at `at`, `at` itself where there is none. */
export const afterBreak = (bytes: Buffer, at: number): number => {
  if (bytes[at] === lf) return at + 1
  if (bytes[at] !== cr) return at
  return bytes[at + 1] === lf ? at + 2 : at + 1
}

/** Line ends in `[start, end)`; a CRLF is one. */
export const countBreaks = (bytes: Buffer, start: number, end: number): number => {
  let breaks = 0
  for (let at = start; at < end; at += 1) {
    if (bytes[at] === lf || (bytes[at] === cr && bytes[at + 1] !== lf)) breaks += 1
  }
  return breaks
}

/** Behind the last whole line; 0 where there is none. @param isLast a CR at the end is a line end */
export const endOfLines = (bytes: Buffer, isLast: boolean): number => {
  const feed = bytes.lastIndexOf(lf)
  if (feed >= 0) return feed + 1
  const back = isLast ? bytes.length - 1 : bytes.length - 2
  return back < 0 ? 0 : bytes.lastIndexOf(cr, back) + 1
}
