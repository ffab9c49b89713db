// The benchmark's table: no goal may vanish from it, and no figure may be judged more kindly than its goal says.
import { describe, expect, test } from 'vitest'
import { type Goal, goals } from '../../../bench/goals.ts'
import { exponentOf, median, type Results, resultTable, resultTableWith, verdictOf } from '../../../bench/results.ts'
import { steps } from '../../../bench/steps.ts'

const goalOf = (id: string): Goal => {
  const goal = goals.find((one) => one.id === id)
  if (goal === undefined) throw new Error(`no goal ${id}`)
  return goal
}

describe('the goals of speed', () => {
  test('stand as they were set', () => {
    expect(Object.fromEntries(goals.map(({ id, goal, limit }) => [id, [goal, limit]]))).toEqual({
      filled: [0.9, 1.2],
      empty: [1.8, 2.4],
      unchanged: [1.8, 2.2],
      'same-body': [0.5, 0.8],
      restated: [1.4, 1.7],
      backfill: [1, 1.3],
      keywords: [1.8, 2.5],
      'keywords-50ms': [1.2, 1.4],
      rate: [0.97, 0.95],
      tiny: [6, 9],
      memory: [130, 170],
      'memory-growth': [1.1, 1.1],
      months: [1, 1.3],
      status: [0.35, 0.5],
      'full-warehouse': [0.8, 0.6],
      'cost-rows': [1.05, 1.05],
      'cost-units': [1.05, 1.05],
      'night-reports': [5, 5],
      'night-walks': [5, 5],
      'night-memory': [250, 250],
      'night-requests': [5, 5],
      'night-status': [1, 1],
      'night-overview': [100, 100],
      'plan-reports': [60, 60],
      'plan-walks': [60, 60],
      'plan-memory': [300, 300],
      'price-time': [30, 30],
      'price-requests': [50, 50],
      'packed-reports': [10, 12],
      'packed-credits': [1, 1],
      'packed-wall': [0.1, 0.1],
      'packed-memory': [200, 200],
      'wide-memory': [200, 200],
    })
  })

  test('are each measured by exactly one step', () => {
    expect(steps.flatMap((step) => step.goals).sort()).toEqual(goals.map(({ id }) => id).sort())
  })

  test('each have a row in the table, also where nothing was measured', () => {
    const results: Results = new Map([['empty', { value: 1.2, floor: 1, ours: 1.2 }]])
    const lines = resultTable(results).trim().split('\n')
    expect(lines).toHaveLength(goals.length + 2)
    for (const { id, work } of goals) {
      const line = lines.find((one) => one.startsWith(`| ${work} |`))
      expect(line).toContain(id === 'empty' ? '| met |' : '| not measured |')
    }
  })

  test('measured again replace their rows of an earlier page, get one where it has none, and leave the others alone', () => {
    const earlier: Results = new Map([
      ['empty', { value: 1.2, floor: 1, ours: 1.2 }],
      ['tiny', { value: 4.8 }],
    ])
    const page = `# Results\n\n${resultTable(earlier)}`.split('\n').filter((line) => !line.startsWith('| planning'))
    const again: Results = new Map([
      ['tiny', { value: 5.5, measured: 'today' }],
      ['plan-walks', { value: 12 }],
    ])
    expect(resultTableWith(page.join('\n'), again)).toBe(resultTable(new Map([...earlier, ...again])))
    expect(resultTableWith('', again)).toBe(resultTable(again))
  })

  test('are judged by goal and limit, a share the other way round', () => {
    const verdicts = (id: string, values: readonly number[]) => values.map((value) => verdictOf(goalOf(id), { value }))
    expect(verdicts('filled', [0.9, 0.91, 1.2, 1.21, Number.NaN])).toEqual([
      'met',
      'within the limit',
      'within the limit',
      'missed',
      'not measured',
    ])
    expect(verdicts('rate', [0.99, 0.96, 0.94, 0])).toEqual(['met', 'within the limit', 'missed', 'missed'])
  })

  test('take medians, and the steepest part of a growth', () => {
    expect(median([3, 1, 2])).toBe(2)
    expect(median([4, 1, 2, 3])).toBe(2.5)
    expect(exponentOf([1, 10, 100].map((work) => [work, 7 * work ** 1.2]))).toBeCloseTo(1.2)
    expect(exponentOf([1, 10, 100].map((work) => [work, 500 + work ** 2]))).toBeCloseTo(1.248, 2)
  })
})
