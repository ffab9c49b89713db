// A walk over pages that proves its own answer: several pages at once, yielded in order, drift seen.
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Completeness } from '../core/completeness.ts'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'
import { type Page, type WalkOptions, unstable, fetchAhead } from './page-reader.ts'

const tooManyPages = ({ unitKey, maxPages }: WalkOptions, found: string): EtlError =>
  new EtlError('TOO_LARGE', `${unitKey}: ${found}; limits.max_pages is ${maxPages}. Raise it, or narrow the slice.`)

/**
 * Yields every page in order, from part 1. Throws UNSTABLE where the pages are not of one answer, TOO_LARGE beyond `maxPages`.
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
    throw tooManyPages(options, `${wanted} records are ${pages} pages of ${records}`)
  }
  const ahead = fetchAhead(options, pages, records, wanted)
  try {
    yield payload(first, 1)
    for (let index = 1; index < pages; index += 1) {
      const page = await ahead.take(index)
      see(page, index, index * records, Math.min(records, wanted - index * records))
      yield payload(page, index + 1)
    }
  } finally {
    for (const [index, page] of await ahead.close()) options.spare?.(payload(page, index + 1))
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
  // A first page shorter than asked for is the last one, unless the limit was lowered; where the service does not say, only another look can tell.
  for (let index = 1; page.records > 0 && page.records >= (page.limit ?? first.records); index += 1) {
    if (index >= options.maxPages) throw tooManyPages(options, `there are more than ${options.maxPages} pages`)
    const left = (options.top ?? Number.POSITIVE_INFINITY) - index * first.records
    if (left <= 0) break
    const next = await options.fetch(index * first.records, Math.min(first.records, left), index + 1, nothingBehind)
    if (next === null || next.records === 0) break
    see(next, index, index * first.records, null)
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

/** Of the records where they can be told apart: the same ones under another offset are the same page. */
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
