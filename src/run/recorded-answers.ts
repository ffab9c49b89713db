// A definition over recorded answers, offline: what its parser, casts, key and tests make of the bytes, to be compared with what was expected.
import { z } from 'zod'
import { type DataTest, expectationOf, isTotalTest, type RowTest } from '../core/data-test.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Box, Definition, Payload } from '../core/types.ts'
import { arrayText } from '../db/arrays.ts'
import { constantColumns, copiedColumns, stagedColumns } from '../load/table-columns.ts'
import { createAnswerParser } from '../parse/parse.ts'
import { compileParsePlan } from '../parse/parse-plan.ts'
import { createParseReport, type ParseReport } from '../parse/parse-report.ts'

const cell = z.string().nullable()

/** What came of an answer. */
const outcomeSchema = z.strictObject({
  key: z.array(z.string()),
  columns: z.record(z.string(), z.string()),
  rows: z.array(z.array(cell)),
  rejects: z.array(z.strictObject({ line: z.number(), column: cell, reason: z.string() })),
  /** Rows whose key another one has too. */
  repeated: z.number(),
  missing: z.array(z.string()),
  unknown: z.array(z.string()),
  /** What each test expects, and how many rows fail it; null: it compares with other loads. */
  tests: z.record(z.string(), z.strictObject({ expects: z.string(), failing: z.number().nullable() })),
})

const recordedSchema = z.strictObject({
  name: z.string(),
  window: z.strictObject({ from: z.string(), to: z.string() }),
  slice: z.record(z.string(), z.union([z.string(), z.array(z.string())])),
  format: z.enum(['csv', 'json']),
  dialect: z.string().nullable(),
  /** Texts as they came, one a part. */
  parts: z.array(z.string()),
  expected: outcomeSchema,
})

export const recordedFileSchema = z.strictObject({ answers: z.array(recordedSchema) })

export type Recorded = z.infer<typeof recordedSchema>
export type Outcome = z.infer<typeof outcomeSchema>

/** Makes no request and opens no database. Throws what parsing throws of an answer as a whole. */
export const outcomeOf = async (
  definition: Definition,
  source: SourceSpec,
  recorded: Omit<Recorded, 'expected'>,
): Promise<Outcome> => {
  const { pipeline, version, key } = definition
  const box: Box = { key: recorded.name, pipeline, version, window: recorded.window, slice: recorded.slice }
  const report = createParseReport()
  const staged = stagedColumns(definition).map(({ name }) => name)
  const constants = new Map(constantColumns(definition, box).map(({ column, value }) => [column.name, textOf(value)]))
  const names = copiedColumns(definition).map(({ name }) => name)
  const rows = (await parsed(definition, source, box, recorded, report)).map((cells) =>
    names.map((name) => (constants.has(name) ? (constants.get(name) ?? null) : (cells[staged.indexOf(name)] ?? null))),
  )
  const keys = rows.map((row) => JSON.stringify(key.map((name) => row[names.indexOf(name)])))
  return {
    key: [...key],
    columns: Object.fromEntries(copiedColumns(definition).map(({ name, type }) => [name, type])),
    rows,
    rejects: report.rejected.map(({ line, column, reason }) => ({ line, column, reason })),
    repeated: keys.length - new Set(keys).size,
    missing: [...report.missingColumns],
    unknown: [...report.unknownColumns],
    tests: Object.fromEntries(
      definition.tests.map((test) => [test.name, { expects: expectationOf(test), failing: failing(test, names, rows) }]),
    ),
  }
}

const textOf = (value: string | boolean | number | readonly string[]): string =>
  typeof value === 'object' ? String(arrayText([...value])) : typeof value === 'boolean' ? (value ? 't' : 'f') : String(value)

const parsed = async (
  definition: Definition,
  source: SourceSpec,
  box: Box,
  { parts, format, dialect }: Pick<Recorded, 'parts' | 'format' | 'dialect'>,
  report: ParseReport,
): Promise<(string | null)[][]> => {
  const parser = createAnswerParser(compileParsePlan(definition, box, source, dialect), report)
  let copy = ''
  for (const [index, text] of parts.entries()) {
    const payload: Payload = { format, part: index + 1, mayBeEmpty: true, body: once(Buffer.from(text)) }
    for await (const chunk of parser.parse(payload)) copy += chunk.copy.toString('utf8')
  }
  copy += parser.rest()?.copy.toString('utf8') ?? ''
  return copy
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t').map((one) => (one === '\\N' ? null : one)))
}

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

const failing = (test: DataTest, names: readonly string[], rows: readonly (readonly (string | null)[])[]): number | null =>
  isTotalTest(test) ? null : rows.filter((row) => fails(test, (name) => row[names.indexOf(name)] ?? null)).length

/** As the load's own statement has it; what has no value fails `not_null` alone. */
const fails = (test: RowTest, cellOf: (name: string) => string | null): boolean => {
  const text = cellOf(test.column)
  if (test.kind === 'not_null') return text === null
  if (text === null) return false
  if (test.kind === 'accepted')
    return !text
      .replace(/^\{(.*)\}$/, '$1')
      .split(',')
      .every((one) => test.values.includes(one))
  const value = Number(text)
  if (test.kind === 'range') {
    const { from, to } = test.bounds
    return (from !== null && value < Number(from)) || (to !== null && value > Number(to))
  }
  const parts = test.of.map(cellOf)
  if (parts.includes(null)) return false
  const apart = Math.abs(value - parts.reduce((sum, part) => sum + Number(part), 0))
  return apart > ('share' in test.within ? Math.abs(value) * test.within.share : Number(test.within.amount)) + 1e-9
}

/** What differs, for people; empty: nothing. */
export const differences = (expected: Outcome, found: Outcome): readonly string[] => {
  const said: string[] = []
  for (const name of ['key', 'columns', 'repeated', 'missing', 'unknown', 'rejects', 'tests'] as const) {
    const [before, now] = [JSON.stringify(expected[name]), JSON.stringify(found[name])]
    if (before !== now) said.push(`${name}: expected ${before}, found ${now}`)
  }
  if (expected.rows.length !== found.rows.length) said.push(`rows: expected ${expected.rows.length}, found ${found.rows.length}`)
  const [before, now] = [Object.keys(expected.columns), Object.keys(found.columns)]
  for (const [place, row] of found.rows.entries()) {
    const former = expected.rows[place]
    if (former === undefined) break
    const column = now.find((name, at) => row[at] !== former[before.indexOf(name)])
    if (column === undefined) continue
    said.push(
      `row ${place + 1}: ${column} is ${shown(row[now.indexOf(column)])}, expected ${shown(former[before.indexOf(column)])}`,
    )
    break
  }
  return said
}

const shown = (text: string | null | undefined): string => (text == null ? 'NULL' : `'${text}'`)
