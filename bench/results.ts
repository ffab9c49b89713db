// Measurements gathered by goal, and the table made of them: every goal has its row, measured or not.
import { type Goal, type GoalId, goals, meets, show } from './goals.ts'

export interface Measured {
  /** What the goal is judged by. */
  readonly value: number
  /** Seconds of the floor and of Millrace, where there is a floor. */
  readonly floor?: number
  readonly ours?: number
  readonly note?: string
}

export type Results = Map<GoalId, Measured>

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** Slope of log(cost) over log(work): 1 is linear. */
export const exponentOf = (points: readonly (readonly [work: number, cost: number])[]): number => {
  const logs = points.map(([work, cost]) => [Math.log(work), Math.log(cost)] as const)
  const mean = (place: 0 | 1): number => logs.reduce((sum, point) => sum + point[place], 0) / logs.length
  const [meanX, meanY] = [mean(0), mean(1)]
  const up = logs.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0)
  return up / logs.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0)
}

export type Verdict = 'met' | 'within the limit' | 'missed' | 'not measured'

export const verdictOf = (goal: Goal, measured: Measured | undefined): Verdict => {
  if (measured === undefined || !Number.isFinite(measured.value)) return 'not measured'
  if (meets(goal, measured.value, goal.goal)) return 'met'
  return meets(goal, measured.value, goal.limit) ? 'within the limit' : 'missed'
}

const seconds = (value: number | undefined): string => (value === undefined ? '' : `${value.toFixed(2)} s`)

export const resultTable = (results: Results): string => {
  const rows = goals.map((goal) => {
    const measured = results.get(goal.id)
    const verdict = verdictOf(goal, measured)
    const value = measured === undefined || verdict === 'not measured' ? '' : show(goal, measured.value)
    const bounds = `${show(goal, goal.goal)} | ${show(goal, goal.limit)}`
    const times = `${seconds(measured?.floor)} | ${seconds(measured?.ours)}`
    return `| ${goal.work} | ${times} | ${value} | ${bounds} | ${verdict} | ${measured?.note ?? ''} |`
  })
  const head =
    '| work | floor | Millrace | result | goal | not worse than | | |\n| --- | --- | --- | --- | --- | --- | --- | --- |'
  return `${head}\n${rows.join('\n')}\n`
}
