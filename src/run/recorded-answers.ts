// Runs a definition over recorded answers offline: what parser, casts, key and tests make of the bytes is compared with what was expected.
import { Readable } from 'node:stream'
import { z } from 'zod'
import { isRecord, jsonOrNull } from '../core/json.ts'
import { columnTypes } from '../core/column-types.ts'
import { type DataTest, expectationOf, isTotalTest, type RowTest } from '../core/data-test.ts'
import { usageError } from '../core/errors.ts'
import type { SourceSpec } from '../core/source-spec.ts'
import type { Box, Definition, Payload } from '../core/types.ts'
import { boxOf } from '../core/unit-key.ts'
import { windowAt } from '../core/window.ts'
import { query, type Row } from '../db/typed-row.ts'
import { slicesSchema } from '../extract/landing-files.ts'
import { answerBox } from '../ledger/answers.ts'
import { constantColumns, copiedColumns, parsedColumns } from '../load/table-columns.ts'
import { createRecord, readRecord } from '../parse/csv-record.ts'
import { isHeader } from '../parse/csv-reader.ts'
import { compileParsePlan, type ParsePlan } from '../parse/parse-plan.ts'
import { createParseReport, type ParseReport } from '../parse/parse-report.ts'
import { createAnswerParser } from '../parse/parse.ts'
import { openAnswer } from './open-answer.ts'
import { constantText } from './rows-of-job.ts'
import { definitionOf, type Runtime } from './runtime.ts'

const cell = z.string().nullable()

/** What a definition makes of an answer. */
const outcomeSchema = z.strictObject({
  key: z.array(z.string()),
  columns: z.record(z.string(), z.string()),
  rows: z.array(z.array(cell)),
  rejects: z.array(z.strictObject({ line: z.number(), column: cell, reason: z.string() })),
  /** Rows whose key an earlier row has, too. */
  repeated: z.number(),
  missing: z.array(z.string()),
  unknown: z.array(z.string()),
  /** What each test expects, and how many rows fail it; null: it compares with other loads. */
  tests: z.record(z.string(), z.strictObject({ expects: z.string(), failing: z.number().nullable() })),
})

