// Which format a body is in, by its first byte: services name the wrong content type, or send another format than the one asked for.
import type { Payload } from '../core/types.ts'
import type { Reader } from './csv-reader.ts'

type Format = Payload['format']

const openBrace = 123
const openBracket = 91

const lessThan = 60
const longestHeader = 16 * 1024

/** Blanks before the first byte that says anything; beyond them the format asked for is believed. */
const mostBlanks = 64 * 1024

/**
 * JSON begins with a bracket, and no header of a table does. Where JSON was asked for, a table shows itself by the commas of its header: a web page or an
 * excuse is not called one. null: not known yet.
 */
const formatOf = (bytes: Buffer, expected: Format, isLast: boolean): Format | null => {
  const from = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0
  const begin = bytes.findIndex((byte, at) => at >= from && byte > 32)
  const first = bytes[begin]
  if (first === undefined) return null
  if (first === openBrace || first === openBracket) return 'json'
  if (expected === 'csv') return 'csv'
  const text = bytes.toString('latin1', begin, begin + longestHeader)
  const end = text.search(/[\r\n]/)
  if (first !== lessThan && text.slice(0, end < 0 ? text.length : end).includes(',')) return 'csv'
  return end >= 0 || isLast || text.length === longestHeader ? 'json' : null
}

/** What the bytes should be. */
export interface Expected {
  /** Asked for; decides where the bytes do not. */
  readonly format: Format
  /** The service said that the report has no data: then an empty body is no damage. */
  readonly mayBeEmpty: boolean
}

/** The reader is made with the first bytes that tell its format. */
export const byFirstByte = ({ format, mayBeEmpty }: Expected, make: (format: Format) => Reader): Reader => {
  let reader: Reader | null = null
  let waiting = Buffer.alloc(0)
  return {
    write: (chunk) => {
      if (reader !== null) return reader.write(chunk)
      // A byte order mark may come in pieces: three bytes tell it.
      waiting = Buffer.concat([waiting, chunk])
      const found = waiting.length < 3 ? null : formatOf(waiting, format, false)
      if (found === null && waiting.length < mostBlanks) return
      reader = make(found ?? format)
      reader.write(waiting)
      waiting = Buffer.alloc(0)
    },
    end: () => {
      if (reader === null) {
        const found = formatOf(waiting, format, true)
        if (found === null && mayBeEmpty) return
        reader = make(found ?? format)
        reader.write(waiting)
      }
      reader.end()
    },
  }
}
