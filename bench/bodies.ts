// The bodies that the benchmark's service sends, made beforehand: reports of any size as files, keyword pages in memory.
import { closeSync, existsSync, openSync, renameSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { addWindows, lastDay, windowAt } from '../src/core/window.ts'

export const countries = Array.from(
  { length: 33 },
  (_, index) => `${String.fromCharCode(97 + (index % 26))}${'abx'[Math.floor(index / 26)]}`,
)
export const metrics = ['m_a', 'm_b', 'm_c', 'm_d', 'm_e', 'm_f'] as const
export const domainName = (index: number): string => `domain-${String(index).padStart(5, '0')}.example.com`

export interface ReportBody {
  /** `2026-01`, or several in a row, which share the rows. */
  readonly month: string
  readonly months?: number
  readonly rows: number
  /** Every n-th row has another value; 0: none. */
  readonly restated: number
}

const daysIn = (month: string): number => Number(lastDay(windowAt(`${month}-01`, 'month')).slice(8))

/** `2026-01`, `2026-02`, … */
export const monthsFrom = (month: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => addWindows(`${month}-01`, 'month', index).slice(0, 7))

/** Rows of one domain in a month: each country, each day. */
export const rowsPerDomain = (month: string): number => countries.length * daysIn(month)

/** The body as a file in `folder`, made at the first call: 9 columns, in the order of domain, country, date. */
export const reportFile = (folder: string, body: ReportBody): string => {
  const { month, months = 1, rows, restated } = body
  const file = join(folder, `${month}-${months}-${rows}-${restated}.csv`)
  if (existsSync(file)) return file
  const handle = openSync(`${file}.tmp`, 'w')
  let text = `domain,country,date,${metrics.join()}\n`
  for (const at of monthsFrom(month, months)) {
    const days = daysIn(at)
    for (let row = 0; row < Math.floor(rows / months); row += 1) {
      text += line({ month: at, restated }, row, days)
      if (text.length > 1 << 20) {
        writeSync(handle, text)
        text = ''
      }
    }
  }
  writeSync(handle, text)
  closeSync(handle)
  renameSync(`${file}.tmp`, file)
  return file
}

const line = ({ month, restated }: Pick<ReportBody, 'month' | 'restated'>, row: number, days: number): string => {
  const seed = (row * 2_654_435_761) % 1_000_003
  const day = String((row % days) + 1).padStart(2, '0')
  const country = countries[Math.floor(row / days) % countries.length] ?? ''
  const domain = domainName(Math.floor(row / days / countries.length))
  const first = restated > 0 && row % restated === 0 ? seed * 97 + 1 : seed * 97
  const third = seed % 7 === 0 ? '' : seed * 3
  return `${domain},${country},${month}-${day},${first},${seed / 8},${third},${row},${seed % 100},0.${seed}\n`
}

const intents = ['Informational', 'Navigational']
const features = [['news', 'video'], ['organic'], ['related_questions', 'organic_sitelinks', 'video'], []]

/** Pages of 100 keyword records, all different, by descending clicks. */
export const keywordPages = (pages: number, perPage: number): Buffer[] =>
  Array.from({ length: pages }, (_, page) =>
    Buffer.from(
      JSON.stringify({
        meta: { query: { limit: perPage, offset: page * perPage }, status: 'Success', last_updated: '2026-02-01' },
        keywords_count: pages * perPage,
        keywords: Array.from({ length: perPage }, (_, index) => keyword(pages * perPage - page * perPage - index)),
      }),
    ),
  )

const keyword = (rank: number) => ({
  keyword: `best running shoes ${rank}`,
  clicks: rank * 3,
  traffic_share: rank / 777_777,
  difficulty: rank % 100,
  competition: rank % 3 === 0 ? null : rank % 100,
  primary_intent: intents[rank % 2],
  secondary_intent: null,
  volume: rank * 10,
  cpc: (rank % 400) / 100,
  cpc_low_bid: 0.5,
  cpc_high_bid: 2.75,
  zero_clicks_share: (rank % 1000) / 1000,
  position: rank % 100,
  serp_features: features[rank % 4],
  top_url: `example.com/shoes/${rank}?ref=search`,
})
