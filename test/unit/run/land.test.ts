// An answer on its way into the landing: whole and under its own name, or not there at all.
import { type Clock, systemClock } from '../../../src/core/clock.ts'
import { beforeEach, describe, expect, test } from 'vitest'
import { z } from 'zod'
import type { Completeness } from '../../../src/core/completeness.ts'
import { EtlError } from '../../../src/core/errors.ts'
import { silentLog } from '../../../src/core/log.ts'
import type { Payload } from '../../../src/core/types.ts'
import type { Source, SourceContext } from '../../../src/extract/source.ts'
import { land as landAnswer, type Landed, type LandWork, type UnchangedAnswer } from '../../../src/run/land.ts'
import { createProgress, type Progress } from '../../../src/run/progress.ts'
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

interface Given {
  readonly store?: LandWork['runtime']['landing']
  /** Digest of what the units hold. */
  readonly loaded?: string
  /** Of paid pages; whenever the source is waited for, a second passes. */
  readonly source?: Source
  readonly clock?: Clock
  readonly paid?: Pick<Parameters<typeof landAnswer>[1], 'paidPages' | 'book' | 'begun'>
  readonly kind?: LandWork['claim']['kind']
}

/** A second passes while something is waited for. */
const hurriedClock: Clock = {
  now: () => 0,
  random: () => 0.5,
  sleep: (_, signal) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, 10)
    signal?.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
    return promise
  },
}

