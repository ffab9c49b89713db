// The bought reports: states, costs, links, and the announced number of data points: the interface does not say what is counted, so an option
// chooses the reading.
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import type { KeyFlag } from './books.ts'
import type { Fault } from './fault-kinds.ts'
import { type DataPoints, priceOf, type ReportQuery, type ReportWorld } from './report-query.ts'
import { countRows, reportRows, shapeOf } from './report-rows.ts'
import type { ContentFaults } from './report-text.ts'

/** How a report ends when its time is over. */
export type Fate = 'completes' | 'fails' | 'rejected' | 'stuck'
export type Phase = 'pending' | 'processing' | 'done' | 'internal_error' | 'bad_request'

/** @param nowMs since the epoch, for the books */
export interface NewReport {
  readonly query: ReportQuery
  readonly world: ReportWorld
  readonly content: ContentFaults
  readonly fate: Fate
  /** Whether a free retry makes a failed report succeed. */
  readonly mends: boolean
  readonly body: unknown
  readonly key: KeyFlag
  readonly caller: string | null
  readonly nowMs: number
}

export type Report = ReturnType<typeof newReport>

export type ReportStore = ReturnType<typeof createReports>

const linkPath = /^\/downloads\/([0-9a-f-]{36})\.(?:csv|json)(?:\.gz)?$/

/** @param elapsedMs a monotonic clock @param durationMs how long a report takes, read whenever a state is computed */
export const createReports = (elapsedMs: () => number, durationMs: () => number) => {
  const reports = new Map<string, Report>()
  const secret = randomBytes(16)
  const sign = (text: string): string => createHmac('sha256', secret).update(text).digest('hex')
  const phase = (report: Report): Phase => phaseOf(report, elapsedMs() - report.startedMs, durationMs())

  /** The report's `data_points_count`. */
  const points = (report: Report, counted: DataPoints): number => {
    const known = report.points.get(counted) ?? countPoints(report, rowsOf(report), counted)
    report.points.set(counted, known)
    return known
  }

  const settle = (report: Report, finalWord: Phase): void => {
    report.submission.chargedQuota = chargeOf(report, phase(report))
    report.submission.status = finalWord === 'done' ? 'completed' : finalWord
  }

  const list = (): readonly Report[] => {
    for (const report of reports.values()) settle(report, phase(report))
    return [...reports.values()]
  }

  return {
    add: (asked: NewReport): Report => {
      const report = newReport(asked, elapsedMs())
      reports.set(report.id, report)
      return report
    },
    get: (id: string): Report | null => reports.get(id) ?? null,
    list,
    phase,
    rows: rowsOf,
    points,
    /** Reports that are not finished. */
    open: () => [...reports.values()].filter((report) => ['pending', 'processing'].includes(phase(report))).length,
    /** Credits charged so far, and those that unfinished reports may still cost. */
    credits: () => {
      let [charged, reserved] = [0, 0]
      for (const { submission } of list()) {
        charged += submission.chargedQuota ?? 0
        if (submission.chargedQuota === null) reserved += submission.estimatedQuota
      }
      return { charged, reserved }
    },
    retry: (report: Report): void => {
      report.submission.retries += 1
      report.startedMs = elapsedMs()
      if (report.mends) report.fate = 'completes'
    },
    /** Path and query of a fresh link, good until `expiresMs`. */
    link: (report: Report, expiresMs: number): string => {
      report.links += 1
      const signed = `${report.id}.${report.links}.${expiresMs}`
      return `/downloads/${report.id}.${report.query.format}?link=${report.links}&expires=${expiresMs}&signature=${sign(signed)}`
    },
    /** The report and number of a link; or the HTTP status that refuses it. */
    follow: (path: string, query: URLSearchParams, nowMs: number) => {
      const report = reports.get(linkPath.exec(path)?.[1] ?? '')
      const [link, expires] = [Number(query.get('link')), Number(query.get('expires'))]
      if (report === undefined || query.get('signature') !== sign(`${report.id}.${link}.${expires}`)) return { refused: 403 }
      if (link <= report.expiredThrough) return { refused: report.expiredStatus }
      return expires < nowMs ? { refused: 403 } : { report, link }
    },
    clear: () => reports.clear(),
  }
}

