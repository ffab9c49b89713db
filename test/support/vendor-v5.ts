// The service's V5 face as the facts have it (35, 38, 39, 73, 81, 82), with what they do not say of it (83) marked as assumed, over the sandbox that is like
// the service.
import { z } from 'zod'
import { readReport } from '../../src/sandbox/vendor/vendor-batch.ts'
import {
  type Answering,
  type VendorRequest,
  buy,
  keywords,
  price,
  type Route,
  stateOf,
} from '../../src/sandbox/vendor/vendor-server.ts'
import { jsonReply, type VendorReply } from '../../src/sandbox/vendor/vendor-words.ts'

/** One key for REST and batch (81), in the header alone. */
const inV5: Route[3] = ({ restKey }, { url, header }) => header === restKey && !url.searchParams.has('api_key')

/** Lower case with underscores (39), and what each value was called before. */
const filters: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  traffic_source: { organic: 'Organic', paid: 'Paid', all: 'All' },
  web_source: { desktop: 'Desktop', mobile_web: 'MobileWeb', total: 'Total' },
  branded_type: { branded: 'Branded', non_branded: 'NonBranded', all: 'All' },
}

/** Assumed: the names of two fields are not on record for V5; and that it has no bids. */
const renamed: Readonly<Record<string, string>> = { top_url: 'url' }
const lacked: readonly string[] = ['cpc_low_bid', 'cpc_high_bid']

interface Refused {
  readonly refused: VendorReply
}

const refusedFor = (text: string): Refused => ({
  refused: jsonReply(400, { error: { code: 'VALIDATION_ERROR', error_message: text } }),
})

/** The question as the older face knows it. */
const olderQuestion = (query: URLSearchParams): URLSearchParams | Refused => {
  const domain = query.get('domain')
  if (domain === null) return refusedFor('domain is required')
  const country = query.get('country') ?? 'ww'
  // `world` is rejected (38).
  if (!/^[a-z]{2}$/.test(country)) return refusedFor(`country ${country} is not valid`)
  const older = new URLSearchParams({ URL: domain, country: country === 'ww' ? 'world' : country })
  for (const name of ['start_date', 'end_date', 'limit', 'offset']) {
    const value = query.get(name)
    if (value !== null) older.set(name, value)
  }
  for (const [name, values] of Object.entries(filters)) {
    const value = query.get(name)
    if (value === null) continue
    const before = values[value]
    if (before === undefined) return refusedFor(`${name} should be one of the following - ${Object.keys(values).join(', ')}`)
    older.set(name, before)
  }
  return older
}

const olderAnswer = z.object({
  meta: z.looseObject({ request: z.record(z.string(), z.unknown()), query: z.unknown() }),
  keywords: z.array(z.record(z.string(), z.unknown())),
})

const keywordsV5 = (of: Answering, { url }: VendorRequest): VendorReply => {
  const question = olderQuestion(url.searchParams)
  if ('refused' in question) return question.refused
  // At most three months (56).
  const reply = keywords({ ...of.settings, keywordMonths: 3 }, of.books, question)
  if (reply.status !== 200) return reply
  const { meta, keywords: records } = olderAnswer.parse(JSON.parse(reply.body))
  const asked = url.searchParams.get('metrics')?.split(',') ?? null
  const { query, ...rest } = meta
  const request = { ...meta.request, ...Object.fromEntries(url.searchParams), start_date: meta.request['start_date'] }
  // No count; the bounds in full (73, 75).
  return jsonReply(200, {
    meta: { ...rest, request: { ...request, end_date: meta.request['end_date'] }, query },
    data: records.map((record) => recordV5(record, asked)),
  })
}

/** Metrics not asked for come back as null (73). */
const recordV5 = (record: Readonly<Record<string, unknown>>, asked: readonly string[] | null): object =>
  Object.fromEntries(
    Object.entries(record)
      .filter(([name]) => !lacked.includes(name))
      .map(([name, value]) => {
        const called = renamed[name] ?? name
        const isWanted = asked === null || name === 'keyword' || name === 'top_url' || asked.includes(called)
        return [called, isWanted ? value : null]
      }),
  )

/** For `startVendorSandbox`. */
export const v5Routes: readonly Route[] = [
  // Assumed: the path of the keywords is not on record for V5.
  ['GET', /^\/v5\/website-analysis\/keywords$/, 'keywords', inV5, keywordsV5],
  ['POST', /^\/batch\/v5\/request-report$/, 'submit', inV5, buy(readReport)],
  ['POST', /^\/batch\/v5\/request-validate$/, 'free', inV5, price],
  ['GET', /^\/batch\/request-status\/([^/]+)$/, 'status', inV5, stateOf],
]
