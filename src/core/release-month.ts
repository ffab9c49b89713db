// Up to which day a service says that it has data, for whole months or for single days.
import type { IsoDate, WindowSize } from './types.ts'

export type ReleasedData = 'month' | 'day'

/** The kind of release that windows of that size wait for. */
export const dataOf = (every: WindowSize): ReleasedData => (every === 'month' ? 'month' : 'day')

/** The last day with data; for `month` the last day of the newest whole month. */
export interface Release {
  readonly every: ReleasedData
  readonly availableTo: IsoDate
}
