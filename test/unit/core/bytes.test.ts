import { expect, test } from 'vitest'
import { isSame } from '../../../src/core/bytes.ts'

test('bytes are the same only when all of them are', () => {
  const bytes = Buffer.from('xabcx')
  expect(isSame(bytes, 1, 4, Buffer.from('abc'))).toBe(true)
  for (const other of ['ab', 'abcx', 'abd', '']) expect(isSame(bytes, 1, 4, Buffer.from(other))).toBe(false)
})
