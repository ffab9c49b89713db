// The service's own list of reports, searched for a submission whose answer was lost: found by what was asked for and when.
import type { ListedReport } from '../core/report-shape.ts'

/** A submission whose answer was lost. */
export interface LostSubmission {
  /** Body as it was sent. */
  readonly request: unknown
  /** When it was sent, by the clock of this machine. */
  readonly sentAtMs: number
}

/** How far apart the service's clock and ours may be, and how late it may begin a report. */
const apartMs = 10 * 60_000

/** Whether a report listed as of then may be the one. */
export const listedSince = ({ sentAtMs }: LostSubmission): number => sentAtMs - apartMs

/**
 * The report that was bought by the submission; null: none that is certainly it. A list that does not tell what was asked for proves nothing: another
 * report of the account may have been submitted in the same minute.
 */
export const findListed = (listed: readonly ListedReport[], lost: LostSubmission): string | null => {
  const [first] = listed
    .filter(({ createdMs }) => createdMs !== null && Math.abs(createdMs - lost.sentAtMs) <= apartMs)
    .filter(({ request }) => asksTheSame(request, lost.request))
    .toSorted((left, right) => (left.createdMs ?? 0) - (right.createdMs ?? 0))
  return first?.reportId ?? null
}

/** The newest report of the span that asked for the same; null: none that is certainly it. */
export const findForgotten = (
  listed: readonly ListedReport[],
  request: unknown,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): string | null => {
  const [first] = listed
    .filter(({ createdMs }) => createdMs !== null && createdMs >= fromMs - apartMs && createdMs <= toMs + apartMs)
    .filter((one) => asksTheSame(one.request, request))
    .toSorted((left, right) => (right.createdMs ?? 0) - (left.createdMs ?? 0))
  return first?.reportId ?? null
}

/** Every value that the list names must be the one that was sent, and it must name at least what is asked for. */
const asksTheSame = (told: unknown, sent: unknown): boolean => {
  if (!isObject(told) || !isObject(sent)) return false
  const names = Object.keys(told).filter((name) => name in sent)
  const decisive = 'report_query' in sent ? ['report_query'] : Object.keys(sent).filter((name) => name !== 'response_format')
  return decisive.every((name) => names.includes(name)) && names.every((name) => isSame(told[name], sent[name]))
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isSame = (one: unknown, other: unknown): boolean => canonical(one) === canonical(other)

/** The order of names means nothing, nor does that of the values of a list. */
const canonical = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonical).sort().join()}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const entries = Object.entries(value).map(([name, inner]) => `${name}:${canonical(inner)}`)
  return `{${entries.sort().join()}}`
}
