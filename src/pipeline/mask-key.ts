// An answer's bytes without the key, which some services send back: masked before anything is kept or parsed.
import { echoesOfKeys, secretMarker } from '../core/redact.ts'
import type { Payload } from '../core/types.ts'
import { inflated } from '../parse/inflate.ts'

/** The same part; a gzip file comes inflated, since its bytes hide what is in it. @param found called each time the key was there */
export const masked = (payload: Payload, maxBytes: number, found: () => void): Payload => {
  const echoes = echoesOfKeys()
  if (echoes.length === 0) return payload
  return { ...payload, body: maskedBody(inflated(payload.body, maxBytes), echoes, found) }
}

/** A key may stand across two chunks: an end that could begin one waits for the next. Everything else passes without a copy. */
async function* maskedBody(
  body: AsyncIterable<Uint8Array>,
  echoes: readonly Buffer[],
  found: () => void,
): AsyncGenerator<Uint8Array, void, void> {
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of body) {
    const bytes = held.length === 0 ? Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) : Buffer.concat([held, chunk])
    const clean = mask(bytes, echoes, found)
    const ready = clean.length - Math.max(...echoes.map((echo) => begunAtEnd(clean, echo)))
    if (ready > 0) yield clean.subarray(0, ready)
    held = clean.subarray(ready)
  }
  if (held.length > 0) yield held
}

/** How many bytes at the end are the first ones of the echo. */
const begunAtEnd = (bytes: Buffer, echo: Buffer): number => {
  const end = bytes.subarray(Math.max(0, bytes.length - echo.length + 1))
  for (let at = end.indexOf(echo[0] ?? 0); at >= 0; at = end.indexOf(echo[0] ?? 0, at + 1)) {
    const begun = end.length - at
    if (end.compare(echo, 0, begun, at) === 0) return begun
  }
  return 0
}

const mask = (bytes: Buffer, echoes: readonly Buffer[], found: () => void): Buffer => {
  let clean = bytes
  for (const echo of echoes) {
    for (let at = clean.indexOf(echo); at >= 0; at = clean.indexOf(echo, at + secretMarker.length)) {
      found()
      clean = Buffer.concat([clean.subarray(0, at), secretMarker, clean.subarray(at + echo.length)])
    }
  }
  return clean
}
