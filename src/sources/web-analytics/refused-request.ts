// Decides what a refused page or report means: where the words fit several causes a free request decides, never a guess (api-facts G 61 to 63).
import { type EtlError, isEtlError } from '../../core/errors.ts'
import type { Dataset } from '../../core/source-spec.ts'
import type { Box } from '../../core/types.ts'
import { addWindows, isPublished, windowsBetween } from '../../core/window.ts'
import type { ExtractRequest, ProbeContext } from '../../extract/source.ts'
import { dialectOf } from './service-dialect.ts'
import { capabilities, credits, describe } from './discovery.ts'
import { errorOf, type Meaning, meaningOf, type Place, type Refusal, refusalText, type Verdict } from './refusal-table.ts'

const dayMs = 24 * 3_600_000

/** Where a page or a report was refused. */
export interface RefusedAt {
  readonly place: Exclude<Place, 'free'>
  /** The endpoint that buys, even if another one refused. */
  readonly endpoint: string
  readonly request: ExtractRequest
  readonly context: ProbeContext
}

/**
 * null: the service has no data for it, which is an answer. Sends a free request where the words fit several causes.
 * @param said a sentence with the endpoint and its answer; default: made from both
 */
export const refusedWith = async (at: RefusedAt, refusal: Refusal, said?: string): Promise<EtlError | null> => {
  const verdict = await decided(at, refusal)
  if (verdict.meaning === 'no data') return null
  const { request, context, endpoint } = at
  const notBefore = verdict.meaning === 'not published' ? context.clock.now() + dayMs : undefined
  const error = errorOf(refusal, `${request.box.key}: ${said ?? refusalText(endpoint, refusal)}`, verdict, notBefore)
  const { follows } = error
  const isByCountry =
    follows?.next === 'split' &&
    follows.about === 'dates' &&
    verdict.isForAll !== true &&
    Array.isArray(request.box.slice['country'])
  // Each country has its own first and last day (76).
  return isByCountry ? error.with(error.message, { follows: { ...follows, by: 'country' } }) : error
}

/** @returns isForAll: the service has the month for no country, as it says itself */
const decided = async (at: RefusedAt, refusal: Refusal): Promise<Verdict & { readonly isForAll?: boolean }> => {
  const meaning = meaningOf(refusal, at.place)
  switch (meaning) {
    case 'dates?': {
      const range = await rangeOf(at)
      return { meaning: datesOf(at, range), isForAll: isBehind(range, at.request.box) }
    }
    case 'key or credits?':
      return { meaning: (await keyWorks(at)) === false ? 'key refused' : 'out of credits' }
    case 'key or data?':
      return { meaning: (await keyWorks(at)) === true ? 'no data' : 'key refused' }
    case 'no such table':
      // Listed and refused: it has ended, and what is older may still be had (marketing_channels, part G, "Tables").
      return { meaning, hasParts: (await rangeOf(at)) !== null }
    case 'plan lacks':
      return { meaning, hasParts: refusal.code !== 'FORBIDDEN_ERROR' || (await isAValue(at)) }
    default:
      return { meaning }
  }
}

/** null: a free request failed and tells nothing. A stop or cancel of the run is thrown again. */
const unless = (error: unknown): null => {
  if (isEtlError(error) && (error.code === 'INTERRUPTED' || error.code === 'CANCELLED')) throw error
  return null
}

/** null: unknown. */
const keyWorks = ({ place, context: { http } }: RefusedAt): Promise<boolean | null> =>
  // Where capabilities are not offered there is one key for both.
  (place === 'rest' && dialectOf(http).paths.capabilities !== null ? capabilities(http) : credits(http))
    .then((said) => (said === null ? null : true))
    .catch((error: unknown) => (isEtlError(error) && error.code === 'KEY_REFUSED' ? false : unless(error)))

/** Months, YYYY-MM; null where the service does not say. */
type Range = Pick<Dataset, 'from' | 'to'>

/** The months that the service says it has: of pages by its capabilities, of a dataset by its description. null: it does not say. */
const rangeOf = async ({ place, request, context: { http } }: RefusedAt): Promise<Range | null> => {
  if (place === 'rest') {
    const families = (await capabilities(http).catch(unless))?.families ?? []
    return families.length === 0 ? null : { from: ends(families, 'from')[0] ?? null, to: ends(families, 'to').at(-1) ?? null }
  }
  const { vtable } = request.definition.params
  const table = vtable === undefined ? undefined : (await describe(http).catch(unless))?.find((one) => one.table === vtable)
  return table === undefined ? null : { from: table.from, to: table.to }
}

const ends = (families: readonly Range[], name: 'from' | 'to'): string[] =>
  families.flatMap((family) => family[name]?.slice(0, 7) ?? []).sort()

/** The newest month comes one to two months after its end (74); a dataset that is further behind has ended. */
const mostMonthsBehind = 3

/** The three causes of one text (63), told apart by the range the service names, else by the calendar. */
const datesOf = ({ request: { definition, box }, context }: RefusedAt, range: Range | null): Meaning => {
  const { every, publication } = definition.window
  const now = context.clock.now()
  const first = box.window.from.slice(0, 7)
  if (range?.to != null && isBehind(range, box)) {
    const behind = addWindows(`${range.to}-01`, 'month', mostMonthsBehind)
    return isPublished({ from: behind, to: addWindows(behind, 'month', 1) }, publication, now) ? 'no such table' : 'not published'
  }
  if (range?.from != null && first < range.from) return 'before history'
  if (windowsBetween(box.window.from, box.window.to, every).length > 1) return 'span too long'
  // The newest month may come a little late. A month whose successor is published is not late: it is older than the history.
  const next = { from: box.window.to, to: addWindows(box.window.to, every, 1) }
  return isPublished(next, publication, now) ? 'before history' : 'not published'
}

const isBehind = (range: Range | null, { window }: Box): boolean =>
  range?.to != null && addWindows(window.to, 'day', -1).slice(0, 7) > range.to

const taken = new Set<string>()

const datasetOf = ({ endpoint, request: { definition }, context: { http } }: RefusedAt): string =>
  [http.origin, definition.account, endpoint, definition.params['vtable'] ?? ''].join(' ')

/** Remembers that the account's plan has the dataset. */
export const rememberOffered = (at: RefusedAt): void => void taken.add(datasetOf(at))

/** Whether the plan lacks a value only: so for a dataset that was taken before or is described; on a first call it lacks the dataset (62). */
const isAValue = async (at: RefusedAt): Promise<boolean> => taken.has(datasetOf(at)) || (await rangeOf(at)) !== null
