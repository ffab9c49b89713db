// What a reader of the catalog is told of each object: from the definition's own words.
import { type RawBuilder, sql } from 'kysely'
import type { Column, Definition } from '../core/types.ts'

/** `Clicks to the domain. Unit: clicks. From the field clicks. NULL means no data, never 0.` */
export const columnComment = (column: Column): string => {
  const parts = [sentence(column.description || column.name)]
  if (column.unit !== null) parts.push(`Unit: ${column.unit}.`)
  if (column.origin === 'response') parts.push(`From the field ${column.from[0] ?? column.name}.`)
  else
    parts.push(
      { window: 'First day of the period asked for.', slice: 'As asked for.', param: 'As asked for in the parameters.' }[
        column.origin
      ],
    )
  if (column.ifAbsent !== null) parts.push(`${column.ifAbsent} where the record lacks the field.`)
  if (column.nullable) parts.push('NULL means no data, never 0.')
  if (column.isKey) parts.push('Part of the key.')
  return parts.join(' ')
}

const sentence = (text: string): string => (/[.!?]$/.test(text.trim()) ? text.trim() : `${text.trim()}.`)

export const lineageComments: Readonly<Record<string, string>> = {
  _unit_id: 'The unit that brought the row: etl.units, and through etl.loads its landing file and requests.',
  _run_id: 'The run that brought the row: etl.runs.',
  _revision: "Number of the row's distinct values so far, from 1.",
  _loaded_at: 'When this value was loaded.',
  _valid_from: 'When this value was loaded.',
  _valid_to: 'When this value was replaced or its row vanished from the answer.',
  _ended_run_id: 'The run that replaced or ended it: etl.runs.',
  valid_from: 'When this value was loaded.',
  valid_to: 'When this value was replaced or its row vanished from the answer; NULL while it is current.',
  is_current: 'Whether this is the value believed now.',
}

export const grainOf = (definition: Definition): string => `One row for each ${definition.key.join(', ')}.`

/** COMMENT takes no parameters, so the text stands in the statement as a quoted literal. */
export const commentOn = (
  kind: 'schema' | 'table' | 'view' | 'column' | 'function',
  object: RawBuilder<unknown>,
  text: string,
): RawBuilder<unknown> => sql`comment on ${sql.raw(kind)} ${object} is ${sql.lit(text)}`
