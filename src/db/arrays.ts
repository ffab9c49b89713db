// Arrays as PostgreSQL writes them. The driver's own way takes a hundred bytes for every value, and planning sends and gets them by the ten thousand.

/** Of integers, texts and nulls the text that the server reads; everything else is left to the driver. */
export const arrayText = (value: unknown): unknown => {
  if (!Array.isArray(value)) return value
  if (value.every((one) => Number.isSafeInteger(one) || isBare(one))) return `{${value.join()}}`
  return value.every(isText) ? `{${value.map(element).join()}}` : value
}

/** Needs no quotes. */
const isBare = (one: unknown): boolean => typeof one === 'string' && /^[\w.-]+$/.test(one) && !/^null$/i.test(one)

const isText = (one: unknown): one is string | null => typeof one === 'string' || one === null

const element = (one: string | null): string => (one === null ? 'NULL' : `"${one.replaceAll(/["\\]/g, '\\$&')}"`)

/** An integer[] of one dimension and without nulls; null: it is another. */
export const integersOf = (text: string): number[] | null =>
  text.lastIndexOf('{') !== 0 || /[^-\d,{}]/.test(text) ? null : inner(text).map(Number)

/** A text[] of one dimension whose texts need no quotes and of which none is null; null: it is another. */
export const textsOf = (text: string): string[] | null =>
  text.lastIndexOf('{') !== 0 || /["\\]|NULL/i.test(text) ? null : inner(text)

const inner = (text: string): string[] => (text === '{}' ? [] : text.slice(1, -1).split(','))
