// The answers of answers.test.ts once each, and those that slow, hold or stop a whole endpoint, each by itself, for good and once.
import { expect, test } from 'vitest'
import { alone, play, together } from '../support/play-answers.ts'

test.each(alone)('for good: %s', async (_, cases) => {
  expect((await play(cases)).join('\n')).toBe('')
})

test.each([...together, ...alone])('once: %s', async (_, cases) => {
  expect((await play(cases, 1)).join('\n')).toBe('')
})
