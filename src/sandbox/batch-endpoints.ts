// The batch endpoints of the interface (2.3 to 2.5, 4.2 to 4.4): submit (checked strictly), status, download.
import { pipeline, Readable } from 'node:stream'
import { createGzip } from 'node:zlib'
import { z } from 'zod'
import { contentFaults } from './fault-kinds.ts'
import { versionOf } from './keyword-endpoint.ts'
import { addMonths, type Calendar } from './publication-calendar.ts'
import { type Exchange, json, plainText, quotaExhausted, type Reply, refusal, retryAfter } from './reply.ts'
import { fateOf, type Report } from './report-jobs.ts'
import { periodsBetween, priceOf, type ReportQuery, type ReportWorld, type TableQuery } from './report-query.ts'
import { reportText } from './report-text.ts'
import type { Settings } from './sandbox-options.ts'
import type { Service } from './service.ts'
import { granularities, vtableOf, vtables } from './vtables.ts'
import { countries } from './words.ts'

const linkLifeMs = 30 * 24 * 3_600_000

export const checkSubmission = (service: Service, exchange: Exchange, kind: ReportQuery['kind']): Checked => {
  if (!exchange.isJson) return { ok: false, errors: ['Content-Type: expected application/json'] }
  if (exchange.body === undefined) return { ok: false, errors: ['body: not JSON'] }
  const { extensions } = service.settings()
  const checked =
    kind === 'report' ? checkReport(exchange.body, service.calendar, extensions) : checkShopper(exchange.body, service.calendar)
  const errors = checked.ok ? limitErrors(checked.value, service.settings()) : []
  return errors.length > 0 ? { ok: false, errors } : checked
}

/** Not idempotent unless the option is on: the same body again buys another report. */
export const submit = (service: Service, exchange: Exchange, kind: ReportQuery['kind']): Reply => {
  const checked = checkSubmission(service, exchange, kind)
  if (!checked.ok) return refusal('batch', 400, 400, checked.errors)
  const { idempotent, openReports, retryAfter: form, shopperReply, reportDurationMs } = service.settings()
  if (service.reports.open() >= openReports) {
    const header = retryAfter(form, reportDurationMs / 1000, Date.now())
    return refusal('batch', 429, 429, [`Too many pending reports: at most ${openReports} at once`], header)
  }
  const name = kind === 'shopper' ? shopperReply : 'report_id'
  const before = idempotent
    ? service.reports.list().findLast(({ submission }) => JSON.stringify(submission.body) === JSON.stringify(exchange.body))
    : undefined
  if (before !== undefined) return json(200, { [name]: before.id, status: before.submission.status })
  const left = service.remaining()
  if (left !== null && priceOf(checked.value) > left) return quotaExhausted('batch')
  const report = accept(service, exchange, checked.value)
  service.webhooks.follow(report.id, addressIn(exchange.body))
  return json(200, { [name]: report.id, status: 'pending' })
}

const addressIn = (body: unknown): string | null =>
  typeof body === 'object' && body !== null && 'webhook_url' in body ? String(body.webhook_url) : null

const accept = (service: Service, exchange: Exchange, query: ReportQuery): Report => {
  const failed = exchange.fault('report-failed')
  const content = new Map(
    contentFaults.flatMap((kind) => {
      const fault = exchange.fault(kind)
      return fault === null ? [] : [[kind, fault] as const]
    }),
  )
  return service.reports.add({
    query,
    world: worldOf(service),
    fate: fateOf(failed, exchange.fault('report-rejected'), exchange.fault('report-stuck')),
    mends: failed?.mends ?? true,
    content,
    body: exchange.body,
    key: exchange.key,
    caller: exchange.caller,
    nowMs: service.calendar.nowMs(),
  })
}

export const worldOf = (service: Service): ReportWorld => {
  const { seed, reportRows, hostile, sparse, keywordsByDomain } = service.settings()
  const unknown = Object.entries(keywordsByDomain).flatMap(([domain, rows]) => (rows === 0 ? [domain] : []))
  return {
    seed,
    reportRows,
    hostile,
    sparse,
    unknown: new Set(unknown),
    generations: service.calendar.generations(),
    methods: service.calendar.methods(),
  }
}

const notFound = (id: string): Reply => refusal('batch', 404, 404, [`report_id: no report ${id}`])

export const domainsOf = (report: Report | null): string[] => report?.query.tables.flatMap(({ domains }) => domains) ?? []

