import { expect, test } from 'vitest'
import { cut } from '../../../src/run/recorded-answers.ts'
import { column, planOf } from '../parse/parsing.ts'

const plan = planOf([column('domain', 'text', { isKey: true }), column('title', 'text')])

test.each([
  [
    'with line ends within quotes is cut between them',
    'domain,title\n"a\nb, ""c""",1\nd,2\ne,3\n',
    'domain,title\n"a\nb, ""c""",1\nd,2\n',
  ],
  ['keeps its line ends', 'domain,title\r\na,1\r\nd,2\r\ne,3\r\n', 'domain,title\r\na,1\r\nd,2\r\n'],
  [
    'of several tables keeps as many of each',
    'domain,title\na,1\n\ntitle,domain\n"2\n",b\n3,c\n4,d',
    'domain,title\na,1\ntitle,domain\n"2\n",b\n3,c\n',
  ],
  ['with one record that lacks its line end gets it', 'domain,title\na,1', 'domain,title\na,1\n'],
  ['with a quote that never ends is cut at its lines', 'domain,title\n"a,1\nd,2\ne,3\n', 'domain,title\n"a,1\nd,2\n'],
])('a CSV %s', (_, text, shorter) => {
  expect(cut(text, 2, plan)).toBe(shorter)
})
