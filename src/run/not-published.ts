// A whole window that an answer of several has no row for, at the end of what the service may have published: it waits, and is not taken for one without data.
import { EtlError } from '../core/errors.ts'
import { isPublishedByDay, showSpan, windowAt } from '../core/window.ts'
import type { Db } from '../db/tables.ts'
import { windowsAnswered } from '../ledger/windows.ts'
import type { Held, Tally } from './hold-units.ts'
import type { Loading } from './job-work.ts'

/** So many values with rows in the window before tell that one without any is not there: a single one may have come to its end. */
const fewestValues = 3

/**
 * The service cuts what is asked for at its newest window (api-facts 75). Throws NOT_PUBLISHED where the answer ends before its last windows, which have never
 * been answered, and no later one was to be published when it was asked for. Asked for alone, a window without rows has none: so none is bought each night.
 */
export const refuseUnpublished = async (
  db: Db,
  loading: Loading,
  loaded: readonly Tally[],
  held: readonly Held[],
): Promise<void> => {
  const { work, answer, units } = loading
  const { claim, definition } = work
  const reached = [...loaded, ...held].reduce(
    (last, { rows, refused, window }) => (rows + refused > 0 ? Math.max(last, window) : last),
    -1,
  )
  const isLate = ({ window }: Tally): boolean => window > reached
  const values = [...loaded, ...held].filter(({ rows, window }) => rows > 0 && window === reached).length
  const [first, last] = [units.windows[reached + 1], units.windows.at(-1)]
  if (claim.released || values < fewestValues || !loaded.some(isLate) || held.some(isLate)) return
  if (first === undefined || last === undefined) return
  const { asked_ms: askedMs, is_answered: isAnswered } = await windowsAnswered(db, claim.pipelineId, first.from, answer.answerId)
  const next = windowAt(last.to, claim.windowEvery)
  if (isAnswered || isPublishedByDay(next, definition.window.publication, askedMs)) return
  throw new EtlError(
    'NOT_PUBLISHED',
    `${claim.box.key}: rows of earlier windows came and none of ${showSpan({ from: first.from, to: last.to })} for any value, so it is taken for not published yet. ` +
      'The next run asks for it again.',
    { follows: { next: 'load up to', day: first.from } },
  )
}
