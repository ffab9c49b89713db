// What the bytes themselves tell: their format, whatever was said of it, and a last line that does not end as the others do.
import { describe, expect, test } from 'vitest'
import { createAnswerParser } from '../../../src/parse/parse.ts'
import { createParseReport } from '../../../src/parse/parse-report.ts'
import { column, parseBody, payloadOf, planOf } from './parsing.ts'

const plan = planOf([column('keyword', 'text', { isKey: true }), column('clicks', 'numeric')])
const bodies = {
  csv: '\ufeff\n keyword,clicks\na,1\nb,2.5\n',
  lines: '\ufeff{"keyword":"a","clicks":1}\n{"keyword":"b","clicks":2.5}\n',
  list: ' [{"keyword":"a","clicks":1},{"keyword":"b","clicks":2.5}]',
}

describe('the format of a body', () => {
  test.each(Object.entries(bodies))('%s is told by its bytes, whichever was asked for and however it is cut', async (_, body) => {
    for (const format of ['csv', 'json'] as const)
      for (const size of [1, 2, 3, 7, 1_000])
        expect((await parseBody(plan, payloadOf(format, body, size))).rows).toEqual([
          ['a', '1'],
          ['b', '2.5'],
        ])
  })

  test('what is neither is refused as what was asked for', async () => {
    await expect(parseBody(plan, payloadOf('json', '<html><body>no</body></html>'))).rejects.toThrow(/is a web page, not JSON/)
    await expect(parseBody(plan, payloadOf('csv', '<html>no</html>\n'))).rejects.toThrow(/lacks part of the key/)
  })

  test('no bytes are damage, unless the service said that there is nothing', async () => {
    for (const format of ['csv', 'json'] as const) {
      await expect(parseBody(plan, payloadOf(format, ''))).rejects.toThrow(/is empty/)
      expect((await parseBody(plan, { ...payloadOf(format, '\n'), mayBeEmpty: true })).report.empty).toBe(true)
    }
  })
})

describe('the last line', () => {
  const unended = async (format: 'csv' | 'json', body: string) => {
    const report = createParseReport()
    for await (const _ of createAnswerParser(plan, report).parse(payloadOf(format, body, 5)));
    return report.unended
  }

  test.each([
    ['csv', 'keyword,clicks\na,1\nb,2\n', true],
    ['csv', 'keyword,clicks\na,1\nb,2', false],
    ['csv', 'keyword,clicks\r\na,1\r\n', true],
    ['csv', 'keyword,clicks\r\na,1\r', false],
    ['csv', 'keyword,clicks\ra,1\r', true],
    ['csv', 'keyword,clicks\na,"1"', false],
    ['csv', 'keyword,clicks', true],
    ['csv', 'keyword,cli', false],
    ['csv', 'No data returned', true],
    ['json', '{"keyword":"a"}\n{"keyword":"b"}\n', true],
    ['json', '{"keyword":"a"}\n{"keyword":"b"}', false],
    ['json', '{"keyword":"a"}', true],
    ['json', '[{"keyword":"a"},\n{"keyword":"b"}]', true],
  ] as const)('of %s %j ends as the others: %s', async (format, body, isWhole) => {
    expect((await unended(format, body)) === null).toBe(isWhole)
  })
})

test('cells of rows that are left out are counted, with what cannot be known of them', async () => {
  const { report } = await parseBody(plan, payloadOf('csv', 'keyword,clicks\na,x\nb\nc,1\n'))
  expect(report).toMatchObject({ read: 3, rejects: 2, cellsLeftOut: { least: 1, most: 2 } })
})
