// Endpoints that the interface only names or leaves out, built from public facts about the service.
// One option switches all of them off.
import { addWindows } from '../core/window.ts'
import { checkSubmission } from './batch-endpoints.ts'
import { addMonths } from './publication-calendar.ts'
import { type Exchange, json, type Reply, refusal } from './reply.ts'
import { priceOf } from './report-query.ts'
import type { Service } from './service.ts'
import { granularities, vtables } from './vtables.ts'
import { countries } from './words.ts'

/** Most free retries of a failed report. */
const maxRetries = 3

const span = ({ calendar }: Service): { start_date: string; end_date: string } => {
  const end = addWindows(`${addMonths(calendar.latestMonth(), 1)}-01`, 'day', -1)
  return { start_date: `${calendar.earliestMonth()}-01`, end_date: end }
}

export const capabilities = (service: Service): Reply => {
  const list = [{ code: 'world', name: 'Worldwide' }, ...[...countries].map(([code, name]) => ({ code, name }))]
  const family = { snapshot_interval: span(service), countries: list }
  return json(200, { remaining_hits: service.remaining(), web_desktop_data: family, web_mobile_data: family })
}

export const userCapabilities = (service: Service): Reply =>
  json(200, { allowance: service.settings().quota, user_remaining: service.remaining() })

export const credits = (service: Service): Reply => json(200, { remaining_credits: service.remaining() })

export const describe = (service: Service): Reply => {
  const { start_date, end_date } = span(service)
  const history = { start_date: start_date.slice(0, 7), end_date: end_date.slice(0, 7) }
  return json(
    200,
    [...vtables.values()].map(({ name, metrics, dimension }) => ({
      table: name,
      table_granularity: Object.fromEntries(
        granularities
          .filter((one) => metrics.some((metric) => metric.granularities.includes(one)))
          .map((granularity) => [granularity, history]),
      ),
      table_metrics: metrics.map((metric) => metric.name),
      table_filters: ['domains', 'countries', 'include_subdomains'],
      table_dimensions: dimension === null ? [] : [{ name: dimension.column, description: dimension.about }],
    })),
  )
}

/** The price of a general report; costs nothing and buys nothing. */
export const validate = (service: Service, exchange: Exchange): Reply => {
  const checked = checkSubmission(service, exchange, 'report')
  if (!checked.ok) return json(200, { is_valid: false, estimated_credits: 0, warnings: [], errors: checked.errors })
  const price = priceOf(checked.value)
  const left = service.remaining()
  const warnings = left !== null && price > left ? [`The report costs ${price} credits, ${left} are left`] : []
  return json(200, { is_valid: true, estimated_credits: price, warnings })
}

export const retry = (service: Service, exchange: Exchange): Reply => {
  const report = service.reports.get(exchange.id)
  if (report === null) return refusal('batch', 404, 404, [`report_id: no report ${exchange.id}`])
  const phase = service.reports.phase(report)
  if (phase !== 'internal_error')
    return refusal('batch', 400, 400, [`report_id: the report is ${phase}, only failed ones are retried`])
  if (report.submission.retries >= maxRetries)
    return refusal('batch', 400, 400, [`report_id: retried ${maxRetries} times already`])
  service.reports.retry(report)
  return json(200, { report_id: report.id, status: 'pending' })
}

const historyPage = 20

/** Reports, newest first, in pages; with their requests where the option `history` is `requests`. */
export const history = (service: Service, { url }: Exchange): Reply => {
  const number = (name: string, fallback: number): number => {
    const text = url.searchParams.get(name) ?? ''
    return /^\d{1,9}$/.test(text) ? Number(text) : fallback
  }
  const [limit, offset] = [number('limit', historyPage), number('offset', 0)]
  const all = service.reports.list().toReversed()
  return json(200, {
    reports: all.slice(offset, offset + limit).map(({ id, submission }) => ({
      report_id: id,
      status: submission.status,
      created_at: submission.at,
      type: submission.kind,
      ...(service.settings().history === 'requests' ? { request: submission.body } : {}),
    })),
  })
}
