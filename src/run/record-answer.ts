// Cuts a recorded answer from a landing: the first records of what a unit holds, with what the definition makes of them now.
import { EtlError } from '../core/errors.ts'
import { sql } from 'kysely'
import type { Definition } from '../core/types.ts'
import type { Row } from '../db/typed-row.ts'
import { answerBox } from '../ledger/answers.ts'
import { openAnswer } from './open-answer.ts'
import { outcomeOf, type Recorded } from './recorded-answers.ts'
import type { Runtime } from './runtime.ts'

/** How it is cut. */
export interface Cutting {
  readonly records: number
  /** Names of domains and texts are replaced. */
  readonly isAnonymous: boolean
}

/** Throws USAGE where there is no such unit, or nothing is loaded of it. */
export const recordAnswer = async (
  runtime: Runtime,
  unitId: number,
  cutting: Cutting,
): Promise<{ readonly definition: Definition; readonly recorded: Recorded }> => {
  const { kysely } = runtime.database
  const { rows } = await sql<Row<'etl.answers', 'landing' | 'answer_id'> & Row<'etl.pipelines', 'pipeline' | 'version'>>`
    select a.answer_id, a.landing, p.pipeline, p.version from etl.units u join etl.pipelines p on p.pipeline_id = u.pipeline_id
      join etl.answers a on a.answer_id = coalesce(u.held_answer_id, u.answer_id) where u.unit_id = ${String(unitId)}::bigint`.execute(
    kysely,
  )
  const [row] = rows
  const definition = runtime.definitions.find((one) => one.pipeline === row?.pipeline && one.version === row.version)
  const source = definition === undefined ? undefined : runtime.sources.get(definition.source)
  if (row === undefined || definition === undefined || source === undefined)
    throw new EtlError(
      'USAGE',
      `There is no answer of a unit ${unitId} with a definition here; \`millrace status\` and the page name units.`,
    )
  const answerId = Number(row.answer_id)
  const box = await answerBox(kysely, answerId, definition)
  const { manifest, parts } = await openAnswer(runtime, { answerId, landing: row.landing })
  const lists = [source.recordsIn ?? [], ...Object.values(source.dialects ?? {}).map(({ recordsIn }) => recordsIn ?? [])].flat()
  const texts: string[] = []
  let format: Recorded['format'] = 'json'
  for await (const part of parts()) {
    format = part.format
    if (texts.length > 0) continue
    const chunks: Uint8Array[] = []
    for await (const chunk of part.body) chunks.push(chunk)
    texts.push(cut(Buffer.concat(chunks).toString('utf8'), cutting.records, lists))
  }
  const plain = {
    name: box.key,
    window: box.window,
    slice: box.slice,
    format,
    dialect: manifest.completeness.dialect ?? null,
    parts: texts,
  }
  const asked = cutting.isAnonymous ? anonymous(plain) : plain
  const recorded = {
    ...asked,
    slice: Object.fromEntries(
      Object.entries(asked.slice).map(([name, value]) => [name, typeof value === 'string' ? value : [...value]]),
    ),
  }
  return { definition, recorded: { ...recorded, expected: await outcomeOf(definition, source, recorded) } }
}

/** The first records: lines of a CSV behind its header, lines of JSON, or elements of a page's list. */
const cut = (text: string, records: number, lists: readonly string[]): string => {
  const page = objectIn(text)
  const found = page === null ? undefined : lists.find((name) => Array.isArray(page[name]))
  if (page !== null && found !== undefined)
    return JSON.stringify({ ...page, [found]: (page[found] as readonly unknown[]).slice(0, records) }, null, 1)
  const lines = text.split('\n')
  return `${lines
    .slice(0, text.startsWith('{') ? records : records + 1)
    .join('\n')
    .replace(/\n$/, '')}\n`
}

const objectIn = (text: string): Readonly<Record<string, unknown>> | null => {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : null
  } catch {
    // CSV, or one record a line.
    return null
  }
}

type Asked = Omit<Recorded, 'expected' | 'slice'> & { readonly slice: Readonly<Record<string, string | readonly string[]>> }

/** Names and numbers that were asked for become `example-1.com` and `1`, wherever they stand; short words, which name no one, stay. */
const anonymous = (recorded: Asked): Asked => {
  const named = Object.values(recorded.slice).flatMap((values) =>
    [values].flat().flatMap((value, index): [string, string][] => {
      if (value.includes('.')) return [[value, `example-${index + 1}.com`]]
      return /^\d+$/.test(value) ? [[value, String(index + 1)]] : []
    }),
  )
  const without = (text: string): string => named.reduce((left, [value, other]) => left.replaceAll(value, other), text)
  const slice = Object.fromEntries(
    Object.entries(recorded.slice).map(([name, value]) => [
      name,
      typeof value === 'string' ? without(value) : value.map(without),
    ]),
  )
  return { ...recorded, name: without(recorded.name), slice, parts: recorded.parts.map(without) }
}
