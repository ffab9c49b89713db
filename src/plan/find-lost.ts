// Before anything is planned: submissions whose answer was lost are looked for in the service's own list of reports.
import { messageOf } from '../core/errors.ts'
import type { Definition } from '../core/types.ts'
import { findListed, listedSince } from '../extract/report-history.ts'
import { lostPurchases, unknownReports } from '../ledger/lost-purchases.ts'
import { adoptReport } from '../ledger/purchases.ts'
import { type RequestRecord, recordRequests } from '../ledger/requests.ts'
import { lookContext, recorder } from './plan-context.ts'
import type { PlanRuntime } from './plan-runtime.ts'

/**
 * Records each id that is found: its job goes on, whoever has given consent to send it again. False: the list could not be read, so that nothing
 * may be sent again by this run.
 */
export const findLost = async (
  runtime: PlanRuntime,
  runId: number,
  definition: Definition,
  signal: AbortSignal,
): Promise<boolean> => {
  const { database, sources, clock, progress } = runtime
  const { pipeline, account } = definition
  const source = sources.get(definition.source)
  const lost = source?.listReports === undefined ? [] : await lostPurchases(database.kysely, pipeline)
  if (source?.listReports === undefined || lost.length === 0) return true
  const sent = lost.map(({ jobId, request, askedMsAgo }) => ({ jobId, request, sentAtMs: clock.now() - askedMsAgo }))
  const requests: RequestRecord[] = []
  try {
    const record = recorder(runtime, { runId, pipelineId: null }, requests)
    const context = lookContext(runtime, definition, { signal, record })
    const listed = (await source.listReports(context, Math.min(...sent.map(listedSince)))) ?? []
    const ids = listed.map(({ reportId }) => reportId)
    const free = new Set(await unknownReports(database.kysely, account, ids))
    for (const one of sent) {
      const reportId = findListed(
        listed.filter(({ reportId: id }) => free.has(id)),
        one,
      )
      if (reportId === null) continue
      free.delete(reportId)
      await adoptReport(database.kysely, { jobId: one.jobId, reportId, by: runtime.process.name, isFound: true })
      const message = `${pipeline}: report ${reportId}, whose submission got no answer, was found in the service's own list. It is not bought again.`
      progress.emit({ event: 'notice', code: 'REPORT_FOUND', message })
    }
    return true
  } catch (error) {
    signal.throwIfAborted()
    const message = `${pipeline}: the service's own list of reports cannot be read (${messageOf(error)}), so that no lost submission is sent again in this run.`
    progress.emit({ event: 'notice', code: 'REPORT_UNCERTAIN', message })
    return false
  } finally {
    await recordRequests(database.kysely, requests)
  }
}
