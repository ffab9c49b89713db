import { describe, expect, test } from 'vitest'
import { createAnswerParser, readRecords } from '../../../src/parse/parse.ts'
import { createParseReport } from '../../../src/parse/parse-report.ts'
import { column, parseBody, payloadOf, planOf, parsePayload } from './parsing.ts'

const plan = planOf([column('keyword', 'text', { isKey: true }), column('clicks', 'bigint')])

const recordsOf = async (format: 'csv' | 'json', body: string, ordinals: number[]) => {
  async function* parts() {
    yield payloadOf(format, body, 7)
  }
  return Array.fromAsync(readRecords(parts(), plan, new Set(ordinals)))
}

describe('raw records of accepted rows', () => {
  test('are found by their number among the accepted rows of a CSV', async () => {
    const body = 'keyword,clicks\na,1\nb,bad\n\n"c\nd",2\r\ne,3'
    expect(await recordsOf('csv', body, [1, 2, 3, 9])).toEqual([
      { ordinal: 1, part: 1, line: 2, raw: 'a,1' },
      { ordinal: 2, part: 1, line: 5, raw: '"c\nd",2' },
      { ordinal: 3, part: 1, line: 7, raw: 'e,3' },
    ])
    expect((await parseBody(plan, payloadOf('csv', body))).rows[1]).toEqual(['c\nd', '2'])
  })

  test('are found in JSON, as they were written', async () => {
    const body = '{"keywords":[{"keyword":"a", "clicks":1.0},{"clicks":1},{"keyword":"b"}]}'
    expect(await recordsOf('json', body, [2])).toEqual([{ ordinal: 2, part: 1, line: 3, raw: '{"keyword":"b"}' }])
  })

  test('are none when none is asked for', async () => {
    expect(await recordsOf('csv', 'keyword,clicks\na,1\n', [])).toEqual([])
  })
})

test('a unit of several parts is empty only when all of them are', async () => {
  const report = createParseReport()
  for (const body of ['[{"keyword":"a"}]', '[]'])
    for await (const _ of parsePayload(payloadOf('json', body), plan, report)) expect(_.rows).toBe(1)
  expect(report).toMatchObject({ empty: false, read: 1 })
})

describe('the parts of an answer', () => {
  const bodies = [
    '{"keywords":[{"keyword":"a","clicks":1},{"keyword":"b","clicks":"x"}]}',
    '[]',
    '{"keywords":[{"clicks":2,"keyword":"größe","new":1}]}',
    '{"keyword":"c","clicks":3}\n{"keyword":"\\u0064","clicks":4}\n',
    '{"keywords":[{"keyword":5,"clicks":null}]}',
  ]
  const parts = () => bodies.map((body, index) => ({ ...payloadOf('json', body, 9), part: index + 1 }))

  test('parsed by one parser give the rows, rejects and names that each gives by itself', async () => {
    const alone = createParseReport()
    let expected = ''
    for (const part of parts()) for await (const { copy } of parsePayload(part, plan, alone)) expected += copy.toString()
    const together = createParseReport()
    const parser = createAnswerParser(plan, together)
    for (const part of parts()) for await (const _ of parser.parse(part)) throw new Error('a few rows are no chunk yet')
    const rest = parser.rest()
    expect(rest?.copy.toString()).toBe(expected)
    expect(rest?.rows).toBe(5)
    expect(parser.rest()).toBeNull()
    expect(together).toEqual(alone)
    expect(together.rejected).toMatchObject([{ part: 1, line: 2, column: 'clicks' }])
    expect(together.unknownColumns).toEqual(['new'])
  })

  test('may be taken out between two of them', async () => {
    const parser = createAnswerParser(plan, createParseReport())
    const rows: number[] = []
    for (const part of parts()) {
      for await (const chunk of parser.parse(part)) rows.push(chunk.rows)
      rows.push(parser.rest()?.rows ?? 0)
    }
    expect(rows).toEqual([1, 0, 1, 2, 1])
  })
})

test('the body is read to its end, and closed when parsing fails', async () => {
  const seen: string[] = []
  async function* body(texts: string[]): AsyncGenerator<Uint8Array> {
    try {
      for (const text of texts) yield Buffer.from(text)
      seen.push('end')
    } finally {
      seen.push('closed')
    }
  }
  const drain = async (texts: string[]) => {
    for await (const _ of parsePayload({ format: 'csv', part: 1, body: body(texts) }, plan, createParseReport()))
      seen.push('chunk')
  }
  await drain(['No data returned', '\n'])
  await expect(drain(['wrong,header\n', 'x,1\n'])).rejects.toThrow('lacks part of the key')
  expect(seen).toEqual(['end', 'closed', 'closed'])
})

test('chunks stay small and memory does not grow with the body', async () => {
  const lines = Buffer.from('keyword,clicks\n'.padEnd(15) + 'some keyword of usual length,123456\n'.repeat(3_000))
  async function* body(): AsyncGenerator<Uint8Array> {
    yield lines
    for (let index = 0; index < 300; index += 1) yield lines.subarray(15)
  }
  let largest = 0
  let before = 0
  const report = createParseReport()
  for await (const { copy } of parsePayload({ format: 'csv', part: 1, body: body() }, plan, report)) {
    largest = Math.max(largest, copy.length)
    if (before === 0 && report.rows > 100_000) before = process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed
  }
  expect(report.rows).toBe(903_000)
  expect(largest).toBeLessThan(512 * 1024)
  expect(process.memoryUsage().arrayBuffers + process.memoryUsage().heapUsed - before).toBeLessThan(64 * 1024 * 1024)
})
