// From a part's bytes to COPY text: takes gzip away, picks the reader, hands on chunks.
import type { Payload } from '../core/types.ts'
import { type ParsedChunk, takeChunk } from './copy-text.ts'
import { createCsvReader, type Lanes, type Reader } from './csv-reader.ts'
import { inflated } from './inflate.ts'
import { createJsonReader } from './json-reader.ts'
import type { ParsePlan } from './plan.ts'
import { createParseReport, type ParseReport } from './report.ts'
import { createRowSink, type RowSink } from './row-sink.ts'

/** Bytes a reader gets at once, so that its output stays small however large the chunks that arrive. */
const stepBytes = 128 * 1024

const createReader = (payload: Payload, sink: RowSink, lanes: Lanes): Reader =>
  payload.format === 'json' ? createJsonReader(sink, lanes) : createCsvReader(sink, lanes)

/**
 * Rows of one part as COPY text, in the order of the records; what was rejected, missing or unknown goes to `report`.
 * Reads the body to its end. Throws TRUNCATED, BAD_RESPONSE or TOO_LARGE for the part as a whole: then nothing of it may be loaded.
 * @param lanes for tests and benchmarks; both produce the same
 */
export async function* parsePayload(
  payload: Payload,
  plan: ParsePlan,
  report: ParseReport,
  lanes: Lanes = 'fast',
): AsyncGenerator<ParsedChunk, void, void> {
  const sink = createRowSink(payload, plan, report)
  const reader = createReader(payload, sink, lanes)
  for await (const bytes of inflated(payload.body, plan.maxBytes)) {
    for (let at = 0; at < bytes.length; at += stepBytes) {
      reader.write(bytes.subarray(at, at + stepBytes))
      const chunk = takeChunk(sink.writer, false)
      if (chunk !== null) yield chunk
    }
  }
  reader.end()
  report.empty = report.read === 0
  const chunk = takeChunk(sink.writer, true)
  if (chunk !== null) yield chunk
}

export interface RawRecord {
  /** Number of the accepted row within the part, from 1. */
  readonly ordinal: number
  readonly line: number
  readonly raw: string
}

/** Raw records of accepted rows of the part, by their number from 1; returns how many rows of the part are accepted. */
export async function* readRecords(
  payload: Payload,
  plan: ParsePlan,
  ordinals: ReadonlySet<number>,
): AsyncGenerator<RawRecord, number, void> {
  const found: RawRecord[] = []
  let ordinal = 0
  const sink = createRowSink(payload, plan, createParseReport(), ({ line, raw }) => {
    ordinal += 1
    if (ordinals.has(ordinal)) found.push({ ordinal, line, raw: raw() })
  })
  const reader = createReader(payload, sink, 'full')
  for await (const bytes of inflated(payload.body, plan.maxBytes)) {
    for (let at = 0; at < bytes.length; at += stepBytes) {
      reader.write(bytes.subarray(at, at + stepBytes))
      takeChunk(sink.writer, false)
      yield* found.splice(0)
    }
  }
  reader.end()
  yield* found.splice(0)
  return ordinal
}
