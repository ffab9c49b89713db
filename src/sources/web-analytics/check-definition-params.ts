// Compares what the key may request with what the definitions need: one finding for each, proved, or not asked and why. Nothing here costs a credit.
import { systemClock } from '../../core/clock.ts'
import { isEtlError } from '../../core/errors.ts'
import type { Definition } from '../../core/types.ts'
import { addWindows, dateIn } from '../../core/window.ts'
import type { Capabilities, ServiceFinding } from '../../extract/api.ts'
import type { HttpAnswer, HttpClient } from '../../extract/http-types.ts'
import { dialectOf, endpoints, pathOf, reportUrl } from './service-dialect.ts'
import { capabilities, credits, describe } from './discovery.ts'
import { consequences, meaningOf, readRefusal, refusalError } from './refusal-table.ts'
import { pageOf } from './json-answer.ts'
import { keywords } from './keywords.ts'
import { listsOf, tableOf } from './known-tables.ts'
import { pathPrefix } from './settings.ts'

const proved = (message: string): ServiceFinding => ({ level: 'proved', message })
const notAsked = (message: string): ServiceFinding => ({ level: 'not asked', message })
const warning = (message: string): ServiceFinding => ({ level: 'warning', message })
const wrong = (message: string): ServiceFinding => ({ level: 'error', message })

/** Sends free requests only. One that fails does not stop the others. */
export const check = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => {
  const walks = definitions.filter(({ source }) => source === keywords.name)
  const reports = definitions.filter(({ source }) => source !== keywords.name)
  const batchKey = 'the batch key'
  const questions: readonly Question[] = [
    { key: 'the key', about: endpoints.capabilities, ask: () => countries(http, definitions) },
    { key: 'the key', about: pathOf(http, 'keywords'), ask: () => keywordPath(http, walks) },
    { key: batchKey, about: endpoints.describe, ask: () => datasets(http, reports) },
    { key: batchKey, about: endpoints.credits, ask: () => quotaLeft(http, reports) },
    { key: batchKey, about: pathOf(http, 'status'), ask: () => statusPath(http, reports) },
  ]
  /** By key, why nothing more is requested with it; '' stands for all keys. */
  const useless = new Map<string, string>()
  const findings: ServiceFinding[] = []
  for (const { key, about, ask } of questions) {
    const why = useless.get(key) ?? useless.get('')
    if (why !== undefined) findings.push(notAsked(`${about}: ${why}.`))
    else findings.push(...(await ask().catch((error: unknown) => said(error, key, useless))))
  }
  const submissions = reports.map(({ pipeline }) =>
    notAsked(`${pipeline}: its submission: only a purchase shows whether the service takes it.`),
  )
  return [...findings, ...submissions]
}

interface Question {
  /** A key that is refused once is refused everywhere, and a service that is away is away for all: each is one finding. */
  readonly key: string
  readonly about: string
  ask(): Promise<ServiceFinding[]>
}

const said = (error: unknown, key: string, useless: Map<string, string>): ServiceFinding[] => {
  if (!isEtlError(error) || error.code === 'INTERRUPTED' || error.code === 'CANCELLED') throw error
  if (error.code === 'KEY_REFUSED') useless.set(key, `${key} is refused`)
  if (error.code === 'SERVICE_UNREACHABLE') useless.set('', 'the service cannot be reached')
  return [wrong(error.message)]
}

const countries = async (http: HttpClient, definitions: readonly Definition[]): Promise<ServiceFinding[]> => {
  const offered = await capabilities(http)
  if (offered === null) return [notAsked(`countries and months: the service has no ${endpoints.capabilities}.`)]
  const accepted = [proved(`the key is accepted by ${endpoints.capabilities}.`), ...datesToCome(offered)]
  const known = new Set(offered.families.flatMap(({ values }) => values['countries'] ?? []))
  if (known.size === 0) return [...accepted, notAsked('countries: the service does not list those the key may request.')]
  const refused = definitions.flatMap((definition) =>
    definition.dimensions
      .filter((dimension) => dimension.name === 'country')
      .flatMap((dimension) => dimension.values.filter((value) => !known.has(value)))
      .map((value) =>
        wrong(
          `${definition.pipeline}: the key may not request country '${value}'; see \`millrace capabilities\`, then correct for_each.`,
        ),
      ),
  )
  return [...accepted, ...(refused.length > 0 ? refused : [proved('the key may request every country of the definitions.')])]
}

