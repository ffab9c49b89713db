// One suite over every source: what it declares is whole, and what it extracts is bytes that prove themselves complete; from both sandboxes, and a strict service.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { typeNames } from '../../src/core/column-types.ts'
import { silentLog } from '../../src/core/log.ts'
import type { ReportMemo, ReportRecord } from '../../src/core/report-shape.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { createService } from '../../src/extract/http.ts'
import type { HttpClient } from '../../src/extract/http-types.ts'
import { createRateBudget } from '../../src/extract/rate.ts'
import type { Source, SourceContext } from '../../src/extract/source.ts'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { startVendorSandbox } from '../../src/sandbox/vendor/vendor-server.ts'
import { loadSourceFolders } from '../../src/sources/registry.ts'
import { api } from '../../src/sources/web-analytics/index.ts'
import { boxOf, shippedDefinitions } from '../support/definitions.ts'
import { startStrictService } from '../support/strict-service.ts'

const key = 'contract-key-0123456789'
const sources = [...(await loadSourceFolders()).sources.values()]
const definitions = await shippedDefinitions()

interface Contracted {
  readonly url: string
  /** Bodies of the submissions it took. */
  bought(): readonly unknown[]
  close(): Promise<void>
}

const services: Readonly<Record<string, () => Promise<Contracted>>> = {
  'a strict service': async () => {
    const { bought, url, close } = await startStrictService({
      key,
      keywords: (domain) =>
        Array.from({ length: 2_500 }, (_, index) => ({ keyword: `${domain} ${index}`, top_url: 'u', clicks: 9_000 - index })),
      report: () => 'domain,country,category_id,date\n',
      pendingPolls: 0,
    })
    return { url, close, bought: () => bought.map(({ body }) => body) }
  },
  'the sandbox': async () => {
    const { url, books, close } = await startSandbox({
      ...{ apiKey: key, keywordsPerDomain: 2_500, reportDurationMs: 0, requestsPerSecond: null },
    })
    return { url, close, bought: () => books().submissions.map(({ body }) => body) }
  },
  'the sandbox like vendor': async () => {
    const { url, books, close } = await startVendorSandbox({
      ...{ restKey: key, batchKey: key, keywords: 2_500, reportMs: 0, requestsPerSecond: null },
    })
    return { url, close, bought: () => [...books.reports.values()].map(({ body }) => body) }
  },
}

let service: Contracted
let http: HttpClient

const open = async (start: () => Promise<Contracted>): Promise<void> => {
  service = await start()
  http = createService({
    ...api.connection({ WEB_ANALYTICS_BASE_URL: service.url, WEB_ANALYTICS_API_KEY: key }, 'default'),
    rate: createRateBudget({ requestsPerSecond: 500, clock: systemClock }),
    log: silentLog,
    clock: systemClock,
  }).forUnit({
    account: 'default',
    signal: new AbortController().signal,
    timeoutMs: 5_000,
    attempts: 1,
    maxBodyBytes: 10_000_000,
    record: () => undefined,
  })
}

/** The ledger's memory of one report, held in a variable. */
const memoOf = (): ReportMemo => {
  let record: ReportRecord | null = null
  let nextPollAt: number | null = null
  const change = async (values: Partial<ReportRecord>): Promise<void> => {
    if (record === null) throw new Error('there is no report')
    record = { ...record, ...values }
  }
  return {
    current: async () => {
      const nextPollInMs = nextPollAt === null ? null : nextPollAt - systemClock.now()
      return record === null ? null : { ...record, nextPollInMs }
    },
    affordable: async () => undefined,
    intend: async ({ requestHash, estimatedQuota }) => {
      record = {
        jobId: 1,
        state: 'intent',
        requestHash,
        reportId: null,
        statusWord: null,
        polls: 0,
        nextPollInMs: null,
        retries: 0,
        deadlineInMs: null,
        askedMsAgo: 0,
        submittedMsAgo: null,
        estimatedQuota,
        usedQuota: null,
      }
    },
    forgotten: async () => null,
    unknown: async (reportIds) => reportIds,
    submitted: async (reportId, statusWord) => {
      await change({ state: 'submitted', reportId, statusWord, submittedMsAgo: 0 })
      return null
    },
    polled: ({ statusWord, nextPollInMs }) => {
      nextPollAt = systemClock.now() + nextPollInMs
      return change({ statusWord, polls: (record?.polls ?? 0) + 1 })
    },
    fairPauseMs: async () => 0,
    ready: ({ statusWord, usedQuota }) => change({ state: 'ready', statusWord, usedQuota }),
    retried: () => change({ state: 'submitted' }),
    uncertain: () => change({ state: 'uncertain' }),
    withdrawn: async () => {
      record = null
    },
    failed: (state, { statusWord }) => change({ state, statusWord }),
  }
}

