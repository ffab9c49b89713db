// A request's body as JSON, up to a limit.
import type { IncomingMessage } from 'node:http'

/** Enough for a million domains. */
const maxBytes = 64 * 1024 * 1024

/** The parsed body; undefined where it is empty or not JSON. */
export const readJson = async (request: IncomingMessage): Promise<unknown> => {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue
    length += chunk.length
    if (length <= maxBytes) chunks.push(chunk)
  }
  if (length > maxBytes) return 'too large'
  try {
    const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'), withoutPrototype)
    return value === 'too large' ? undefined : value
  } catch {
    return undefined
  }
}

/** Reviver that throws for `__proto__`, a key that objects would silently drop. */
export const withoutPrototype = (key: string, value: unknown): unknown => {
  if (key === '__proto__') throw new Error("unknown key '__proto__'")
  return value
}
