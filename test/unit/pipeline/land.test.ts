// An answer on its way into the landing: whole and under its own name, or not there at all.
import { systemClock } from '../../../src/core/clock.ts'
import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Completeness } from '../../../src/core/completeness.ts'
import { EtlError } from '../../../src/core/errors.ts'
import { silentLog } from '../../../src/core/log.ts'
import type { Payload } from '../../../src/core/types.ts'
import type { Source, SourceContext } from '../../../src/extract/source.ts'
import { begun, drain, type LandWork, landAnswer, leave } from '../../../src/pipeline/land.ts'
import { createProgress, type Progress } from '../../../src/pipeline/progress.ts'
import { claimedJob } from '../../support/claimed-job.ts'
import { landingName } from '../../support/landing-names.ts'
import { type MemoryLanding, memoryLanding } from '../../support/memory-landing.ts'
import { memoryMemo } from '../../support/memory-memo.ts'
import { column, definitionOf } from '../parse/parsing.ts'

const completeness: Completeness = { fingerprint: { lastUpdated: '2026-02-03', count: 3 }, expectedRows: 3, dataPoints: null }
const claim = claimedJob()
const { warehouse } = landingName()

let landing: MemoryLanding
let progress: Progress
let abort: AbortController
/** What the source did: how often it was asked, and that it was let go of. */
let said: string[]
let askNumbers: number

beforeEach(() => {
  landing = memoryLanding()
  progress = createProgress()
  abort = new AbortController()
  said = []
  askNumbers = 0
})

const payload = (part: number, ...chunks: readonly (string | Error)[]): Payload => ({
  format: 'csv',
  part,
  body: (async function* () {
    for (const chunk of chunks) {
      if (chunk instanceof Error) throw chunk
      yield Buffer.from(chunk)
    }
  })(),
})

/** @param steps payloads in order; an error is thrown where it stands */
const sourceOf = (steps: readonly (Payload | Error)[]): Source => ({
  name: 'test.report',
  kind: 'report',
  description: '',
  params: z.record(z.string(), z.string()),
  dimensions: {},
  fields: {},
  openFields: true,
  extract: async function* ({ box }) {
    said.push(`asked for ${box.key}`)
    try {
      for (const step of steps) {
        if (step instanceof Error) throw step
        yield step
      }
      return completeness
    } finally {
      said.push('let go')
    }
  },
  estimate: async () => ({ requests: null, rows: null, quota: null }),
})

const unused = (): never => {
  throw new Error('not for this')
}

const land = (steps: readonly (Payload | Error)[], store: LandWork['runtime']['landing'] = landing) => {
  const work: LandWork = {
    runtime: { landing: store, warehouse, progress, clock: systemClock },
    claim,
    definition: definitionOf([column('country', 'text', { isKey: true })]),
    source: sourceOf(steps),
    signal: abort.signal,
  }
  const context: SourceContext = {
    http: { url: unused, origin: 'https://service', read: unused, download: unused },
    report: memoryMemo(null),
    log: silentLog,
    clock: { now: () => 0, random: () => 0.5, sleep: async () => undefined },
    signal: abort.signal,
    reportHook: null,
    resubmitUncertain: false,
    notice: unused,
  }
  return landAnswer(work, context, async () => {
    askNumbers += 1
    return '81'
  })
}

const read = async ({ body }: Payload): Promise<string> => Buffer.concat(await Array.fromAsync(body)).toString()

const locatorEnd = /\/5b1c7d2e\.1-81-2-[0-9a-f]{6}$/

