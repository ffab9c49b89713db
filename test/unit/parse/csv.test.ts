import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { column, failureOf, parseBody, payloadOf, planOf } from './parsing.ts'

const columns = [
  column('domain', 'text', { isKey: true, normalize: 'domain', from: ['domain', 'site'] }),
  column('date', 'date', { isKey: true, normalize: 'period_start' }),
  column('note', 'text'),
  column('visits', 'bigint'),
  column('share', 'numeric'),
]
const plan = planOf(columns, { slice: { domain: ['a.com', 'b.com'] } })
const header = 'domain,date,note,visits,share'
const good = ['a.com', '2026-01-01', 'x', '1', '0.5']

describe('a CSV report', () => {
  const parse = (body: string | Uint8Array, size?: number) => parseBody(plan, payloadOf('csv', body, size))
  const failure = (body: string | Uint8Array) => failureOf(parse(body))

  test('becomes rows in the order of the definition, whatever the order of its columns', async () => {
    const { rows, report } = await parse('share,Visits,note,DATE, Domain \n0.5,1,x,2026-01,a.com\n')
    expect(rows).toEqual([good])
    expect(report).toMatchObject({ read: 1, rows: 1, rejects: 0, unknownColumns: [], missingColumns: [], empty: false })
  })

  test.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('ends its lines with %s, the last one with or without', async (_name, end) => {
    const lines = [header, 'a.com,2026-01-01,x,1,0.5', 'b.com,2026-01-01,"y, z",2,0.5']
    const expected = [good, ['b.com', '2026-01-01', 'y, z', '2', '0.5']]
    expect((await parse(lines.join(end))).rows).toEqual(expected)
    expect((await parse(lines.join(end) + end)).rows).toEqual(expected)
  })

  test('may mix line ends, begin with a BOM and have blank lines, and still numbers its lines rightly', async () => {
    const { rows, report } = await parse(`\ufeff\n${header}\r\n\na.com,2026-01-01,x,1,0.5\r\r\n\na.com,2026-01-01,x,bad,0.5\n`)
    expect(rows).toEqual([good])
    expect(report.rejected.map(({ line }) => line)).toEqual([7])
  })

  test('keeps quotes, commas, line ends, tabs and backslashes of a quoted cell', async () => {
    const { rows } = await parse(`${header}\na.com,2026-01-01,"say ""hi"", \\N\\.\r\n\ttab",1,0.5\n`)
    expect(rows).toEqual([['a.com', '2026-01-01', 'say "hi", \\N\\.\r\n\ttab', '1', '0.5']])
  })

  test('keeps tabs, backslashes and quotes inside of unquoted cells', async () => {
    const { rows } = await parse(`${header}\na.com,2026-01-01,\\N 5" \\\t.,1,0.5\na.com,2026-01-01,\\.\t,1,0.5\n`)
    expect(rows.map((row) => row[2])).toEqual(['\\N 5" \\\t.', '\\.\t'])
  })

  test('reads the words for no data as NULL where the column is not text, and as words where it is', async () => {
    const words = ['', 'null', 'NULL', 'N/A', 'na', '-', 'None', ' null ']
    const body = words.map((word) => `a.com,2026-01-01,${word},${word},${word}`).join('\n')
    const { rows } = await parse(`${header}\n${body}\n`)
    expect(rows.map((row) => row.slice(3))).toEqual(words.map(() => [null, null]))
    expect(rows.map((row) => row[2])).toEqual([null, ...words.slice(1)])
  })

  test('rejects a row whose cell does not fit, with line, column, reason, raw text and key, and takes the others', async () => {
    const { rows, report } = await parse(`${header}\na.com,2026-01-01,x,12.5,1\n${good.join(',')}\n`)
    expect(rows).toEqual([good])
    expect(report.rejected).toEqual([
      {
        part: 1,
        line: 2,
        column: 'visits',
        reason: "'12.5' is not a whole number",
        ...{ unit: null, window: null, slice: null },
        isUnasked: false,
        raw: 'a.com,2026-01-01,x,12.5,1',
        key: ['a.com', '2026-01-01'],
      },
    ])
    expect(report).toMatchObject({ read: 2, rows: 1, rejects: 1 })
  })

  test('rejects a row with too few or too many cells, and one with a misplaced quote, each alone', async () => {
    const wrong = ['a.com,2026-01-01,x,1', 'a.com,2026-01-01,x,1,2,3', 'a.com,2026-01-01,"x"y,1,2', 'a.com,2026-01-01,"x" ,1,2']
    const { rows, report } = await parse([header, ...wrong, good.join(','), ''].join('\n'))
    expect(rows).toEqual([good])
    expect(report.rejected.map(({ line, raw, key }) => [line, raw, key])).toEqual(
      // Of one that ends too soon the cells that are there tell whose it is.
      wrong.map((raw, at) => [at + 2, raw, at === 0 ? ['a.com', '2026-01-01'] : null]),
    )
    expect(report.rejected[0]?.reason).toBe('the record has 4 cells, the header 5')
    expect(report.rejected[2]?.reason).toContain('closing quote')
  })

  test('rejects rows of values that were not asked for; of other periods they are counted and passed over', async () => {
    const { report } = await parse(
      `${header}\nc.com,2026-01-01,x,1,1\na.com,2026-02-01,x,1,1\na.com,2025-12-01,x,1,1\n,2026-01-01,x,1,1\n`,
    )
    expect(report).toMatchObject({
      read: 2,
      rejects: 2,
      passedOver: 2,
      strays: { rows: 2, from: '2025-12-01', to: '2026-02-01' },
    })
    expect(report.rejected.map(({ column, reason }) => [column, reason])).toEqual([
      ['domain', "domain 'c.com' was not requested"],
      ['domain', "domain '' was not requested"],
    ])
  })

  test('rejects NUL and bytes that are not UTF-8, showing them', async () => {
    const bytes = Buffer.concat([
      Buffer.from(`${header}\na.com,2026-01-01,a\0b,1,1\na.com,2026-01-01,x`),
      Buffer.from([0xc3, 0x28, 0xed, 0xa0, 0x80]),
      Buffer.from(`é,1,1\na.com,2026-01-01,\ufffd,1,0.5\n`),
    ])
    const { rows, report } = await parse(bytes)
    expect(rows).toEqual([['a.com', '2026-01-01', '\ufffd', '1', '0.5']])
    expect(report.rejected.map(({ line, column, raw }) => [line, column, raw])).toEqual([
      [2, 'note', 'a.com,2026-01-01,a\\x00b,1,1'],
      [3, 'note', 'a.com,2026-01-01,x\\xc3(\\xed\\xa0\\x80é,1,1'],
    ])
  })

  test('rejects bytes that are not UTF-8 where nothing else is wrong', async () => {
    const bytes = Buffer.concat([Buffer.from(`${header}\na.com,2026-01-01,x`), Buffer.from([0xff]), Buffer.from(',1,0.5\n')])
    const { rows, report } = await parse(bytes)
    expect(rows).toEqual([])
    expect(report.rejected[0]).toMatchObject({ column: 'note', reason: 'the cell has bytes that are not UTF-8' })
  })

  test('says once which columns are new and which are missing; a missing measure is NULL', async () => {
    const { rows, report } = await parse('domain,date,visits,bounce rate,note\na.com,2026-01-01,1,7,x\na.com,2026-01-01,2,8,y\n')
    expect(rows.map((row) => row[4])).toEqual([null, null])
    expect(report).toMatchObject({ unknownColumns: ['bounce rate'], missingColumns: ['share'] })
  })

  test('without a key column is refused, with what was found and what was expected', async () => {
    expect(await failure('domaine,date,note,visits,share\na.com,2026-01-01,x,1,1\n')).toMatch(
      /^BAD_RESPONSE: .*found domaine, date, note, visits, share; expected 'domain' or 'site' for key column 'domain'.*`from`/s,
    )
  })

  test('with a name twice in its header is refused', async () => {
    expect(await failure('domain,date,visits,Visits\n')).toMatch(/^BAD_RESPONSE: .*'visits' twice/s)
  })

  test('is empty when it has a header alone, or says so', async () => {
    // Fact 72: in the first record under the header, padded or not.
    const under = [`${header}\nNo data returned\n`, `${header}\nNo data returned,,,,\n`, `${header}\nNo data returned`]
    const words = ['No data returned', '"No data returned for this request",\r\n\r\n']
    for (const body of [header, `${header}\n`, ...words, ...under]) {
      expect(await parse(body), body).toMatchObject({ rows: [], report: { read: 0, empty: true } })
    }
  })

  test('that says it is empty and has rows is refused', async () => {
    expect(await failure(`No data returned\n${header}\n`)).toMatch(/^BAD_RESPONSE: .*"No data returned" and yet/s)
    const row = `${good.join(',')}\n`
    expect(await failure(`${header}\nNo data returned\n${row}`)).toMatch(/^BAD_RESPONSE: .*"No data returned" and yet.*line 3/s)
  })

  test('without a byte, or with blank lines alone, is cut off', async () => {
    for (const body of ['', '\n\n', '\ufeff']) expect(await failure(body)).toMatch(/^TRUNCATED: Part 1 is empty/)
  })

  test('that ends in the middle of a record or a quote is cut off', async () => {
    const row = `${header}\n${good.join(',')}\n`
    expect(await failure(`${row}a.com,2026-01-01,x`)).toMatch(/^TRUNCATED: Part 1, line 3: the last record has too few cells/)
    expect(await failure(`${row}a.com,2026-01-01,"x,1,0.5\na.com,2026-01-01,y,1,0.5\n`)).toMatch(
      /^TRUNCATED: Part 1, line 3: a quote/,
    )
    expect(await failure('"domain,date\n')).toMatch(/^TRUNCATED/)
  })

  test('never lets two stray quotes swallow the rows between them', async () => {
    const row = (note: string) => `a.com,2026-01-01,${note},1,0.5`
    const swallowed = [header, row('"x'), row('between'), row('y"'), ''].join('\n')
    expect(await failure(swallowed)).toMatch(/^BAD_RESPONSE: Part 1, line 2: .*quote is misplaced/s)
    const pair = [header, row('"x'), row('y"'), ''].join('\n')
    expect(await failure(pair)).toMatch(/^BAD_RESPONSE: Part 1, line 2/)
    const reopened = [header, row('"x'), row('between'), row('"y"'), ''].join('\n')
    expect(await failure(reopened)).toMatch(/^BAD_RESPONSE: Part 1, line 2/)
    const inNumber = [header, 'a.com,2026-01-01,x,"1', row('between'), '3",0.5', ''].join('\n')
    expect(await failure(inNumber)).toMatch(/^BAD_RESPONSE: Part 1, line 2/)
    const inDomain = [header, `"${row('x')}`, row('between'), `b".com,2026-01-01,z,1,1`, ''].join('\n')
    expect(await failure(inDomain)).toMatch(/^BAD_RESPONSE: Part 1, line 2/)
  })

  test('keeps a true text of several lines, also where it looks a little like rows', async () => {
    const note = 'one,two\nthree,four,five,six,seven\n8'
    const { rows } = await parse(`${header}\na.com,2026-01-01,"${note}",1,0.5\n`)
    expect(rows).toEqual([['a.com', '2026-01-01', note, '1', '0.5']])
  })

  test('rejects one row for a wrong cell beside a text of several lines', async () => {
    const { rows, report } = await parse(`${header}\na.com,2026-01-01,"x\ny",bad,0.5\n${good.join(',')}\n`)
    expect(rows).toEqual([good])
    expect(report.rejected.map(({ line, column }) => [line, column])).toEqual([[2, 'visits']])
  })

  test('with a quoted cell longer than a record may be is refused before memory is', async () => {
    const lines = `${good.join(',')}\n`.repeat(1_100)
    expect(await failure(`${header}\na.com,2026-01-01,"x,1,0.5\n${lines}"`)).toMatch(
      /^BAD_RESPONSE: Part 1, line 2: .*1000 lines/s,
    )
    expect(await failure(`${header}\na.com,2026-01-01,"${'x\n'.repeat(1_100)}",1,0.5\n`)).toMatch(
      /^BAD_RESPONSE: Part 1, line 2: .*1000 lines/s,
    )
    const long = `${header}\na.com,2026-01-01,"${'x'.repeat(4_300_000)}",1,0.5\n`
    expect(await failureOf(parse(long, 64 * 1024))).toMatch(/^BAD_RESPONSE: Part 1, line 2: .*4194304 bytes/s)
  })

  test('rejects a cell of more than a million characters, and a key too long to be indexed', async () => {
    const keyed = planOf([column('keyword', 'text', { isKey: true }), column('note', 'text')])
    const body = `keyword,note\nx,${'n'.repeat(1_000_001)}\n${'k'.repeat(2_001)},y\n${'é'.repeat(1_001)},z\n${'k'.repeat(2_000)},w\n`
    const { rows, report } = await parseBody(keyed, payloadOf('csv', body))
    expect(rows.map((row) => row[1])).toEqual(['w'])
    expect(report.rejected.map(({ line, column, reason }) => [line, column, reason])).toEqual([
      [2, 'note', 'the cell has 1000001 characters, at most 1000000 are allowed'],
      [3, 'keyword', 'the key has 2001 bytes, at most 2000 fit an index entry'],
      [4, 'keyword', 'the key has 2002 bytes, at most 2000 fit an index entry'],
    ])
    expect(report.rejected[0]?.raw.length).toBeLessThan(11_000)
  })

  test('adds up the columns of a key', async () => {
    const keyed = planOf(['a', 'b', 'c'].map((name) => column(name, 'text', { isKey: true })))
    const part = 'k'.repeat(666)
    const body = `a,b,c\n${part},${part},${part}\n${part},${part},${part}xyz\n`
    const { rows, report } = await parseBody(keyed, payloadOf('csv', body))
    expect(rows).toHaveLength(1)
    expect(report.rejected).toMatchObject([
      { line: 3, column: 'c', reason: 'the key has 2001 bytes, at most 2000 fit an index entry' },
    ])
  })

  test('keeps an empty cell of a column that may not be NULL as empty text, and refuses it where it is a number', async () => {
    const strict = planOf([
      column('keyword', 'text', { isKey: true }),
      column('top_url', 'text', { nullable: false }),
      column('clicks', 'bigint', { nullable: false }),
    ])
    const { rows, report } = await parseBody(strict, payloadOf('csv', 'keyword,top_url,clicks\nnull,,1\n,u,2\nk,u,\n'))
    expect(rows).toEqual([
      ['null', '', '1'],
      ['', 'u', '2'],
    ])
    expect(report.rejected.map(({ reason }) => reason)).toEqual(['the column has no value and may not be NULL'])
  })

  test('in gzip is inflated, also when it has several members or comes byte by byte', async () => {
    const text = `${header}\n${good.join(',')}\n`
    const members = Buffer.concat([gzipSync(text.slice(0, 20)), gzipSync(text.slice(20))])
    expect((await parse(gzipSync(text))).rows).toEqual([good])
    expect((await parse(members, 1)).rows).toEqual([good])
  })

  test('in gzip that is cut, damaged or followed by something else is refused', async () => {
    const packed = gzipSync(`${header}\n${`${good.join(',')}\n`.repeat(100)}`)
    const damaged = Buffer.from(packed)
    damaged.fill(7, 30, 40)
    const bodies = [packed.subarray(0, -4), damaged, Buffer.concat([packed, Buffer.from('tail')])]
    for (const zeros of [9, 300_000])
      for (const tail of ['tail', packed]) bodies.push(Buffer.concat([packed, Buffer.alloc(zeros), Buffer.from(tail)]))
    for (const body of bodies)
      for (const chunk of [packed.length, body.length])
        expect(await failureOf(parse(body, chunk))).toMatch(/^TRUNCATED: The gzip body is damaged/)
  })

  test.each([1, 60_000])('in gzip may be padded with zero bytes, also where they come %i at a time', async (chunk) => {
    const padded = Buffer.concat([gzipSync(`${header}\n${good.join(',')}\n`), Buffer.alloc(200_000)])
    expect((await parse(padded, chunk)).rows).toEqual([good])
  })

  test('that inflates beyond the limit is refused', async () => {
    const small = planOf(columns, { maxBytes: 100_000 })
    const bomb = gzipSync(`${header}\n${'a'.repeat(10_000_000)}`)
    const padded = gzipSync(Buffer.concat([gzipSync(`${header}\n${good.join(',')}\n`), Buffer.alloc(10_000_000)]))
    for (const body of [bomb, padded])
      expect(await failureOf(parseBody(small, payloadOf('csv', body)))).toMatch(/^TOO_LARGE: .*100000 bytes/s)
  })
})

