// The CSV tokenizer (RFC 4180, and LF, CRLF or CR as line ends): where a record's cells are in the bytes, and where the next record begins.

const lf = 10
const cr = 13
const quote = 34
const comma = 44

export type CsvRecord = ReturnType<typeof createRecord>

/** A record, and where it lies in its bytes; the object is used again for each record. */
export const createRecord = () => ({
  /** How many cells it has, and where each begins and ends, without its quotes. */
  count: 0,
  starts: [] as number[],
  ends: [] as number[],
  /** Whether quotes in the cell are doubled. */
  doubled: [] as boolean[],
  /** Behind its last byte, before its line end. */
  end: 0,
  /** Where the next record begins; the same as `end` where the line end is missing. */
  next: 0,
  /** Line ends inside quoted cells. */
  breaks: 0,
  /** A closing quote is followed by something other than a comma or a line end: the cells mean nothing, and the record ends with that line. */
  isMalformed: false,
})

/**
 * Reads the record that begins at `start`; false where a quote is open at the end of the bytes.
 * @param isQuoting false: a quote is a character like any other
 */
export const readRecord = (bytes: Buffer, start: number, record: CsvRecord, isQuoting = true): boolean => {
  const { starts, ends, doubled } = record
  record.breaks = 0
  record.isMalformed = false
  let count = 0
  for (let at = start; ; at += 1) {
    const isQuoted = isQuoting && bytes[at] === quote
    const from = isQuoted ? at + 1 : at
    doubled[count] = false
    const to = isQuoted ? closingQuote(bytes, from, record, count) : cellEnd(bytes, at)
    if (to < 0) return false
    starts[count] = from
    ends[count] = to
    count += 1
    at = to
    if (isQuoted) {
      at = to + 1
      record.isMalformed = at < bytes.length && cellEnd(bytes, at) > at
      if (record.isMalformed) at = lineEnd(bytes, at)
    }
    if (bytes[at] === comma) continue
    record.count = count
    record.end = at
    record.next = afterBreak(bytes, at)
    return true
  }
}

/** The cell's text; bytes that are no UTF-8 become U+FFFD. */
export const cellTextOf = (bytes: Buffer, { starts, ends, doubled }: CsvRecord, index: number): string => {
  const text = bytes.toString('utf8', starts[index], ends[index])
  return doubled[index] === true ? text.replaceAll('""', '"') : text
}

/** A comma or a line end, or the end of the bytes. */
const cellEnd = (bytes: Buffer, from: number): number => {
  let at = from
  for (; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    // In ASCII, letters and digits come after all bytes that end a cell.
    if (byte <= comma && (byte === comma || byte === lf || byte === cr)) break
  }
  return at
}

/** Place of the closing quote, -1 where it is missing; line ends and doubled quotes before it are noted in the record. */
const closingQuote = (bytes: Buffer, from: number, record: CsvRecord, index: number): number => {
  for (let at = from; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0
    if (byte > quote) continue
    if (byte === lf || (byte === cr && bytes[at + 1] !== lf)) record.breaks += 1
    if (byte !== quote) continue
    if (bytes[at + 1] !== quote) return at
    record.doubled[index] = true
    at += 1
  }
  return -1
}

const lineEnd = (bytes: Buffer, from: number): number => {
  let at = from
  while (at < bytes.length && bytes[at] !== lf && bytes[at] !== cr) at += 1
  return at
}

/** Behind the line end at `at`, `at` itself where there is none. */
export const afterBreak = (bytes: Buffer, at: number): number => {
  const byte = bytes[at]
  if (byte === lf) return at + 1
  if (byte !== cr) return at
  return bytes[at + 1] === lf ? at + 2 : at + 1
}

/** Line ends in the bytes; a CRLF is one. */
export const countBreaks = (bytes: Buffer): number => {
  let breaks = 0
  for (let at = lineEnd(bytes, 0); at < bytes.length; at = lineEnd(bytes, afterBreak(bytes, at))) breaks += 1
  return breaks
}
