// Numbers on the command line.
import { EtlError } from '../core/errors.ts'

/** A whole number from 1; anything else is USAGE in `words`. */
export const wholeNumber = (value: unknown, words: (text: string) => string): number => {
  const text = String(value)
  const number = Number(text)
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(number) || number < 1) throw new EtlError('USAGE', words(text))
  return number
}
