// The batch endpoints: submit, shopper, validate, status, and the free questions (interface 4.2 to 4.5; facts 1 to 7, 20, 21, 50 to 55, 66 to 72).
import { z } from 'zod'
import { monthsBetween } from '../publication-calendar.ts'
import { month, problems } from '../sandbox-options.ts'
import type { VendorBooks, VendorReport } from './vendor-books.ts'
import { fileOf, quarters, type TableRequest } from './vendor-data.ts'
import type { VendorSettings } from './vendor-options.ts'
import { chargeFor } from './vendor-prices.ts'
import { defaultLimit, shopperTables, vendorTables } from './vendor-tables.ts'
import * as words from './vendor-words.ts'
import { jsonReply, type VendorReply } from './vendor-words.ts'

const list = z.array(z.union([z.string(), z.int()]).transform(String)).min(1)
const format = z.enum(['csv', 'json'])
const tableSchema = z.looseObject({
  vtable: z.string(),
  granularity: z.string(),
  filters: z.record(z.string(), z.unknown()),
  metrics: z.array(z.string()).min(1),
  start_date: month,
  end_date: month,
  paging: z.looseObject({ limit: z.int().positive().optional() }).optional(),
})
const reportSchema = z.looseObject({
  delivery_information: z.looseObject({ response_format: format }),
  report_query: z.looseObject({ tables: z.array(tableSchema).min(1) }),
})
const shopperSchema = z.looseObject({
  domains: list,
  category_ids: list.optional(),
  brands: list.optional(),
  metrics: z.array(z.string()).min(1),
  start_date: month,
  end_date: month,
  granularity: z.string(),
  response_format: format,
  limit: z.int().positive().optional(),
})

interface Submission {
  readonly format: 'csv' | 'json'
  readonly tables: readonly TableRequest[]
}

type Read = { readonly refused: VendorReply } | { readonly asked: Submission }

export const readReport = (settings: VendorSettings, body: unknown): Read => {
  const parsed = reportSchema.safeParse(body)
  if (!parsed.success) return { refused: words.badRequest(problems(parsed.error)) }
  const tables: TableRequest[] = []
  for (const one of parsed.data.report_query.tables) {
    const table = vendorTables.get(one.vtable)
    if (table === undefined) return { refused: words.unknownTable(one.vtable) }
    // include_subdomains is valid only for tables with domains.
    const strange = Object.keys(one.filters).find(
      (name) => !table.filters.includes(name) && !(name === 'include_subdomains' && table.filters[0] === 'domains'),
    )
    if (strange !== undefined) return { refused: words.badRequest(`filters.${strange}: not a filter of table ${table.name}`) }
    const values = table.filters.map((filter) => list.safeParse(one.filters[filter]).data ?? [])
    const missing = table.filters.findIndex((_, index) => values[index]?.length === 0)
    if (missing >= 0) return { refused: words.badRequest(`filters.${table.filters[missing]}: expected at least one value`) }
    const { granularity, metrics, start_date: from, end_date: to } = one
    tables.push({ table, granularity, metrics, from, to, values, limit: one.paging?.limit ?? defaultLimit })
  }
  return checked(settings, { format: parsed.data.delivery_information.response_format, tables })
}

export const readShopper = (settings: VendorSettings, body: unknown): Read => {
  const parsed = shopperSchema.safeParse(body)
  if (!parsed.success) return { refused: words.badRequest(problems(parsed.error)) }
  const { domains, category_ids, brands, metrics, granularity, start_date: from, end_date: to, response_format } = parsed.data
  const table = shopperTables[brands === undefined ? 'category_ids' : 'brands']
  const second = brands ?? category_ids
  if (table === undefined || second === undefined) return { refused: words.badRequest('category_ids: expected a list') }
  const limit = parsed.data.limit ?? defaultLimit
  return checked(settings, {
    format: response_format,
    tables: [{ table, granularity, metrics, from, to, values: [domains, second], limit }],
  })
}

