// Lists of words as PostgreSQL array literals.
import { CellError, castText } from './cast-text.ts'
import { excerpt } from './raw-text.ts'

/** Every element quoted, so that commas, braces and the word NULL stay words. */
export const arrayLiteral = (items: readonly (string | null)[]): string => `{${items.map(element).join(',')}}`

const element = (item: string | null): string =>
  item === null ? 'NULL' : `"${castText(item).replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`

/** A JSON array in a string, or words between commas; an empty list where there is nothing. */
export const castTextArray = (cell: string): string => {
  const text = cell.trim()
  if (text === '') return '{}'
  if (!text.startsWith('[')) return arrayLiteral(text.split(',').map((item) => item.trim()))
  return arrayLiteral(jsonItems(text))
}

/** Elements of a JSON array of words; numbers and truth values as they are written. Throws CellError. */
export const jsonItems = (text: string): (string | null)[] => {
  const value = parseJson(text)
  if (isWords(value)) return value
  const exact = numbersAsWritten(text)
  if (!Array.isArray(exact)) throw new CellError(`'${excerpt(text, 60)}' is not a list`)
  return exact.map((item: unknown) => {
    if (item === null || typeof item === 'string') return item
    if (typeof item === 'object') throw new CellError('the list holds a list or an object, expected words')
    return String(item)
  })
}

const isWords = (value: unknown): value is (string | null)[] =>
  Array.isArray(value) && value.every((item) => item === null || typeof item === 'string')

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    throw new CellError(`'${excerpt(text, 60)}' is not a list`)
  }
}

// A number's own text where the platform gives it (Node 21 and newer), else the shortest that means the same.
const numbersAsWritten = (text: string): unknown =>
  JSON.parse(text, (_key: string, value: unknown, context?: { source?: string }): unknown =>
    typeof value === 'number' ? (context?.source ?? String(value)) : value,
  )
