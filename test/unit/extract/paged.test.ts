import { describe, expect, test } from 'vitest'
import type { Completeness } from '../../../src/core/completeness.ts'
import { type Page, type WalkOptions, walkPages } from '../../../src/extract/paged.ts'

const size = 3

/** A page of records that are named by their number in the whole answer. */
const pageAt = (offset: number, total: number | null, more: Partial<Page> = {}, limit = size): Page => {
  const records = Math.max(0, Math.min(limit, (total ?? 0) - offset))
  const keys = Array.from({ length: records }, (_, index) => `row ${offset + index}`)
  return { bytes: Buffer.from(keys.join()), records, total, lastUpdated: '2026-02-01', offset, keys, ...more }
}

const walk = (options: Partial<WalkOptions> & Pick<WalkOptions, 'fetch'>) =>
  walkPages({ unitKey: 'keywords_v1/a.com', pageSize: size, maxPages: 100, concurrency: 2, ...options })

const readAll = async (
  pages: ReturnType<typeof walkPages>,
): Promise<{ bodies: string[]; parts: number[]; end: Completeness }> => {
  const bodies: string[] = []
  const parts: number[] = []
  for (;;) {
    const next = await pages.next()
    if (next.done === true) return { bodies, parts, end: next.value }
    parts.push(next.value.part)
    for await (const bytes of next.value.body) bodies.push(Buffer.from(bytes).toString())
  }
}

/** Answers when told to, in whatever order. */
const heldService = (total: number) => {
  const asked: number[] = []
  const held = new Map<number, PromiseWithResolvers<Page | null>>()
  return {
    asked,
    fetch: (offset: number): Promise<Page | null> => {
      const answer = Promise.withResolvers<Page | null>()
      asked.push(offset)
      held.set(offset, answer)
      return answer.promise
    },
    answer: (offset: number): void => held.get(offset)?.resolve(pageAt(offset, total)),
    fail: (offset: number): void => held.get(offset)?.reject(new Error(`no ${offset}`)),
  }
}

/** Lets everything happen that does not wait for an answer. */
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('a walk over pages', () => {
  test('yields every page in order and what proves it whole', async () => {
    const { bodies, parts, end } = await readAll(walk({ fetch: async (offset) => pageAt(offset, 7) }))
    expect(bodies).toEqual(['row 0,row 1,row 2', 'row 3,row 4,row 5', 'row 6'])
    expect(parts).toEqual([1, 2, 3])
    expect(end).toEqual({ fingerprint: { lastUpdated: '2026-02-01', count: 7 }, expectedRows: 7, dataPoints: null })
  })

  test('that announces no count ends with a page below the limit it was given, which costs no further look', async () => {
    const asked: number[] = []
    const uncounted = (total: number, limit: number | null) => async (offset: number) => {
      asked.push(offset)
      return { ...pageAt(offset, total), total: null, limit }
    }
    expect((await readAll(walk({ fetch: uncounted(2, size) }))).parts).toEqual([1])
    expect((await readAll(walk({ fetch: uncounted(5, size) }))).parts).toEqual([1, 2])
    expect(asked.splice(0)).toEqual([0, 0, 3])
    expect((await readAll(walk({ fetch: uncounted(2, null) }))).parts).toEqual([1])
    expect(asked).toEqual([0, 2])
  })

  test('asks for the second page alone until one came as it was asked for, where it is not known what an offset counts', async () => {
    const paging = { isProved: false }
    const asked: number[] = []
    // Takes the offset for the number of a page.
    const pageNumbers = async (offset: number) => {
      asked.push(offset)
      return { ...pageAt(offset * size, 9), offset: null }
    }
    await expect(readAll(walk({ fetch: pageNumbers, concurrency: 4, paging }))).rejects.toThrow(
      'the page at 3 holds 0 records instead of 3',
    )
    expect([asked, paging.isProved]).toEqual([[0, 3], false])
    const service = heldService(15)
    const reading = readAll(walk({ fetch: service.fetch, concurrency: 4, paging }))
    const sent: number[][] = []
    for (const offsets of [[0], [3], [6, 9, 12]]) {
      await settled()
      sent.push([...service.asked])
      for (const offset of offsets) service.answer(offset)
    }
    expect((await reading).parts).toEqual([1, 2, 3, 4, 5])
    expect(sent).toEqual([[0], [0, 3], [0, 3, 6, 9, 12]])
    // The next walk knows.
    const next = heldService(15)
    const again = walk({ fetch: next.fetch, concurrency: 4, paging }).next()
    next.answer(0)
    await settled()
    expect(next.asked).toEqual([0, 3, 6, 9, 12])
    await again
  })

  test('yields them in order however they arrive', async () => {
    const service = heldService(9)
    const reading = readAll(walk({ fetch: service.fetch }))
    service.answer(0)
    await settled()
    service.answer(6)
    await settled()
    service.answer(3)
    expect((await reading).parts).toEqual([1, 2, 3])
  })

  test('goes on from what came where the service lowers the limit', async () => {
    const asked: [number, number][] = []
    const fetch: WalkOptions['fetch'] = async (offset, limit) => {
      asked.push([offset, limit])
      return pageAt(offset, 5, {}, Math.min(limit, 2))
    }
    expect((await readAll(walk({ fetch }))).bodies.join()).toBe('row 0,row 1,row 2,row 3,row 4')
    expect(asked).toEqual([
      [0, 3],
      [2, 2],
      [4, 1],
    ])
  })

  test('is complete and empty where the service has no data', async () => {
    expect((await readAll(walk({ fetch: async () => null }))).end.expectedRows).toBe(0)
  })

  test('reads until a page is not full where no count is announced', async () => {
    const announced = 7
    const fetch: WalkOptions['fetch'] = async (offset) => ({ ...pageAt(offset, announced), total: null })
    const { parts, end } = await readAll(walk({ fetch }))
    expect(parts).toEqual([1, 2, 3])
    expect(end.expectedRows).toBeNull()
  })

  test('refuses an answer of more pages than allowed before it asks for them, and keeps the first', async () => {
    const service = heldService(300)
    const pages = walk({ fetch: service.fetch, maxPages: 99 })
    const first = pages.next()
    service.answer(0)
    expect(await first).toMatchObject({ value: { part: 1 } })
    await expect(pages.next()).rejects.toMatchObject({ code: 'TOO_MANY_PAGES' })
    expect(service.asked).toEqual([0])
  })
})

