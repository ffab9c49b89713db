// Tables of the terminal: aligned by what a reader sees, and never wider than the screen.
import stringWidth from 'string-width'
import { expect, test } from 'vitest'
import { clipText, layOut, shortenPaths, wrapText } from '../../../src/cli/output.ts'

const head = ['keyword', 'page', 'clicks']
const rows = [
  ['東京 ホテル', 'a.com/1', '182'],
  ['🍕 near me', 'b.com', '9'],
  ['한국어 사전', 'c.com', '72'],
  ['cafe\u0301', 'd.com', '1'],
]

/** Columns at which the cells of the second column begin. */
const starts = (lines: readonly string[]): number[] =>
  lines.map((line) => stringWidth(line.slice(0, line.search(/page|─ {2}─|[a-d]\.com/))))

test('what stands in two columns of the screen each, and what combines with the letter before it, is aligned', () => {
  const [first, , ...cells] = layOut(head, rows)
  expect(new Set(starts([first ?? '', ...cells]))).toEqual(new Set([stringWidth('東京 ホテル') + 2]))
  expect(new Set(cells.map((line) => stringWidth(line))).size).toBe(1)
})

test('colours take no room and leave a column of numbers to the right', () => {
  const red = '\u001b[31m7\u001b[39m'
  expect(layOut(['held'], [['12'], [red]]).at(-1)).toBe(`   ${red}`)
})

test('a table wider than the terminal comes in blocks that each begin with the first column', () => {
  const lines = layOut(['pipeline', 'loaded', 'waiting', 'rows'], [['keywords', '18', '0', '7,200']], 24)
  expect(lines).toEqual([
    'pipeline  loaded',
    '────────  ──────',
    'keywords      18',
    '',
    'pipeline  waiting   rows',
    '────────  ───────  ─────',
    'keywords        0  7,200',
  ])
  expect(Math.max(...layOut(head, rows, 20).map((line) => stringWidth(line)))).toBeLessThanOrEqual(20)
})

test('a cell wider than the terminal ends in an ellipsis at a whole character', () => {
  expect(clipText('東京ホテル', 6)).toBe('東京…')
  expect(clipText('東京', 4)).toBe('東京')
  expect(Math.max(...layOut(['message'], [['x'.repeat(200)]], 80).map((line) => stringWidth(line)))).toBe(80)
})

test('a line wider than the terminal is broken at words, below where its text begins', () => {
  expect(wrapText('Nothing planned: no pipeline asks', 20)).toBe('Nothing planned: no\npipeline asks')
  expect(wrapText('  metrics:   visits, bounces', 20)).toBe('  metrics:   visits,\n             bounces')
  expect(wrapText('see \u001b[31mhttps://example.com/a/long/one\u001b[39m now', 20)).toBe(
    'see\n\u001b[31mhttps://example.com/a/long/one\u001b[39m\nnow',
  )
  expect(wrapText('東京 東京 東京', 10)).toBe('東京 東京\n東京')
  expect(wrapText('as it is in a pipe, however long', null)).toBe('as it is in a pipe, however long')
})

test('files below the folder a person is in are named from there, and nothing else is changed', () => {
  expect(shortenPaths('/srv/w/pipelines/a.yaml:1:1: see /srv/w/x', '/srv/w')).toBe('pipelines/a.yaml:1:1: see x')
  expect(shortenPaths('The folder "/srv/w/landing", not /mnt/srv/w/x', '/srv/w')).toBe('The folder "landing", not /mnt/srv/w/x')
  expect(shortenPaths('https://example.com/a /etc/b', '/')).toBe('https://example.com/a /etc/b')
})

test('a table may have as many rows as somebody asks for', () => {
  expect(layOut(['id'], Array(200_000).fill(['1'])).length).toBe(200_002)
})
