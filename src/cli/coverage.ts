// A small map of coverage in text: a line a pipeline, a character a month.
import type { CoverageMonth } from '../reads/windows.ts'

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
  if (cell === undefined) return '·'
  if (cell.failed > 0) return '✗'
  if (cell.held > 0) return '!'
  return cell.loaded === cell.total ? '█' : cell.loaded > 0 ? '▄' : '░'
}

/** Lines with one character per month from the oldest to the newest planned one. */
export const coverageLines = (cells: readonly CoverageMonth[]): string[] => {
  if (cells.length === 0) return []
  const sorted = cells.map((cell) => cell.month).sort()
  const months = monthsBetween(sorted[0] ?? '', sorted.at(-1) ?? '')
  const pipelines = [...new Set(cells.map((cell) => cell.pipeline))]
  const width = Math.max(...pipelines.map((name) => name.length))
  const lines = pipelines.map((pipeline) => {
    const row = months.map((month) => mark(cells.find((cell) => cell.pipeline === pipeline && cell.month === month)))
    return `${pipeline.padEnd(width)}  ${row.join('')}`
  })
  return [
    `${' '.repeat(width)}  ${months[0]} .. ${months.at(-1)}`,
    ...lines,
    `${' '.repeat(width)}  █ loaded  ▄ in part  ░ planned  ! held  ✗ failed  · nothing planned (month not published yet, or not wanted)`,
  ]
}
