import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { column, failureOf, parseBody, payloadOf, planOf } from './parsing.ts'

const columns = [
  column('keyword', 'text', { isKey: true }),
  column('clicks', 'bigint', { ifAbsent: '0' }),
  column('share', 'numeric'),
  column('intent', 'text', { from: ['primary_intent', 'intent'] }),
  column('flag', 'boolean'),
  column('features', 'text[]'),
]
const plan = planOf(columns)
const parse = (body: string | Uint8Array, size?: number) => parseBody(plan, payloadOf('json', body, size))
const failure = (body: string | Uint8Array) => failureOf(parse(body))
const page = (...records: string[]) =>
  `{"keywords_count":${records.length},"keywords":[${records.join(',')}],"meta":{"status":"Success"}}`
const valuesOf = async (field: string, value: string) => {
  const { rows, report } = await parse(page(`{"keyword":"k","${field}":${value}}`))
  const place = columns.findIndex((one) => one.name === field || one.from.includes(field))
  return report.rejects === 1 ? report.rejected[0]?.reason : rows[0]?.[place]
}

describe('a JSON answer', () => {
  test('is a page, a list, or records one after the other', async () => {
    const records = ['{"keyword":"a","clicks":1}', '{"keyword":"b","clicks":2}']
    const expected = [
      ['a', '1', null, null, null, null],
      ['b', '2', null, null, null, null],
    ]
    const bodies = [
      page(...records),
      `[${records}]`,
      `\ufeff[ ${records} ]\n`,
      records.join('\n'),
      `${records.join('\r\n')}\r\n`,
      records.join(''),
    ]
    for (const body of [...bodies, `{"data":[${records}]}`, `{"warnings":["x"],"rows":[${records}],"tags":[]}`]) {
      expect((await parse(body)).rows).toEqual(expected)
      expect((await parse(body, 1)).rows).toEqual(expected)
      expect((await parse(gzipSync(body))).rows).toEqual(expected)
    }
  })

  test('of one record is a row when the record has the key', async () => {
    expect((await parse('{"keyword":"a"}')).rows).toEqual([['a', '0', null, null, null, null]])
  })

  test('without records is empty', async () => {
    for (const body of ['[]', ' [ ] ', page(), '{"data":[]}'])
      expect(await parse(body)).toMatchObject({ rows: [], report: { empty: true } })
  })

  test('that holds no list, or two, is refused with its fields', async () => {
    expect(await failure('{"error":{"code":7},"message":"no"}')).toMatch(
      /^BAD_RESPONSE: Part 1 holds no list of records: its fields are error, message/,
    )
    expect(await failure('{"a":[{"x":1}],"b":[{"x":1}]}')).toMatch(/^BAD_RESPONSE: .*more than one list of records: a, b/s)
    expect(await failure('{"keywords":[],"keywords":[]}')).toMatch(/^BAD_RESPONSE: .*'keywords' appears twice/s)
  })

  test('that is a web page or plain text is refused with what was found', async () => {
    expect(await failure('<!DOCTYPE html><p>Sorry</p>')).toMatch(/^BAD_RESPONSE: Part 1 is a web page, not JSON/)
    expect(await failure('invalid API key')).toMatch(/^BAD_RESPONSE: .*found "invalid API key"/s)
  })

  test('that ends too early is cut off, wherever it does', async () => {
    const whole = page('{"keyword":"a\\u00e9","clicks":10,"flag":true,"features":["x"]}')
    for (let end = 0; end < whole.length; end += 1) expect(await failure(whole.slice(0, end))).toMatch(/^TRUNCATED: Part 1/)
    const lines = '{"keyword":"a"}\n{"keyword":"b"}'
    for (let end = lines.indexOf('\n') + 2; end < lines.length; end += 1)
      expect(await failure(lines.slice(0, end))).toMatch(/^TRUNCATED/)
    for (const list of ['[', '[{"keyword":"a"}', '[{"keyword":"a"},']) expect(await failure(list)).toMatch(/^TRUNCATED/)
  })

  test('with something behind its end is refused', async () => {
    for (const body of [
      '[{"keyword":"a"},]',
      '[]x',
      '[],',
      `${page()}{}`,
      '[{"keyword":"a"}]]',
      '{"keyword":"a"} , {"keyword":"b"}',
    ])
      expect(await failure(body)).toMatch(/^BAD_RESPONSE/)
  })

  test('nested deeper than the limit is refused', async () => {
    const nested = (depth: number) => page(`{"keyword":"a","x":${'['.repeat(depth)}${']'.repeat(depth)}}`)
    expect((await parse(nested(90))).rows).toHaveLength(1)
    expect(await failure(nested(100_000))).toMatch(/^BAD_RESPONSE: .*nested deeper than 100/s)
    expect(await failure('['.repeat(100_000))).toMatch(/^BAD_RESPONSE/)
  })

  test('with a record larger than the limit is refused', async () => {
    expect(await failureOf(parseBody(plan, payloadOf('json', `[{"keyword":"${'x'.repeat(4_300_000)}`, 1 << 16)))).toMatch(
      /^BAD_RESPONSE: .*a record has more than 4194304 bytes/s,
    )
  })

  test('gives its rejects the number of the record in a list, and the line in a sequence', async () => {
    const records = ['{"keyword":"a"}', '{"keyword":"b",\n"clicks":"x"}', '7', '{"clicks":1}']
    const list = await parse(`[${records.join(',\n')}]`)
    const lines = await parse([records[0], records[1], records[3]].join('\n\n'))
    expect(list.report.rejected.map(({ line, column, raw, key }) => [line, column, raw, key])).toEqual([
      [2, 'clicks', '{"keyword":"b",\n"clicks":"x"}', ['b']],
      [3, null, '7', null],
      [4, 'keyword', '{"clicks":1}', null],
    ])
    expect(lines.report.rejected.map(({ line }) => line)).toEqual([3, 6])
    expect((await parseBody(plan, payloadOf('json', [records[0], records[1], records[3]].join('\n\n'), 3))).report).toEqual(
      lines.report,
    )
  })

  test('rejects a record with bytes that are not UTF-8, half a character, or NUL, showing them', async () => {
    const bad = Buffer.concat([
      Buffer.from('[{"keyword":"a'),
      Buffer.from([0xff]),
      Buffer.from('"},{"keyword":"\\ud800"},{"keyword":"\\u0000"}]'),
    ])
    const { rows, report } = await parse(bad)
    expect(rows).toEqual([])
    expect(report.rejected.map(({ reason, raw }) => [reason, raw])).toEqual([
      ['the record has bytes that are not UTF-8', '{"keyword":"a\\xff"}'],
      ['the text has half of a surrogate pair, which is no character', '{"keyword":"\\ud800"}'],
      ['the text has a NUL character (\\x00), which PostgreSQL cannot store', '{"keyword":"\\u0000"}'],
    ])
  })

  test('names fields that no column knows, once, and takes the best of several names', async () => {
    const { rows, report } = await parse(
      page('{"keyword":"a","intent":"second","primary_intent":"first","new":1}', '{"Keyword":"b","new":2}'),
    )
    expect(rows.map((row) => [row[0], row[3]])).toEqual([
      ['a', 'first'],
      ['b', null],
    ])
    expect(report.unknownColumns).toEqual(['new'])
  })

  test('names a field that no column knows as the warehouse can store it: with a NUL, or half of a surrogate pair', async () => {
    const { rows, report } = await parse(page('{"keyword":"a","x\\u0000y":1,"\\ud800z":2}'))
    expect(rows).toHaveLength(1)
    expect(report.unknownColumns).toEqual(['x\\x00y', '\ufffdz'])
  })

  test("rejects a record in which a column's field stands twice", async () => {
    const { report } = await parse(page('{"keyword":"a","clicks":1,"clicks":2}', '{"keyword":"a","x":1,"x":2}'))
    expect(report.rejected).toMatchObject([{ column: 'clicks', reason: 'the field appears twice in the record' }])
    expect(report.rows).toBe(1)
  })

  test('takes the best of several names in any order', async () => {
    expect((await parse(page('{"keyword":"a","primary_intent":"first","intent":"second"}'))).rows[0]?.[3]).toBe('first')
  })

  test('reads escapes also where a cell has its own spelling', async () => {
    const country = planOf([column('country', 'text', { isKey: true, normalize: 'country' })])
    expect((await parseBody(country, payloadOf('json', '[{"country":"\\u0055S"}]'))).rows).toEqual([['us']])
    const spelled = planOf([column('domain', 'text', { isKey: true, normalize: 'domain' })], { slice: { domain: 'a.com' } })
    expect((await parseBody(spelled, payloadOf('json', '[{"domain":"\\u0041\\u002ecom"}]'))).rows).toEqual([['a.com']])
  })

  test('adds up the columns of a key, and says when one has no value', async () => {
    const keyed = planOf(['a', 'b', 'c'].map((name) => column(name, 'text', { isKey: true })))
    const long = JSON.stringify('k'.repeat(700))
    const { report } = await parseBody(
      keyed,
      payloadOf('json', `[{"a":${long},"b":${long},"c":${long}},{"a":"x","b":"x","c":null}]`),
    )
    expect(report.rejected.map(({ column, reason }) => [column, reason])).toEqual([
      ['a', 'the key has 2100 bytes, at most 2000 fit an index entry'],
      ['c', 'part of the key has no value'],
    ])
  })

  test('an absent field has its declared default, a null stays NULL', async () => {
    const { rows } = await parse(page('{"keyword":"a"}', '{"keyword":"b","clicks":null}', '{"keyword":"null","clicks":"null"}'))
    expect(rows.map((row) => row.slice(0, 2))).toEqual([
      ['a', '0'],
      ['b', null],
      ['null', null],
    ])
  })

  test.each([
    ['clicks', '9007199254740993', '9007199254740993'],
    ['clicks', '12.0', '12'],
    ['clicks', '1e3', '1000'],
    ['clicks', '-0', '0'],
    ['clicks', '"42"', '42'],
    ['clicks', '""', null],
    ['clicks', '"N/A"', null],
    ['clicks', '12.5', "'12.5' is not a whole number"],
    ['clicks', '"1\\u001b[31m\\u0007"', "'1 [31m ' is not a whole number"],
    [
      'clicks',
      '9223372036854775808',
      "'9223372036854775808' is not in the range of bigint (-9223372036854775808 to 9223372036854775807)",
    ],
    ['clicks', 'true', 'true found where bigint is expected'],
    ['clicks', '[1]', 'a list found where bigint is expected'],
    ['clicks', '{"a":1}', 'an object found where bigint is expected'],
    ['share', '0.1000', '0.1000'],
    ['share', '1E-7', '1E-7'],
    ['share', '0.12345678901234567890123', '0.12345678901234567890123'],
    ['share', '-0.0', '-0.0'],
    ['share', '"NaN"', "'NaN' is not a number"],
    ['intent', '"null"', 'null'],
    ['intent', '""', ''],
    ['intent', 'null', null],
    ['intent', '1.50', '1.50'],
    ['intent', 'false', 'false'],
    ['intent', '"\\"\\\\\\/\\b\\f\\n\\r\\t\\ud83d\\ude42é"', '"\\/\b\f\n\r\t🙂é'],
    ['intent', '["a"]', 'a list found where text is expected'],
    ['flag', 'true', 't'],
    ['flag', '0', 'f'],
    ['flag', '"yes"', 't'],
    ['flag', '2', "'2' is not true or false"],
    ['features', '["news","a,b",null,"NULL","q\\"\\\\",1.0,true]', '{"news","a,b",NULL,"NULL","q\\"\\\\","1.0","true"}'],
    ['features', '[]', '{}'],
    ['features', '"[\\"news\\"]"', '{"news"}'],
    ['features', '"news, video"', '{"news","video"}'],
    ['features', '[["a"]]', 'the list contains a list or an object, expected plain values'],
    ['features', '7', '7 found where text[] is expected'],
    ['features', '["\\u0000"]', 'the text has a NUL character (\\x00), which PostgreSQL cannot store'],
  ])('%s: %s becomes %s', async (field, value, expected) => {
    expect(await valuesOf(field, value)).toBe(expected)
  })
})
