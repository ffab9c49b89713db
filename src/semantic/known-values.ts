// Values that a question names and that do not exist: refused with the nearest one, since a sum over nothing reads like "none".
import { sql } from 'kysely'
import { z } from 'zod'
import { columnNames } from '../db/catalog.ts'
import { suggest } from '../definition/problem.ts'
import type { SemanticDimension, Subject } from '../definition/semantic.ts'
import type { Reading } from './reader.ts'
import { type QueryFilter, refuse } from './query.ts'
import type { Sql } from './statement.ts'

/** Names among which the nearest is looked for. */
const mostNames = 5_000
const nameRow = z.tuple([z.string().nullable()])

/** Where the values of a dimension are; null: nobody knows them all. */
const valuesOf = (
  { dimensions }: Subject,
  { column, of, table, entity, values }: SemanticDimension,
): SemanticDimension['values'] => {
  if (values !== null) return values
  if (of !== null) return { table: table ?? dimensions.get(of)?.entity?.table ?? '', column }
  return entity === null ? null : { table: entity.table, column: entity.key }
}

/** Throws QueryRefusedError. */
export const assertKnown = async (reading: Reading, subject: Subject, where: readonly QueryFilter[]): Promise<void> => {
  for (const { dimension: name, is = [], is_not = [] } of where) {
    const dimension = subject.dimensions.get(name)
    const values = dimension === undefined ? null : valuesOf(subject, dimension)
    if (dimension === undefined || values === null) continue
    for (const asked of [...is, ...is_not]) await assertOne(reading, subject, dimension, values, asked)
  }
}

const assertOne = async (
  reading: Reading,
  subject: Subject,
  { name, column }: SemanticDimension,
  values: NonNullable<SemanticDimension['values']>,
  asked: string,
): Promise<void> => {
  const read = async (more: Sql): Promise<string[]> => {
    if (!('table' in values)) return [...values]
    const names = sql`select ${sql.ref(values.column)}::text as name from ${sql.table(`bi.${values.table}`)}`
    const { rows } = await reading.read(sql`select name from (${names}) as known${more}`.compile(reading.db))
    return rows.flatMap((row) => nameRow.parse(row)[0] ?? [])
  }
  if ((await read(sql` where name = ${asked} limit 1`)).includes(asked)) return
  if (await isOnLists(reading, subject, column, asked))
    refuse(`Nothing of ${name} '${asked}' is loaded, though the lists want it: what it has is not known.`, [
      'leave it out',
      'ask coverage why it is not loaded',
    ])
  const names = await read(sql` order by starts_with(name, left(${asked}, 2)) desc, name limit ${sql.lit(mostNames)}`)
  const same = names.find((one) => one.toLowerCase() === asked.toLowerCase())
  refuse(`${name} has no value '${asked}'.${same === undefined ? suggest(asked, names) : ` Did you mean '${same}'?`}`, [
    'write the value as the warehouse has it',
  ])
}

/** A cell that is wanted and has no row is no mistake of the question. */
const isOnLists = async (reading: Reading, { pipeline }: Subject, column: string, value: string): Promise<boolean> => {
  if (pipeline === null || !(await columnNames(reading.db, 'bi.coverage')).includes(column)) return false
  const asked = sql`select 1 from bi.coverage where pipeline = ${pipeline} and ${sql.ref(column)}::text = ${value} limit 1`
  return (await reading.read(asked.compile(reading.db))).rows.length > 0
}
