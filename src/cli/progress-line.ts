// The line that says how far the work at hand is: of one run, or of those that overlap; not of all a scheduler ever did.
import type { Counters, Progress } from '../pipeline/progress.ts'
import { formatNumber, formatSeconds } from './output.ts'

export interface ProgressLine {
  /** Call when more units are planned: where all earlier ones are done, counting begins anew. */
  planned(units: number): void
  /** Units done and planned since then. */
  share(): { readonly done: number; readonly planned: number }
  text(): string
}

export const createProgressLine = ({ counters }: Progress, now: () => number = Date.now): ProgressLine => {
  let from: Counters = { ...counters }
  let startedAt = now()
  const since = (name: keyof Counters): number => counters[name] - from[name]
  const share = () => ({ done: since('unitsDone'), planned: since('unitsPlanned') })
  return {
    planned: (units) => {
      const before = counters.unitsPlanned - units
      if (counters.unitsDone < before) return
      from = { ...counters, unitsPlanned: before, unitsDone: before }
      startedAt = now()
    },
    share,
    text: () => {
      const { done, planned } = share()
      const seconds = (now() - startedAt) / 1000
      const rows = since('rowsRead')
      const rate = seconds > 0 ? Math.round(rows / seconds) : 0
      const parts = [`${done}/${planned} units`, `${formatNumber(rows)} rows (${formatNumber(rate)}/s)`]
      if (since('pages') > 0) parts.push(`${formatNumber(since('pages'))} pages`)
      // From the share of units done; unknown until the first is.
      parts.push(`time left ${done === 0 || planned === 0 ? '?' : formatSeconds((seconds / done) * (planned - done))}`)
      return parts.join(', ')
    },
  }
}