const recordedSchema = z.strictObject({
  name: z.string(),
  window: z.strictObject({ from: z.string(), to: z.string() }),
  slice: slicesSchema,
  format: z.enum(['csv', 'json']),
  dialect: z.string().nullable(),
  /** Texts as they came, one a part. */
  parts: z.array(z.string()),
  /** Their names, where the answer is several files. */
  files: z.array(z.string()).optional(),
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
  const inAnswer = parsedColumns(definition).map(({ name }) => name)
  const constants = new Map(constantColumns(definition, box).map(({ column, value }) => [column.name, constantText(value)]))
  const names = copiedColumns(definition).map(({ name }) => name)
  const rows = (await parsed(definition, source, box, recorded, report)).map((cells) =>
    names.map((name) => (constants.has(name) ? (constants.get(name) ?? null) : (cells[inAnswer.indexOf(name)] ?? null))),
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

const parsed = async (
  definition: Definition,
  source: SourceSpec,
  box: Box,
  { parts, files, format, dialect }: Pick<Recorded, 'parts' | 'files' | 'format' | 'dialect'>,
  report: ParseReport,
): Promise<(string | null)[][]> => {
  const parser = createAnswerParser(compileParsePlan(definition, box, source, dialect), report)
  let copy = ''
  for (const [index, text] of parts.entries()) {
    const file = files === undefined ? {} : { file: { name: files[index] ?? '', of: files } }
    const payload: Payload = { format, part: index + 1, mayBeEmpty: true, body: Readable.from([Buffer.from(text)]), ...file }
    for await (const chunk of parser.parse(payload)) copy += chunk.copy.toString('utf8')
  }
  copy += parser.rest()?.copy.toString('utf8') ?? ''
  return copy
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t').map((one) => (one === '\\N' ? null : one)))
}

const failing = (test: DataTest, names: readonly string[], rows: readonly (readonly (string | null)[])[]): number | null =>
  isTotalTest(test) ? null : rows.filter((row) => fails(test, (name) => row[names.indexOf(name)] ?? null)).length

/** The same rules as the load's own statement; a cell without a value fails `not_null` alone. */
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

/** One record of a report, for the first value of each list and the first window. */
export const exampleAnswer = async (definition: Definition, source: SourceSpec): Promise<Recorded> => {
  const { pipeline, version, dimensions } = definition
  const window = windowAt(definition.window.from, definition.window.every)
  const values = dimensions.map((one) => one.values[0] ?? 'example')
  const box = boxOf({ pipeline, version, window, dimensions: dimensions.map(({ name }) => name), slices: [values] })
  const columns = parsedColumns(definition)
  const cells = columns.map(({ name, type }) => {
    const place = dimensions.findIndex((one) => one.name === name)
    return values[place] ?? columnTypes[type].example(window.from)
  })
  const recorded = {
    ...{ name: `${box.key} (made up)`, window, dialect: null, format: 'csv' as const },
    slice: box.slice,
    parts: [`${columns.map(({ name, from }) => from[0] ?? name).join()}\n${cells.join()}\n`],
  }
  return { ...recorded, expected: await outcomeOf(definition, source, recorded) }
}

/** How an answer is shortened for a recording. */
interface Cutting {
  readonly records: number
  /** Names of domains and texts are replaced. */
  readonly isAnonymous: boolean
}

/** Throws USAGE where there is no such unit, or nothing is loaded of it. */
export const recordAnswer = async (runtime: Runtime, unitId: number, cutting: Cutting) => {
  const { kysely } = runtime.database
  const [row] = await query<
    Row<'etl.answers', 'landing' | 'answer_id'> & Row<'etl.pipelines', 'pipeline' | 'version' | 'parameters'>
  >(kysely)`
    select a.answer_id, a.landing, p.pipeline, p.version, p.parameters from etl.units u join etl.pipelines p on p.pipeline_id = u.pipeline_id
      join etl.answers a on a.answer_id = coalesce(u.held_answer_id, u.answer_id) where u.unit_id = ${String(unitId)}::bigint`
  const definition = row === undefined ? null : definitionOf(runtime, row)
  const source = definition === null ? undefined : runtime.sources.get(definition.source)
  if (row === undefined || definition === null || source === undefined)
    throw usageError(
      `There is no answer of a unit ${unitId} with a definition here; \`millrace status\` and the page name units.`,
    )
  const answerId = Number(row.answer_id)
  const box = await answerBox(kysely, answerId, definition)
  const { manifest, parts } = await openAnswer(runtime, { answerId, landing: row.landing })
  const plan = compileParsePlan(definition, box, source, manifest.completeness.dialect)
  const texts: string[] = []
  const files: string[] = []
  let format: Recorded['format'] = 'json'
  for await (const part of parts()) {
    format = part.format
    // The first page of a walk, all files of a report.
    if (texts.length > files.length) continue
    if (part.file !== undefined) files.push(part.file.name)
    texts.push(cut(Buffer.concat(await Array.fromAsync(part.body)).toString('utf8'), cutting.records, plan))
  }
  const plain = {
    ...{ name: box.key, window: box.window, slice: box.slice, format, parts: texts },
    dialect: manifest.completeness.dialect ?? null,
    ...(files.length > 0 ? { files } : {}),
  }
  const recorded = cutting.isAnonymous ? anonymous(plain) : plain
  return { definition, recorded: { ...recorded, expected: await outcomeOf(definition, source, recorded) } }
}

/** The first records of each table: lines of a CSV behind its header, records of JSON, or elements of a page's lists. */
export const cut = (text: string, records: number, plan: ParsePlan): string => {
  const value = jsonOrNull(text)
  if (Array.isArray(value))
    return JSON.stringify(
      firstOfEach(value, records, (one) => shapeOf(one, plan)),
      null,
      1,
    )
  const isList = (one: unknown): one is unknown[] => Array.isArray(one) && one.every(isRecord)
  const lists = isRecord(value) ? Object.entries(value).filter(([, one]) => isList(one)) : []
  if (isRecord(value) && lists.length > 0) {
    const shorter = Object.fromEntries(lists.map(([name, one]) => [name, isList(one) ? one.slice(0, records) : one]))
    return JSON.stringify({ ...value, ...shorter }, null, 1)
  }
  const all = text.startsWith('{') ? text.split(/(?<=\n)/) : csvRecords(text)
  const lines = all.filter((line) => line.trim() !== '')
  let table = ''
  const tableOf = (line: string, index: number): string | null => {
    if (text.startsWith('{')) return shapeOf(jsonOrNull(line), plan)
    const cells = line.split(',').map((cell) => cell.replaceAll('"', '').trim())
    if (index > 0 && !isHeader(cells, plan)) return table
    table = line
    return null
  }
  const kept = firstOfEach(lines, records, tableOf).join('')
  return /[\r\n]$/.test(kept) ? kept : `${kept}\n`
}

/** With their line ends; there may be others within quotes. */
const csvRecords = (text: string): string[] => {
  const [bytes, record, found] = [Buffer.from(text), createRecord(), [] as string[]]
  for (let at = 0; at < bytes.length; at = record.next) {
    if (!readRecord(bytes, at, record)) readRecord(bytes, at, record, false)
    found.push(bytes.toString('utf8', at, record.next))
  }
  return found
}

/** The first `most` elements of each kind. @param kindOf null: the element is kept */
const firstOfEach = <T>(list: readonly T[], most: number, kindOf: (one: T, index: number) => string | null): T[] => {
  const counts = new Map<string, number>()
  return list.filter((one, index) => {
    const kind = kindOf(one, index)
    if (kind === null) return true
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
    return (counts.get(kind) ?? 0) <= most
  })
}

/** Records of one table have the same shape, unless some lack a field. */
const shapeOf = (record: unknown, { tableIn }: ParsePlan): string =>
  isRecord(record) ? String(tableIn.map((name) => record[name]).find((name) => name !== undefined) ?? Object.keys(record)) : ''

type Asked = Omit<Recorded, 'expected'>

/** Replaces requested names and numbers by `example-1.com` and `1` wherever they occur; short words, which identify no one, stay. */
const anonymous = (recorded: Asked): Asked => {
  const named = new Map(
    Object.values(recorded.slice).flatMap((values) =>
      [values].flat().flatMap((value, index): [string, string][] => {
        if (value.includes('.')) return [[value, `example-${index + 1}.com`]]
        return /^\d+$/.test(value) ? [[value, String(index + 1)]] : []
      }),
    ),
  )
  // In one pass and the longest first: a value may be part of another value, or of a replacement.
  const longestFirst = [...named.keys()].sort((left, right) => right.length - left.length)
  const any = new RegExp(longestFirst.map((value) => value.replaceAll(/\W/g, String.raw`\$&`)).join('|'), 'g')
  const without = (text: string): string => text.replaceAll(any, (value) => named.get(value) ?? value)
  const slice = Object.fromEntries(
    Object.entries(recorded.slice).map(([name, value]) => [
      name,
      typeof value === 'string' ? without(value) : value.map(without),
    ]),
  )
  return { ...recorded, name: without(recorded.name), slice, parts: recorded.parts.map(without) }
}
