// A page of records is read once: what the source takes from it and what the parser makes of it are the same as by JSON.parse.
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parsePage } from '../../../src/extract/http-answer.ts'
import { fieldReader } from '../../../src/core/json-page-scan.ts'
import { column, failureOf, parseBody, planOf } from '../parse/parsing.ts'

const answerOf = (body: string | Uint8Array) => ({
  status: 200,
  contentType: 'application/json',
  bytes: Buffer.from(body),
  headers: {},
})

const pageOf = (body: string | Uint8Array) => parsePage(answerOf(body) as never, 'keywords', 'SERVICE_URL', 'keywords')

const plan = planOf([
  column('keyword', 'text', { isKey: true }),
  column('clicks', 'bigint', { ifAbsent: '0' }),
  column('tags', 'text[]'),
])

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

async function* single(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

describe('a page read once', () => {
  test('has the envelope and the records that JSON.parse has', () => {
    fc.assert(
      fc.property(records, fc.jsonValue({ maxDepth: 3 }), fc.boolean(), (keywords, meta, isSpaced) => {
        const body = JSON.stringify({ meta, keywords, keywords_count: 7 }, null, isSpaced ? 1 : 0)
        const { envelope, records: found } = pageOf(body)
        expect(envelope).toEqual({ meta: JSON.parse(JSON.stringify(meta)), keywords_count: 7 })
        if (found === null) return expect.fail('no records')
        const clicks = fieldReader(found, 'clicks')
        expect(Array.from({ length: found.count }, (_, index) => JSON.parse(clicks(index) ?? 'null'))).toEqual(
          JSON.parse(JSON.stringify(keywords)).map((one: { clicks?: unknown } | null) => one?.clicks ?? null),
        )
      }),
      { numRuns: 300 },
    )
  })

  test('gives the rows and the rejects that its bytes give', async () => {
    await fc.assert(
      fc.asyncProperty(records, async (keywords) => {
        const bytes = Buffer.from(JSON.stringify({ keywords_count: keywords.length, keywords }))
        const { records: found } = pageOf(bytes)
        const given = found === null ? expect.fail('no records') : { records: found }
        const outcomes = await Promise.all(
          [given, {}].map(async (more) => {
            const { copy, report } = await parseBody(plan, { format: 'json', part: 1, body: single(bytes), ...more })
            return { copy, report }
          }),
        )
        expect(outcomes[0]).toEqual(outcomes[1])
      }),
      { numRuns: 300 },
    )
  })

  test('holds an own field of any name, also one that objects inherit', () => {
    expect(Object.entries(pageOf('{"__proto__": 1, "keywords": []}').envelope as object)).toEqual([['__proto__', 1]])
  })

  test('is no page where the list is missing, is something else or stands in another place', () => {
    for (const body of ['{}', '{"keywords": 3}', '[]', '"keywords"', '{"meta":{"keywords":[]}}'])
      expect(pageOf(body).records).toBeNull()
    expect(pageOf('{"keywords": 3}').envelope).toEqual({ keywords: 3 })
  })

  test.each([
    ['{"keywords":[{"a":1}', /ends in the middle of its JSON/],
    ['{"keywords":[]} and more', /is not JSON/],
    ['{"keywords":[],"keywords":[]}', /is not JSON/],
    ['{"keywords":[01]}', /is not JSON/],
    ['<html>', /is not JSON/],
  ])('%s is refused, naming what came', async (body, said) => {
    expect(await failureOf(Promise.resolve().then(() => pageOf(body)))).toMatch(said)
  })
})
