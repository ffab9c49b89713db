// The shop's price list. All that is known of this API stands here: its settings, its token, its pace, how it pages, what it offers.
import {
  type Api,
  checkSettings,
  EtlError,
  type HttpAnswer,
  noBudget,
  parseJson,
  readAddress,
  readKey,
  readRate,
  type Source,
  settingOf,
} from '../../../../../src/index.ts'
import { z } from 'zod'

const addressSetting = 'SHOP_API_URL'
const tokenSetting = 'SHOP_API_TOKEN'
const rateSetting = 'SHOP_API_REQUESTS_PER_SECOND'
const paths = { prices: '/v1/prices', shops: '/v1/shops' }

/** The answer as it should be; throws what any other one means. */
const read = <T>(schema: z.ZodType<T>, answer: HttpAnswer, path: string, where: string): T => {
  if (answer.status === 401) throw new EtlError('KEY_REFUSED', `${where}: the shop refuses the token. Check ${tokenSetting}.`)
  if (answer.status !== 200) throw new EtlError('SERVICE_ERROR', `${where}: ${path} answers ${answer.status}. It is asked again.`)
  const body = schema.safeParse(parseJson(answer, path, addressSetting))
  if (body.success) return body.data
  throw new EtlError('BAD_RESPONSE', `${where}: ${path} gives an unexpected response. It is asked again.`)
}

export const api: Api = {
  // May also come from SHOP_API_TOKEN_FILE or SHOP_API_TOKEN_COMMAND. Never printed.
  secrets: [tokenSetting],
  connection: (environment, account) => {
    const address = () => readAddress(environment, addressSetting)
    // SHOP_API_TOKEN, or SHOP_API_TOKEN_ACME where a definition says `account: acme`.
    const token = () => readKey(environment, settingOf(tokenSetting, account))
    checkSettings(address, token)
    const headers = { 'x-shop-token': token() }
    return { baseUrl: address(), addressSetting, authenticate: () => ({ headers }) }
  },
  allowance: (environment) => ({ requestsPerSecond: readRate(environment, rateSetting, 5), budget: noBudget }),
  // For `millrace check`: shops that the service does not know.
  check: async (http, definitions) => {
    const url = http.url('shops', paths.shops)
    const answer = await http.read({ method: 'GET', endpoint: paths.shops, url, idempotent: true })
    const known = read(z.array(z.string()), answer, paths.shops, 'check')
    return definitions.flatMap(({ pipeline, dimensions }) =>
      dimensions
        .flatMap(({ values }) => values.filter((value) => !known.includes(value)))
        .map((value) => ({ level: 'error' as const, message: `${pipeline}: there is no shop '${value}'; correct for_each.` })),
    )
  },
}

const pageSchema = z.object({ items: z.array(z.unknown()), next: z.string().nullable(), total: z.number() })

async function* bodyOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

const quarters: Readonly<Record<string, string>> = { north: 'Northgate', south: 'Harbour' }

const prices: Source = {
  name: 'shop-api.prices',
  kind: 'walk',
  description: 'Prices of the products of a shop, by month.',
  windowSizes: ['month'],
  params: z.strictObject({ currency: z.enum(['EUR', 'USD']).default('EUR') }),
  dimensions: {
    shop: { description: 'Name of the shop', required: true, mostPerRequest: 1, pattern: /^[a-z]+$/, expected: 'small letters' },
  },
  // `millrace new migration` writes bi.dim_shop from this; each load adds the shops it brings.
  dimensionTables: {
    shop: {
      name: 'dim_shop',
      description: 'Every shop that facts speak of.',
      key: 'Name of the shop.',
      columns: { quarter: { description: 'The part of the town it is in.', textOf: (shop) => quarters[shop] ?? null } },
    },
  },
  fields: {
    product: { type: 'text', description: 'Name of the product', nullable: false },
    price: { type: 'numeric', description: 'Price at the end of the month', unit: 'the requested currency' },
  },
  openFields: false,
  recordsIn: 'items',
  extract: async function* ({ definition, box }, { http }) {
    const { maxPages } = definition.limits
    let cursor: string | null = null
    for (let part = 1; part <= maxPages; part += 1) {
      const url = http.url('prices', paths.prices)
      url.searchParams.set('shop', String(box.slice['shop']))
      url.searchParams.set('month', box.window.from.slice(0, 7))
      url.searchParams.set('currency', String(definition.params['currency']))
      if (cursor !== null) url.searchParams.set('cursor', cursor)
      const answer = await http.read({ method: 'GET', endpoint: paths.prices, url, idempotent: true, part })
      const { next, total } = read(pageSchema, answer, paths.prices, box.key)
      yield { format: 'json', part, body: bodyOf(answer.bytes) }
      // The announced total proves that no page is missing.
      if (next === null) return { fingerprint: { lastUpdated: null, count: total }, expectedRows: total, dataPoints: null }
      cursor = next
    }
    throw new EtlError('TOO_LARGE', `${box.key}: there are more than ${maxPages} pages. Raise limits.max_pages.`)
  },
  estimate: async () => ({ requests: null, rows: null, quota: null }),
}

export const sources = [prices]
