// Which list of a JSON page holds the records.
import { cut, eachField, JsonError, skipBlanks } from './json-scan.ts'
import { fieldName, type ParsePlan } from './plan.ts'

export interface Page {
  /** Where the list begins; null: the object holds none. */
  readonly list: { readonly start: number } | null
  /** Whether the object has the record's key itself. */
  readonly hasKey: boolean
  readonly names: readonly string[]
  /** Behind the object. */
  readonly end: number
}

const openBrace = 123
const openBracket = 91
const closeBracket = 93
const preferred = 'keywords'

interface List {
  readonly name: string
  readonly start: number
  readonly holds: 'objects' | 'nothing' | 'other'
}

/** The list called `keywords`, else the only list of objects, else the only list if it is empty. Null where the object at `at` is not whole. */
export const findList = (plan: ParsePlan, bytes: Buffer, at: number): Page | null => {
  const names: string[] = []
  const lists: List[] = []
  const columns = new Set(plan.columns.flatMap((column) => column.names))
  const end = eachField(bytes, at, 0, (nameAt, nameEnd, valueAt) => {
    const name = bytes.toString('utf8', nameAt + 1, nameEnd - 1)
    names.push(name)
    if (bytes[valueAt] === openBracket && !columns.has(fieldName(name))) lists.push(listAt(bytes, name, valueAt))
  })
  if (end === cut) return null
  const found = new Set(names.map(fieldName))
  const hasKey =
    plan.keyPlaces.length > 0 && plan.keyPlaces.every((place) => plan.columns[place]?.names.some((name) => found.has(name)))
  return { list: choose(lists), hasKey, names, end }
}

const listAt = (bytes: Buffer, name: string, start: number): List => {
  const first = bytes[skipBlanks(bytes, start + 1)]
  return { name, start, holds: first === openBrace ? 'objects' : first === closeBracket ? 'nothing' : 'other' }
}

const choose = (lists: readonly List[]): List | null => {
  const named = lists.filter((list) => list.name === preferred)
  const [twice] = named.slice(1)
  if (twice !== undefined) throw new JsonError(twice.start, `'${preferred}' stands twice`)
  if (named[0] !== undefined) return named[0]
  const objects = lists.filter((list) => list.holds === 'objects')
  const [second] = objects.slice(1)
  if (second !== undefined)
    throw new JsonError(second.start, `there is more than one list of records: ${objects.map((list) => list.name).join(', ')}`)
  if (objects[0] !== undefined) return objects[0]
  const [empty, another] = lists.filter((list) => list.holds === 'nothing')
  return another === undefined ? (empty ?? null) : null
}