const phaseOf = ({ fate }: Report, elapsedMs: number, durationMs: number): Phase => {
  if (elapsedMs < durationMs / 3) return 'pending'
  if (fate === 'stuck' || elapsedMs < durationMs) return 'processing'
  return fate === 'completes' ? 'done' : fate === 'fails' ? 'internal_error' : 'bad_request'
}

/** Credits are charged when processing begins, and refunded where the report fails or is empty. */
const chargeOf = (report: Report, now: Phase): number | null => {
  if (now === 'pending') return null
  if (now === 'internal_error' || now === 'bad_request') return 0
  return now === 'done' && rowsOf(report) === 0 ? 0 : report.submission.estimatedQuota
}

/** Data rows of the report; counted once, because a large report has millions. */
const rowsOf = (report: Report): number => {
  report.rows ??= report.content.has('empty-report') ? 0 : countRows(report.query, report.world)
  return report.rows
}

const newReport = ({ body, key, caller, nowMs, ...asked }: NewReport, startedMs: number) => {
  const { query } = asked
  const id: string = randomUUID()
  return {
    ...{ ...asked, id, startedMs, links: 0 },
    submission: {
      ...{ id, kind: query.kind, body, key, caller, at: new Date(nowMs).toISOString(), estimatedQuota: priceOf(query) },
      /** The sold tables, independent of the form of the body: each with domains x places (countries or categories) x dates. */
      asked: query.tables,
      /** The cost: null before the charge, 0 after a refund. */
      chargedQuota: null as number | null,
      /** The status word that a request would get now. */
      status: 'pending',
      statusRequests: 0,
      /** Number of complete downloads. */
      downloads: 0,
      /** Number of free retries. */
      retries: 0,
    },
    /** Data rows, counted when first needed. */
    rows: null as number | null,
    /** Data points by reading, computed when first needed. */
    points: new Map<DataPoints, number>(),
    /** Links up to this one are refused, with this HTTP status. */
    ...{ expiredThrough: 0, expiredStatus: 403 },
  }
}

/** The fate of a report from the faults that act on it. */
export const fateOf = (failed: Fault | null, rejected: Fault | null, stuck: Fault | null): Fate =>
  stuck !== null ? 'stuck' : rejected !== null ? 'rejected' : failed !== null ? 'fails' : 'completes'

type Counted = Pick<Report, 'query' | 'world' | 'content'>

/** @param rows data rows of the report */
const countPoints = (report: Counted, rows: number, counted: DataPoints): number => {
  if (rows === 0) return 0
  const { metrics } = shapeOf(report.query)
  const entries = rows + (timesOf(report, 'twice') === null ? 0 : 1) - (timesOf(report, 'never') === null ? 0 : 1)
  if (counted === 'rows') return entries
  return counted === 'cells' ? entries * metrics.length : filledCells(report)
}

/** The row that the data points count twice although it exists once, or never although it exists; null: no such fault. */
const timesOf = ({ content }: Counted, times: 'twice' | 'never'): number | null => {
  const fault = times === 'never' ? content.get('extra-row') : content.get('duplicate-rows')
  return fault === undefined || (times === 'twice' && fault.counted !== true) ? null : (fault.row ?? 1)
}

const filledCells = (report: Counted): number => {
  const { query, world } = report
  const keys = shapeOf(query).keys.length
  const [twice, never] = [timesOf(report, 'twice'), timesOf(report, 'never')]
  let [filled, number] = [0, 0]
  for (const row of reportRows(query, world)) {
    number += 1
    if (number !== never) filled += (number === twice ? 2 : 1) * row.slice(keys).filter((value) => value !== null).length
  }
  return filled
}