const contextOf = (report: ReportMemo): SourceContext => ({
  http,
  report,
  log: silentLog,
  clock: systemClock,
  signal: new AbortController().signal,
  reportHook: null,
  resubmitUncertain: false,
  notice: () => undefined,
})

const definitionOf = (source: Source): Definition => {
  const found = definitions.find((definition) => definition.source === source.name)
  if (found === undefined) throw new Error(`no shipped definition reads ${source.name}`)
  return found
}

/** As much as the source takes in one go, of two values and two months; a walk takes one unit. */
const boxFor = (source: Source, definition: Definition): Box => {
  const slice = definition.dimensions.map(({ name, values }) => [
    name,
    values.slice(0, Math.min(2, source.dimensions[name]?.mostPerRequest ?? 1)),
  ])
  const windows = Math.min(2, source.packing?.windows ?? 1)
  return boxOf(definition, windows === 1 ? '2026-09' : '2026-08', Object.fromEntries(slice), '2026-09')
}

/** Goes on until the source has handed over every byte, as the runner does. */
const extractAll = async (source: Source): Promise<{ bytes: number; parts: number[]; expected: number | null }> => {
  const definition = definitionOf(source)
  const context = contextOf(memoOf())
  for (let attempt = 0; attempt < 20; attempt += 1) {
    try {
      return await drain(source, definition, context)
    } catch (error) {
      const { code, notBefore } = error as { code?: string; notBefore?: number }
      if (code !== 'REPORT_PENDING') throw error
      await systemClock.sleep(Math.max(0, (notBefore ?? 0) - systemClock.now()))
    }
  }
  throw new Error('the report never came')
}

const drain = async (source: Source, definition: Definition, context: SourceContext) => {
  const walk = source.extract({ definition, box: boxFor(source, definition) }, context)
  const parts: number[] = []
  let bytes = 0
  for (;;) {
    const next = await walk.next()
    if (next.done === true) return { bytes, parts, expected: next.value.expectedRows }
    parts.push(next.value.part)
    for await (const chunk of next.value.body) bytes += chunk.length
  }
}

describe.each(sources.map((source) => [source.name, source] as const))('the source %s', (name, source) => {
  test('is named after its folder and says what it is', () => {
    expect(name).toMatch(/^[a-z][a-z0-9-]*\.[a-z][a-z0-9-]*$/)
    expect(source.description.length).toBeGreaterThan(20)
  })

  test('declares fields and dimensions that a table can hold', () => {
    for (const [field, spec] of Object.entries(source.fields)) {
      expect(field).toMatch(/^[a-z][a-z0-9_]*$/)
      expect(typeNames).toContain(spec.type)
      expect(spec.description).not.toBe('')
    }
    expect(Object.keys(source.dimensions).length).toBeGreaterThan(0)
  })

  test('takes one unit in a walk, and says how much it takes in a report', () => {
    const limits = [
      ...Object.values(source.dimensions).map((dimension) => dimension.mostPerRequest),
      source.packing?.windows ?? 1,
    ]
    for (const most of limits) expect(Number.isInteger(most) && most >= 1).toBe(true)
    if (source.kind === 'walk') expect(Math.max(...limits)).toBe(1)
  })

  test('refuses a parameter it does not know', () => {
    expect(source.params.safeParse({ ...definitionOf(source).params, colour: 'red' }).success).toBe(false)
  })
})

const both = Object.keys(services).flatMap((host) => sources.map((source) => [source.name, host, source] as const))

describe.each(both)('the source %s, asked of %s', (_, host, source) => {
  beforeAll(() => open(services[host] ?? expect.fail(host)))
  afterAll(() => service.close())

  test('hands over parts from 1 without gaps, and bytes', async () => {
    const { bytes, parts } = await extractAll(source)
    expect(parts).toEqual(parts.map((_, index) => index + 1))
    expect(bytes).toBeGreaterThan(0)
  })

  test('proves a walk by the announced count', async () => {
    const { expected, parts } = await extractAll(source)
    expect([expected, parts.length]).toEqual(source.kind === 'walk' ? [2_500, 3] : [null, 1])
  })

  test('buys once whatever it is asked for in one go, all of it', async () => {
    const before = service.bought().length
    await extractAll(source)
    const bodies = service
      .bought()
      .slice(before)
      .map((body) => JSON.stringify(body).toLowerCase())
    expect(bodies).toHaveLength(source.kind === 'walk' ? 0 : 1)
    const { window, slice } = boxFor(source, definitionOf(source))
    const asked = [...Object.values(slice).flat(), window.from.slice(0, 7), '2026-09']
    for (const body of bodies) for (const word of asked) expect(body).toContain(word)
  })

  test('buys nothing when it only estimates', async () => {
    const before = service.bought().length
    const definition = definitionOf(source)
    await source.estimate(
      { definition, box: boxFor(source, definition) },
      { http, log: silentLog, clock: systemClock, signal: new AbortController().signal },
    )
    expect(service.bought()).toHaveLength(before)
  })
})
