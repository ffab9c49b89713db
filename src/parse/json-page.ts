// Which list of a JSON page holds the records.
import { type JsonList, listNamed, readPage } from '../core/json-page-scan.ts'
import { JsonError } from '../core/json-scan.ts'
import { fieldName, type ParsePlan } from './parse-plan.ts'

/** What the first object of an answer turned out to be. */
export interface Page {
  /** null: the object holds no list of records. */
  readonly list: JsonList | null
  /** Whether the object has the record's key itself. */
  readonly hasKey: boolean
  readonly names: readonly string[]
  /** Behind the object. */
  readonly end: number
}

/** The list that the source names, else the only list of objects, else the only list if it is empty. Null where the object at `at` is not whole. */
export const findList = (plan: ParsePlan, bytes: Buffer, at: number): Page | null => {
  const columns = new Set(plan.columns.flatMap((column) => column.names))
  const page = readPage(bytes, at, (name) => !columns.has(fieldName(name)))
  if (page === null) return null
  const { names, end } = page
  const found = new Set(names.map(fieldName))
  const hasKey =
    plan.keyPlaces.length > 0 && plan.keyPlaces.every((place) => plan.columns[place]?.names.some((name) => found.has(name)))
  const named = plan.recordsIn === null ? null : listNamed(page, plan.recordsIn)
  return { list: named ?? choose(page.lists), hasKey, names, end }
}

const choose = (lists: readonly JsonList[]): JsonList | null => {
  const objects = lists.filter((list) => list.holds === 'objects')
  const [second] = objects.slice(1)
  if (second !== undefined)
    throw new JsonError(second.start, `there is more than one list of records: ${objects.map((list) => list.name).join(', ')}`)
  if (objects[0] !== undefined) return objects[0]
  const [empty, another] = lists.filter((list) => list.holds === 'nothing')
  return another === undefined ? (empty ?? null) : null
}
