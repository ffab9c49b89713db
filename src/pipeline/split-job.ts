// A report that is refused as a whole, or is dearer than a budget has left: cut by windows, then by values, until what is refused stands alone.
import { addWindows, windowsBetween } from '../core/window.ts'
import type { Window, WindowSize } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob } from '../ledger/claim.ts'
import type { JobPart } from '../ledger/replace-job.ts'
import { sliceValues } from '../ledger/slice-values.ts'

/** The same box whole (`again`), or its two halves (`split`). */
export const partsOf = async (db: Db, claim: ClaimedJob, how: 'again' | 'split'): Promise<readonly JobPart[]> => {
  const { window } = claim.box
  if (how === 'again') return [{ sliceIds: claim.sliceIds, window }]
  const byWindow = halvesOfSpan(window, claim.windowEvery)
  // The newer half first: it is what comes first when quota runs short.
  if (byWindow !== null) return byWindow.toReversed().map((half) => ({ sliceIds: claim.sliceIds, window: half }))
  const values = await sliceValues(db, claim.sliceIds)
  return halvesOfSlices(values).map((sliceIds) => ({ sliceIds, window }))
}

/** null: it is one window. */
export const halvesOfSpan = (span: Window, every: WindowSize): readonly [Window, Window] | null => {
  const count = windowsBetween(span.from, span.to, every).length
  if (count < 2) return null
  const middle = addWindows(span.from, every, Math.floor(count / 2))
  return [
    { from: span.from, to: middle },
    { from: middle, to: span.to },
  ]
}

/** Cut by the dimension with most values, so that each half is every combination of its values again. */
export const halvesOfSlices = (slices: ReadonlyMap<number, readonly string[]>): readonly (readonly number[])[] => {
  const [first] = slices.values()
  const lists = (first ?? []).map((_, place) => [...new Set([...slices.values()].map((values) => values[place] ?? ''))].sort())
  const place = lists.reduce((best, list, index) => (list.length > (lists[best]?.length ?? 0) ? index : best), 0)
  const list = lists[place] ?? []
  const left = new Set(list.slice(0, Math.ceil(list.length / 2)))
  const halves = Map.groupBy(slices.keys(), (id) => left.has(slices.get(id)?.[place] ?? ''))
  return [...halves.values()]
}