const checked = (settings: VendorSettings, asked: Submission): Read => {
  // Of several tables the smallest limit holds for all (fact 55).
  const mostValues = Math.min(...asked.tables.map(({ table }) => table.mostValues))
  for (const one of asked.tables) {
    const refused = tableRefused(settings, { ...one, table: { ...one.table, mostValues } })
    if (refused !== null) return { refused }
  }
  return { asked: settings.widens ? { ...asked, tables: asked.tables.map((one) => ({ ...one, ...quarters(one) })) } : asked }
}

const tableRefused = (settings: VendorSettings, asked: TableRequest): VendorReply | null => {
  const { table, granularity, metrics, from, to, values } = asked
  const { plan, oldestMonth, newestMonth } = settings
  const planName = table.name.startsWith('shopper') ? 'shopper' : table.name
  if (plan.tables !== null && !plan.tables.includes(planName)) return words.forbidden
  if (!table.granularities.includes(granularity)) return words.wrongGranularity(table.granularities)
  if (metrics.some((metric) => !table.metrics.includes(metric))) return words.wrongMetrics(table.name)
  if (from < oldestMonth) return words.beforeHistory(granularity, oldestMonth, from)
  if (table.until !== null && to > table.until) return words.unknownTable(table.name)
  if (to > newestMonth || from > to) return words.datesNotInRange
  if (monthsBetween(from, to).length > table.mostMonths) return words.spanTooLong(table.mostMonths)
  if ((values[0]?.length ?? 0) > table.mostValues)
    return words.badRequest(`${table.filters[0]}: at most ${table.mostValues} are supported`)
  return placeRefused(settings, asked)
}

/** Batch spells the world WW and countries in upper case (fact 38). */
const placeRefused = ({ plan }: VendorSettings, { table, values }: TableRequest): VendorReply | null => {
  const countries = table.filters.includes('countries') ? (values[table.filters.indexOf('countries')] ?? []) : []
  const wrong = countries.find((code) => code !== code.toUpperCase())
  if (wrong !== undefined) return words.badRequest(`countries: ${wrong} is not valid`)
  const has = (code: string): boolean =>
    plan.countries === null || plan.countries.includes(code === 'WW' ? 'world' : code.toLowerCase())
  if (!countries.every(has)) return words.countryLacks(countries.length)
  const lacked =
    plan.domains !== null && table.filters[0] === 'domains' && !(values[0] ?? []).every((one) => plan.domains?.includes(one))
  return lacked ? words.forbidden : null
}

/** The files and their prices by table. Without rows: a header, and a message in the first data row (fact 72). */
const make = (settings: VendorSettings, { format: form, tables }: Submission) => {
  const files = tables.map((asked) => ({
    asked,
    ...fileOf(asked, settings.seed, (value) => settings.keywordsByDomain[value] !== 0),
  }))
  const texts = files.map(({ header, rows }) => (form === 'csv' ? csvOf(header, rows) : jsonOf(header, rows)))
  const priced = files.map(({ asked, rows }) => {
    const cells = asked.values.reduce((product, values) => product * values.length, monthsBetween(asked.from, asked.to).length)
    const size = { rowsAsked: cells * asked.limit, rows: rows.length, metrics: asked.metrics.length, periods: cells }
    return { price: settings.prices[asked.table.name] ?? asked.table.price, size }
  })
  const points = files.reduce((sum, file) => sum + file.rows.length * file.asked.metrics.length, 0)
  return { text: texts.join(''), points, priced }
}

const csvOf = (header: readonly string[], rows: readonly (readonly string[])[]): string =>
  `${[header, ...(rows.length === 0 ? [['No data returned']] : rows)].map((row) => row.join(',')).join('\n')}\n`

