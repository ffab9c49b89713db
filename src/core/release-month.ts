// What a service says of its data: up to which day there are any, of whole months or of single days.
import type { IsoDate, WindowSize } from './types.ts'

export type ReleasedData = 'month' | 'day'

/** What windows of that size wait for. */
export const dataOf = (every: WindowSize): ReleasedData => (every === 'month' ? 'month' : 'day')

/** The last day there are data for; of `month` the last day of the newest whole month. */
export interface Release {
  readonly every: ReleasedData
  readonly availableTo: IsoDate
}
