// Which meanings of a count leave it open whether rows are missing, where another meaning agrees.
import { expect, test } from 'vitest'
import { type Arrived, lackingRows } from '../../../src/core/data-point-counts.ts'

const exactly = (n: number) => ({ least: n, most: n })
const arrived = (rows: number, filled: number, metrics = 6): Arrived => ({
  rows: exactly(rows),
  metrics,
  filled: exactly(filled),
  all: { rows, filled: null },
})

test.each([
  ['half of it has no row, half of its cells no value', 12, arrived(2, 6), 4, ['non_empty_cells']],
  ['the rows that may be missing have too few cells', 60, arrived(10, 20), 15, []],
  ['hardly any row may be missing', 210, arrived(35, 208), 36, []],
  ['no row may be missing', 24, arrived(4, 12), 4, []],
  ['it has every value', 12, arrived(2, 12), 4, []],
  ['as many rows were asked for', 4, arrived(2, 4, 2), 4, ['rows']],
  ['fewer rows were asked for', 4, arrived(2, 4, 2), 3, []],
  ['nobody knows how many rows there are, and much has none', 4, arrived(2, 3, 2), null, ['rows', 'non_empty_cells']],
])('rows may be missing: %s', (_, announced, came, mostRows, found) => {
  expect(lackingRows(announced, came, ['rows', 'non_empty_cells'], { mostRows, share: 0.5 })).toEqual(found)
})

test('rows of a dimension that is not asked for are not missing where nearly all that was asked for has some', () => {
  expect(lackingRows(12, arrived(2, 6), ['rows', 'non_empty_cells'], { mostRows: null, share: 0.95 })).toEqual([])
})
