// How long a backlog takes within budgets, day after day. Pure.
import { addWindows } from '../core/window.ts'
import type { IsoDate } from '../core/types.ts'

/** One budget, and what of it is left for the backlog. */
export interface Pace {
  readonly perMonth: number | null
  readonly perDay: number | null
  /** Left of it today and this month. */
  readonly leftToday: number
  readonly leftThisMonth: number
  /** What a month's usual nights take of it. */
  readonly kept: number
  /** Pipelines that share it. */
  readonly sharers: number
}

/** Further than this nobody plans. */
const mostDays = 3_660

/** The day on which the last credit is spent, at the earliest; null where the budgets never allow it within ten years. Days and months in UTC. */
export const doneOn = (credits: number, paces: readonly Pace[], today: IsoDate): IsoDate | null => {
  let left = credits
  let day = today
  let months = paces.map(({ leftThisMonth }) => leftThisMonth)
  for (let count = 0; count < mostDays; count += 1) {
    const room = Math.min(...paces.map((pace, index) => Math.min(dayRoom(pace, count === 0), months[index] ?? 0)))
    left -= Math.max(0, room)
    if (left <= 0) return day
    months = months.map((month) => month - Math.max(0, room))
    day = addWindows(day, 'day', 1)
    if (day.endsWith('-01'))
      months = paces.map(({ perMonth, kept, sharers }) => (perMonth === null ? Infinity : (perMonth - kept) / sharers))
  }
  return null
}

const dayRoom = ({ perDay, leftToday, sharers }: Pace, isToday: boolean): number =>
  isToday ? leftToday : perDay === null ? Infinity : perDay / sharers
