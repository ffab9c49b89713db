// Definitions as text, checked without a disk.
import { checkDefinitions, type Definitions } from '../../../src/definition/load.ts'
import { showProblem } from '../../../src/definition/problem.ts'
import { specs } from './source-specs.ts'

/** The example of the outside contract, to the letter. */
export const contractExample = `# yaml-language-server: $schema=./schema.json
pipeline: keywords
version: 1
description: Keywords that bring search clicks to a domain; one row a keyword, landing page and month.
source: web-analytics.keywords
params: { traffic_source: All, web_source: Total, branded_type: All }
for_each:
  domain: { file: domains.txt }
  country: [us, gb]
window: { every: month, from: 2024-01, look_back: 2 }
schedule: { cron: "30 2 * * *", time_zone: Europe/Berlin }
table:
  key: [month, domain, country, traffic_source, web_source, branded_type, keyword, top_url]
  columns:
    keyword: { type: text, description: The search term }
    clicks: { type: bigint, if_absent: 0, description: Clicks to the domain in the month }
    traffic_share: { type: numeric, unit: fraction of the domain's search clicks }
    serp_features: { type: "text[]" }
limits: { page_size: 1000, concurrency: 4, timeout: 30s, attempts: 5, rejects: 0.1%, shrink: 50% }
# a report pipeline also has: poll_every: 5s (grows to 60s), deadline: 6h
`

export const reportExample = `pipeline: visits
version: 1
description: Visits
source: web-analytics.report
params: { vtable: traffic_and_engagement }
for_each:
  domain: { values: [a.com, b.com], bucket: 100 }
  country: [us]
window: { from: 2024-01 }
table:
  key: [date, domain, country, granularity, include_subdomains]
  columns:
    visits: { type: numeric, from: [all_traffic_visits, visits] }
`

export interface CheckOptions {
  readonly lists?: Readonly<Record<string, string>>
  readonly only?: readonly string[]
  /** Default: as the tests have them. */
  readonly sources?: Parameters<typeof checkDefinitions>[0]['sources']
}

const lists = { 'domains.txt': 'a.com\n' }

export const check = (files: string | Readonly<Record<string, string>>, options: CheckOptions = {}): Definitions =>
  checkDefinitions({
    folder: 'pipelines',
    files: Object.entries(typeof files === 'string' ? { 'p.yaml': files } : files).map(([file, text]) => ({
      file: `pipelines/${file}`,
      text,
    })),
    sources: options.sources ?? specs,
    only: options.only,
    readList: (path) => {
      const text = { ...lists, ...options.lists }[path]
      return { shown: `pipelines/${path}`, ...(text === undefined ? { failure: 'does not exist' } : { text }) }
    },
  })

/** Every problem as people see it. */
export const problemsIn = (files: Parameters<typeof check>[0], options: CheckOptions = {}): string[] =>
  check(files, options).problems.map(showProblem)

/** The example with one text replaced; throws when the text is not in it, so that no test passes for want of a change. */
export const change = (text: string, from: string, to: string): string => {
  if (!text.includes(from)) throw new Error(`'${from}' is not in the example`)
  return text.replace(from, to)
}
