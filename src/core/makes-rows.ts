// What makes rows out of an answer's bytes: a definition and the code that reads it. The same bytes and the same maker make the same rows.
import { createHash } from 'node:crypto'
import { codeDigest } from './program-code.ts'
import type { Definition } from './types.ts'

/** Everything else of a definition counts: what is forgotten here costs time, what stood here by mistake would cost rows. */
const idle: ReadonlySet<string> = new Set<keyof Definition>([
  'file',
  'description',
  // Which values are asked for stands in the job; how large a window is, and what the dimensions are called, is added below.
  'dimensions',
  'window',
  'schedule',
  'guard',
  'tags',
  'expect',
  'publish',
])

/** Digest of what makes the definition's rows; null: it is not known which code this process runs. */
export const rowMakerOf = (definition: Definition, code: string | null = codeDigest()): string | null => {
  if (code === null) return null
  const decides = Object.entries(definition).filter(([name]) => !idle.has(name))
  const dimensions = definition.dimensions.map(({ name }) => name)
  const words = JSON.stringify([code, Object.fromEntries(decides), dimensions, definition.window.every], sorted)
  return createHash('sha256').update(words).digest('hex')
}

/** Keys in one order, however the object was put together. */
const sorted = (_: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).sort(([left], [right]) => (left < right ? -1 : 1)))
    : value
