// The other face of the same service: V5 as the facts have it (35, 38, 39, 73, 81, 82). What they do not say of it (83) is marked as assumed.
import { z } from 'zod'
import { readReport, status, submit, validate } from './vendor-batch.ts'
import { keywords } from './vendor-rest.ts'
import type { Answering, Asked, Route } from './vendor-route.ts'
import * as words from './vendor-words.ts'
import { jsonReply, type VendorReply } from './vendor-words.ts'

/** One key for REST and batch (81), in the header alone. */
const withKey =
  (answer: Route['answer']): Route['answer'] =>
  (of, asked, id) =>
    asked.header === of.settings.restKey && !asked.url.searchParams.has('api_key') ? answer(of, asked, id) : words.badKey

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
const olderQuestion = ({ settings }: Answering, query: URLSearchParams): URLSearchParams | Refused => {
  const domain = query.get('domain')
  if (domain === null) return refusedFor('domain is required')
  const country = query.get('country') ?? 'ww'
  // `world` is rejected (38).
  if (!/^[a-z]{2}$/.test(country)) return refusedFor(`country ${country} is not valid`)
  const older = new URLSearchParams({ api_key: settings.restKey, URL: domain, country: country === 'ww' ? 'world' : country })
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

const keywordsV5 = (of: Answering, { url }: Asked): VendorReply => {
  const question = olderQuestion(of, url.searchParams)
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

export const routesV5: readonly Route[] = [
  // Assumed: the path of the keywords is not on record for V5.
  { path: /^\/v5\/website-analysis\/keywords$/, method: 'GET', endpoint: 'keywords', answer: withKey(keywordsV5) },
  {
    path: /^\/batch\/v5\/request-report$/,
    method: 'POST',
    endpoint: 'submit',
    answer: withKey(({ settings, books }, { body }) => submit(settings, books, readReport(settings, body), body, false)),
  },
  {
    path: /^\/batch\/v5\/request-validate$/,
    method: 'POST',
    endpoint: 'free',
    answer: withKey(({ settings }, { body }) => validate(settings, readReport(settings, body))),
  },
  {
    path: /^\/batch\/request-status\/([^/]+)$/,
    method: 'GET',
    endpoint: 'status',
    answer: withKey(({ books, linkBase }, _, id) => status(books, id, linkBase)),
  },
]
