// A table in text: columns aligned by what they fill on the screen, in blocks where the terminal is narrower than the table.
import { stripVTControlCharacters } from 'node:util'
import { clipText, textWidth } from './terminal.ts'

const isNumeric = (cell: string): boolean => /^-?[\d.,]+%?$/.test(stripVTControlCharacters(cell)) || cell === '-'
const gap = 2

/**
 * Lines of a table; a column whose cells are all numbers is set to the right. One that is wider than `columns` is shown in several blocks, each of
 * which begins with the first column.
 * @param columns of the terminal; null: there is none, and a line may have any length
 */
export const layOut = (
  head: readonly string[],
  rows: readonly (readonly string[])[],
  columns: number | null = null,
): readonly string[] => {
  const widths = head.map((title, column) => Math.max(textWidth(title), ...rows.map((row) => textWidth(row[column] ?? ''))))
  const right = head.map((_, column) => rows.length > 0 && rows.every((row) => isNumeric(row[column] ?? '-')))
  const show = (row: readonly string[], block: readonly number[]): string =>
    block
      .map((column) => padded(row[column] ?? '', Math.min(widths[column] ?? 0, columns ?? Infinity), right[column] === true))
      .join(' '.repeat(gap))
      .trimEnd()
  return blocksOf(widths, columns).flatMap((block, index) => [
    ...(index === 0 ? [] : ['']),
    show(head, block),
    block.map((column) => '─'.repeat(Math.min(widths[column] ?? 0, columns ?? Infinity))).join(' '.repeat(gap)),
    ...rows.map((row) => show(row, block)),
  ])
}

const padded = (cell: string, width: number, isRight: boolean): string => {
  const text = clipText(cell, width)
  const room = ' '.repeat(Math.max(0, width - textWidth(text)))
  return isRight ? `${room}${text}` : `${text}${room}`
}

/** Numbers of the columns that stand side by side. */
const blocksOf = (widths: readonly number[], columns: number | null): readonly (readonly number[])[] => {
  const all = widths.map((_, column) => column)
  if (columns === null) return [all]
  const [first = 0] = widths
  const blocks: number[][] = []
  let room = 0
  for (const column of all.slice(1)) {
    const width = gap + (widths[column] ?? 0)
    const block = blocks.at(-1)
    if (block === undefined || width > room) {
      blocks.push([0, column])
      room = columns - first - width
    } else {
      block.push(column)
      room -= width
    }
  }
  return blocks.length === 0 ? [all] : blocks
}