test('more rejected rows than their keys can be kept fail the unit at once; of values not asked for, as another answer', async () => {
  const body = `${header}\n${'a.com,2026-01-01,x,bad,1\n'.repeat(100_001)}`
  expect(await failureOf(parseBody(plan, payloadOf('csv', body)))).toMatch(
    /^TOO_MANY_REJECTS: More than 100000 rows.*line 100002/s,
  )
  const other = `${header}\n${'c.com,2026-01-01,x,1,1\n'.repeat(100_001)}`
  expect(await failureOf(parseBody(plan, payloadOf('csv', other)))).toMatch(/^WRONG_ECHO: .*domain 'c.com' was not requested/s)
})

test('a domain loses www. and its last dot and is written in ASCII, a country is spelled as in the definition', async () => {
  const both = planOf(
    [
      column('domain', 'text', { isKey: true, normalize: 'domain' }),
      column('country', 'text', { isKey: true, normalize: 'country' }),
    ],
    { slice: { domain: ['a.com', 'www.com', 'xn--bcher-kva.com'], country: ['world', 'gb'] } },
  )
  const { rows, report } = await parseBody(
    both,
    payloadOf('csv', 'domain,country\nWWW.A.com.,WW\nwww.com,Worldwide\nm.a.com,world\nwww.BÜCHER.com,UK\na\u202e.com,WW\n'),
  )
  expect(rows).toEqual([
    ['a.com', 'world'],
    ['www.com', 'world'],
    ['xn--bcher-kva.com', 'gb'],
  ])
  expect(report.rejects).toBe(2)
})

