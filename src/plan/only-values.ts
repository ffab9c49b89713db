// --only: narrows a plan to some values of the lists, and says so when a value is in none.
import { closest } from 'fastest-levenshtein'
import { EtlError } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'

/** Values by dimension; a dimension that is not named is not narrowed. */
export type Only = ReadonlyMap<string, readonly string[]>

/** `only` in the spelling of the lists. Throws USAGE for a dimension or a value the definition does not have, naming the nearest. */
export const checkOnly = (definition: Definition, only: Only): Only =>
  new Map([...only].map(([name, values]) => [name, listedValues(definition, name, values)]))

const listedValues = (definition: Definition, name: string, values: readonly string[]): readonly string[] => {
  const names = definition.dimensions.map((dimension) => dimension.name)
  const found = definition.dimensions.find((dimension) => dimension.name === name)
  // Its values are known once its query was read.
  if (found?.query !== undefined && found.query.isRead !== true) return values
  const list = found?.values
  if (list === undefined) {
    throw new EtlError('USAGE', `--only ${name}=...: ${definition.pipeline} does not run for each '${name}'${near(name, names)}`)
  }
  if (values.length === 0) throw new EtlError('USAGE', `--only ${name}= names no value; write --only ${name}=${list[0]}.`)
  return [...new Set(values.map((value) => listed(value, list, `--only ${name}=${value}`, definition)))]
}

const listed = (value: string, list: readonly string[], option: string, definition: Definition): string => {
  const found = [value, value.trim().toLowerCase()].find((spelling) => list.includes(spelling))
  if (found !== undefined) return found
  throw new EtlError(
    'USAGE',
    `${option}: '${value}' is not in the list of ${definition.pipeline} (${definition.file})${near(value, list)}`,
  )
}

const near = (word: string, candidates: readonly string[]): string =>
  candidates.length === 0 ? '; leave the option out.' : `; the nearest is '${closest(word.toLowerCase(), candidates)}'.`
