// The one CSV tokenizer (RFC 4180, and LF, CRLF or CR as line ends): where a record and each of its cells end, from the bytes alone.

const lf = 10
const cr = 13
const quote = 34
export const comma = 44

/** What ends a cell: outside of quotes a comma or a line end; inside, a quote, and a line end is to be counted. */
const endsCell = new Uint8Array(256)
endsCell[comma] = endsCell[lf] = endsCell[cr] = 1
const stopsInQuotes = new Uint8Array(256)
stopsInQuotes[quote] = stopsInQuotes[lf] = stopsInQuotes[cr] = 1
/** Stands for the byte behind the last one, and stops at whatever the bytes end: a line feed that is not counted. */
const none = lf

/** The cell read last. One object serves cell after cell, so that reading them leaves nothing for the collector. */
export interface CsvCell {
  /** Where it begins and ends, without its quotes. */
  start: number
  end: number
  /** Behind it and its closing quote: where its comma or line end stands, or the bytes end. */
  behind: number
  /** Line ends inside its quotes. */
  breaks: number
  /** It is what stands between `start` and `end`: well formed, no quote doubled, no line end inside. */
  isVerbatim: boolean
  /** Its closing quote is followed by something else than a comma or a line end; it goes to the end of that line. */
  isMalformed: boolean
}

/** Filled again for each cell, so that reading makes no garbage. */
export const createCell = (): CsvCell => ({ start: 0, end: 0, behind: 0, breaks: 0, isVerbatim: true, isMalformed: false })

/** `cut`: bytes are missing to tell the end. `open`: so they are, and a quote is open. */
export type Tokenized = 'whole' | 'cut' | 'open'

/** Whether a cell that is not in quotes ends before this byte; also before none. */
export const isCellEnd = (byte: number | undefined): boolean => endsCell[byte ?? none] === 1

/**
 * Reads the cell that begins at `at` into `cell`, which means nothing unless the answer is `whole`.
 * @param isLast nothing comes after these bytes, so that they end the cell too
 * @param isQuoting false: a quote is a character like any other
 */
export const readCell = (bytes: Buffer, at: number, isLast: boolean, cell: CsvCell, isQuoting = true): Tokenized => {
  let byte = bytes[at] ?? none
  if (byte === quote && isQuoting) return readQuoted(bytes, at + 1, isLast, cell)
  let end = at
  while (endsCell[byte] === 0) byte = bytes[++end] ?? none
  cell.start = at
  cell.end = end
  cell.behind = end
  cell.breaks = 0
  cell.isVerbatim = true
  cell.isMalformed = false
  return 'whole'
}

const readQuoted = (bytes: Buffer, start: number, isLast: boolean, cell: CsvCell): Tokenized => {
  cell.start = start
  cell.breaks = 0
  cell.isVerbatim = true
  const end = closingQuote(bytes, start, isLast, cell)
  if (end < 0) return end === missing ? 'open' : 'cut'
  cell.end = end
  cell.behind = end + 1
  cell.isMalformed = !isCellEnd(bytes[end + 1])
  if (cell.isMalformed) {
    cell.isVerbatim = false
    cell.behind = lineEnd(bytes, end + 1)
  }
  return 'whole'
}

/** The closing quote is not there. */
const missing = -1
/** It may be there; the byte after it, which tells, is not. */
const unsure = -2

const closingQuote = (bytes: Buffer, from: number, isLast: boolean, cell: CsvCell): number => {
  let at = from
  for (;;) {
    let byte = bytes[at] ?? none
    while (stopsInQuotes[byte] === 0) byte = bytes[++at] ?? none
    if (byte === quote) {
      const after = bytes[at + 1]
      if (after === undefined) return isLast ? at : unsure
      if (after !== quote) return at
      at += 1
    } else if (at >= bytes.length) return missing
    else if (byte === lf || bytes[at + 1] !== lf) cell.breaks += 1
    cell.isVerbatim = false
    at += 1
  }
}

const lineEnd = (bytes: Buffer, from: number): number => {
  let at = from
  while (at < bytes.length && bytes[at] !== lf && bytes[at] !== cr) at += 1
  return at
}

/** Where a record lies in its bytes. */
export interface CsvRecord {
  /** Behind its last byte, before its line end. */
  end: number
  /** Where the next record begins; the same as `end` where the line end is missing. */
  next: number
  /** Line ends inside quoted cells. */
  breaks: number
  isMalformed: boolean
}

const scratch = createCell()

/** The record that begins at `start`, or why it cannot be read. @param isLast nothing comes after these bytes, so that they end the record too */
export const readRecord = (bytes: Buffer, start: number, isLast: boolean): CsvRecord | 'cut' | 'open' => {
  let breaks = 0
  for (let at = start; ; at = scratch.behind + 1) {
    const found = readCell(bytes, at, isLast, scratch)
    if (found !== 'whole') return found
    breaks += scratch.breaks
    if (bytes[scratch.behind] !== comma) break
  }
  const { behind: end, isMalformed } = scratch
  // A CR at the very end may be half of a CRLF.
  if (!isLast && (end >= bytes.length || (bytes[end] === cr && end + 1 >= bytes.length))) return 'cut'
  return { end, next: afterBreak(bytes, end), breaks, isMalformed }
}

/** Behind the line end at `at`, `at` itself where there is none. */
export const afterBreak = (bytes: Buffer, at: number): number => {
  if (bytes[at] === lf) return at + 1
  if (bytes[at] !== cr) return at
  return bytes[at + 1] === lf ? at + 2 : at + 1
}

/** Line ends in `bytes`; a CRLF is one. */
export const countBreaks = (bytes: Buffer): number => {
  let breaks = 0
  for (let at = 0; at < bytes.length; at += 1) {
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
