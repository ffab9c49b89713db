// Checks the bodies of both submissions, strictly: every fault is named with its field.
import { z } from 'zod'
import { addMonths, type Calendar } from './publication-calendar.ts'
import { periodsBetween, type ReportQuery, type TableQuery } from './report-query.ts'
import { granularities, shopperMetrics, vtables } from './vtables.ts'
import { countries } from './words.ts'

export type Checked<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly errors: readonly string[] }

const monthOrDay = z.string().regex(/^\d{4}-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?$/, 'expected YYYY-MM')
const domain = z
  .string()
  .regex(/^(?!www\.)[^\s/:?#@"'<>]+\.[^\s/:?#@"'<>.]+$/, "expected a domain without 'www.', scheme and path")
const domains = z.array(domain).min(1, 'expected at least one domain').max(1_000_000)
const metrics = z.array(z.string()).min(1, 'expected at least one metric')
const responseFormat = z.enum(['csv', 'json'], { error: "expected 'csv' or 'json'" })

const tableSchema = z.strictObject({
  vtable: z.string(),
  granularity: z.enum(granularities),
  filters: z.strictObject({
    domains,
    countries: z.array(z.string()).min(1, 'expected at least one country'),
    include_subdomains: z.boolean().optional(),
  }),
  metrics,
  start_date: monthOrDay,
  end_date: monthOrDay,
  /** Rows of a domain at most; no table here has as many as anybody asks for. */
  paging: z.strictObject({ limit: z.int().positive() }).optional(),
})

const reportSchema = z.strictObject({
  report_name: z.string().optional(),
  webhook_url: z.url({ protocol: /^https?$/, error: 'expected an address' }).optional(),
  delivery_information: z.strictObject({
    response_format: responseFormat,
    delivery_method: z
      .literal('download_link', { error: "expected 'download_link'; the sandbox delivers nowhere else" })
      .optional(),
    delivery_method_params: z.looseObject({}).optional(),
  }),
  report_query: z.strictObject({ tables: z.array(tableSchema).min(1, 'expected at least one table') }),
})

const shopperSchema = z.strictObject({
  domains,
  category_ids: z.array(z.int()).min(1, 'expected at least one category'),
  metrics,
  start_date: monthOrDay,
  end_date: monthOrDay,
  granularity: z.literal('monthly', { error: "expected 'monthly'" }),
  response_format: responseFormat,
})

type Table = z.infer<typeof tableSchema>

/** Without the fields that the interface does not show (4.3). */
const shownSchema = reportSchema.omit({ report_name: true, webhook_url: true }).extend({
  delivery_information: reportSchema.shape.delivery_information.omit({ delivery_method_params: true }),
  report_query: z.strictObject({ tables: z.array(tableSchema.omit({ paging: true })).min(1, 'expected at least one table') }),
})

/** A general batch report request. @param extensions whether fields that the interface does not show are taken */
export const checkReport = (body: unknown, calendar: Calendar, extensions = true): Checked<ReportQuery> => {
  const parsed = (extensions ? reportSchema : shownSchema).safeParse(body)
  if (!parsed.success) return { ok: false, errors: fieldErrors(parsed.error) }
  const { delivery_information, report_query } = parsed.data
  const errors = report_query.tables.flatMap((table, index) => tableErrors(table, `report_query.tables[${index}]`, calendar))
  if (errors.length > 0) return { ok: false, errors }
  const tables = report_query.tables.map((table) => tableQuery(table))
  return { ok: true, value: { kind: 'report', format: delivery_information.response_format, tables } }
}

/** A shopper report request. */
export const checkShopper = (body: unknown, calendar: Calendar): Checked<ReportQuery> => {
  const parsed = shopperSchema.safeParse(body)
  if (!parsed.success) return { ok: false, errors: fieldErrors(parsed.error) }
  const { domains: list, category_ids, metrics: names, start_date, end_date, response_format } = parsed.data
  const errors = [
    ...unknownNames(names, shopperMetrics, 'metrics'),
    ...repeated(list, 'domains'),
    ...repeated(names, 'metrics'),
    ...repeated(category_ids.map(String), 'category_ids'),
    ...periodErrors(start_date, end_date, '', 'monthly', calendar),
  ]
  if (errors.length > 0) return { ok: false, errors }
  const table: TableQuery = {
    vtable: null,
    granularity: 'monthly',
    domains: list,
    places: category_ids.map(String),
    includeSubdomains: true,
    metrics: names,
    dates: periodsBetween(firstDay(start_date), lastDay(end_date), 'monthly'),
  }
  return { ok: true, value: { kind: 'shopper', format: response_format, tables: [table] } }
}

const fieldErrors = (error: z.ZodError): string[] =>
  error.issues.map(({ path, message }) => `${fieldName(path) || 'body'}: ${message}`)

const fieldName = (path: readonly PropertyKey[]): string =>
  path
    .map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`))
    .join('')
    .replace(/^\./, '')

const firstDay = (text: string): string => (text.length === 7 ? `${text}-01` : text)
const lastDay = (text: string): string => (text.length === 7 ? `${text}-31` : text)

const tableQuery = ({ vtable, granularity, filters, metrics: names, start_date, end_date }: Table): TableQuery => ({
  vtable,
  granularity,
  domains: filters.domains,
  places: filters.countries,
  includeSubdomains: filters.include_subdomains ?? true,
  metrics: names,
  dates: periodsBetween(firstDay(start_date), lastDay(end_date), granularity),
})

const tableErrors = (table: Table, field: string, calendar: Calendar): string[] => {
  const vtable = vtables.get(table.vtable)
  if (vtable === undefined)
    return [`${field}.vtable: unknown table '${table.vtable}'; there are ${[...vtables.keys()].join(', ')}`]
  const offered = vtable.metrics.filter((metric) => metric.granularities.includes(table.granularity)).map(({ name }) => name)
  return [
    ...unknownNames(table.metrics, offered, `${field}.metrics`, ` at granularity ${table.granularity}`),
    ...countryErrors(table.filters.countries, `${field}.filters.countries`),
    ...repeated(table.filters.domains, `${field}.filters.domains`),
    ...repeated(table.filters.countries, `${field}.filters.countries`),
    ...repeated(table.metrics, `${field}.metrics`),
    ...periodErrors(table.start_date, table.end_date, `${field}.`, table.granularity, calendar),
  ]
}

const unknownNames = (names: readonly string[], offered: readonly string[], field: string, where = ''): string[] =>
  names
    .filter((name) => !offered.includes(name))
    .map((name) => `${field}: unknown metric '${name}'${where}; there are ${offered.join(', ')}`)

const repeated = (values: readonly string[], field: string): string[] =>
  new Set(values).size === values.length ? [] : [`${field}: a value appears twice`]

/** The batch endpoints write countries in upper case and the world as WW. */
const countryErrors = (values: readonly string[], field: string): string[] =>
  values
    .filter((value) => value !== 'WW' && !(value === value.toUpperCase() && countries.has(value.toLowerCase())))
    .map((value) => `${field}: country '${value}' is not available; expected upper-case ISO codes or WW`)

const periodErrors = (from: string, to: string, field: string, granularity: string, calendar: Calendar): string[] => {
  if (granularity === 'monthly' && (from.length !== 7 || to.length !== 7)) {
    return [`${field}${from.length === 7 ? 'end_date' : 'start_date'}: expected YYYY-MM for monthly data`]
  }
  if (firstDay(from) > lastDay(to)) return [`${field}start_date: ${from} lies after end_date ${to}`]
  const [earliest, latest] = [calendar.earliestMonth(), calendar.latestMonth()]
  if (from.slice(0, 7) < earliest)
    return [`${field}start_date: ${from} is out of range; earliest available period is ${earliest}`]
  if (to.slice(0, 7) <= latest) return []
  return [
    `${field}end_date: ${to} is out of range; latest available is ${latest}; the next appears on ${addMonths(latest, 2)}-10`,
  ]
}
