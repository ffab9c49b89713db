// The ledger as Prometheus metrics, read when they are asked for; figures equal the page's because both are the ledger's.
import { Gauge, Registry } from 'prom-client'
import { unitStates } from '../core/types.ts'
import type { WebContext } from './context.ts'
import { type AlarmLine, openAlarms } from './reads/read-alarms.ts'
import { accountStates } from './reads/read-pace.ts'
import { countQuarantined } from './reads/read-quarantine.ts'
import { quotaDays } from './reads/read-quota.ts'
import { countOpenReports } from './reads/read-reports.ts'
import { lastRuns } from './reads/read-runs.ts'
import { pipelineCounts, readWindows } from './reads/read-windows.ts'

const runStates = ['running', 'done', 'failed', 'cancelled', 'interrupted'] as const

const gauges =
  (registry: Registry) =>
  (name: string, help: string, labelNames: string[] = []) =>
    new Gauge({ name: `millrace_${name}`, help, labelNames, registers: [registry] })

const written = async (registry: Registry, isReachable: boolean) => {
  gauges(registry)('database_reachable', '0 while the database is away or hangs: then this is the only metric.').set(
    isReachable ? 1 : 0,
  )
  return { type: registry.contentType, text: await registry.metrics() }
}

type Make = ReturnType<typeof gauges>

const tellAlarms = (gauge: Make, alarms: readonly AlarmLine[], overdue: number): void => {
  const open = gauge('alarms_open', 'Alarms that are not over, by kind and severity.', ['kind', 'severity'])
  for (const { kind, severity } of alarms) open.inc({ kind, severity })
  gauge('ticks_overdue', 'Pipelines whose scheduled run did not start in time.').set(overdue)
}

/** While the ledger cannot be read. */
export const metricsWithoutLedger = () => written(new Registry(), false)

/** Text in Prometheus' exposition format. Rows and times are summed over a pipeline's units. */
export const metricsText = async (context: WebContext) => {
  const registry = new Registry()
  const gauge = gauges(registry)
  const { kysely, clock } = context
  const month = `${new Date(clock.now()).toISOString().slice(0, 7)}-01`
  const [windows, runs, reports, quarantine, quota, accounts, alarms, overdue] = await Promise.all([
    readWindows(kysely, { remembered: true }),
    lastRuns(kysely, 1),
    countOpenReports(kysely),
    countQuarantined(kysely),
    quotaDays(kysely, month),
    accountStates(kysely),
    openAlarms(kysely),
    context.overdue(),
  ])

  const units = gauge('units', 'Units by pipeline and state.', ['pipeline', 'state'])
  const rows = gauge('rows', 'Current rows of the loaded units.', ['pipeline'])
  const loadedAt = gauge('last_load_timestamp_seconds', 'When a unit of the pipeline last committed.', ['pipeline'])
  const counts = new Map(pipelineCounts(windows).map((one) => [one.pipeline, one]))
  for (const pipeline of new Set([...counts.keys(), ...context.definitions.map((definition) => definition.pipeline)])) {
    const own = counts.get(pipeline)
    for (const state of unitStates) units.set({ pipeline, state }, own?.units[state] ?? 0)
    rows.set({ pipeline }, own?.rows ?? 0)
    if (typeof own?.last_loaded_at === 'string') loadedAt.set({ pipeline }, Date.parse(own.last_loaded_at) / 1000)
  }

  const openReports = gauge('reports_open', 'Bought reports that are not downloaded yet, uncertain ones apart.', ['state'])
  openReports.set({ state: 'known' }, reports.open - reports.uncertain)
  openReports.set({ state: 'uncertain' }, reports.uncertain)
  const rejected = gauge('quarantined_rows', 'Rows in quarantine.', ['pipeline'])
  for (const row of quarantine) rejected.set({ pipeline: row.pipeline }, row.rows)

  const used = gauge('quota_used_month', 'Credits used this month (UTC).', ['account', 'pipeline'])
  const reserved = gauge('quota_reserved_month', 'Credits reserved this month for reports under way.', ['account', 'pipeline'])
  const budget = gauge('quota_budget_month', 'Credits the pipeline may use in a month.', ['pipeline'])
  for (const row of quota) {
    used.inc({ account: row.account, pipeline: row.pipeline }, row.used)
    reserved.inc({ account: row.account, pipeline: row.pipeline }, row.reserved)
  }
  for (const { pipeline, limits } of context.definitions)
    if (limits.quotaPerMonth !== null) budget.set({ pipeline }, limits.quotaPerMonth)

  const trouble = gauge('service_trouble', 'Accounts whose service is away or refuses requests: 1, by the code of the reason.', [
    'account',
    'code',
  ])
  const since = gauge('service_trouble_since_timestamp_seconds', 'Since when.', ['account'])
  const rate = gauge(
    'requests_per_second_allowed',
    'Requests a second after the service refused more; none where it never did.',
    ['account'],
  )
  for (const { account, requestsPerSecond, trouble: now } of accounts) {
    if (requestsPerSecond !== null) rate.set({ account }, requestsPerSecond)
    if (now === null) continue
    trouble.set({ account, code: now.code }, 1)
    since.set({ account }, Date.parse(now.since) / 1000)
  }

  tellAlarms(gauge, alarms, overdue.length)
  const lastRun = gauge('last_run_state', 'State of the newest run: 1 for the one it is in.', ['state'])
  const started = gauge('last_run_started_timestamp_seconds', 'When the newest run started.')
  const [run] = runs
  for (const state of runStates) lastRun.set({ state }, run?.state === state ? 1 : 0)
  if (run !== undefined) started.set(Date.parse(run.started_at) / 1000)
  return written(registry, true)
}
