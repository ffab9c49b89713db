// The service's refusals, word for word from part G of the facts; the number in each comment is the fact.

export interface VendorReply {
  readonly status: number
  readonly type: string
  readonly body: string
}

export const jsonReply = (status: number, body: unknown): VendorReply => ({
  status,
  type: 'application/json; charset=utf-8',
  body: JSON.stringify(body),
})

const errors = (...texts: string[]): VendorReply => jsonReply(400, { errors: texts })
const coded = (status: number, code: string, message: string, more: object = {}): VendorReply =>
  jsonReply(status, { error: { code, error_message: message }, ...more })

/** REST and batch (59). */
export const badKey: VendorReply = { status: 401, type: 'text/plain', body: 'invalid API key' }
/** A bad or an unknown domain (60). */
export const dataNotFound = jsonReply(401, { meta: { status: 'Error', error_message: 'Data not found' } })
/** One text for two causes (61). */
export const keyOrCredits = jsonReply(403, { meta: { status: 'Error', error_message: 'Invalid API Key or out of data credits' } })
export const outOfCredits = errors('Not enough data credits')
/** The plan lacks the dataset or the domain. The text is the newest one, it changed between releases; the code did not (62). */
export const forbidden = coded(403, 'FORBIDDEN_ERROR', 'Access forbidden. Upgrade your account.', {
  actions: ['Contact your account manager to add this dataset'],
})
/** One text for three causes: after the newest month, before the history, or too long a span (63). */
export const datesNotInRange = coded(400, 'VALIDATION_ERROR', 'Dates not in range')
const countryTexts = [
  'no data for requested country',
  'country not available',
  'country not covered',
  'no coverage for country',
] as const
/** The plan lacks the country; the service uses several texts (65). */
export const countryLacks = (which: number): VendorReply =>
  coded(400, 'VALIDATION_ERROR', countryTexts[which % countryTexts.length] ?? '')
/** (66) */
export const beforeHistory = (granularity: string, from: string, asked: string): VendorReply =>
  errors(`Historical data for ${granularity} granularity is available as of ${from}. You have requested ${asked}.`)
/** (67) */
export const spanTooLong = (months: number): VendorReply => errors(`supports only an interval of ${months} month(s) of data`)
/** (68) */
export const wrongGranularity = (offered: readonly string[]): VendorReply =>
  errors(`granularity should be one of the following - ${offered.join(', ')}.`)
/** About metrics, not about dates (70). */
export const wrongMetrics = (table: string): VendorReply => errors(`Metrics are not available in table ${table}`)
export const unknownTable = (table: string): VendorReply => errors(`Table ${table} is not available`)
export const badRequest = (text: string): VendorReply => errors(text)
/** Too many pending reports (100 a user); the reply tells neither that nor how long to wait (53, 58, 71). */
export const tooManyPending = jsonReply(429, { message: 'Too Many Requests' })
export const tooManyRequests = jsonReply(429, { message: 'Too Many Requests' })