describe('an answer', () => {
  test('lies whole under the name of its question when its last part was read, and was handed on as it came', async () => {
    const parts = await begun(land([payload(1, 'a\n', '1\n'), payload(2), payload(3, 'a\n2\n')]))
    const handed: string[] = []
    let next = await parts.next()
    for (; next.done !== true; next = await parts.next()) handed.push(await read(next.value))
    expect(handed).toEqual(['a\n1\n', '', 'a\n2\n'])
    const { locator, manifest, completeness: proved } = next.value
    expect(locator).toMatch(locatorEnd)
    expect((await landing.read(locator)).map(String)).toEqual(handed)
    expect([proved, manifest.completeness]).toEqual([completeness, completeness])
    expect(manifest).toMatchObject({ ask_number: '81', asked_for: claim.box.key, bytes: 8 })
    expect(progress.counters.pages).toBe(3)
    expect([said, askNumbers]).toEqual([[`asked for ${claim.box.key}`, 'let go'], 1])
  })

  test('is landed to its end by who does not look at it', async () => {
    const { locator } = await drain(await begun(land([payload(1, 'one'), payload(2, 'two')])))
    expect((await landing.read(locator)).map(String)).toEqual(['one', 'two'])
  })

  test('without any part is an answer too', async () => {
    const { locator, manifest } = await drain(await begun(land([])))
    expect([manifest.parts, await landing.read(locator)]).toEqual([[], []])
  })

  test('stays when who read it to its end lets go of it', async () => {
    const parts = await begun(land([payload(1, 'one')]))
    const { locator } = await drain(parts)
    await leave(parts)
    expect((await landing.read(locator)).map(String)).toEqual(['one'])
  })
})

describe('a report that is still being made', () => {
  test('opens nothing and draws no number', async () => {
    const pending = new EtlError('REPORT_PENDING', 'not yet', { notBefore: 9 })
    await expect(begun(land([pending]))).rejects.toBe(pending)
    expect([landing.begun, askNumbers, said]).toEqual([[], 0, [`asked for ${claim.box.key}`, 'let go']])
  })
})

describe('an answer that is not whole', () => {
  test('because the source fails midway leaves nothing', async () => {
    const drift = new EtlError('UNSTABLE', 'it changed')
    await expect(drain(await begun(land([payload(1, 'one'), payload(2, 'two'), drift])))).rejects.toBe(drift)
    expect(landing.begun).toHaveLength(1)
    expect([landing.there.size, said.at(-1)]).toEqual([0, 'let go'])
  })

  test('because a body breaks off leaves nothing', async () => {
    const cut = new EtlError('TRUNCATED', 'cut')
    const parts = await begun(land([payload(1, 'one', cut), payload(2, 'two')]))
    await expect(drain(parts)).rejects.toBe(cut)
    await leave(parts)
    expect([landing.begun.length, landing.there.size, said.at(-1)]).toEqual([1, 0, 'let go'])
  })

  test('because the run was stopped leaves nothing', async () => {
    const parts = await begun(land([payload(1, 'one'), payload(2, 'two')]))
    const first = await parts.next()
    if (first.done === true) throw new Error('there is no part')
    await read(first.value)
    abort.abort(new Error('stop'))
    await expect(parts.next()).rejects.toMatchObject({ code: 'INTERRUPTED', message: expect.stringContaining(claim.box.key) })
    expect([landing.there.size, said.at(-1)]).toEqual([0, 'let go'])
  })

  test('because there is no place to land it lets go of the source', async () => {
    const full = new EtlError('DISK', 'full')
    const store = {
      ...landing,
      create: async () => {
        throw full
      },
    }
    await expect(begun(land([payload(1, 'one')], store))).rejects.toBe(full)
    expect(said.at(-1)).toBe('let go')
  })

  test.each([
    ['before its first part is taken', 0, false],
    ['with its first part in hand', 1, false],
    ['with a part half read', 1, true],
    ['in the middle', 2, true],
  ])('because it was left %s leaves nothing', async (_, taken, reads) => {
    const parts = await begun(land([payload(1, 'one', 'more'), payload(2, 'two', 'more'), payload(3, 'three')]))
    for (let count = 0; count < taken; count += 1) {
      const next = await parts.next()
      if (next.done === true) throw new Error('there is no part')
      if (count < taken - 1) await read(next.value)
      else if (reads) await next.value.body[Symbol.asyncIterator]().next()
    }
    await leave(parts)
    expect(landing.begun).toHaveLength(1)
    expect([landing.there.size, said.at(-1)]).toEqual([0, 'let go'])
    await leave(parts)
  })
})
