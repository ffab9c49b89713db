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

/** A key may stand across two chunks: as many bytes as could begin one wait for the next. */
async function* maskedBody(
  body: AsyncIterable<Uint8Array>,
  echoes: readonly Buffer[],
  found: () => void,
): AsyncGenerator<Uint8Array, void, void> {
  const waiting = Math.max(...echoes.map((echo) => echo.length)) - 1
  let held: Buffer = Buffer.alloc(0)
  for await (const chunk of body) {
    const clean = mask(Buffer.concat([held, chunk]), echoes, found)
    const ready = Math.max(0, clean.length - waiting)
    if (ready > 0) yield clean.subarray(0, ready)
    held = clean.subarray(ready)
  }
  if (held.length > 0) yield held
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
