// Rows and bytes a second of processor time, of the parser alone: CSV, and JSON pages. Run: node bench/parse.ts [ROWS] [plain|quoted|json]

import type { Payload } from '../src/core/types.ts'
import { compileParsePlan, type ParsePlan } from '../src/parse/parse-plan.ts'
import { createParseReport } from '../src/parse/parse-report.ts'
import { keywords } from '../src/sources/web-analytics/keywords.ts'
import { column, definitionOf, parsePayload } from '../test/unit/parse/parsing.ts'

const rows = Number(process.argv[2] ?? 1_000_000)
const only = process.argv[3] ?? null
const domains = Array.from({ length: 100 }, (_, index) => `site-${index}.example.com`)

const reportPlan = (): ParsePlan => {
  const columns = [
    column('domain', 'text', { isKey: true, normalize: 'domain' }),
    column('country', 'text', { isKey: true, normalize: 'country' }),
    column('date', 'date', { isKey: true, normalize: 'period_start' }),
    ...['a', 'b', 'c', 'd', 'e', 'f'].map((name) => column(name, 'numeric')),
  ]
  return compileParsePlan(definitionOf(columns), unit({ domain: domains, country: ['us'] }), keywords)
}

const unit = (slice: Record<string, string | readonly string[]>) => ({
  key: 'bench',
  pipeline: 'bench',
  version: 1,
  window: { from: '2026-01-01', to: '2026-02-01' },
  slice,
})

async function* csvBody(quoted: boolean): AsyncGenerator<Uint8Array> {
  let text = 'domain,country,date,a,b,c,d,e,f\n'
  for (let row = 0; row < rows; row += 1) {
    const domain = domains[row % domains.length] ?? ''
    const name = quoted ? `"${domain}"` : domain
    const seed = (row * 2_654_435_761) % 1_000_003
    text += `${name},US,2026-01-01,${seed * 97},${seed / 8},${seed % 7 === 0 ? '' : seed * 3},${row},${seed % 100},0.${seed}\n`
    if (text.length > 64 * 1024) {
      yield Buffer.from(text)
      text = ''
    }
  }
  yield Buffer.from(text)
}

const page = (number: number): Buffer => {
  const keywords = Array.from({ length: 100 }, (_, index) => ({
    keyword: `best running shoes ${number} ${index}`,
    clicks: index * 37,
    traffic_share: index / 777,
    difficulty: index % 100,
    competition: null,
    primary_intent: 'Informational',
    secondary_intent: null,
    volume: index * 1000,
    cpc: 1.25,
    cpc_low_bid: 0.5,
    cpc_high_bid: 2.75,
    zero_clicks_share: index / 100,
    position: index,
    serp_features: ['news', 'video', 'organic', 'related_questions'],
    top_url: `example.com/shoes/${number}/${index}?ref=search`,
  }))
  return Buffer.from(JSON.stringify({ meta: { status: 'Success' }, keywords_count: 50_000, keywords }))
}

const keywordPlan = (): ParsePlan => {
  const whole = ['clicks', 'difficulty', 'volume', 'position'].map((name) => column(name, 'bigint', { ifAbsent: '0' }))
  const shares = ['traffic_share', 'competition', 'cpc', 'cpc_low_bid', 'cpc_high_bid', 'zero_clicks_share']
  const columns = [
    column('keyword', 'text', { isKey: true }),
    column('top_url', 'text', { isKey: true }),
    ...whole,
    ...shares.map((name) => column(name, 'numeric')),
    column('primary_intent', 'text'),
    column('secondary_intent', 'text'),
    column('serp_features', 'text[]'),
  ]
  return compileParsePlan(definitionOf(columns), unit({ domain: 'example.com', country: 'us' }), keywords)
}

async function* single(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

const measure = async (name: string, payloads: readonly Payload[], plan: ParsePlan): Promise<void> => {
  const report = createParseReport()
  let bytes = 0
  const started = process.cpuUsage()
  for (const payload of payloads) for await (const chunk of parsePayload(payload, plan, report)) bytes += chunk.copy.length
  const { user, system } = process.cpuUsage(started)
  const seconds = (user + system) / 1e6
  const megabytes = bytes / 1e6
  const rate = `${Math.round(report.rows / seconds / 1000)}k rows/s, ${(megabytes / seconds).toFixed(0)} MB/s of COPY text`
  const peak = `${Math.round(process.resourceUsage().maxRSS / 1024)} MB peak`
  process.stdout.write(`${name}: ${report.rows} rows, ${report.rejects} rejects in ${seconds.toFixed(2)} s: ${rate}, ${peak}\n`)
}

/** The body made beforehand, so that making it is not measured. */
const csvPayload = async (quoted: boolean): Promise<Payload> => {
  const chunks: Uint8Array[] = []
  for await (const chunk of csvBody(quoted)) chunks.push(chunk)
  async function* body(): AsyncGenerator<Uint8Array> {
    yield* chunks
  }
  return { format: 'csv', part: 1, body: body() }
}

for (let round = 1; round <= 3; round += 1) {
  if (only === null || only === 'plain') await measure('csv', [await csvPayload(false)], reportPlan())
  if (only === null || only === 'quoted') await measure('csv, a quoted cell in every row', [await csvPayload(true)], reportPlan())
  if (only !== null && only !== 'json') continue
  const pages = Array.from({ length: 500 }, (_, index) => page(index))
  const payloads = pages.map((bytes, index): Payload => ({ format: 'json', part: index + 1, body: single(bytes) }))
  await measure('json, 500 pages of 100 records', payloads, keywordPlan())
}
