// An answer made up from a definition, for its test until `millrace record` has cut a real one: names, key, types and tests are held to it.
import type { ColumnType } from '../core/column-types.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Definition, IsoDate } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import { windowAt } from '../core/window.ts'
import { stagedColumns } from '../load/table-columns.ts'
import { outcomeOf, type Recorded } from './recorded-answers.ts'

const examples: Readonly<Record<ColumnType, (day: IsoDate) => string>> = {
  text: () => 'example',
  bigint: () => '2',
  integer: () => '2',
  numeric: () => '1.5',
  boolean: () => 'true',
  date: (day) => day,
  timestamptz: (day) => `${day}T00:00:00Z`,
  'text[]': () => '"[""example""]"',
}

/** One record of a report, for the first value of each list and the first window. */
export const exampleAnswer = async (definition: Definition, source: SourceSpec): Promise<Recorded> => {
  const { pipeline, version, dimensions } = definition
  const window = windowAt(definition.window.from, definition.window.every)
  const values = dimensions.map((one) => one.values[0] ?? 'example')
  const box = boxOf({ pipeline, version, window, dimensions: dimensions.map(({ name }) => name), slices: [values] })
  const columns = stagedColumns(definition)
  const cells = columns.map(({ name, type }) => {
    const place = dimensions.findIndex((one) => one.name === name)
    return values[place] ?? examples[type](window.from)
  })
  const recorded = {
    ...{ name: `${box.key} (made up)`, window, dialect: null, format: 'csv' as const },
    slice: Object.fromEntries(
      Object.entries(box.slice).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
    ),
    parts: [`${columns.map(({ name, from }) => from[0] ?? name).join()}\n${cells.join()}\n`],
  }
  return { ...recorded, expected: await outcomeOf(definition, source, recorded) }
}
