// Bytes of a record as text that a person can read and PostgreSQL can store.
import { isUtf8 } from 'node:buffer'

const hex = (byte: number): string => `\\x${byte.toString(16).padStart(2, '0')}`

/** The record's text; NUL and bytes that are no UTF-8 are written as \x00. Never throws. */
export const rawText = (bytes: Buffer): string =>
  (isUtf8(bytes) ? bytes.toString('utf8') : lenient(bytes)).replaceAll('\u0000', '\\x00')

const lenient = (bytes: Buffer): string => {
  let text = ''
  let at = 0
  while (at < bytes.length) {
    const length = validLength(bytes, at)
    text += length === 0 ? hex(bytes[at] ?? 0) : bytes.toString('utf8', at, at + length)
    at += Math.max(length, 1)
  }
  return text
}

/** Length of the valid character at `at`, 0 where there is none. */
const validLength = (bytes: Buffer, at: number): number => {
  for (let length = 1; length <= 4 && at + length <= bytes.length; length += 1) {
    if (isUtf8(bytes.subarray(at, at + length))) return length
  }
  return 0
}

/** A copy of the text: a cell keeps all the text it was cut from in memory. It must be well formed. */
export const detached = (text: string): string => Buffer.from(text).toString()