/** The state of a report. @param linkBase address before the path of a download link */
export const status = (service: Service, exchange: Exchange, linkBase: string): Reply => {
  const { reports, calendar } = service
  const report = reports.get(exchange.id)
  if (report === null) return notFound(exchange.id)
  report.submission.statusRequests += 1
  const unknownWord = exchange.fault('unknown-status-word')
  if (unknownWord !== null) return json(200, { status: unknownWord.word ?? 'warming_up' })
  if (exchange.fault('report-retry') !== null) return json(200, { status: 'retry' })
  const phase = reports.phase(report)
  if (phase === 'internal_error') return json(200, { status: phase, errors: ['The report could not be made'] })
  if (phase === 'bad_request') return json(200, { status: phase, errors: ['The report request is not valid'] })
  if (phase !== 'done') return json(200, { status: phase })
  const linkless = exchange.fault('done-without-link') !== null
  reports.list()
  const { dataPoints } = service.settings()
  return json(200, {
    ...(dataPoints === 'none' ? {} : { data_points_count: reports.points(report, dataPoints) }),
    ...(linkless ? {} : { download_url: linkBase + reports.link(report, calendar.nowMs() + linkLifeMs) }),
    status: service.settings().finalWord,
    ...versionOf(service),
    used_quota: report.submission.chargedQuota ?? 0,
  })
}

/** The report's file. Needs a signed link, no key. */
export const download = (service: Service, exchange: Exchange): Reply => {
  const { csv, gzip } = service.settings()
  const found = service.reports.follow(exchange.url.pathname, exchange.url.searchParams, service.calendar.nowMs())
  if ('refused' in found) return plainText(found.refused, 'This link is not valid or has expired')
  const { report, link } = found
  const expired = exchange.fault('expired-link')
  if (expired !== null) {
    report.expiredThrough = link
    report.expiredStatus = expired.status ?? 403
    return plainText(report.expiredStatus, 'This link has expired')
  }
  const { query, world, content } = report
  const rows = service.reports.rows(report)
  const body = reportText({ query, world, csv, faults: content, rows, key: service.settings().apiKey })
  const isCalledCsv = (query.format === 'csv') === (exchange.fault('wrong-content-type') === null)
  const type = isCalledCsv ? 'text/csv; charset=utf-8' : 'application/x-ndjson'
  const zipped = gzip === 'file' || (gzip === 'encoding' && exchange.acceptsGzip)
  return {
    status: 200,
    headers: {
      'content-type': gzip === 'file' ? 'application/gzip' : type,
      'content-disposition': `attachment; filename="${report.id}.${query.format}${gzip === 'file' ? '.gz' : ''}"`,
      ...(gzip === 'encoding' && zipped ? { 'content-encoding': 'gzip' } : {}),
    },
    body: zipped ? gzipped(body) : body,
    onSent: () => {
      report.submission.downloads += 1
    },
  }
}

const gzipped = (body: Iterable<Buffer>): AsyncIterable<Buffer> =>
  pipeline(Readable.from(body), createGzip({ level: 1 }), (error) => {
    // The client has closed the connection, so no one can get the error.
    if (error) return
  })

type Limits = Pick<Settings, 'mostValues' | 'mostMonths' | 'mostCells' | 'refusedDomains' | 'refusedMonths'>

/** One text for each limit that the request exceeds; empty: it is accepted. */
const limitErrors = ({ kind, tables }: ReportQuery, limits: Limits): string[] => {
  const { mostValues, mostMonths, mostCells, refusedDomains, refusedMonths } = limits
  const beyond = (name: string, count: number, most: number | null): string[] =>
    most === null || count <= most ? [] : [`${name}: ${count} are asked for, at most ${most} go into one report`]
  const cells = tables.reduce((sum, { domains, places, dates }) => sum + domains.length * places.length * dates.length, 0)
  return [
    ...tables.flatMap(({ domains, places, dates }) => {
      const months = [...new Set(dates.map((date) => date.slice(0, 7)))]
      return [
        ...beyond('domains', domains.length, mostValues),
        ...beyond(kind === 'shopper' ? 'category_ids' : 'countries', places.length, mostValues),
        ...beyond('months', months.length, mostMonths),
        ...domains.filter((name) => refusedDomains.includes(name)).map((name) => `domains: '${name}' is not known`),
        ...months.filter((name) => refusedMonths.includes(name)).map((name) => `start_date: there is no data for ${name}`),
      ]
    }),
    ...(mostCells === null || cells <= mostCells ? [] : [`The report has ${cells} cells, at most ${mostCells} are made at once`]),
  ]
}

