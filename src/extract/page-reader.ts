// What a page is, and pages asked for before they are taken, so that the service is kept busy while one is checked.
import { setImmediate as nextTurn } from 'node:timers/promises'
import { EtlError } from '../core/errors.ts'
import type { Payload } from '../core/types.ts'

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
  /** What tells each record from every other one, in order; absent where the source cannot tell. */
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
  /**
   * null: the service has no data; only asked of the first page.
   * @param arrived to be awaited when the answer is here and before it is read: then the next request leaves first
   */
  readonly fetch: (offset: number, limit: number, part: number, arrived: () => Promise<void>) => Promise<Page | null>
  /** Called where the walk ends too early with each page that is here behind one that is not, in order: it was paid for. */
  readonly spare?: ((part: Payload) => void) | undefined
}

/** UNSTABLE: the answer changed while it was read; it is read again from its beginning. */
export const unstable = (unitKey: string, found: string): EtlError =>
  new EtlError('UNSTABLE', `${unitKey}: ${found} while its pages were read. Nothing was loaded; the next run reads it again.`)

/**
 * Pages from the second on. Asks for the next page whenever one has come, not when it is taken or read: the service is kept busy meanwhile. At
 * most `concurrency` are on their way, and as many again wait to be taken. After a failure nothing more is asked for.
 */
export const fetchAhead = ({ unitKey, concurrency, fetch }: WalkOptions, pages: number, size: number, total: number) => {
  const asked = new Map<number, Promise<Page | null>>()
  let next = 1
  let onTheirWay = 0
  let isStopped = false
  const fill = (): void => {
    while (!isStopped && next < pages && onTheirWay < concurrency && asked.size < 2 * concurrency) {
      let isHere = false
      const free = (): void => {
        if (!isHere) onTheirWay -= 1
        isHere = true
        fill()
      }
      // The last one asks for what is left: what is asked for may be paid for.
      const page = fetch(next * size, Math.min(size, total - next * size), next + 1, async () => {
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
    /** The page at `index`, which grows by one with each call. Throws UNSTABLE where the service has no data for it. */
    take: async (index: number): Promise<Page> => {
      const page = await asked.get(index)
      asked.delete(index)
      fill()
      if (page === undefined || page === null) throw unstable(unitKey, `page ${index + 1} has no data`)
      return page
    },
    /** Nothing is asked for any more; when nothing is on its way, the pages that came and were not taken, by index. */
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
