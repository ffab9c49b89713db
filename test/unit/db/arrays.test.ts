// Arrays on their way to and from the server: the same as the driver's, in less memory.
import pg from 'pg'
import { describe, expect, test } from 'vitest'
import { arrayText, integersOf, textsOf } from '../../../src/db/typed-row.ts'

const driver = (oid: number) => pg.types.getTypeParser(oid, 'text')

describe('arrays sent', () => {
  test.each([
    ['integers', [1, -2, 3], '{1,-2,3}'],
    ['none', [], '{}'],
    ['texts without blanks', ['a.example', 'b-1', 'NULLS'], '{a.example,b-1,NULLS}'],
    ['texts', ['a', 'b c', ''], '{"a","b c",""}'],
    ['texts with quotes, backslashes, commas and braces', ['"', '\\', 'a,b', '{x}'], '{"\\"","\\\\","a,b","{x}"}'],
    ['nulls, and the word', [null, 'NULL', 'null'], '{NULL,"NULL","null"}'],
  ])('are texts: %s', (_, array, text) => {
    expect(arrayText(array)).toBe(text)
    const parsed = driver(1009)(text)
    expect(parsed).toEqual(array.map((one) => (one === null ? null : String(one))))
  })

  test.each([[[1.5]], [[[1, 2]]], [[new Date(0)]], [[{}]], ['text'], [null]])('are left to the driver: %j', (value) => {
    expect(arrayText(value)).toBe(value)
  })
})

describe('arrays received', () => {
  test.each(['{}', '{1}', '{1,-2,300000}', '{1,NULL}', '{{1,2},{3,4}}', '[0:1]={1,2}'])('are those of the driver: %s', (text) => {
    const expected = driver(1007)(text)
    expect(integersOf(text) ?? expected).toEqual(expected)
  })

  test.each([
    '{}',
    '{a}',
    '{a.example,b-1}',
    '{NULL,a}',
    '{nulls}',
    '{"a,b",c}',
    '{"a\\\\b"}',
    '{{a},{b}}',
    '[0:1]={a,b}',
    '{ä,ß}',
  ])('are those of the driver: %s', (text) => {
    const expected = driver(1009)(text)
    expect(textsOf(text) ?? expected).toEqual(expected)
  })
})
