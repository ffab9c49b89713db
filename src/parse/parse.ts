// Turns a part's bytes into COPY text: removes gzip, picks the reader by the first byte (services name the wrong content type, or send another format than
// requested), and gives out chunks.
import type { Payload } from '../core/types.ts'
import { type ParsedChunk, takeChunk } from './copy-text.ts'
import { createCsvReader, type Reader } from './csv-reader.ts'
import { inflated } from './inflate.ts'
import { createJsonReader } from './json-reader.ts'
import { createRecordLane, type RecordLane } from './json-row.ts'
import type { ParsePlan } from './parse-plan.ts'
import { createParseReport, type ParseReport } from './parse-report.ts'
import { checkTables } from './tables-of-answer.ts'
import { createRowSink, type OnAccepted, reportFields, type RowSink } from './row-sink.ts'

/** Bytes a reader gets at once, so that its output stays small however large the chunks that arrive. */
const stepBytes = 128 * 1024

/** What one part needs is made anew for it; what all parts of an answer can share is made once. */
const readersOf = (sink: RowSink): ((payload: Payload) => Reader) => {
  let lane: RecordLane | null = null
  return (payload) => {
    sink.part = payload.part
    sink.file = payload.file ?? null
    const laneOf = (): RecordLane => (lane ??= createRecordLane(sink))
    return byFirstByte(payload, (found) => (found === 'json' ? createJsonReader(sink, laneOf()) : createCsvReader(sink)))
  }
}

/** Parses the parts of one answer one after the other; a chunk may hold rows of two parts. What was rejected, missing or unknown goes to `report`. */
export const createAnswerParser = (plan: ParsePlan, report: ParseReport, onAccepted: OnAccepted = null) => {
  const sink = createRowSink(plan, report, onAccepted)
  const readerOf = readersOf(sink)
  return {
    /**
     * Rows as COPY text, in the order of the records, as soon as there are enough for a chunk; reads the body to its end. Throws
     * TRUNCATED, BAD_RESPONSE or TOO_LARGE for the part as a whole: then nothing of the answer may be loaded.
     */
    parse: async function* (payload: Payload): AsyncGenerator<ParsedChunk, void, void> {
      const reader = readerOf(payload)
      for await (const bytes of inflated(payload.body, plan.maxBytes)) {
        for (let at = 0; at < bytes.length; at += stepBytes) {
          reader.write(bytes.subarray(at, at + stepBytes))
          const chunk = takeChunk(sink.writer, false)
          if (chunk !== null) yield chunk
        }
      }
      reader.end()
      reportFields(sink)
      report.empty = report.read === 0
    },
    /** Call after the last part. Returns the rows not handed out yet; null: none. Throws BAD_RESPONSE where the table of `report.section` did not come. */
    rest: (): ParsedChunk | null => {
      checkTables(sink)
      return takeChunk(sink.writer, true)
    },
  }
}

/** A record as it came, for quarantine. */
interface RawRecord {
  /** Number of the accepted row within the answer, from 1. */
  readonly ordinal: number
  readonly part: number
  readonly line: number
  readonly raw: string
}

/** Raw records of accepted rows of an answer, by their number from 1. */
export async function* readRecords(
  parts: AsyncIterable<Payload>,
  plan: ParsePlan,
  ordinals: ReadonlySet<number>,
): AsyncGenerator<RawRecord, void, void> {
  const found: RawRecord[] = []
  let ordinal = 0
  const parser = createAnswerParser(plan, createParseReport(), ({ line, raw }, part) => {
    ordinal += 1
    if (ordinals.has(ordinal)) found.push({ ordinal, part, line, raw: raw() })
  })
  for await (const part of parts) {
    for await (const _ of parser.parse(part)) yield* found.splice(0)
    yield* found.splice(0)
  }
}

type Format = Payload['format']

const openBrace = 123
const openBracket = 91

const lessThan = 60
const longestHeader = 16 * 1024

/** Blanks before the first byte that tells the format; after more of them the requested format is assumed. */
const mostBlanks = 64 * 1024

/**
 * JSON begins with a bracket, and no header of a table does. Where JSON was requested, only commas in the first line show a table: a web page or
 * an error text must not be taken for one. null: not known yet.
 */
const formatOf = (bytes: Buffer, expected: Format, isLast: boolean): Format | null => {
  const begin = bytes.findIndex((byte) => byte > 32)
  const first = bytes[begin]
  if (first === undefined) return null
  if (first === openBrace || first === openBracket) return 'json'
  if (expected === 'csv') return 'csv'
  const text = bytes.toString('latin1', begin, begin + longestHeader)
  const end = text.search(/[\r\n]/)
  if (first !== lessThan && text.slice(0, end < 0 ? text.length : end).includes(',')) return 'csv'
  return end >= 0 || isLast || text.length === longestHeader ? 'json' : null
}

/** Makes the reader once the first bytes tell their format, and gives it these bytes without their mark. Where they do not tell, the requested format decides. */
const byFirstByte = ({ format, mayBeEmpty = false }: Payload, make: (format: Format) => Reader): Reader => {
  let reader: Reader | null = null
  let waiting = Buffer.alloc(0)
  const begin = (isLast: boolean): void => {
    const bytes = waiting.subarray(waiting[0] === 0xef && waiting[1] === 0xbb && waiting[2] === 0xbf ? 3 : 0)
    const found = formatOf(bytes, format, isLast)
    if (found === null && (isLast ? mayBeEmpty : waiting.length < mostBlanks)) return
    reader = make(found ?? format)
    reader.write(bytes)
    waiting = Buffer.alloc(0)
  }
  return {
    write: (chunk) => {
      if (reader !== null) return reader.write(chunk)
      waiting = Buffer.concat([waiting, chunk])
      // A byte order mark may come in pieces: three bytes tell it.
      if (waiting.length >= 3) begin(false)
    },
    end: () => {
      if (reader === null) begin(true)
      reader?.end()
    },
  }
}
