// From a part's bytes to COPY text: picks the format, takes gzip away, watches the encoding.
import { isUtf8 } from 'node:buffer'
import type { Payload } from '../core/types.ts'
import type { ParsedChunk } from './copy-text.ts'
import { csvRecords, parseCsv, type Utf8Watch } from './csv.ts'
import { inflated } from './inflate.ts'
import { jsonRawRecords, parseJson } from './json.ts'
import type { ParsePlan } from './plan.ts'
import { createParseReport, type ParseReport } from './report.ts'

/** Rows of one part, in chunks; what was rejected, missing or unknown goes to `report`. Memory does not grow with a CSV part. */
export const parsePayload = (payload: Payload, plan: ParsePlan, report: ParseReport): AsyncIterable<ParsedChunk> => {
  const body = inflated(payload.body, plan.maxBytes)
  if (payload.format === 'json') return parseJson(payload, body, plan, report)
  const watch: Utf8Watch = { broken: false }
  return parseCsv(payload, watched(body, watch), plan, report, watch)
}

/** Raw records of accepted rows of the part, by their number from 1; returns how many rows the part has. */
export const readRecords = (
  payload: Payload,
  plan: ParsePlan,
  ordinals: ReadonlySet<number>,
): AsyncGenerator<{ ordinal: number; line: number; raw: string }, number, void> => {
  const body = inflated(payload.body, plan.maxBytes)
  if (payload.format === 'json') return jsonRawRecords(payload, body, plan, ordinals)
  const watch: Utf8Watch = { broken: false }
  return csvRecords(watched(body, watch), plan, ordinals, watch, createParseReport())
}

/** Notes bytes that are no UTF-8 before the parser sees them; a character may be cut between two chunks. */
async function* watched(body: AsyncIterable<Uint8Array>, watch: Utf8Watch): AsyncGenerator<Uint8Array> {
  let tail: Uint8Array = new Uint8Array(0)
  for await (const chunk of body) {
    const joined = tail.length === 0 ? chunk : Buffer.concat([tail, chunk])
    const cut = joined.length - unfinished(joined)
    if (!isUtf8(joined.subarray(0, cut))) watch.broken = true
    tail = joined.subarray(cut)
    yield chunk
  }
  if (tail.length > 0) watch.broken = true
}

/** Bytes at the end that begin a character and do not finish it. */
const unfinished = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0
    if ((byte & 0xc0) === 0x80) continue
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1
    return length > back ? back : 0
  }
  return 0
}
