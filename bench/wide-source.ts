// A source of reports of any width for the benchmark's folders: the shipped one with other limits of packing.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/**
 * The shipped source of reports, but that it takes any number of domains at once, need not be told the countries and asks for one month, or for 36: one
 * report is as large as the benchmark wants it, and is loaded as every other one.
 */
export const wideSource = `import { pathToFileURL } from 'node:url'
const { sources: shipped } = await import(new URL('../dist/src/sources/web-analytics/index.js', pathToFileURL(process.argv[1])).href)
const report = shipped.find(({ name }) => name === 'web-analytics.report')
const { domain, country } = report.dimensions
const dimensions = { domain: { ...domain, mostPerRequest: 1_000_000 }, country: { ...country, required: false } }
export const sources = [['wide', 1], ['long', 36]].map(([shape, windows]) => ({
  ...report,
  name: 'web-analytics.' + shape + '-report',
  dimensions,
  dimensionsOf: () => dimensions,
  limitsOf: () => ({}),
  packing: { windows },
}))
`

/** Beside the pipelines, where a user's own sources are. */
export const writeSource = (folder: string, text: string): void => {
  const place = join(folder, 'sources', 'web-analytics')
  mkdirSync(place, { recursive: true })
  writeFileSync(join(place, 'index.mjs'), text)
}
