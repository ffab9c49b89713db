// However a body is cut into chunks, and whatever is in it, the same comes of it; of what is well formed, what csv-parse and JSON.parse read.
import { parse } from 'csv-parse/sync'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { column, failureOf, parseBody, payloadOf, planOf } from './parsing.ts'

const columns = [
  column('domain', 'text', { isKey: true, normalize: 'domain' }),
  column('country', 'text', { isKey: true, normalize: 'country' }),
  column('date', 'date', { isKey: true, normalize: 'period_start' }),
  column('word', 'text', { isKey: true }),
  column('note', 'text'),
  column('label', 'text', { nullable: false }),
  column('big', 'bigint'),
  column('small', 'integer', { nullable: false }),
  column('rounded', 'bigint', { rounding: 'half_even' }),
  column('share', 'numeric'),
  column('flag', 'boolean'),
  column('at', 'timestamptz'),
  column('tags', 'text[]'),
]
const plan = planOf(columns, { slice: { domain: ['a.com', 'bé.com'], country: 'us' } })
const names = columns.map(({ name }) => name)

const typical: Readonly<Record<string, readonly string[]>> = {
  domain: ['a.com', 'A.com', 'www.a.com', 'bé.com', 'c.com', '', 'a.com '],
  country: ['us', 'US', 'gb', ' us', 'null'],
  date: ['2026-01-01', '2026-01', '2026-01-31', '2026-02-01', '2026-1-1', ''],
  word: ['shoes', '', 'null', 'ключ', 'k'.repeat(700), 'é'.repeat(950), 'x'.repeat(1_990)],
  note: ['', 'plain', 'tab\there', 'back\\slash', '\\N', 'nul\0', ' padded ', '5" tv', '🙂', 'y'.repeat(1_001)],
  label: ['', 'x', '-'],
  big: ['0', '-0', '-5', '007', '12.0', '12.5', '1e3', '9223372036854775807', '9223372036854775808', '', 'null', '+1', '-'],
  small: ['0', '2147483647', '2147483648', '999999999', '', ' 7 ', 'N/A', '１'],
  rounded: ['12.5', '12', '13.5', '-0.4', '1e-1', '9223372036854775807.5', 'x', ''],
  share: [
    '0.1',
    '.5',
    '5.',
    '-0.0',
    '1e-7',
    'NaN',
    'Infinity',
    '-',
    '',
    '0'.repeat(250),
    '12345678901234567890.10',
    '1.2.3',
    '--1',
  ],
  flag: ['true', 'FALSE', '1', 'maybe', '', 'no'],
  at: ['2026-01-01T00:00:00Z', '2026-01-01 10:00+02', '2026-01-01', ''],
  tags: ['', 'a', 'a b', '{x}', '[]', 'none'],
}

/** More of them where someone has the time: PROPERTY_RUNS=20000. */
const runs = Number(process.env['PROPERTY_RUNS'] ?? 60)

const quoted = (cell: string): string => `"${cell.replaceAll('"', '""')}"`

const cellOf = (name: string): fc.Arbitrary<string> =>
  fc.oneof(
    { weight: 12, arbitrary: fc.constantFrom(...(typical[name] ?? ['x'])) },
    { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 8 }) },
    { weight: 1, arbitrary: fc.stringMatching(/^[-+.eE0-9]{0,24}$/) },
  )

/** Mostly good cells, so that most rows go through and not all end at the first column. */
const rowOf = (order: readonly string[]): fc.Arbitrary<string> =>
  fc
    .tuple(
      fc.tuple(...order.map((name) => fc.tuple(fc.integer({ min: 0, max: 11 }), cellOf(name), fc.integer({ min: 0, max: 14 })))),
      fc.constantFrom(...new Array(30).fill(''), ',', '"', '"x"y', '\n', '\0'),
    )
    .map(([cells, tail]) => {
      const written = cells.map(([plain, cell, quote], at) => {
        const text = plain > 0 ? (typical[order[at] ?? '']?.[order[at] === 'label' ? 1 : 0] ?? 'x') : cell
        return quote === 0 ? quoted(text) : text
      })
      return written.join(',') + tail
    })

