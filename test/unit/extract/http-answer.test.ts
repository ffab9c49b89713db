// What a source sees of a page: its envelope and its records, or what came instead.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { jsonOrNull } from '../../../src/core/json.ts'
import { parsePage } from '../../../src/extract/http-answer.ts'
import { failureOf } from '../parse/parsing.ts'

const answerOf = (body: string | Uint8Array) => ({
  status: 200,
  contentType: 'application/json',
  bytes: Buffer.from(body),
  headers: {},
})

const pageOf = (body: string | Uint8Array) => parsePage(answerOf(body) as never, 'keywords', 'SERVICE_URL', 'keywords')

const record = fc.record(
  {
    keyword: fc.string({ unit: 'grapheme', maxLength: 12 }),
    clicks: fc.oneof(fc.integer(), fc.constant(null), fc.double({ noNaN: true })),
    tags: fc.array(fc.string({ maxLength: 4 }), { maxLength: 3 }),
    extra: fc.jsonValue({ maxDepth: 2 }),
  },
  { requiredKeys: [] },
)
const records = fc.array(fc.oneof({ weight: 9, arbitrary: record }, fc.jsonValue({ maxDepth: 1 })), { maxLength: 8 })

describe('a page read once', () => {
  test('has the envelope and the records that JSON.parse has', () => {
    fc.assert(
      fc.property(records, fc.jsonValue({ maxDepth: 3 }), fc.boolean(), (keywords, meta, isSpaced) => {
        const body = JSON.stringify({ meta, keywords, keywords_count: 7 }, null, isSpaced ? 1 : 0)
        const { envelope, records: found } = pageOf(body)
        expect(envelope).toEqual({ meta: JSON.parse(JSON.stringify(meta)), keywords_count: 7 })
        expect(found).toEqual(JSON.parse(JSON.stringify(keywords)))
      }),
      { numRuns: 300 },
    )
  })

  test('holds an own field of any name, also one that objects inherit', () => {
    expect(Object.entries(pageOf('{"__proto__": 1, "keywords": []}').envelope as object)).toEqual([['__proto__', 1]])
  })

  test('is the same with a byte order mark in front, and so is a refusal', () => {
    expect(pageOf('\uFEFF{"keywords":[1]}').records).toEqual([1])
    expect(jsonOrNull('\uFEFF{"message":"no"}')).toEqual({ message: 'no' })
  })

  test('is no page where the list is missing, is something else or stands in another place', () => {
    for (const body of ['{}', '{"keywords": 3}', '[]', '"keywords"', '{"meta":{"keywords":[]}}'])
      expect(pageOf(body).records).toBeNull()
    expect(pageOf('{"keywords": 3}').envelope).toEqual({ keywords: 3 })
  })

  test.each([
    ['{"keywords":[{"a":1}', /^TRUNCATED.*ends in the middle of its JSON/],
    ['{"keywords":[]} and more', /^BAD_RESPONSE.*is not JSON/],
    ['{"keywords":[01]}', /is not JSON/],
    ['<html>', /is not JSON/],
  ])('%s is refused, naming what came', async (body, said) => {
    expect(await failureOf(Promise.resolve().then(() => pageOf(body)))).toMatch(said)
  })
})
