// The format of an exported file.
import { expect, test } from 'vitest'
import { formatOf } from '../../../src/cli/bi-commands.ts'

test('is what the option says, else what the name of the file ends with, else CSV', () => {
  expect(formatOf('csv', 'k.parquet')).toBe('csv')
  expect(formatOf(undefined, 'k.parquet')).toBe('parquet')
  expect(formatOf(undefined, 'k.csv')).toBe('csv')
  expect(formatOf(undefined, undefined)).toBe('csv')
})
