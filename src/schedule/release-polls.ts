// How often the capabilities are fetched: often while a month is awaited, seldom otherwise. Pure.
import type { Environment } from '../core/read-setting.ts'
import { EtlError } from '../core/errors.ts'
import type { ReleasedData } from '../core/release-month.ts'
import type { IsoDate } from '../core/types.ts'
import { addWindows, alignDown } from '../core/window.ts'

const pollName = 'MILLRACE_RELEASE_POLL'
/** From release to the first submission at most a minute, planning included. */
const awaitedSeconds = 40
const otherwiseSeconds = 600
/** A month is not released on its first two days. */
const awaitedFrom = 3

/** Seconds between two looks; null: never. Throws CONFIGURATION. @param known the last day of the newest data by kind; null: none is known */
export const pollSecondsOf = (
  environment: Environment,
  known: ReadonlyMap<ReleasedData, IsoDate | null>,
  today: IsoDate,
): number | null => {
  const text = environment[pollName]
  if (text) {
    const seconds = Number(text)
    if (!(seconds >= 0 && seconds <= 86_400))
      throw new EtlError('CONFIGURATION', `${pollName} is '${text}', expected seconds from 1 to 86400, or 0 for never.`)
    return seconds === 0 ? null : seconds
  }
  const lastMonth = addWindows(alignDown(today, 'month'), 'day', -1)
  const month = known.get('month')
  const isAwaited = month !== undefined && (month ?? '') < lastMonth && Number(today.slice(8)) >= awaitedFrom
  return isAwaited ? awaitedSeconds : otherwiseSeconds
}
