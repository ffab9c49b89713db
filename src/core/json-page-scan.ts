// A page: one JSON object that holds its records in a list. Read once, into places; whoever wants a field takes its bytes from there.
import { isSame } from './bytes.ts'
import type { JsonRecords } from './types.ts'
import { cut, eachElement, eachField, JsonError, skipBlanks, skipValue } from './json-scan.ts'

/** A list of a page. Its first element says what it holds. */
export interface JsonList extends JsonRecords {
  readonly name: string
  /** Where it begins. */
  readonly start: number
  readonly holds: 'objects' | 'nothing' | 'other'
}

/** One object of an answer by the places of its parts; nothing of its lists is copied. */
export interface JsonPage {
  /** Its lists, in order. */
  readonly lists: readonly JsonList[]
  /** Names of all its fields, lists included, in order. */
  readonly names: readonly string[]
  /** Its other fields, read when asked for. */
  envelope(): Readonly<Record<string, unknown>>
  /** Behind the object. */
  readonly end: number
}

const openBrace = 123
const openBracket = 91
const closeBracket = 93

const isList = (): boolean => true

/**
 * The page that begins at `at`; null where it is not whole. Throws JsonError.
 * @param holdsRecords whether a list of that name may hold records; default: any. Others are fields like all the rest
 */
export const readPage = (bytes: Buffer, at: number, holdsRecords: (name: string) => boolean = isList): JsonPage | null => {
  const lists: JsonList[] = []
  const names: string[] = []
  const others: (readonly [name: string, start: number, end: number])[] = []
  let list: JsonRecords | null = null
  const end = eachField(
    bytes,
    at,
    0,
    (nameAt, nameEnd, valueAt, valueEnd) => {
      const name = String(JSON.parse(bytes.toString('utf8', nameAt, nameEnd)))
      names.push(name)
      if (list !== null && holdsRecords(name)) lists.push({ ...list, name, start: valueAt, holds: firstOf(bytes, valueAt) })
      else others.push([name, valueAt, valueEnd])
      list = null
    },
    (_, valueAt, depth) => {
      if (bytes[valueAt] !== openBracket) return skipValue(bytes, valueAt, depth)
      const reader = createListReader(bytes)
      const behind = eachElement(bytes, valueAt, depth, reader.read)
      list = reader.records()
      return behind
    },
  )
  if (end === cut) return null
  const read = (from: number, to: number): unknown => JSON.parse(bytes.toString('utf8', from, to))
  return { lists, names, end, envelope: () => Object.fromEntries(others.map(([name, from, to]) => [name, read(from, to)])) }
}

const firstOf = (bytes: Buffer, listAt: number): JsonList['holds'] => {
  const first = bytes[skipBlanks(bytes, listAt + 1)]
  return first === openBrace ? 'objects' : first === closeBracket ? 'nothing' : 'other'
}

/** The list of that name, where the page has exactly one. Throws JsonError where it stands twice. */
export const listNamed = ({ lists }: JsonPage, name: string): JsonList | null => {
  const [first, second] = lists.filter((list) => list.name === name)
  if (second !== undefined) throw new JsonError(second.start, `'${name}' appears twice`)
  return first ?? null
}

const createListReader = (bytes: Buffer) => {
  let bounds = new Int32Array(256)
  let firstField = new Int32Array(129)
  let fields = new Int32Array(8 * 1024)
  let count = 0
  let used = 0
  const onField = (nameAt: number, nameEnd: number, valueAt: number, valueEnd: number): void => {
    if (used + 4 > fields.length) fields = doubled(fields)
    fields[used] = nameAt
    fields[used + 1] = nameEnd
    fields[used + 2] = valueAt
    fields[used + 3] = valueEnd
    used += 4
  }
  return {
    read: (_: Buffer, at: number, depth: number): number => {
      const end = bytes[at] === openBrace ? eachField(bytes, at, depth, onField) : skipValue(bytes, at, depth)
      if (end === cut) return cut
      if (2 * count + 2 > bounds.length) {
        bounds = doubled(bounds)
        firstField = doubled(firstField)
      }
      bounds[2 * count] = at
      bounds[2 * count + 1] = end
      count += 1
      firstField[count] = used / 4
      return end
    },
    records: (): JsonRecords => ({ bytes, count, bounds, firstField, fields }),
  }
}

const doubled = (numbers: Int32Array): Int32Array<ArrayBuffer> => {
  const larger = new Int32Array(numbers.length * 2)
  larger.set(numbers)
  return larger
}

/** Reads one field of record after record, by its name as JSON writes it; its JSON, or null where the record lacks it. */
export const fieldReader = (records: JsonRecords, name: string): ((index: number) => string | null) => {
  const { bytes, fields, firstField } = records
  const wanted = Buffer.from(JSON.stringify(name))
  // Records repeat their fields in the same order, so that the place it had last is tried first.
  let place = 0
  const isAt = (field: number): boolean => isSame(bytes, fields[4 * field] ?? 0, fields[4 * field + 1] ?? 0, wanted)
  return (index) => {
    const from = firstField[index] ?? 0
    const to = firstField[index + 1] ?? from
    if (from + place >= to || !isAt(from + place)) {
      place = 0
      while (from + place < to && !isAt(from + place)) place += 1
      if (from + place >= to) return null
    }
    const field = from + place
    return bytes.toString('utf8', fields[4 * field + 2], fields[4 * field + 3])
  }
}
