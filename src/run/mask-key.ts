// An answer's bytes without the key, which some services send back: masked before anything is kept or parsed.
import { findEcho, hasKeys } from '../core/key-echo.ts'
import { redact, secretMarker, withoutKeys } from '../core/redact.ts'
import type { Completeness } from '../core/completeness.ts'
import type { Payload } from '../core/types.ts'
import { inflated } from '../parse/inflate.ts'

/** The same part; a gzip file comes inflated, since its bytes hide what is in it. @param found called each time the key was there */
export const masked = (payload: Payload, maxBytes: number, found: () => void): Payload =>
  hasKeys() ? { ...payload, body: maskedBody(inflated(payload.body, maxBytes), found) } : payload

/** What a source read of an answer by itself, in front of the mask. */
export const maskedWords = (completeness: Completeness): Completeness => {
  const { fingerprint, order } = completeness
  const lastUpdated = fingerprint.lastUpdated === null ? null : redact(fingerprint.lastUpdated)
  return {
    ...completeness,
    fingerprint: { ...fingerprint, lastUpdated },
    ...(order == null ? {} : { order: JSON.parse(redact(JSON.stringify(order))) as typeof order }),
  }
}

/** A key may stand across two chunks: what could begin one waits for the next. Everything else passes without a copy. */
async function* maskedBody(body: AsyncIterable<Uint8Array>, found: () => void): AsyncGenerator<Uint8Array, void, void> {
  let held: Uint8Array = Buffer.alloc(0)
  for await (const chunk of body) {
    const bytes = held.length === 0 ? chunk : Buffer.concat([held, chunk])
    let from = 0
    let echo = findEcho(bytes, from)
    for (; echo !== null && echo.length !== null; echo = findEcho(bytes, from)) {
      found()
      if (echo.at > from) yield bytes.subarray(from, echo.at)
      yield secretMarker
      from = echo.at + echo.length
    }
    const ready = echo?.at ?? bytes.length
    if (ready > from) yield bytes.subarray(from, ready)
    held = bytes.subarray(ready)
  }
  // What could have begun a key did not; another one may stand behind that.
  if (held.length > 0) yield withoutKeys(held)
}