const jsonOf = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const cellOf = (cell = ''): string | number => (/^-?[\d.]+$/.test(cell) ? Number(cell) : cell)
  const recordOf = (row: readonly string[]) => Object.fromEntries(header.map((name, index) => [name, cellOf(row[index])]))
  return rows.map((row) => `${JSON.stringify(recordOf(row))}\n`).join('')
}

/** Accepts and charges a report: 200 with an id, or a refusal. */
export const submit = (
  settings: VendorSettings,
  books: VendorBooks,
  read: Read,
  body: unknown,
  shopper: boolean,
): VendorReply => {
  if ('refused' in read) return read.refused
  if (books.pending() >= settings.pendingReports) return words.tooManyPending
  const made = make(settings, read.asked)
  const [first] = read.asked.tables
  let credits = 0
  for (const { price, size } of made.priced) {
    const charged = books.charge('batch', first?.table.name ?? 'report', price, size)
    if (charged === null) return words.outOfCredits
    credits += charged
  }
  const report = books.take({ body, format: read.asked.format, text: made.text, rows: made.points, credits })
  return idReply(settings, report, shopper)
}

const idReply = ({ shopperReply }: VendorSettings, { id }: VendorReport, shopper: boolean): VendorReply => {
  if (!shopper) return jsonReply(200, { report_id: id, status: 'pending' })
  return jsonReply(
    200,
    shopperReply === 'data.report_id' ? { data: { report_id: id } } : { [shopperReply]: id, status: 'pending' },
  )
}

/** Free: the price of a report, or its errors (facts 21, 68). */
export const validate = (settings: VendorSettings, read: Read): VendorReply => {
  if ('refused' in read) return jsonReply(200, { is_valid: false, warnings: [], errors: errorsIn(read.refused.body) })
  const estimated = make(settings, read.asked).priced.reduce((sum, { price, size }) => sum + chargeFor(price, size), 0)
  return jsonReply(200, { is_valid: true, estimated_credits: estimated, warnings: [] })
}

/** The messages of a refusal, from any of its forms. */
const errorsIn = (body: string): unknown => {
  const parsed: { errors?: unknown; error?: { error_message?: string } } = JSON.parse(body)
  return parsed.errors ?? [parsed.error?.error_message ?? body]
}

/** The state of a report (facts 1, 4, 46); a finished one tells the used quota, in the interface's form. */
export const status = (books: VendorBooks, id: string, linkBase: string): VendorReply => {
  const report = books.reports.get(id)
  if (report === undefined) return jsonReply(404, { errors: ['request id not found'] })
  if (!books.isDone(report)) return jsonReply(200, { status: Date.now() - report.takenAtMs < 50 ? 'pending' : 'processing' })
  return jsonReply(200, {
    status: 'completed',
    used_quota: report.credits,
    data_points_count: report.rows,
    download_url: `${linkBase}/files/${report.id}.${report.format}`,
  })
}

/** Remaining credits (facts 19, 51). */
export const credits = (books: VendorBooks): VendorReply => jsonReply(200, { remaining_credits: books.left('batch') })

/** The user's cap and what is left of it. Both null without a cap: then a client asks `credits` (fact 50). */
export const userCredits = ({ userCap }: VendorSettings, books: VendorBooks): VendorReply =>
  jsonReply(200, { user_allowance: userCap, user_remaining: userCap === null ? null : books.left('batch') })

/** The datasets, as a bare list (fact 20). */
export const describe = ({ oldestMonth, newestMonth, plan }: VendorSettings): VendorReply =>
  jsonReply(
    200,
    [...vendorTables.values()]
      .filter(({ name }) => plan.tables === null || plan.tables.includes(name))
      .map((table) => ({
        table: table.name,
        table_granularity: Object.fromEntries(
          table.granularities.map((name) => [name, { start_date: oldestMonth, end_date: table.until ?? newestMonth }]),
        ),
        table_metrics: table.metrics,
        table_filters: table.filters,
      })),
  )
