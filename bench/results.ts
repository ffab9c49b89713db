// Measurements gathered by goal, and the table made of them: every goal has its row, measured or not.
import { type Goal, type GoalId, goals, meets, show } from './goals.ts'

export interface Measured {
  /** What the goal is judged by. */
  readonly value: number
  /** Seconds of the floor and of Millrace, where there is a floor. */
  readonly floor?: number
  readonly ours?: number
  readonly note?: string
  /** Day, and how busy the machine was. */
  readonly measured?: string
}

export type Results = Map<GoalId, Measured>

export const median = (values: readonly number[]): number => {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] ?? Number.NaN)) / 2
}

/** The smallest value that the share of all does not exceed. @param share above 0, at most 1 */
export const percentile = (values: readonly number[], share: number): number =>
  [...values].sort((a, b) => a - b)[Math.ceil(share * values.length) - 1] ?? Number.NaN

/** Steepest slope of log(cost) over log(work) between two neighbouring points: 1 is linear. What a start costs must not flatten it. */
export const exponentOf = (points: readonly (readonly [work: number, cost: number])[]): number =>
  Math.max(
    ...points.slice(1).map(([work, cost], index) => {
      const [lessWork, lessCost] = points[index] ?? [Number.NaN, Number.NaN]
      return Math.log(cost / lessCost) / Math.log(work / lessWork)
    }),
  )

export type Verdict = 'met' | 'within the limit' | 'missed' | 'not measured'

export const verdictOf = (goal: Goal, measured: Measured | undefined): Verdict => {
  if (measured === undefined || !Number.isFinite(measured.value)) return 'not measured'
  if (meets(goal, measured.value, goal.goal)) return 'met'
  return meets(goal, measured.value, goal.limit) ? 'within the limit' : 'missed'
}

const seconds = (value: number | undefined): string => (value === undefined ? '' : `${value.toFixed(2)} s`)

const rowOf = (goal: Goal, results: Results): string => {
  const measured = results.get(goal.id)
  const verdict = verdictOf(goal, measured)
  const value = measured === undefined || verdict === 'not measured' ? '' : show(goal, measured.value)
  const bounds = `${show(goal, goal.goal)} | ${show(goal, goal.limit)}`
  const times = `${seconds(measured?.floor)} | ${seconds(measured?.ours)}`
  return `| ${goal.work} | ${times} | ${value} | ${bounds} | ${verdict} | ${measured?.note ?? ''} | ${measured?.measured ?? ''} |`
}

export const resultTable = (results: Results): string => {
  return `${tableHead}\n${goals.map((goal) => rowOf(goal, results)).join('\n')}\n`
}

const tableHead =
  '| work | floor | Millrace | result | goal | not worse than | | | measured |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |'

/** The table of what was measured now, with the rows that an earlier page has of all other goals. */
export const resultTableWith = (earlier: string, results: Results): string => {
  const before = earlier.split('\n')
  const rows = goals.map((goal) => {
    const known = results.has(goal.id) ? undefined : before.find((line) => line.startsWith(`| ${goal.work} |`))
    return known ?? rowOf(goal, results)
  })
  return `${[tableHead, ...rows].join('\n')}\n`
}
