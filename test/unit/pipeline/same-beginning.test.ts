// Whether an answer begins as the loaded one, and that nothing of it is lost by the comparison.
import { describe, expect, test } from 'vitest'
import type { Payload } from '../../../src/core/types.ts'
import type { Landed, LandedParts } from '../../../src/pipeline/land.ts'
import { isSameAnswer } from '../../../src/pipeline/load-proven.ts'
import type { Former } from '../../../src/pipeline/proof-of-load.ts'
import { beginningWith } from '../../../src/pipeline/same-beginning.ts'

const landed = { locator: 'l' } as Landed

async function* parts(...bodies: readonly (readonly string[])[]): LandedParts {
  for (const [place, chunks] of bodies.entries()) {
    const body = (async function* () {
      for (const chunk of chunks) yield Buffer.from(chunk)
    })()
    yield { format: 'csv', part: place + 1, body } satisfies Payload
  }
  return landed
}

/** All that is handed on, and what the parts returned. */
const readAll = async (given: LandedParts): Promise<unknown[]> => {
  const bodies: string[] = []
  for (let next = await given.next(); ; next = await given.next()) {
    if (next.done === true) return [...bodies, next.value]
    bodies.push(Buffer.concat(await Array.fromAsync(next.value.body)).toString())
  }
}

describe('an answer begins as the loaded one', () => {
  test.each<[string, readonly (readonly string[])[], boolean]>([
    ['in one piece', [['abcdef']], true],
    ['in pieces that end elsewhere', [['a', 'bc', 'd', 'ef']], true],
    ['and goes on otherwise', [['abcd', 'xyz'], ['more']], true],
    ['or not, at once', [['xbcd', 'ef']], false],
    ['or not, in a later piece', [['ab', 'cx', 'ef']], false],
    ['or not, being shorter', [['abc'], ['d']], false],
    ['or not, being empty', [[], ['abcd']], false],
    ['or not, having no part', [], false],
  ])('%s', async (_, bodies, isSame) => {
    const beginning = await beginningWith(Buffer.from('abcd'), parts(...bodies))
    expect(beginning.isSame).toBe(isSame)
    expect(await readAll(beginning.parts)).toEqual([...bodies.map((chunks) => chunks.join('')), landed])
  })

  test('whoever lets go of what is handed on lets go of the answer', async () => {
    let isClosed = false
    const body = (async function* () {
      try {
        for (;;) yield Buffer.from('abcd')
      } finally {
        isClosed = true
      }
    })()
    const one = (async function* (): LandedParts {
      yield { format: 'csv', part: 1, body }
      return landed
    })()
    const { value } = await (await beginningWith(Buffer.from('abcd'), one)).parts.next()
    for await (const _ of (value as Payload).body) break
    expect(isClosed).toBe(true)
  })
})

test('an answer is the former one only with the same bytes and what the service says of them', () => {
  const former = { sha256: 's', dataPoints: 4, count: null } as Former
  const of = (sha256: string, dataPoints: number | null, count: number | null) =>
    isSameAnswer(former, {
      manifest: { sha256 },
      completeness: { dataPoints, fingerprint: { lastUpdated: 'now', count } },
    } as unknown as Landed)
  expect([of('s', 4, null), of('t', 4, null), of('s', 5, null), of('s', null, null), of('s', 4, 1)]).toEqual([
    ...[true, false, false, false, false],
  ])
})