test('a brand that the service writes otherwise is the one that was asked for, where it can be no other', async () => {
  const brand = [column('brand', 'text', { isKey: true })]
  const brands = planOf(brand, { slice: { brand: ["Ben & Jerry's", 'Löwe', 'Levi', 'NIKE', 'Nike'] } })
  const text = ['brand', 'BEN &amp; JERRY’S', ' Lo\u0308WE ', 'levi', 'nike', 'Nike', 'Levi2'].join('\n')
  const { rows, report } = await parseBody(brands, payloadOf('csv', text))
  expect(rows.map(([name]) => name)).toEqual(["Ben & Jerry's", 'Löwe', 'Levi', 'Nike'])
  expect(report.rejected.map(({ raw }) => raw)).toEqual(['nike', 'Levi2'])
})

test('rows of every window and value that were asked for together are taken, and no others', async () => {
  const box = planOf(columns, { slice: { domain: ['a.com', 'b.com'] }, window: { from: '2025-11-01', to: '2026-02-01' } })
  const months = ['2025-10-31', '2025-11-01', '2025-12-01', '2026-01-01', '2026-02-01']
  const lines = ['a.com', 'b.com', 'c.com'].flatMap((domain) => months.map((date) => `${domain},${date},x,1,0.5`))
  const { rows, report } = await parseBody(box, payloadOf('csv', [header, ...lines].join('\n')))
  const asked = ['a.com', 'b.com'].flatMap((domain) => months.slice(1, 4).map((date) => [domain, date]))
  expect(rows.map((row) => row.slice(0, 2))).toEqual(asked)
  // Of another month is nobody's mistake, of another value may be one.
  expect(report.rejects).toBe(months.length)
  expect(report.strays).toEqual({ rows: lines.length - asked.length - months.length, from: '2025-10-01', to: '2026-02-01' })
})

test('dates become the first day of their month in monthly rows alone', async () => {
  const dated = [column('date', 'date', { isKey: true, normalize: 'period_start' })]
  const body = 'date\n2026-01\n2026-01-15\n2026-01-15T00:00:00Z\n01/15/2026\n2026-13\n2026-02-30\n'
  const monthly = await parseBody(planOf(dated, { rows: 'month' }), payloadOf('csv', body))
  const daily = await parseBody(planOf(dated, { rows: 'day' }), payloadOf('csv', body))
  expect(monthly.rows.flat()).toEqual(['2026-01-01', '2026-01-01', '2026-01-01'])
  expect(daily.rows.flat()).toEqual(['2026-01-01', '2026-01-15', '2026-01-15'])
  expect(monthly.report.rejected.map(({ reason }) => reason)).toEqual(
    ['01/15/2026', '2026-13', '2026-02-30'].map((cell) => `'${cell}' is not a period (YYYY-MM or YYYY-MM-DD)`),
  )
})
