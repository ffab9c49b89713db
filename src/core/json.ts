// JSON that may be none, and what it turned out to be.

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

/** For JSON.parse: a whole number that a double would round, as an id of 64 bits may be, comes as the text it is written as. */
export const largeAsWritten = (_name: string, value: unknown, context?: { source?: string }): unknown =>
  Number.isInteger(value) && !Number.isSafeInteger(value) ? (context?.source ?? String(value)) : value

/** Whether it is a JSON object. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
