// The times of the first hour as docs/internals/first-hour.md shows them.
import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import stringWidth from 'string-width'
import type { Step } from './first-hour.ts'

/** A step a line, a Node.js a column, as Markdown. */
export const tableOf = (names: readonly string[], all: readonly (readonly Step[])[]): string => {
  const lines = (all[0] ?? []).map(({ name }, index) => [name, ...all.map((steps) => `${steps[index]?.seconds} s`)])
  const sum = all.map((steps) => `${steps.reduce((total, { seconds }) => total + seconds, 0).toFixed(1)} s`)
  const rows = [
    ['step', ...names.map((name) => `Node.js ${name}`)],
    ['---', ...names.map(() => '---')],
    ...lines,
    ['all', ...sum],
  ]
  const width = Math.max(...rows.map(([first = '']) => stringWidth(first)))
  return rows.map(([first = '', ...rest]) => `| ${first.padEnd(width)} | ${rest.join(' | ')} |`).join('\n')
}

/** Between the two marks of docs/internals/first-hour.md. */
export const writePage = (table: string): void => {
  const page = resolve(import.meta.dirname, '..', '..', 'docs', 'internals', 'first-hour.md')
  const text = readFileSync(page, 'utf8')
  writeFileSync(
    page,
    text.replace(
      /(<!-- figures: [^\n]*\n)[\s\S]*?(<!-- end)/,
      (_, before: string, after: string) => `${before}${table}\n${after}`,
    ),
  )
}