const bodies: fc.Arbitrary<Uint8Array> = fc
  .tuple(
    fc.shuffledSubarray(names, { minLength: names.length }),
    fc.subarray(['note', 'share', 'tags']),
    fc.boolean(),
    fc.constantFrom('\n', '\r\n', '\r'),
    fc.boolean(),
  )
  .chain(([shuffled, missing, isShuffled, end, isTerminated]) => {
    const order = (isShuffled ? [...shuffled, 'extra'] : names).filter((name) => !missing.includes(name))
    return fc
      .tuple(fc.array(rowOf(order), { maxLength: 12 }), fc.array(fc.tuple(fc.nat(4_000), fc.nat(255)), { maxLength: 1 }))
      .map(([rows, damage]) => {
        const bytes = Buffer.from([order.join(','), ...rows].join(end) + (isTerminated ? end : ''))
        for (const [at, byte] of damage) if (at > order.join(',').length && at < bytes.length) bytes[at] = byte
        return bytes
      })
  })

const outcome = async (body: Uint8Array, size: number, format: 'csv' | 'json' = 'csv'): Promise<unknown> => {
  let parsed: unknown = null
  const failure = await failureOf(
    parseBody(plan, payloadOf(format, body, size)).then(({ copy, report }) => {
      parsed = { copy, report }
    }),
  )
  // What is shown of a broken body depends on how much of it had come.
  return failure === 'no failure' ? parsed : failure.replace(/found ".*"/s, '')
}

const jsonValues = fc.constantFrom(
  'null',
  'true',
  '0',
  '-0',
  '12',
  '-7',
  '1.5',
  '1.0',
  '1e2',
  '0.10',
  '123456789',
  '9999999999',
  `${'9'.repeat(19)}`,
  '[]',
  '["a","b,c"]',
  '[ "x" , null ]',
  '[1]',
  '["\\n"]',
  '[["a"]]',
  '{"a":1}',
  '""',
  `"${'k'.repeat(995)}"`,
)
const jsonString = fc
  .oneof(fc.constantFrom(...Object.values(typical).flat()), fc.string({ unit: 'binary', maxLength: 9 }))
  .map((text) => JSON.stringify(text))

/** Records of mostly good fields, in any order, some absent, some twice, one in a while damaged. */
const jsonRecords = fc
  .array(
    fc
      .tuple(
        fc.shuffledSubarray([...names, 'extra', 'DOMAIN'], { minLength: 10 }),
        fc.array(fc.tuple(fc.integer({ min: 0, max: 13 }), jsonValues, jsonString), { minLength: 15, maxLength: 15 }),
        fc.integer({ min: 0, max: 9 }),
      )
      .map(([order, cells, keep]) => {
        const fields = (keep > 3 ? names : order).map((name, at) => {
          const [kind, value, text] = cells[at] ?? [0, 'null', '""']
          return `"${name}": ${kind === 0 ? value : kind === 1 ? text : (jsonGood[name] ?? '"x"')}`
        })
        return `{${fields.join(', ')}}`
      }),
    { maxLength: 10 },
  )
  .chain((records) =>
    fc.tuple(
      fc.constantFrom(`[${records}]`, records.join('\n'), `{"n":1,"keywords":[${records}]}`),
      fc.array(fc.tuple(fc.nat(6_000), fc.nat(255)), { maxLength: 1 }),
    ),
  )
  .map(([text, damage]) => {
    const bytes = Buffer.from(text)
    for (const [at, byte] of damage) if (at < bytes.length) bytes[at] = byte
    return bytes
  })

