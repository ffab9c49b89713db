// A walk over pages that proves its own answer: several pages at once, yielded in order, drift seen.
import { createHash } from 'node:crypto'
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'

/** One page as the service sent it, and what it says of itself. */
export interface Page {
  readonly bytes: Buffer
  readonly records: number
  /** Records in all, as announced with this page; null where it announces none. */
  readonly total: number | null
  readonly lastUpdated: string | null
  /** The limit and offset the service says it applied. */
  readonly limit: number | null
  readonly offset: number | null
  /** Value of the field the service orders by in the first and the last record; null where it cannot be told. */
  readonly order: { readonly first: number; readonly last: number } | null
}

export interface WalkOptions {
  readonly unitKey: string
  readonly pageSize: number
  readonly maxPages: number
  /** Pages asked for at once; as many are held in memory. */
  readonly concurrency: number
  /** null: the service has no data; only asked of the first page. */
  readonly fetch: (offset: number, limit: number, part: number) => Promise<Page | null>
  /** Told once when the records do not come in descending order; then the count alone proves the answer whole. */
  readonly onDisorder?: () => void
}

const unstable = (unitKey: string, found: string): EtlError =>
  new EtlError('UNSTABLE', `${unitKey}: ${found} while its pages were read. Nothing was loaded; the next run reads it again.`)

/** Yields every page in order. Throws UNSTABLE where the pages are not of one answer, TOO_LARGE beyond `maxPages`. */
export async function* walkPages(options: WalkOptions): AsyncGenerator<Payload, Completeness, void> {
  const first = await options.fetch(0, options.pageSize, 1)
  if (first === null) return completeness(0, null)
  const size = stride(first, options)
  const seen = new Set<string>([digest(first)])
  let inOrderSoFar = descends(first, first)
  let previous = first
  yield payload(first, 1)
  if (first.total === null) return yield* walkUntilShort(options, first, size)
  const pages = first.total === 0 ? 1 : Math.ceil(first.total / size)
  if (pages > options.maxPages) {
    throw new EtlError(
      'TOO_LARGE',
      `${options.unitKey}: ${first.total} records are ${pages} pages of ${size}; limits.max_pages is ${options.maxPages}. Raise it, or narrow the slice.`,
    )
  }
  for await (const [page, index] of inOrder(options, pages, size)) {
    check(options, first, page, index * size, size)
    const mark = digest(page)
    if (page.records > 0 && seen.has(mark)) throw unstable(options.unitKey, `page ${index + 1} repeats an earlier page`)
    seen.add(mark)
    inOrderSoFar &&= descends(previous, page)
    previous = page
    yield payload(page, index + 1)
  }
  if (first.records > first.total)
    throw unstable(options.unitKey, `${first.records} records came where ${first.total} are announced`)
  if (!inOrderSoFar) options.onDisorder?.()
  return completeness(first.total, first.lastUpdated)
}

const descends = (before: Page, page: Page): boolean =>
  page.order === null ||
  (page.order.first >= page.order.last && (before === page || before.order === null || before.order.last >= page.order.first))

const completeness = (total: number | null, lastUpdated: string | null): Completeness => ({
  fingerprint: { lastUpdated, count: total },
  expectedRows: total,
  dataPoints: null,
})

const payload = (page: Page, part: number): Payload => ({ format: 'json', part, body: once(page.bytes) })

async function* once(bytes: Buffer): AsyncGenerator<Uint8Array> {
  yield bytes
}

const digest = (page: Page): string => createHash('sha256').update(page.bytes).digest('base64').slice(0, 16)

/** Records a page really holds: a service that lowers the limit is followed at its own pace, so that no record is skipped. */
const stride = (first: Page, { pageSize, unitKey }: WalkOptions): number => {
  const more = first.total !== null && first.total > first.records
  if (!more || first.records >= pageSize) return pageSize
  if (first.records === 0) throw unstable(unitKey, `the first page is empty though ${first.total} records are announced`)
  // Whether the limit was lowered or rows are missing, the walk goes on from what came: the announced count proves it in the end.
  return first.records
}

const check = (options: WalkOptions, first: Page, page: Page, offset: number, size: number): void => {
  const { unitKey } = options
  if (page.total !== first.total) throw unstable(unitKey, `the announced count went from ${first.total} to ${page.total}`)
  if (page.lastUpdated !== first.lastUpdated)
    throw unstable(unitKey, `last_updated went from ${first.lastUpdated} to ${page.lastUpdated}`)
  if (page.offset !== null && page.offset !== offset)
    throw unstable(unitKey, `a page for offset ${offset} came as ${page.offset}`)
  const expected = Math.min(size, (first.total ?? 0) - offset)
  if (page.records !== expected)
    throw unstable(unitKey, `the page at ${offset} holds ${page.records} records instead of ${expected}`)
}

/** Pages 2 and on, fetched ahead by `concurrency`, handed on in order. */
async function* inOrder(options: WalkOptions, pages: number, size: number): AsyncGenerator<[Page, number]> {
  const ahead = new Map<number, Promise<Page | null>>()
  let next = 1
  const fill = (): void => {
    while (next < pages && ahead.size < options.concurrency) {
      const page = options.fetch(next * size, size, next + 1)
      // A later page may fail while an earlier one is awaited; it is looked at in its turn.
      page.catch(() => undefined)
      ahead.set(next, page)
      next += 1
    }
  }
  for (let index = 1; index < pages; index += 1) {
    fill()
    const page = await ahead.get(index)
    ahead.delete(index)
    fill()
    if (page === undefined || page === null) throw unstable(options.unitKey, `page ${index + 1} has no data`)
    yield [page, index]
  }
}

/** A service that announces no count is read until a page is not full. */
async function* walkUntilShort(options: WalkOptions, first: Page, size: number): AsyncGenerator<Payload, Completeness, void> {
  let page = first
  for (let index = 1; page.records >= size; index += 1) {
    if (index >= options.maxPages)
      throw new EtlError('TOO_LARGE', `${options.unitKey}: more than ${options.maxPages} pages (limits.max_pages).`)
    const next = await options.fetch(index * size, size, index + 1)
    if (next === null) break
    page = next
    yield payload(page, index + 1)
  }
  return completeness(null, first.lastUpdated)
}
