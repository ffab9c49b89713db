// Pages through an answer and proves it: several pages are requested ahead, so that the service is kept busy while one is checked; they are yielded in order,
// and changes in between are found.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** One page as the service sent it, and what it says of itself. */
export interface Page {
  readonly bytes: Buffer
  readonly records: number
  /** Records in all, as announced with this page; null where it announces none. */
  readonly total: number | null
  readonly lastUpdated: string | null
  /** Version of the data or of their method; absent or null: the service names none. */
  readonly dataVersion?: string | null
  /** The limit the service says it applied; absent or null: it does not say. A page of fewer records is the last. */
  readonly limit?: number | null
  /** The offset the service says it applied. */
  readonly offset: number | null
  /** A key of each record, in order; absent where the source cannot tell records apart. */
  readonly keys?: readonly string[]
}

/** How pages of one unit are read. */
export interface WalkOptions {
  readonly unitKey: string
  readonly pageSize: number
  readonly maxPages: number
  /** Only the first so many records are wanted. Default: all. */
  readonly top?: number
  /** Pages asked for at once; twice as many are held in memory. */
  readonly concurrency: number
  /** Shared by walks over an endpoint: until a second page came as requested, no page behind it is requested. Default: offsets are known to count records. */
  readonly paging?: { isProved: boolean }
  /**
   * null: the service has no data; only the first page may say so.
   * @param arrived await it when the answer is here and before it is read: then the next request leaves first
   */
  readonly fetch: (offset: number, limit: number, part: number, arrived: () => Promise<void>) => Promise<Page | null>
  /** Where the walk ends early, called with each page that came behind a missing one, in order: it was paid for. */
  readonly keepPart?: ((part: Payload) => void) | undefined
}

/** UNSTABLE: the answer changed while it was read; it is read again from its beginning. */
export const unstable = (unitKey: string, found: string): EtlError =>
  new EtlError('UNSTABLE', `${unitKey}: ${found} while its pages were read. Nothing was loaded; the next run reads it again.`)

/**
 * Pages from the second on. Requests the next page as soon as one has come, not when it is taken or read, so that the service is kept busy. At
 * most `concurrency` are in flight, and as many again wait to be taken. After a failure no more are requested.
 */
const fetchAhead = ({ unitKey, concurrency, paging, fetch }: WalkOptions, pages: number, size: number, total: number) => {
  const asked = new Map<number, Promise<Page | null>>()
  let next = 1
  let onTheirWay = 0
  let isStopped = false
  const fill = (): void => {
    const isOpen = (): boolean => next === 1 || paging?.isProved !== false
    while (!isStopped && next < pages && onTheirWay < concurrency && asked.size < 2 * concurrency && isOpen()) {
      let isHere = false
      const free = (): void => {
        if (!isHere) onTheirWay -= 1
        isHere = true
        fill()
      }
      // The last page requests only the records that are left: requested records may be paid for.
      const page = fetch(next * size, Math.min(size, total - next * size), next + 1, async () => {
        // Not within the call of `fetch`, which must return first.
        await Promise.resolve()
        free()
        await nextTurn()
      })
      asked.set(next, page)
      next += 1
      onTheirWay += 1
      // A page may fail while an earlier one is awaited; `take` throws its error in its turn.
      page.then(free, () => {
        isStopped = true
        free()
      })
    }
  }
  fill()
  return {
    /** The second page came as it was asked for. */
    prove: (): void => {
      if (paging !== undefined) paging.isProved = true
      fill()
    },
    /** The page at `index`, which grows by one with each call. Throws UNSTABLE where the service has no data for it. */
    take: async (index: number): Promise<Page> => {
      const page = await asked.get(index)
      asked.delete(index)
      fill()
      if (page === undefined || page === null) throw unstable(unitKey, `page ${index + 1} has no data`)
      return page
    },
    /** Stops requesting. Resolves when nothing is in flight, with the pages that came and were not taken, by index. */
    close: async (): Promise<ReadonlyMap<number, Page>> => {
      isStopped = true
      const came = new Map<number, Page>()
      for (const [index, page] of asked) {
        const here = await page.catch(() => null)
        if (here !== null) came.set(index, here)
      }
      return came
    },
  }
}

const tooManyPages = ({ unitKey, maxPages }: WalkOptions, found: string): string =>
  `${unitKey}: ${found}; limits.max_pages is ${maxPages}. Raise it, or narrow the slice`

/**
 * Yields every page in order, from part 1. Throws UNSTABLE where the pages are not of one answer, TOO_LARGE beyond `maxPages`, TOO_MANY_PAGES where
 * the first page says so: it alone is paid for again by --force (`job-decision.ts`).
 * Keeps 16 characters a page and the keys of one page; rows seen again further apart are found by the loader's distinct count.
 */
