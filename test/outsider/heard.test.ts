// Samples of what `node test/outsider/heard-run.ts` tries whole: every endpoint answering badly for good and then recovered, and limits that nobody configured.
import { describe, expect, test } from 'vitest'
import { boundedPlaces, tryAlone, tryBounded } from './bounded.ts'
import { badAnswers, type Calm, calmRun, type HeardPlace, loadingPlaces, lookingPlaces, tryHeard } from './heard.ts'
import { sampleDatabases } from './own-databases.ts'
import { tryLasting, tryPages } from './paced.ts'

const samples: readonly (readonly [HeardPlace, (typeof badAnswers)[number]])[] = [
  ['keywords', 503],
  ['keywords', 'html'],
  ['submit', 429],
  ['submit', 'stall'],
  ['status', 404],
  ['download', 409],
  ['download', 500],
  ['validate', 'reset'],
  ['describe', 502],
]

/** One calm run for all answers of a place. */
const calms = new Map<HeardPlace, Promise<Calm>>()
const calmOf = (place: HeardPlace): Promise<Calm> => {
  const calm = calms.get(place) ?? calmRun(sampleDatabases, place)
  calms.set(place, calm)
  return calm
}

test.each(samples)('%s answers %s for good, then it is well again: the same command ends true', async (place, answer) => {
  const { wrong } = await tryHeard(sampleDatabases, place, answer, await calmOf(place))
  expect(wrong).toEqual([])
})

test('the whole tries eight endpoints with fourteen answers', () => {
  expect(new Set([...loadingPlaces, ...lookingPlaces]).size * badAnswers.length).toBe(112)
})

describe('a limit that nobody configured', () => {
  test.each(['none', 'seconds'] as const)(
    'of 20 a second where 1,000 are set: 120 pages, none twice (Retry-After: %s)',
    async (retryAfter) => {
      const { wrong, refused } = await tryPages(sampleDatabases, {
        pages: 120,
        allowed: 20,
        configured: 1000,
        retryAfter,
        // It takes ten where nothing else is at work; `node test/outsider/heard-run.ts` holds it to less.
        most: 60,
      })
      expect(wrong).toEqual([])
      expect(refused).toBeGreaterThan(0)
    },
  )

  test.each(boundedPlaces)(
    '429 for good at %s ends with the deadline: exit 1, each unit named and waiting; then all is loaded, bought once',
    async (place) => {
      expect((await tryBounded(sampleDatabases, place, 'deadline')).wrong).toEqual([])
    },
  )

  test('429 for good at one endpoint, others being answered in between, is said within ten seconds, too', async () => {
    expect((await tryAlone(sampleDatabases)).wrong).toEqual([])
  })

  test('429 for good is said within ten seconds, ends with every unit named, and is over when it is over', async () => {
    expect((await tryLasting(sampleDatabases)).wrong).toEqual([])
  })
})