const landOrSpare = (
  steps: readonly (Payload | Error)[],
  { store = landing, loaded, paid = {}, source = sourceOf(steps), clock = hurriedClock, kind = claim.kind }: Given,
): Promise<Landed | UnchangedAnswer> => {
  const work: LandWork = {
    runtime: { landing: store, warehouse, progress, clock, log: silentLog },
    claim: { ...claim, kind },
    definition: definitionOf([column('country', 'text', { isKey: true })]),
    source,
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
  const askNumber = async (): Promise<string> => {
    askNumbers += 1
    return '81'
  }
  return landAnswer(work, { ...context, ...paid }, askNumber, loaded)
}

const land = async (steps: readonly (Payload | Error)[], given: Given = {}): Promise<Landed> => {
  const landed = await landOrSpare(steps, given)
  if (landed.manifest === null) throw new Error('the answer was not kept')
  return landed
}

const locatorEnd = /\/5b1c7d2e\.1-81-2-[0-9a-f]{6}$/

describe('an answer', () => {
  test('lies whole under the name of its question, and is at hand as it was landed', async () => {
    const {
      locator,
      manifest,
      completeness: proved,
      kept,
    } = await land([payload(1, 'a\n', '1\n'), payload(2), payload(3, 'a\n2\n')])
    expect(locator).toMatch(locatorEnd)
    const parts = ['a\n1\n', '', 'a\n2\n']
    expect((await landing.read(locator)).map(String)).toEqual(parts)
    expect(kept?.map(({ part, format, chunks }) => [part, format, Buffer.concat(chunks).toString()])).toEqual(
      parts.map((text, at) => [at + 1, 'csv', text]),
    )
    expect([proved, manifest.completeness]).toEqual([completeness, completeness])
    expect(manifest).toMatchObject({ ask_number: '81', asked_for: claim.box.key, bytes: 8 })
    expect(progress.counters.pages).toBe(3)
    expect([said, askNumbers]).toEqual([[`asked for ${claim.box.key}`, 'let go'], 1])
  })

  test('that is large is read back from where it lies', async () => {
    const large = 'x'.repeat(200_000)
    const { locator, kept } = await land([payload(1, large), payload(2, large)])
    expect(kept).toBeNull()
    expect((await landing.read(locator)).map(String)).toEqual([large, large])
  })

  test('whose very bytes the units hold is not kept a second time', async () => {
    const parts = () => [payload(1, 'a\n', '1\n'), payload(2, 'a\n2\n')]
    const first = await land(parts())
    const spared = await landOrSpare(parts(), { loaded: first.manifest.sha256 })
    expect(spared).toEqual({ completeness, manifest: null })
    expect([[...landing.there.keys()], landing.begun.length]).toEqual([[first.locator], 2])
    expect((await land([payload(1, 'a\n3\n')], { loaded: first.manifest.sha256 })).manifest.bytes).toBe(4)
  })

  test('without any part is an answer too', async () => {
    const { locator, manifest } = await land([])
    expect([manifest.parts, await landing.read(locator)]).toEqual([[], []])
  })
})

describe('pages that are paid for', () => {
  const names: string[] = []
  /** What a process that comes after a kill would find, asked while the next page is waited for. */
  const seen: number[] = []
  const slow = (part: number, text: string): Payload => payload(part, text)
  const begun = (
    looksWithMore: number,
    keep: (name: string, isAmid?: boolean) => Promise<void> = async (name) => void names.push(name),
    rest: readonly Payload[] = [],
  ) => {
    let looks = 0
    return {
      page: async () => null,
      look: <T>(ask: () => Promise<T>) => ask(),
      paidBefore: () => [],
      hasMore: async () => {
        looks += 1
        return looks < looksWithMore
      },
      rest: async function* () {
        yield* rest
      },
      keep,
      restart: async () => undefined,
      drop: async () => undefined,
    }
  }
  const waits = async (): Promise<void> => {
    await new Promise((done) => setTimeout(done, 60))
    const [locator = ''] = names
    seen.push(locator === '' ? 0 : (await landing.read(locator)).length)
  }
  /** Three pages, each long in coming. */
  const landSlowly = (paid: NonNullable<Given['paid']>, store?: Given['store']) => {
    names.length = 0
    seen.length = 0
    const source = sourceOf([slow(1, 'one'), slow(2, 'two'), slow(3, 'three')])
    const extract: Source['extract'] = async function* (unit, context) {
      for await (const part of source.extract(unit, context)) {
        yield part
        await waits()
      }
      return completeness
    }
    return land([], { paid, ...(store === undefined ? {} : { store }), source: { ...source, extract } })
  }

  test('can be read while the next is on its way, and the answer is whole at the end', async () => {
    const { locator } = await landSlowly({ paidPages: () => 1, begun: begun(0) })
    expect([names, seen]).toEqual([[locator], [1, 2, 3]])
    expect((await landing.read(locator)).map(String)).toEqual(['one', 'two', 'three'])
  })

  test('and had come when the run was stopped are kept: only the next request ends the walk', async () => {
    names.length = 0
    const stopping: Payload = {
      ...payload(1),
      body: (async function* () {
        yield Buffer.from('one')
        abort.abort(new Error('stop'))
      })(),
    }
    const steps = [stopping, payload(2, 'two'), new EtlError('INTERRUPTED', 'the request was not sent')]
    // As a bucket, which sends nothing once its signal has aborted.
    const store: typeof landing = {
      ...landing,
      create: async (name, signal) => {
        const writer = await landing.create(name)
        return { ...writer, finish: (told) => (signal?.aborted === true ? Promise.reject(signal.reason) : writer.finish(told)) }
      },
    }
    const given: Given = { paid: { paidPages: () => 1, begun: begun(0) }, kind: 'walk', store, clock: systemClock }
    await expect(land(steps, given)).rejects.toMatchObject({ code: 'INTERRUPTED' })
    expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one', 'two'])
  })

  /** Twenty pages that are there at once, and then an end as by a kill. */
  const savedOnce = async (clock: Clock): Promise<void> => {
    names.length = 0
    const steps = Array.from({ length: 20 }, (_, at) => payload(at + 1, `page ${at}`))
    const killed = new Error('as by a kill')
    const paid = { paidPages: () => 1, begun: begun(0) }
    await expect(land([...steps, killed as EtlError], { paid, clock })).rejects.toBe(killed)
    expect(names.length).toBe(1)
  }
  /** Its `finish` fails, as on a full disk. */
  const unfinished = (code: 'DISK' | 'FENCED', store = landing): typeof landing => ({
    ...store,
    create: async (...asked) => ({
      ...(await store.create(...asked)),
      finish: async () => {
        throw new EtlError(code, 'as the store says')
      },
    }),
  })

  test('are saved also where the next is always there before the last is written', async () => {
    let now = 0
    const clock: Clock = {
      ...hurriedClock,
      now: () => {
        now += 300
        return now
      },
    }
    await savedOnce(clock)
  })

  test('are saved also after the clock was set back by a day', async () => {
    let [now, looks] = [100_000_000, 0]
    const clock: Clock = {
      ...hurriedClock,
      now: () => {
        looks += 1
        now += looks === 4 ? -86_400_000 : 300
        return now
      },
    }
    await savedOnce(clock)
  })

  test.each(['DISK', 'FENCED'] as const)('and are named in the ledger stay also where %s ends the walk', async (code) => {
    names.length = 0
    let now = 0
    const clock: Clock = {
      ...hurriedClock,
      now: () => {
        now += 1_100
        return now
      },
    }
    const steps = [payload(1, 'one'), payload(2, 'two'), payload(3, 'three', new EtlError(code, 'in the midst of it'))]
    const paid = { paidPages: () => 1, begun: begun(0) }
    await expect(land(steps, { paid, clock, store: unfinished(code) })).rejects.toMatchObject({
      code,
      message: 'in the midst of it',
    })
    expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one', 'two'])
  })

  test('and can be neither saved nor finished leave nothing behind, and the end of the walk is what is told', async () => {
    names.length = 0
    const steps = [payload(1, 'one'), new EtlError('SERVICE_UNREACHABLE', 'the service is away')]
    const store = unfinished('DISK')
    await expect(land(steps, { paid: { paidPages: () => 1, begun: begun(0) }, store })).rejects.toMatchObject({
      code: 'SERVICE_UNREACHABLE',
    })
    expect([names, landing.there.size]).toEqual([[], 0])
  })

  test.each(['LANDING_UNREACHABLE', 'LANDING_REFUSED'] as const)(
    'are kept where another walk found the bucket away (%s) and it takes them again by the end',
    async (code) => {
      names.length = 0
      const away = new EtlError(code, 'it took nothing a moment ago')
      const paid = { paidPages: () => 1, begun: begun(0) }
      await expect(land([payload(1, 'one'), away], { paid, kind: 'walk' })).rejects.toBe(away)
      expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one'])
    },
  )

  test.each(['INTERNAL', 'WRONG_ECHO', 'CANCELLED'] as const)(
    'are kept where what ended the walk says nothing of them (%s)',
    async (code) => {
      names.length = 0
      const paid = { paidPages: () => 1, begun: begun(0) }
      const ended = new EtlError(code, 'as a later page has it')
      await expect(land([payload(1, 'one'), ended], { paid, kind: 'walk' })).rejects.toBe(ended)
      expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one'])
    },
  )

  test('are kept where the bucket takes them again within half a minute', async () => {
    names.length = 0
    let tries = 0
    const store: typeof landing = {
      ...landing,
      create: async (name) => {
        const writer = await landing.create(name)
        const finish: typeof writer.finish = (told) => {
          tries += 1
          return tries < 4 ? Promise.reject(new EtlError('LANDING_UNREACHABLE', 'it restarts')) : writer.finish(told)
        }
        return { ...writer, finish }
      },
    }
    const given: Given = { paid: { paidPages: () => 1, begun: begun(0) }, kind: 'walk', store }
    await expect(land([payload(1, 'one')], given)).rejects.toMatchObject({ code: 'LANDING_UNREACHABLE' })
    expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one'])
  })

  test('are kept together with those that came behind a missing one, and those of before that were not asked for yet', async () => {
    names.length = 0
    const source = sourceOf([payload(1, 'one')])
    const extract: Source['extract'] = async function* (unit, context) {
      yield* source.extract(unit, context)
      context.keepPart?.(payload(3, 'three'))
      throw new EtlError('SERVICE_ERROR', 'the second did not come')
    }
    const paid = { paidPages: () => 1, begun: begun(9, undefined, [payload(7, 'seven')]) }
    await expect(land([], { paid, source: { ...source, extract } })).rejects.toMatchObject({ code: 'SERVICE_ERROR' })
    expect((await landing.read(names[0] ?? '')).map(String)).toEqual(['one', 'three', 'seven'])
  })

  test('are saved beside those that were saved before where some of these are still to be taken', async () => {
    const besides: (boolean | undefined)[] = []
    const keep = async (name: string, isAmid?: boolean) => {
      names.push(name)
      besides.push(isAmid)
    }
    for (const [looksWithMore, isBeside] of [
      [2, true],
      [0, false],
    ] as const) {
      await landSlowly({ paidPages: () => 1, begun: begun(looksWithMore, keep) })
      expect([seen, besides.pop()]).toEqual([[1, 2, 3], isBeside])
    }
  })

  test('are not saved where nothing is paid for, or nothing can be read before it is whole', async () => {
    await landSlowly({ paidPages: () => 0, begun: begun(0) })
    expect(seen).toEqual([0, 0, 0])
    const { create } = landing
    const closed = {
      ...landing,
      create: async (...asked: Parameters<typeof create>) => ({ ...(await create(...asked)), save: async () => false }),
    }
    await landSlowly({ paidPages: () => 1, begun: begun(0) }, closed)
    expect(seen).toEqual([0, 0, 0])
  })

  test('are saved a second later where the database is away for a moment: the walk goes on', async () => {
    let calls = 0
    const book = async (): Promise<void> => {
      calls += 1
      if (calls === 1) throw new EtlError('DATABASE_UNREACHABLE', 'away')
    }
    const { manifest } = await landSlowly({ paidPages: () => 1, begun: begun(0), book })
    expect([seen, manifest.parts.length]).toEqual([[0, 2, 3], 3])
  })
})

describe('a report that is still being made', () => {
  test('opens nothing and draws no number', async () => {
    const pending = new EtlError('REPORT_PENDING', 'not yet', { notBefore: 9 })
    await expect(land([pending])).rejects.toBe(pending)
    expect([landing.begun, askNumbers, said]).toEqual([[], 0, [`asked for ${claim.box.key}`, 'let go']])
  })
})

describe('an answer that is not whole', () => {
  test.each([
    [
      'because the source fails midway',
      [payload(1, 'one'), payload(2, 'two'), new EtlError('UNSTABLE', 'it changed')],
      'UNSTABLE',
    ],
    ['because a body breaks off', [payload(1, 'one', new EtlError('TRUNCATED', 'cut')), payload(2, 'two')], 'TRUNCATED'],
  ])('%s leaves nothing', async (_, steps, code) => {
    await expect(land(steps)).rejects.toMatchObject({ code })
    expect([landing.begun.length, landing.there.size, said.at(-1)]).toEqual([1, 0, 'let go'])
  })

  test('because the run was stopped leaves nothing', async () => {
    const stopping: Payload = {
      ...payload(1),
      body: (async function* () {
        yield Buffer.from('one')
        abort.abort(new Error('stop'))
      })(),
    }
    await expect(land([stopping, payload(2, 'two')])).rejects.toMatchObject({
      code: 'INTERRUPTED',
      message: expect.stringContaining(claim.box.key),
    })
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
    await expect(land([payload(1, 'one')], { store })).rejects.toBe(full)
    expect(said.at(-1)).toBe('let go')
    // A page is paid for as it comes: none is asked for. (A report is there already.)
    said.length = 0
    await expect(land([payload(1, 'one')], { store, kind: 'walk' })).rejects.toBe(full)
    expect(said).toEqual([])
  })
})