const datesToCome = ({ families }: Capabilities): ServiceFinding[] => {
  const tomorrow = addWindows(dateIn(systemClock.now(), 'UTC'), 'day', 1)
  return families
    .filter(({ to }) => to !== null && to > tomorrow)
    .map(({ name, to }) =>
      warning(`${endpoints.capabilities} says that ${name} has data until ${to}, a future day: it is ignored; ask the service.`),
    )
}

/**
 * No month that far ahead has data, and a request without data costs nothing (api-facts A 11). A service may answer for its newest month instead (A 75), so the
 * request lacks the required domain: the refusal still shows whether path and key are right.
 */
const monthAhead = '2999-01'

const keywordPath = async (http: HttpClient, [first]: readonly Definition[]): Promise<ServiceFinding[]> => {
  if (first === undefined) return []
  const endpoint = pathOf(http, 'keywords')
  const { parameters, country, list } = dialectOf(http).keywords
  const url = http.url('keywords', endpoint)
  const asked = {
    [parameters.country]: country(first.dimensions.find(({ name }) => name === 'country')?.values[0] ?? 'us'),
    [parameters.from]: monthAhead,
    [parameters.to]: monthAhead,
    [parameters.limit]: '1',
  }
  for (const [name, value] of Object.entries(asked)) url.searchParams.set(name, value)
  const answer = await http.read({ method: 'GET', endpoint, url, idempotent: true })
  if (isWebPage(answer)) return [noSuchPath('keywords', endpoint, answer)]
  const refusal = readRefusal(answer)
  const meaning = answer.status < 400 ? 'no data' : meaningOf(refusal, 'rest')
  if (answer.status === 404 && meaning !== 'no data') return [noSuchPath('keywords', endpoint, answer)]
  if (meaning === 'key or data?' || meaning === 'key or credits?')
    return [
      notAsked(
        `the key at ${endpoint}: it answers ${answer.status} "${refusal.text}", which does not say whether the key is meant.`,
      ),
    ]
  if (refusal.code === 'FORBIDDEN_ERROR')
    return [wrong(`${first.pipeline}: ${endpoint} answers 403 "${refusal.text}". ${consequences[meaning].next}`)]
  const error = refusalError(refusal, endpoint, 'check')
  // A refusal for the domain, as expected, or for the month or the limit comes only once path and key are accepted.
  const isLetIn = meaning === 'no data' || ['NOT_PUBLISHED', 'BAD_REQUEST', 'NO_CAPABILITY'].includes(consequences[meaning].code)
  if (!isLetIn) throw error
  const isPage = answer.status < 300 && (pageOf(answer, endpoint, list)?.records ?? []).length > 0
  return [
    proved(`${endpoint} is there and accepts the key.`),
    ...(isPage ? [warning(`${endpoint} answers a request without a domain with keywords, which may have cost a page.`)] : []),
  ]
}

const unknownReport = '00000000-0000-4000-8000-000000000000'

const statusPath = async (http: HttpClient, reports: readonly Definition[]): Promise<ServiceFinding[]> => {
  if (reports.length === 0) return []
  const endpoint = pathOf(http, 'status')
  const url = reportUrl(http, 'status', endpoint, unknownReport)
  const answer = await http.read({ method: 'GET', endpoint, url, idempotent: true })
  if (isWebPage(answer)) return [noSuchPath('status', endpoint, answer)]
  const refusal = readRefusal(answer)
  if (answer.status === 404 && !speaksOfId(refusal.text))
    return [notAsked(`the path ${endpoint}: the service answers 404 to an id it cannot know, which may mean the id or the path.`)]
  const error = answer.status >= 400 ? refusalError(refusal, endpoint, 'check') : null
  if (error !== null && !['BAD_REQUEST', 'NO_CAPABILITY', 'NOT_PUBLISHED'].includes(error.code)) throw error
  return [proved(`${endpoint} is there and accepts the batch key.`)]
}

