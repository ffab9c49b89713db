// What `--only` means, and how a command that is offered writes it.
import { expect, test } from 'vitest'
import { formatOnly, parseOnly } from '../../../src/core/only.ts'

test.each([
  [
    'domain=a.com, b.com;country=us',
    [
      ['domain', ['a.com', 'b.com']],
      ['country', ['us']],
    ],
  ],
  ['domain=a.com;domain=b.com', [['domain', ['a.com', 'b.com']]]],
  [
    'brand=Tom\\; Jerry,A\\,B\\=C,D:\\E,F\\\\;domain=a.com',
    [
      ['brand', ['Tom; Jerry', 'A,B=C', 'D:\\E', 'F\\']],
      ['domain', ['a.com']],
    ],
  ],
] as const)('%s', (text, lists) => {
  expect([...(parseOnly(text) ?? [])]).toEqual(lists)
  const written = formatOnly(lists.map(([name, values]) => ({ name, values })))
  expect([...(parseOnly(written) ?? [])]).toEqual(lists)
})

test.each(['', 'domain', 'domain=', '=a.com', 'domain=a.com;', ';domain=a.com', 'domain=a.com,country=us', 'domain= ,'])(
  "'%s' names nothing that can be understood",
  (text) => {
    expect(() => parseOnly(text)).toThrow(
      expect.objectContaining({ code: 'USAGE', message: expect.stringContaining('--only is') }),
    )
  },
)
