// The scanner takes what RFC 8259 takes and nothing else; JSON.parse is the judge.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cut, JsonError, skipBlanks, skipValue } from '../../../src/parse/json-scan.ts'

const accepts = (text: string): boolean => {
  // The blank behind the value ends a number, which could go on otherwise.
  const bytes = Buffer.from(`${text} `)
  try {
    const end = skipValue(bytes, skipBlanks(bytes, 0))
    return end !== cut && skipBlanks(bytes, end) === bytes.length
  } catch (error) {
    if (error instanceof JsonError) return false
    throw error
  }
}

const judge = (text: string): boolean => {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

const numbers = [
  '0',
  '-0',
  '01',
  '-',
  '+1',
  '.5',
  '5.',
  '1e',
  '1e+',
  '1E-07',
  '1.5e3',
  '0x1',
  '1_000',
  'NaN',
  '-Infinity',
  '00',
  '-01',
  '1.e1',
  '1e1.5',
  '２',
]
const strings = [
  '"a',
  '"\\x"',
  '"\\u12"',
  '"\\u12G4"',
  '"\\uD800"',
  '"\t"',
  '"\n"',
  '"\u007f"',
  "'a'",
  '"\\"',
  '"\\\\"',
  '"\u2028"',
  '"\\u0000"',
  '"\0"',
  '""',
  '"é🙂"',
]
const shapes = [
  '',
  ' ',
  '[',
  ']',
  '[]',
  '[1,]',
  '[,1]',
  '[1 2]',
  '[1,,2]',
  '{',
  '{}',
  '{"a"}',
  '{"a":}',
  '{"a":1,}',
  '{a:1}',
  '{1:1}',
  '{"a":1 "b":2}',
]
const others = [
  '{"a":1,"a":2}',
  '[1]]',
  '{"a":[}',
  '[{]}',
  'true',
  'True',
  'tru',
  'nul',
  'nulll',
  'true false',
  '/* */1',
  '1//',
  '\u00a01',
  '\v1',
  '\f1',
  '[\r\n\t 1 ]',
  '[[[[]]]]',
]

describe('the JSON scanner', () => {
  test.each([...numbers, ...strings, ...shapes, ...others])('judges %j as JSON.parse does', (text) => {
    expect(accepts(text)).toBe(judge(text))
  })

  test('judges any text as JSON.parse does', () => {
    const pieces = fc.constantFrom(...'{}[],:"\\ \n0123456789-+.eEtrufalsn', 'true', 'null', '"a"', '\\u00e9', '🙂', '\0')
    const noise = fc.array(pieces, { maxLength: 14 }).map((parts) => parts.join(''))
    const almost = fc.tuple(fc.json({ maxDepth: 4 }), fc.nat(200), pieces, fc.boolean()).map(([json, at, piece, replaces]) => {
      const place = at % (json.length + 1)
      return json.slice(0, place) + piece + json.slice(place + (replaces ? 1 : 0))
    })
    fc.assert(
      fc.property(fc.oneof(noise, almost, fc.json({ maxDepth: 6 })), (text) => {
        expect(accepts(text)).toBe(judge(text))
      }),
      { numRuns: 3_000 },
    )
  })

  test('says that bytes are missing for every beginning of a value, and never that it is whole', () => {
    const value = '{"a":[1.5e+3,"\\u00e9\\n",true,null,{"b":-0}],"c":"é"}'
    const bytes = Buffer.from(value)
    for (let end = 1; end < bytes.length; end += 1) expect(skipValue(bytes.subarray(0, end), 0)).toBe(cut)
    expect(skipValue(bytes, 0)).toBe(bytes.length)
  })
})
