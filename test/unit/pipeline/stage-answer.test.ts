// An answer on its way into staging: every part read to its end, whatever is wrong with its rows.
import { gzipSync } from 'node:zlib'
import { beforeEach, describe, expect, test } from 'vitest'
import { EtlError } from '../../../src/core/errors.ts'
import type { Payload } from '../../../src/core/types.ts'
import type { LandingStore } from '../../../src/extract/landing.ts'
import type { Staging } from '../../../src/load/staging.ts'
import { createParseReport, maxKeptRejects, type ParseReport } from '../../../src/parse/report.ts'
import { createProgress, type Progress } from '../../../src/pipeline/progress.ts'
import { type StageWork, stageParts } from '../../../src/pipeline/stage-answer.ts'
import { claimedJob } from '../../support/claimed-job.ts'
import { landingName } from '../../support/landing-names.ts'
import { type MemoryLanding, memoryLanding } from '../../support/memory-landing.ts'
import { column, planOf } from '../parse/parsing.ts'

const plan = planOf([column('word', 'text', { isKey: true }), column('visits', 'bigint')])
const completeness = { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }

let now: number
let landing: MemoryLanding
let progress: Progress
let parsed: ParseReport
let work: StageWork
/** How many bytes of each body were handed over, and which bodies were let go of. */
let handed: number
let closed: number[]

beforeEach(() => {
  now = 0
  landing = memoryLanding()
  progress = createProgress()
  parsed = createParseReport()
  work = {
    claim: claimedJob(),
    runtime: { progress, clock: { now: () => now, random: () => 0, sleep: async () => undefined } },
  }
  handed = 0
  closed = []
})

const payload = (part: number, body: string | Buffer, size = 60_000): Payload => ({
  format: 'csv',
  part,
  body: (async function* () {
    const bytes = Buffer.from(body)
    try {
      for (let at = 0; at < bytes.length; at += size) {
        const chunk = bytes.subarray(at, at + size)
        handed += chunk.length
        yield chunk
      }
    } finally {
      closed.push(part)
    }
  })(),
})

interface MemoryStaging extends Staging {
  readonly steps: string[]
}

/** @param keeps whether its rows are so few that they wait in memory */
const stagingOf = (keeps: boolean, failure: unknown = null): MemoryStaging => {
  const steps: string[] = []
  let rows = 0
  let copy = ''
  return {
    steps,
    isNumbered: true,
    table: 'staging.test',
    rows: () => rows,
    held: () => (keeps ? Buffer.from(copy) : null),
    write: async (chunk) => {
      if (failure !== null) throw failure
      steps.push(`write ${chunk.rows}`)
      rows += chunk.rows
      copy += chunk.copy.toString()
      chunk.release?.()
    },
    flush: async () => void steps.push('flush'),
    indexBy: async () => undefined,
    close: async () => undefined,
  }
}

/** The parts as they pass through a landing, which is whole once the last one was read. */
async function* landed(parts: readonly Payload[], store: LandingStore = landing): AsyncGenerator<Payload, string, void> {
  const writer = await store.create(landingName())
  for (const part of parts) yield writer.part(part)
  await writer.finish({ completeness })
  return writer.locator
}

const stage = (parts: readonly Payload[], staging: Staging = stagingOf(true)) =>
  stageParts(work, plan, staging, parsed, landed(parts))

const header = 'word,visits\n'

describe('an answer', () => {
  test('that is little waits in staging, its parts’ rows together', async () => {
    const staging = stagingOf(true)
    const { refusal } = await stage(
      [payload(1, `${header}a,1\n`), payload(2, `${header}b,2\nc,bad\n`), payload(3, header)],
      staging,
    )
    expect(refusal).toBeNull()
    expect([staging.steps, staging.held()?.toString()]).toEqual([['write 2'], 'a\t1\nb\t2\n'])
    expect(parsed).toMatchObject({ read: 3, rows: 2, rejects: 1 })
    expect(progress.counters.rowsRead).toBe(2)
  })

  test('that is much is in the table at the end', async () => {
    const staging = stagingOf(false)
    const body = header + Array.from({ length: 60_000 }, (_, index) => `word ${index},${index}\n`).join('')
    const { refusal, result } = await stage([payload(1, body), payload(2, `${header}last,1\n`)], staging)
    expect(refusal).toBeNull()
    expect([staging.rows(), staging.steps.at(-1), progress.counters.rowsRead]).toEqual([60_001, 'flush', 60_001])
    expect(staging.steps.length).toBeGreaterThan(3)
    expect((await landing.read(result)).map(String)).toEqual([body, `${header}last,1\n`])
  })

  test('that arrives slowly is written part by part', async () => {
    const staging = stagingOf(true)
    const slow = async function* (): AsyncGenerator<Payload, null, void> {
      for (const part of [1, 2, 3]) {
        yield payload(part, `${header}${part},1\n`)
        now += 250
      }
      return null
    }
    await stageParts(work, plan, staging, parsed, slow())
    expect(staging.steps).toEqual(['write 2', 'write 1'])
  })
})

describe('an answer that is nothing but rejects', () => {
  const bad = header + 'a,bad\n'.repeat(maxKeptRejects + 50_000)

  test.each([
    ['', Buffer.from(bad), 60_000],
    [', packed by the service,', gzipSync(bad), 1_000],
  ])('is refused%s and landed whole all the same, with the parts that come after', async (_, first, size) => {
    const staging = stagingOf(false)
    const { refusal, result } = await stage([payload(1, first, size), payload(2, `${header}b,1\n`), payload(3, '"')], staging)
    expect(refusal).toMatchObject({ code: 'TOO_MANY_REJECTS' })
    expect((await landing.read(result)).map((body) => body.equals(first))).toEqual([true, false, false])
    expect((await landing.read(result)).slice(1).map(String)).toEqual([`${header}b,1\n`, '"'])
    expect(handed).toBe(first.length + `${header}b,1\n"`.length)
    expect(closed).toEqual([1, 2, 3])
    // Nothing behind the refusal is parsed, and the rows before it are not flushed for a load that will not be.
    expect([parsed.rejects, parsed.rows, staging.steps]).toEqual([maxKeptRejects, 0, []])
  })

  test('and breaks off behind its last good byte is not whole, and says that instead', async () => {
    const cut = new EtlError('TRUNCATED', 'cut')
    const broken: Payload = {
      ...payload(1, ''),
      body: (async function* () {
        yield Buffer.from(bad)
        throw cut
      })(),
    }
    await expect(stage([broken])).rejects.toBe(cut)
  })
})

describe('work that cannot go on', () => {
  test('because the database is gone lets go of the body at once', async () => {
    const gone = new EtlError('DATABASE', 'gone')
    const body = `${header}${'a,1\n'.repeat(500_000)}`
    await expect(stage([payload(1, body), payload(2, header)], stagingOf(false, gone))).rejects.toBe(gone)
    expect([closed, handed < body.length / 2]).toEqual([[1], true])
  })

  test('because the bytes are no answer lets go of the body', async () => {
    const body = Buffer.concat([gzipSync(`${header}a,1\n`).subarray(0, -12), Buffer.alloc(200_000, 'x')])
    const failing = stage([payload(1, body, 10_000), payload(2, header)])
    await expect(failing).rejects.toMatchObject({ code: 'TRUNCATED' })
    expect(closed).toEqual([1])
  })
})
