// Charges of a payment service in the public shape of Stripe's lists: a bearer key, `starting_after` as the cursor, `has_more` on each page.
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
  secret,
  settingOf,
} from 'millrace'
import { z } from 'zod'

const addressSetting = 'PAYMENTS_API_URL'
const keySetting = 'PAYMENTS_API_KEY'
const rateSetting = 'PAYMENTS_API_REQUESTS_PER_SECOND'
const path = '/v1/charges'

const pageSchema = z.object({ data: z.array(z.looseObject({ id: z.string() })), has_more: z.boolean() })

/** The page as it should be; throws what any other answer means. */
const readPage = (answer: HttpAnswer, where: string): z.infer<typeof pageSchema> => {
  if (answer.status === 401) throw new EtlError('KEY_REFUSED', `${where}: the service refuses the key. Check ${keySetting}.`)
  if (answer.status !== 200) throw new EtlError('SERVICE_ERROR', `${where}: ${path} answers ${answer.status}. It is asked again.`)
  const page = pageSchema.safeParse(parseJson(answer, path, addressSetting))
  if (page.success) return page.data
  throw new EtlError('BAD_RESPONSE', `${where}: ${path} answers something else than a list of charges. It is asked again.`)
}

export const api: Api = {
  // May also come from PAYMENTS_API_KEY_FILE or PAYMENTS_API_KEY_COMMAND. Never printed.
  secrets: [keySetting],
  connection: (environment, account) => {
    const address = () => readAddress(environment, addressSetting)
    const key = () => readKey(environment, settingOf(keySetting, account))
    checkSettings(address, key)
    const headers = { authorization: secret(keySetting, `Bearer ${key().reveal()}`) }
    return { baseUrl: address(), addressSetting, authenticate: () => ({ headers }) }
  },
  allowance: (environment) => ({ requestsPerSecond: readRate(environment, rateSetting, 25), budget: noBudget }),
}

async function* bodyOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes
}

const secondsOf = (day: string): string => String(Date.parse(`${day}T00:00:00Z`) / 1000)

const regions: Readonly<Record<string, string>> = { cus_north: 'North', cus_south: 'South' }

const charges: Source = {
  name: 'payments-api.charges',
  kind: 'walk',
  description: 'Charges of a customer, by the day they were made.',
  windowSizes: ['day'],
  params: z.strictObject({}),
  dimensions: {
    customer: {
      description: "The service's number of the customer",
      required: true,
      mostPerRequest: 1,
      pattern: /^cus_[A-Za-z0-9_]+$/,
      expected: 'cus_ and letters or digits',
    },
  },
  dimensionTables: {
    customer: {
      name: 'dim_customer',
      description: 'Every customer that charges speak of.',
      key: "The service's number of the customer.",
      columns: { region: { description: 'Where the customer is.', textOf: (customer) => regions[customer] ?? null } },
    },
  },
  fields: {
    id: { type: 'text', description: 'Number of the charge', nullable: false },
    amount: { type: 'bigint', description: 'Requested amount', unit: 'smallest unit of the currency' },
    amount_refunded: { type: 'bigint', description: 'Of it, given back since', unit: 'smallest unit of the currency' },
    currency: { type: 'text', description: 'Three-letter ISO code in lower case' },
    status: { type: 'text', description: 'succeeded, pending or failed' },
  },
  openFields: false,
  recordsIn: 'data',
  extract: async function* ({ definition, box }, { http }) {
    const { maxPages, pageSize } = definition.limits
    let rows = 0
    let after: string | null = null
    for (let part = 1; part <= maxPages; part += 1) {
      const url = http.url('charges', path)
      url.searchParams.set('customer', String(box.slice['customer']))
      url.searchParams.set('created[gte]', secondsOf(box.window.from))
      url.searchParams.set('created[lt]', secondsOf(box.window.to))
      url.searchParams.set('limit', String(pageSize))
      if (after !== null) url.searchParams.set('starting_after', after)
      const answer = await http.read({ method: 'GET', endpoint: path, url, idempotent: true, part })
      const { data, has_more: hasMore } = readPage(answer, box.key)
      rows += data.length
      yield { format: 'json', part, body: bodyOf(answer.bytes) }
      // No total is announced: the page that says so is the last one, and what came is what must be loaded.
      if (!hasMore) return { fingerprint: { lastUpdated: null, count: rows }, expectedRows: rows, dataPoints: null }
      const last = data.at(-1)
      if (last === undefined) throw new EtlError('INCOMPLETE', `${box.key}: an empty page says that there is more. It is asked again.`)
      after = last.id
    }
    throw new EtlError('TOO_LARGE', `${box.key}: there are more than ${maxPages} pages. Raise limits.max_pages.`)
  },
  estimate: async () => ({ requests: null, rows: null, quota: null }),
}

export const sources = [charges]
