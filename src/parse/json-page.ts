// A page: one JSON object that holds its records in a list, and which of its lists that is.
import { cut, eachField, JsonError, skipBlanks } from './json-scan.ts'
import { fieldName, type ParsePlan } from './parse-plan.ts'

/** A list of a page. Its first element says what it holds. */
interface List {
  readonly name: string
  /** Where it begins. */
  readonly start: number
  readonly holds: 'objects' | 'nothing' | 'other'
}

/** What the first object of an answer turned out to be. */
export interface Page {
  /** Where the list of records begins; null: the object holds none. */
  readonly listAt: number | null
  /** Whether the object has the record's key itself. */
  readonly hasKey: boolean
  readonly names: readonly string[]
  /** Behind the object. */
  readonly end: number
}

const openBrace = 123
const openBracket = 91
const closeBracket = 93

/** The list that the source names, else the only list of objects, else the only list if it is empty. Null where the object at `at` is not whole. */
export const findList = (plan: ParsePlan, bytes: Buffer, at: number): Page | null => {
  const columns = new Set(plan.columns.flatMap((column) => column.names))
  const lists: List[] = []
  const names: string[] = []
  const end = eachField(bytes, at, 0, (nameAt, nameEnd, valueAt) => {
    const name = String(JSON.parse(bytes.toString('utf8', nameAt, nameEnd)))
    names.push(name)
    // A list in a column's field is a cell.
    if (bytes[valueAt] === openBracket && !columns.has(fieldName(name)))
      lists.push({ name, start: valueAt, holds: firstOf(bytes, valueAt) })
  })
  if (end === cut) return null
  const found = new Set(names.map(fieldName))
  const hasKey =
    plan.keyPlaces.length > 0 && plan.keyPlaces.every((place) => plan.columns[place]?.names.some((name) => found.has(name)))
  return { listAt: (named(lists, plan.recordsIn) ?? choose(lists))?.start ?? null, hasKey, names, end }
}

const firstOf = (bytes: Buffer, listAt: number): List['holds'] => {
  const first = bytes[skipBlanks(bytes, listAt + 1)]
  return first === openBrace ? 'objects' : first === closeBracket ? 'nothing' : 'other'
}

const named = (lists: readonly List[], wanted: string | null): List | undefined => {
  const [first, second] = lists.filter(({ name }) => name === wanted)
  if (second !== undefined) throw new JsonError(second.start, `'${second.name}' appears twice`)
  return first
}

const choose = (lists: readonly List[]): List | undefined => {
  const objects = lists.filter((list) => list.holds === 'objects')
  const [, second] = objects
  if (second !== undefined)
    throw new JsonError(second.start, `there is more than one list of records: ${objects.map((list) => list.name).join(', ')}`)
  const [empty, another] = lists.filter((list) => list.holds === 'nothing')
  return objects[0] ?? (another === undefined ? empty : undefined)
}
