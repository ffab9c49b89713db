import { expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import { isSameFault, untilSameFault } from '../../../src/extract/proved-shape.ts'
import { failureOf } from '../parse/parsing.ts'

const empty = new EtlError('BAD_RESPONSE', 'It is empty.', { fault: 'empty' })
const cut = new EtlError('TRUNCATED', 'It is cut.', { fault: 'cut' })

/** One after the other, then a page. */
const answers = (...errors: readonly Error[]) => {
  const left = [...errors]
  let asked = 0
  const ask = (): Promise<string> => {
    asked += 1
    const error = left.shift()
    return error === undefined ? Promise.resolve('a page') : Promise.reject(error)
  }
  return { ask, asked: () => asked }
}

test('what cannot be read is asked for again until it comes', async () => {
  const { ask } = answers(empty, cut)
  expect(await untilSameFault(ask)).toBe('a page')
})

test.each([[[empty, empty]], [[empty, cut, empty]]])('what is wrong as it was before is unusable', async (errors) => {
  const { ask, asked } = answers(...errors)
  expect(await failureOf(untilSameFault(ask))).toMatch(/^UNUSABLE: It is empty\. The same came twice, so it is not bought again/)
  expect(asked()).toBe(errors.length)
})

test.each([
  new EtlError('BAD_RESPONSE', 'A proxy answers.'),
  new EtlError('UNUSABLE', 'It is no page.', { fault: 'no page' }),
  new Error('a defect'),
])('anything else is thrown as it is: %s', async (error) => {
  const { ask, asked } = answers(error)
  await expect(untilSameFault(ask)).rejects.toBe(error)
  expect(asked()).toBe(1)
})

test('the words of a fault are the same whatever is said behind them', () => {
  const error = new EtlError('BAD_RESPONSE', 'The header is wrong.')
  expect(isSameFault(error, 'The header is wrong. The next run tries again.')).toBe(true)
  expect(isSameFault(error, 'The header is short.')).toBe(false)
  expect(isSameFault(error, null)).toBe(false)
})
