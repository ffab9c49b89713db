// A walk over pages that proves its own answer: several pages at once, yielded in order, drift seen.
import { createHash } from 'node:crypto'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { JsonRecords, Payload } from '../core/types.ts'

/** One page as the service sent it, and what it says of itself. */
export interface Page {
  readonly bytes: Buffer
  readonly records: number
  /** Records in all, as announced with this page; null where it announces none. */
  readonly total: number | null
  readonly lastUpdated: string | null
  /** The offset the service says it applied. */
  readonly offset: number | null
  /** Value of the field the service orders by in the first and the last record; null where it cannot be told. */
  readonly order: { readonly first: number; readonly last: number } | null
  /** What tells each record from every other one, in order; absent where the source cannot tell. */
  readonly keys?: readonly string[]
  /** The records, where the source has read them (`parsePage`): they are not read again. */
  readonly parsed?: JsonRecords
}

export interface WalkOptions {
  readonly unitKey: string
  readonly pageSize: number
  readonly maxPages: number
  /** Pages asked for at once; twice as many are held in memory. */
  readonly concurrency: number
  /**
   * null: the service has no data; only asked of the first page.
   * @param arrived to be awaited when the answer is here and before it is looked at: then the next request leaves first
   */
  readonly fetch: (offset: number, limit: number, part: number, arrived: () => Promise<void>) => Promise<Page | null>
  /** Told once when the records do not come in descending order; then the count alone proves the answer whole. */
  readonly onDisorder?: () => void
}

const unstable = (unitKey: string, found: string): EtlError =>
  new EtlError('UNSTABLE', `${unitKey}: ${found} while its pages were read. Nothing was loaded; the next run reads it again.`)

const tooManyPages = ({ unitKey, maxPages }: WalkOptions, found: string): EtlError =>
  new EtlError('TOO_LARGE', `${unitKey}: ${found}; limits.max_pages is ${maxPages}. Raise it, or narrow the slice.`)

/**
 * Yields every page in order, from part 1. Throws UNSTABLE where the pages are not of one answer, TOO_LARGE beyond `maxPages`.
 * Keeps 16 characters a page and the keys of one page; rows seen again further apart are found by the loader's distinct count.
 */
export async function* walkPages(options: WalkOptions): AsyncGenerator<Payload, Completeness, void> {
  const { unitKey, maxPages } = options
  const first = await options.fetch(0, options.pageSize, 1, nothingBehind)
  if (first === null) return completeness(0, null)
  const { total, records } = first
  if (total !== null && records > total) throw unstable(unitKey, `${records} records came where ${total} are announced`)
  const watch = watcher(options, first)
  if (total === null) return yield* walkUntilShort(options, first, watch)
  if (records === 0 && total > 0) throw unstable(unitKey, `the first page is empty though ${total} records are announced`)
  // Whether the limit was lowered or raised, the walk goes on from what came, so that no record is skipped: the announced count
  // proves it in the end.
  const pages = total > records ? Math.ceil(total / records) : 1
  if (pages > maxPages) throw tooManyPages(options, `${total} records are ${pages} pages of ${records}`)
  const ahead = fetchAhead(options, pages, records)
  try {
    yield payload(first, 1)
    for (let index = 1; index < pages; index += 1) {
      const page = await ahead.take(index)
      watch.see(page, index, index * records, Math.min(records, total - index * records))
      yield payload(page, index + 1)
    }
  } finally {
    await ahead.close()
  }
  watch.end()
  return completeness(total, first.lastUpdated)
}

/** A service that announces no count is read until a page is not full. */
async function* walkUntilShort(
  options: WalkOptions,
  first: Page,
  watch: ReturnType<typeof watcher>,
): AsyncGenerator<Payload, Completeness, void> {
  yield payload(first, 1)
  let page = first
  for (let index = 1; page.records > 0 && page.records >= first.records; index += 1) {
    // A first page shorter than asked for is the last one, unless the limit was lowered; only another look can tell.
    if (index >= options.maxPages) throw tooManyPages(options, `there are more than ${options.maxPages} pages`)
    const next = await options.fetch(index * first.records, first.records, index + 1, nothingBehind)
    if (next === null || next.records === 0) break
    watch.see(next, index, index * first.records, null)
    page = next
    yield payload(page, index + 1)
  }
  watch.end()
  return completeness(null, first.lastUpdated)
}

