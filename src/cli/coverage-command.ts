// A small map of coverage in text: a line a pipeline, a character a month.
import type { CoverageMonth } from '../web/reads/read-windows.ts'
import { paint } from './terminal.ts'

const monthsBetween = (first: string, last: string): string[] => {
  const months: string[] = []
  let [year, month] = first.split('-').map(Number) as [number, number]
  for (let name = first; name <= last; ) {
    months.push(name)
    month += 1
    if (month > 12) {
      month = 1
      year += 1
    }
    name = `${year}-${String(month).padStart(2, '0')}`
  }
  return months
}

const mark = (cell: CoverageMonth | undefined): string => {
  if (cell === undefined) return paint('dim', '·')
  if (cell.failed > 0) return paint('red', '✗')
  if (cell.held > 0) return paint('yellow', '!')
  return cell.loaded === cell.total ? paint('green', '█') : cell.loaded > 0 ? '▄' : '░'
}

/**
 * Lines with one character per month from the oldest to the newest planned one.
 * @param columns of the terminal: months that have no room there are left out, oldest first; null: all are shown
 */
export const coverageLines = (cells: readonly CoverageMonth[], columns: number | null = null): string[] => {
  if (cells.length === 0) return []
  const sorted = cells.map((cell) => cell.month).sort()
  const pipelines = [...new Set(cells.map((cell) => cell.pipeline))]
  const width = Math.max(...pipelines.map((name) => name.length))
  const planned = monthsBetween(sorted[0] ?? '', sorted.at(-1) ?? '')
  const months = columns === null ? planned : planned.slice(-Math.max(1, columns - width - 2))
  const lines = pipelines.map((pipeline) => {
    const row = months.map((month) => mark(cells.find((cell) => cell.pipeline === pipeline && cell.month === month)))
    return `${pipeline.padEnd(width)}  ${row.join('')}`
  })
  return [
    `${' '.repeat(width)}  ${months[0]} .. ${months.at(-1)}`,
    ...lines,
    `${' '.repeat(width)}  █ loaded  ▄ in part  ░ planned`,
    `${' '.repeat(width)}  ! held  ✗ failed  · nothing planned`,
    'Nothing planned: the service has not published the month yet, or no pipeline asks for it.',
  ]
}