const speaksOfId = (text: string): boolean => /\b(report|request|id|job)/i.test(text)

const isWebPage = ({ contentType, bytes }: HttpAnswer): boolean =>
  /html/i.test(contentType) || /^\s*<(!doctype|html)/i.test(bytes.subarray(0, 200).toString('latin1'))

const noSuchPath = (name: 'keywords' | 'status', endpoint: string, answer: HttpAnswer): ServiceFinding =>
  wrong(
    `${endpoint} is not there: the service answers ${answer.status}${isWebPage(answer) ? ' with a web page' : ''}. Check WEB_ANALYTICS_BASE_URL, or set ${pathPrefix}${name.toUpperCase()}.`,
  )

const datasets = async (http: HttpClient, reports: readonly Definition[]): Promise<ServiceFinding[]> => {
  const general = reports.filter(({ params }) => typeof params['vtable'] === 'string')
  if (general.length === 0) return []
  const offered = await describe(http)
  if (offered === null) return [notAsked(`datasets and metrics: the service has no ${endpoints.describe}.`)]
  return general.flatMap((definition) => {
    const { pipeline, params, window } = definition
    const dataset = offered.find((one) => one.table === params['vtable'])
    if (dataset === undefined)
      return [wrong(`${pipeline}: the service does not offer dataset '${String(params['vtable'])}'; see \`millrace describe\`.`)]
    const { until, successor } = tableOf(params)
    const ends: ServiceFinding[] =
      until === undefined || window.publication.until !== undefined
        ? []
        : [
            warning(
              `${pipeline}: the table ${dataset.table} ends with ${until}${successor === undefined ? '' : `; ${successor} continues it`}; write until: ${until}${successor === undefined ? '' : ' and the successor'} into the definition.`,
            ),
          ]
    const strange = wrongFilters(definition, dataset.filters)
    if (strange.length > 0) return [...strange, ...ends]
    if (dataset.metrics.length === 0)
      return [...ends, notAsked(`${pipeline}: its metrics: the service does not name those of '${dataset.table}'.`)]
    const missing = missingMetrics(definition, dataset.metrics)
    return missing.length > 0
      ? [...missing, ...ends]
      : [...ends, proved(`${pipeline}: the service offers '${dataset.table}' with every metric of the definition.`)]
  })
}

const mostListed = 60

const listed = (names: readonly string[]): string =>
  `${names.slice(0, mostListed).join(', ')}${names.length > mostListed ? ` and ${names.length - mostListed} more` : ''}`

/** List filters that a report of the definition would name and the service does not describe. It need not describe other filters. */
const wrongFilters = ({ pipeline, params }: Definition, offered: readonly string[] | null): ServiceFinding[] =>
  offered === null
    ? []
    : listsOf(tableOf(params))
        .filter((filter) => !offered.includes(filter))
        .map((filter) =>
          wrong(
            `${pipeline}: the table ${String(params['vtable'])} has no filter '${filter}'; it filters by ${listed(offered) || 'nothing'}. Correct params.filters and for_each.`,
          ),
        )

const missingMetrics = (definition: Definition, offered: readonly string[]): ServiceFinding[] =>
  definition.columns
    .filter((column) => !column.isKey && column.origin === 'response' && !offered.includes(column.from[0] ?? column.name))
    .map((column) =>
      wrong(
        `${definition.pipeline}: dataset ${String(definition.params['vtable'])} has no metric '${column.from[0] ?? column.name}' (column ${column.name}). It has ${listed(offered)}.`,
      ),
    )

const quotaLeft = async (http: HttpClient, reports: readonly Definition[]): Promise<ServiceFinding[]> => {
  if (reports.length === 0) return []
  const left = await credits(http)
  if (left === null) return [notAsked(`credits: the service has no ${endpoints.credits}.`)]
  if (left.remaining === 0)
    return [warning('No credits are left for batch reports; submissions will be refused until they are refilled.')]
  return [
    proved(
      `the batch key is accepted by ${endpoints.credits}${left.remaining === null ? '' : `; ${left.remaining} credits are left`}.`,
    ),
  ]
}