const nothingBehind = async (): Promise<void> => undefined

const completeness = (total: number | null, lastUpdated: string | null): Completeness => ({
  fingerprint: { lastUpdated, count: total },
  expectedRows: total,
  dataPoints: null,
})

const payload = ({ bytes, parsed }: Page, part: number): Payload => ({
  format: 'json',
  part,
  body: once(bytes),
  ...(parsed === undefined ? {} : { records: parsed }),
})

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

/** Of the records where they can be told apart: the same ones under another offset are the same page. */
const digest = (page: Page): string =>
  createHash('sha256')
    .update(page.keys === undefined ? page.bytes : page.keys.join('\u0001'))
    .digest('base64')
    .slice(0, 16)

/** Compares each page with the first one and the one before. `see` throws UNSTABLE. */
const watcher = ({ unitKey, onDisorder }: WalkOptions, first: Page) => {
  const seen = new Set<string>([digest(first)])
  let previous = first
  let descending = descends(null, first)
  return {
    /** @param expected records the page must hold; null where nobody can say. */
    see: (page: Page, index: number, offset: number, expected: number | null): void => {
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
      descending &&= descends(previous, page)
      previous = page
    },
    end: (): void => {
      if (!descending) onDisorder?.()
    },
  }
}

const moved = (before: Page, page: Page): boolean => {
  if (before.keys === undefined || page.keys === undefined) return false
  const keys = new Set(before.keys)
  return page.keys.some((key) => keys.has(key))
}

const descends = (before: Page | null, { order }: Page): boolean => {
  if (order === null) return true
  const last = before?.order?.last ?? Number.POSITIVE_INFINITY
  return last >= order.first && order.first >= order.last
}

const onlyOnce = (work: () => void): (() => void) => {
  let isDone = false
  return () => {
    if (isDone) return
    isDone = true
    work()
  }
}

/** Pages from the second on, asked for before they are taken. */
interface Ahead {
  /** The page at `index`, which grows by one with each call. Throws UNSTABLE where the service has no data for it. */
  take(index: number): Promise<Page>
  /** Nothing is asked for any more; resolves when nothing is on its way. */
  close(): Promise<void>
}

/**
 * Asks for the next page whenever one has come, not when it is taken or looked at: the service is kept busy meanwhile. At
 * most `concurrency` are on their way, and as many again wait to be taken. After a failure nothing more is asked for.
 */
const fetchAhead = ({ unitKey, concurrency, fetch }: WalkOptions, pages: number, size: number): Ahead => {
  const asked = new Map<number, Promise<Page | null>>()
  let next = 1
  let onTheirWay = 0
  let isStopped = false
  const fill = (): void => {
    while (!isStopped && next < pages && onTheirWay < concurrency && asked.size < 2 * concurrency) {
      const free = onlyOnce(() => {
        onTheirWay -= 1
        fill()
      })
      const page = fetch(next * size, size, next + 1, async () => {
        // Not within the call that asks for the page.
        await Promise.resolve()
        free()
        await nextTurn()
      })
      asked.set(next, page)
      next += 1
      onTheirWay += 1
      // A page may fail while an earlier one is awaited; who takes it hears of it in its turn.
      page.then(free, () => {
        isStopped = true
        free()
      })
    }
  }
  fill()
  return {
    take: async (index) => {
      const page = await asked.get(index)
      asked.delete(index)
      fill()
      if (page === undefined || page === null) throw unstable(unitKey, `page ${index + 1} has no data`)
      return page
    },
    close: async () => {
      isStopped = true
      await Promise.allSettled(asked.values())
    },
  }
}