export async function* walkPages(options: WalkOptions): AsyncGenerator<Payload, Completeness, void> {
  const { unitKey, maxPages } = options
  const { top = Number.POSITIVE_INFINITY } = options
  const first = await options.fetch(0, Math.min(options.pageSize, top), 1, nothingBehind)
  if (first === null) return completeness(0)
  const { total, records } = first
  if (total !== null && records > total) throw unstable(unitKey, `${records} records came where ${total} are announced`)
  const see = watcher(options, first)
  if (total === null) return yield* walkUntilShort(options, first, see)
  if (records === 0 && total > 0) throw unstable(unitKey, `the first page is empty though ${total} records are announced`)
  // Whether the limit was lowered or raised, the walk goes on from what came, so that no record is skipped: the announced count
  // proves it in the end.
  const wanted = Math.min(total, top)
  const pages = wanted > records ? Math.ceil(wanted / records) : 1
  if (pages > maxPages) {
    // It was paid for.
    yield payload(first, 1)
    const found = tooManyPages(options, `${wanted} records are ${pages} pages of ${records}`)
    throw new EtlError('TOO_MANY_PAGES', `${found}; where the number is wrong, \`millrace backfill … --force\` asks again.`)
  }
  const ahead = fetchAhead(options, pages, records, wanted)
  try {
    yield payload(first, 1)
    for (let index = 1; index < pages; index += 1) {
      const page = await ahead.take(index)
      see(page, index, index * records, Math.min(records, wanted - index * records))
      if (index === 1) ahead.prove()
      yield payload(page, index + 1)
    }
  } finally {
    for (const [index, page] of await ahead.close()) options.keepPart?.(payload(page, index + 1))
  }
  return { ...completeness(total, first), expectedRows: wanted }
}

/** A service that announces no count is read until a page is not full. */
async function* walkUntilShort(
  options: WalkOptions,
  first: Page,
  see: ReturnType<typeof watcher>,
): AsyncGenerator<Payload, Completeness, void> {
  yield payload(first, 1)
  let page = first
  // A first page shorter than asked for is the last one, unless the limit was lowered; where the service does not say, only another request can tell.
  for (let index = 1; page.records > 0 && page.records >= (page.limit ?? first.records); index += 1) {
    if (index >= options.maxPages)
      throw new EtlError('TOO_LARGE', `${tooManyPages(options, `there are more than ${options.maxPages} pages`)}.`)
    const left = (options.top ?? Number.POSITIVE_INFINITY) - index * first.records
    if (left <= 0) break
    const next = await options.fetch(index * first.records, Math.min(first.records, left), index + 1, nothingBehind)
    if (next === null || next.records === 0) {
      // There are exactly as many records as a page holds; or more, where an offset counts pages.
      if (index === 1 && options.paging?.isProved === false && first.records === options.pageSize)
        throw new EtlError(
          'UNUSABLE',
          `${options.unitKey}: the first page is full and the next one is empty, so there may be more. Nothing was loaded, and it is not requested again ` +
            'automatically. Write another limits.page_size, then: `millrace backfill … --force`.',
        )
      break
    }
    see(next, index, index * first.records, null)
    if (options.paging !== undefined) options.paging.isProved = true
    page = next
    yield payload(page, index + 1)
  }
  return completeness(null, first)
}

const nothingBehind = async (): Promise<void> => undefined

const completeness = (total: number | null, first?: Page): Completeness => ({
  fingerprint: { lastUpdated: first?.lastUpdated ?? null, count: total, dataVersion: first?.dataVersion },
  expectedRows: total,
  dataPoints: null,
})

const payload = ({ bytes }: Page, part: number): Payload => ({ format: 'json', part, body: Readable.from([bytes]) })

/** Hashes the keys of the records where there are any: the same records under another offset are the same page. */
const digest = (page: Page): string =>
  createHash('sha256')
    .update(page.keys === undefined ? page.bytes : page.keys.join('\u0001'))
    .digest('base64')
    .slice(0, 16)

/** Compares each page with the first one and the one before; throws UNSTABLE. */
const watcher = ({ unitKey }: WalkOptions, first: Page) => {
  const seen = new Set<string>([digest(first)])
  let previous = first
  /** @param expected records the page must hold; null where unknown. */
  return (page: Page, index: number, offset: number, expected: number | null): void => {
    if (page.total !== first.total) throw unstable(unitKey, `the announced count went from ${first.total} to ${page.total}`)
    if (page.lastUpdated !== first.lastUpdated)
      throw unstable(unitKey, `last_updated went from ${first.lastUpdated} to ${page.lastUpdated}`)
    if (page.offset !== null && page.offset !== offset)
      throw unstable(unitKey, `a page for offset ${offset} came as ${page.offset}`)
    if (expected !== null && page.records !== expected)
      throw unstable(unitKey, `the page at ${offset} holds ${page.records} records instead of ${expected}`)
    const mark = digest(page)
    if (page.records > 0 && seen.has(mark)) throw unstable(unitKey, `page ${index + 1} repeats an earlier page`)
    seen.add(mark)
    if (moved(previous, page)) throw unstable(unitKey, `a record of page ${index} came again on page ${index + 1}: rows moved`)
    previous = page
  }
}

const moved = (before: Page, page: Page): boolean => {
  if (before.keys === undefined || page.keys === undefined) return false
  const keys = new Set(before.keys)
  return page.keys.some((key) => keys.has(key))
}