const jsonGood: Readonly<Record<string, string>> = {
  domain: '"A.com"',
  country: '"us"',
  date: '"2026-01"',
  word: '"shoes é"',
  small: '7',
  rounded: '12.5',
  big: '1234567890123',
  share: '0.25',
  flag: 'true',
  at: '"2026-01-01T00:00:00Z"',
  tags: '["a","b c"]',
}

test('a JSON body has one outcome, however it is cut', async () => {
  let rows = 0
  await fc.assert(
    fc.asyncProperty(jsonRecords, fc.integer({ min: 1, max: 3_000 }), async (body, size) => {
      const cut = await outcome(body, size, 'json')
      expect(cut).toEqual(await outcome(body, 1 << 20, 'json'))
      if (typeof cut === 'object' && cut !== null && 'copy' in cut) rows += String(cut.copy).split('\n').length - 1
    }),
    { numRuns: runs },
  )
  expect(rows).toBeGreaterThan(runs / 4)
}, 600_000)

test('a field that two columns name goes to both', async () => {
  const twice = planOf([column('keyword', 'text', { isKey: true }), column('again', 'text', { from: ['keyword'] })])
  expect((await parseBody(twice, payloadOf('csv', 'keyword\na\n'))).rows).toEqual([['a', 'a']])
  expect((await parseBody(twice, payloadOf('json', '[{"keyword":"a"}]'))).rows).toEqual([['a', 'a']])
})

describe('a CSV body', () => {
  test('has one outcome, however it is cut', async () => {
    await fc.assert(
      fc.asyncProperty(bodies, fc.integer({ min: 1, max: 3_000 }), async (body, size) => {
        expect(await outcome(body, size)).toEqual(await outcome(body, 1 << 20))
      }),
      { numRuns: runs },
    )
  }, 600_000)

  test('has the records that csv-parse reads', async () => {
    const word = fc.oneof(fc.constantFrom('', 'a', 'é🙂', 'a,b', 'say "hi"', '""', 'x\r\ny', 'x\ny', '\t', '5" tv'), fc.string())
    const free = planOf(['a', 'b', 'c'].map((name) => column(name, 'text', { isKey: name === 'a' })))
    const cell = fc
      .tuple(word, fc.boolean())
      .map(([text, isQuoted]) => (isQuoted || /^"|[,\r\n]/.test(text) ? quoted(text) : text))
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.tuple(fc.constant('key'), cell, cell), { maxLength: 8 }),
        fc.constantFrom('\n', '\r\n', '\r'),
        async (rows, end) => {
          const body = ['a,b,c', ...rows].join(end) + end
          const read: string[][] = parse(body.replaceAll('\0', '0'), { relax_quotes: true, record_delimiter: end })
          const { rows: found } = await parseBody(free, payloadOf('csv', body.replaceAll('\0', '0'), 7))
          expect(found).toEqual(read.slice(1).map((cells) => cells.map((text) => (text === '' ? null : text))))
        },
      ),
      { numRuns: runs },
    )
  }, 600_000)

  test('is the same wherever it is cut', async () => {
    const row = (note: string) => `a.com,us,2026-01-01,shoes,${note},x,1,2,0.5,true,2026-01-01T00:00:00Z,a`
    const notes = ['é🙂', '"q\r\nü"', '5" tv', '"x"y', '', 'a,b', '\t\\']
    const body = Buffer.from(`\ufeff${names.join(',')}\r\n${notes.map(row).join('\r\n')}\n\r${row('end')}\r`)
    const whole = await outcome(body, body.length)
    for (let size = 1; size <= body.length; size += 1) expect(await outcome(body, size)).toEqual(whole)
    for (let cut = 1; cut < body.length; cut += 1) {
      async function* halves(): AsyncGenerator<Uint8Array> {
        yield body.subarray(0, cut)
        yield body.subarray(cut)
      }
      const parsed = await parseBody(plan, { format: 'csv', part: 1, body: halves() })
      expect({ copy: parsed.copy, report: parsed.report }).toEqual(whole)
    }
  })
})
