// The id of a bought report, wherever the answer holds it: what the shopper endpoint answers is not shown (interface 2.5, api-facts 83).

/** Best first. */
const names = ['report_id', 'reportId', 'id', 'request_id', 'requestId', 'job_id', 'jobId']

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> => typeof value === 'object' && value !== null

const idAt = (value: unknown): string | null => {
  if (!isRecord(value)) return null
  for (const name of names) {
    const id = value[name]
    if ((typeof id === 'string' && id !== '') || (typeof id === 'number' && Number.isFinite(id))) return String(id)
  }
  return null
}

/** At the top, else one level below, where exactly one is named. */
export const reportIdIn = (body: unknown): string | null => {
  const own = idAt(body)
  if (own !== null || !isRecord(body)) return own
  const below = new Set(Object.values(body).flatMap((value) => idAt(value) ?? []))
  const [only] = below
  return below.size === 1 && only !== undefined ? only : null
}
