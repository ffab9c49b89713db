// What the load benchmark loads: a report of 9 columns as COPY text, made beforehand so that making it is not measured.
import type { Box, Column, Definition } from '../src/core/types.ts'
import { windowAt } from '../src/core/window.ts'
import type { RowsChunk } from '../src/load/copy-rows.ts'
import { definitionOf } from '../test/unit/parse/parsing.ts'

const rowsPerChunk = 10_000
export const mostDomains = 100
export const metrics = ['a', 'b', 'c', 'd', 'e', 'f'] as const

const column = (name: string, type: Column['type'], more: Partial<Column>): Column => ({
  name,
  type,
  isKey: false,
  nullable: more.isKey !== true,
  description: name,
  unit: null,
  origin: 'response',
  from: [name],
  ifAbsent: null,
  normalize: null,
  rounding: null,
  ...more,
})

export const benchDefinition: Definition = {
  ...definitionOf([
    column('date', 'date', { isKey: true }),
    column('country', 'text', { isKey: true, origin: 'slice' }),
    column('domain', 'text', { isKey: true }),
    column('site', 'text', { isKey: true }),
    ...metrics.map((name) => column(name, 'numeric', {})),
  ]),
  pipeline: 'bench',
  dimensions: ['domain', 'country'].map((name) => ({ name, values: [], bucket: null, file: null })),
}

export const domains: readonly string[] = Array.from(
  { length: mostDomains },
  (_, index) => `domain-${String(index).padStart(3, '0')}.example.com`,
)

/** A unit for each of the domains. @param country tells reports apart. @param month `2026-01` */
export const benchBox = (month: string, country: string, domainCount: number): Box => ({
  key: `bench/${month}/${country}`,
  pipeline: 'bench',
  version: 1,
  window: windowAt(`${month}-01`, 'month'),
  slice: { domain: domains.slice(0, domainCount), country },
})

/** @param restated every n-th row has another value; 0: none. @param country of rows that end as a load's do, with it and the number of their unit */
export const benchRows = (
  month: string,
  rows: number,
  restated: number,
  domainCount = mostDomains,
  country: string | null = null,
): RowsChunk[] => {
  const chunks: RowsChunk[] = []
  for (let start = 0; start < rows; start += rowsPerChunk) {
    const end = Math.min(start + rowsPerChunk, rows)
    let text = ''
    for (let row = start; row < end; row += 1) {
      const seed = (row * 2_654_435_761) % 1_000_003
      const first = restated > 0 && row % restated === 0 ? seed * 97 + 1 : seed * 97
      const third = seed % 7 === 0 ? '\\N' : String(seed * 3)
      const domain = domains[row % domainCount] ?? ''
      text += `${month}-01\t${domain}\tsite-${Math.floor(row / domainCount)}.example\t${first}\t${seed / 8}\t${third}\t${row}\t${seed % 100}\t0.${seed}${country === null ? '' : `\t${country}\t${(row % domainCount) + 1}`}\n`
    }
    chunks.push({ copy: Buffer.from(text), rows: end - start })
  }
  return chunks
}
