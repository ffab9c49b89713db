// Reads text that may not be JSON, and checks what kind of value it is.

/** Without the byte order mark that some services write in front (RFC 8259, 8.1). */
export const withoutMark = (text: string): string => text.replace(/^\uFEFF/, '')

/** null: it is no JSON. */
export const jsonOrNull = (text: string): unknown => {
  try {
    return JSON.parse(withoutMark(text))
  } catch {
    return null
  }
}

/** Reviver for JSON.parse: a whole number that a double would round (an id of 64 bits) stays the text as written. */
export const largeAsWritten = (_name: string, value: unknown, context?: { source?: string }): unknown =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? (context?.source ?? String(value)) : value

/** Whether it is a JSON object. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