describe('pages asked for ahead', () => {
  test('begin while the first one is still being taken', async () => {
    const service = heldService(9)
    const pages = walk({ fetch: service.fetch })
    const first = pages.next()
    service.answer(0)
    await first
    expect(service.asked).toEqual([0, 3, 6])
    for (const offset of [3, 6]) service.answer(offset)
    await pages.return({ fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null })
  })

  test('follow each other as they arrive, not as they are taken, a bounded number of them', async () => {
    const service = heldService(100)
    const pages = walk({ fetch: service.fetch })
    const first = pages.next()
    service.answer(0)
    await first
    service.answer(6)
    await settled()
    // One of two is still on its way, so there is room for one more.
    expect(service.asked).toEqual([0, 3, 6, 9])
    for (const offset of [3, 9, 12]) {
      service.answer(offset)
      await settled()
    }
    // Four are held and none was taken.
    expect(service.asked).toEqual([0, 3, 6, 9, 12])
    await pages.next()
    expect(service.asked).toEqual([0, 3, 6, 9, 12, 15])
    service.answer(15)
    await pages.return({ fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null })
  })

  test('leave when an answer is here, before it is looked at', async () => {
    const steps: string[] = []
    const fetch: WalkOptions['fetch'] = async (offset, _limit, _part, arrived) => {
      steps.push(`ask ${offset}`)
      await arrived()
      steps.push(`look at ${offset}`)
      return pageAt(offset, 12)
    }
    expect((await readAll(walk({ fetch, concurrency: 1 }))).parts).toEqual([1, 2, 3, 4])
    expect(steps.indexOf('ask 6')).toBeLessThan(steps.indexOf('look at 3'))
    expect(steps.filter((step) => step.startsWith('ask'))).toEqual(['ask 0', 'ask 3', 'ask 6', 'ask 9'])
  })

  test('end with the first failure, which is told when its page is due', async () => {
    const service = heldService(100)
    const pages = walk({ fetch: service.fetch })
    const first = pages.next()
    service.answer(0)
    await first
    service.fail(6)
    await settled()
    service.answer(3)
    await settled()
    expect((await pages.next()).value).toMatchObject({ part: 2 })
    await expect(pages.next()).rejects.toThrow('no 6')
    expect(service.asked).toEqual([0, 3, 6])
  })

  test('do not outlive the walk', async () => {
    const service = heldService(100)
    const pages = walk({ fetch: service.fetch })
    const first = pages.next()
    service.answer(0)
    await first
    let isClosed = false
    const closing = pages
      .return({ fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null })
      .then(() => (isClosed = true))
    service.answer(3)
    await settled()
    expect(isClosed).toBe(false)
    service.fail(6)
    await closing
    expect(service.asked).toEqual([0, 3, 6])
  })
})

describe('an answer that does not hold still is refused', () => {
  const changed: Readonly<Record<string, (offset: number) => Page | null>> = {
    'the announced count went from 9 to 10': (offset) => pageAt(offset, offset === 6 ? 10 : 9),
    'last_updated went from 2026-02-01 to 2026-02-02': (offset) =>
      pageAt(offset, 9, offset === 6 ? { lastUpdated: '2026-02-02' } : {}),
    'a page for offset 6 came as 3': (offset) => pageAt(offset, 9, offset === 6 ? { offset: 3 } : {}),
    'the page at 3 holds 2 records instead of 3': (offset) => pageAt(offset, 9, offset === 3 ? { records: 2 } : {}),
    'page 3 repeats an earlier page': (offset) => pageAt(offset === 6 ? 0 : offset, 9, { offset }),
    'a record of page 2 came again on page 3: rows moved': (offset) =>
      pageAt(offset, 9, offset === 6 ? { keys: ['row 5', 'row 6', 'row 7'] } : {}),
    'page 2 has no data': (offset) => (offset === 3 ? null : pageAt(offset, 9)),
    '5 records came where 4 are announced': (offset) => pageAt(offset, 4, { records: 5 }),
    'the first page is empty though 9 records are announced': (offset) => pageAt(offset, 9, { records: 0 }),
  }

  test.each(Object.keys(changed))('%s', async (found) => {
    const fetch: WalkOptions['fetch'] = async (offset) => changed[found]?.(offset) ?? null
    await expect(readAll(walk({ fetch }))).rejects.toMatchObject({ code: 'UNSTABLE', message: expect.stringContaining(found) })
  })

  test('the bytes tell a repeated page where the records cannot', async () => {
    const fetch: WalkOptions['fetch'] = async (offset) => {
      const { keys: _, ...page } = pageAt(offset === 6 ? 0 : offset, 9)
      return { ...page, offset }
    }
    await expect(readAll(walk({ fetch }))).rejects.toThrow('page 3 repeats an earlier page')
  })
})