type Checked = { readonly ok: true; readonly value: ReportQuery } | { readonly ok: false; readonly errors: readonly string[] }

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
  /** Most rows of a domain. Accepted without effect, because no table here has so many rows. */
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

/** The same without fields that the interface does not show (4.3). */
const shownSchema = reportSchema.omit({ report_name: true, webhook_url: true }).extend({
  delivery_information: reportSchema.shape.delivery_information.omit({ delivery_method_params: true }),
  report_query: z.strictObject({ tables: z.array(tableSchema.omit({ paging: true })).min(1, 'expected at least one table') }),
})

/** Checks a general batch report request. @param extensions whether fields that the interface does not show are accepted */
export const checkReport = (body: unknown, calendar: Calendar, extensions = true): Checked => {
  const parsed = (extensions ? reportSchema : shownSchema).safeParse(body)
  if (!parsed.success) return { ok: false, errors: fieldErrors(parsed.error) }
  const { delivery_information, report_query } = parsed.data
  const asked = report_query.tables.map(({ vtable, granularity, filters, metrics: names, ...span }, index): Asked => {
    const at = `report_query.tables[${index}].`
    return {
      ...{ vtable, granularity, domains: filters.domains, places: filters.countries, metrics: names },
      includeSubdomains: filters.include_subdomains ?? true,
      ...{ from: span.start_date, to: span.end_date, at, filtersAt: `${at}filters.`, placesAt: `${at}filters.countries` },
    }
  })
  return checkTables('report', delivery_information.response_format, asked, calendar)
}

export const checkShopper = (body: unknown, calendar: Calendar): Checked => {
  const parsed = shopperSchema.safeParse(body)
  if (!parsed.success) return { ok: false, errors: fieldErrors(parsed.error) }
  const { domains: list, category_ids, metrics: names, start_date: from, end_date: to, response_format } = parsed.data
  const asked: Asked = {
    ...{ vtable: null, granularity: 'monthly', domains: list, places: category_ids.map(String), metrics: names },
    ...{ includeSubdomains: true, from, to, at: '', filtersAt: '', placesAt: 'category_ids' },
  }
  return checkTables('shopper', response_format, [asked], calendar)
}

/** A requested table, and the names of the request's fields, for messages. */
type Asked = Omit<TableQuery, 'dates'> & Readonly<Record<'from' | 'to' | 'at' | 'filtersAt' | 'placesAt', string>>

const checkTables = (
  kind: ReportQuery['kind'],
  format: ReportQuery['format'],
  asked: readonly Asked[],
  calendar: Calendar,
): Checked => {
  const errors = asked.flatMap((table) => tableErrors(table, calendar))
  if (errors.length > 0) return { ok: false, errors }
  const tables = asked.map(({ vtable, granularity, domains: list, places, includeSubdomains, metrics: names, from, to }) => ({
    ...{ vtable, granularity, domains: list, places, includeSubdomains, metrics: names },
    dates: periodsBetween(firstDay(from), lastDay(to), granularity),
  }))
  return { ok: true, value: { kind, format, tables } }
}

const fieldErrors = (error: z.ZodError): string[] =>
  error.issues.map(({ path, message }) => `${z.core.toDotPath(path) || 'body'}: ${message}`)

const firstDay = (text: string): string => (text.length === 7 ? `${text}-01` : text)
const lastDay = (text: string): string => (text.length === 7 ? `${text}-31` : text)

const tableErrors = (asked: Asked, calendar: Calendar): string[] => {
  const { granularity, at, filtersAt, placesAt } = asked
  const table = vtableOf(asked)
  if (table === undefined) return [`${at}vtable: unknown table '${asked.vtable}'; there are ${[...vtables.keys()].join(', ')}`]
  const offered = table.metrics.filter((metric) => metric.granularities.includes(granularity)).map(({ name }) => name)
  return [
    ...unknownNames(asked.metrics, offered, `${at}metrics`, ` at granularity ${granularity}`),
    ...(asked.vtable === null ? [] : countryErrors(asked.places, placesAt)),
    ...repeated(asked.domains, `${filtersAt}domains`),
    ...repeated(asked.places, placesAt),
    ...repeated(asked.metrics, `${at}metrics`),
    ...periodErrors(asked.from, asked.to, at, granularity, calendar),
  ]
}

const unknownNames = (names: readonly string[], offered: readonly string[], field: string, where: string): string[] =>
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
