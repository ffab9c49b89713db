// More than a hundred answers of the service in its own words, once and for good, each for one unit among healthy ones, many in one command: right
// meaning, right next step, healthy units and other pipelines load, nothing is bought twice.
import { expect, test } from 'vitest'
import { play, together } from '../support/play-answers.ts'
import { answerCases } from '../support/vendor-answers.ts'

test('there are more than a hundred', () => {
  expect(answerCases.length).toBeGreaterThan(100)
})

test.each(together)('for good: %s', async (_, cases) => {
  expect((await play(cases)).join('\n')).toBe('')
})
