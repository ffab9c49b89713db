// The ledger as Prometheus metrics, read when they are asked for; figures equal the page's because both are the ledger's.
import { Gauge, Registry } from 'prom-client'
import { unitStates } from '../core/types.ts'
import type { WebContext } from './context.ts'
import { openAlarms } from './reads/read-alarms.ts'
import { accountStates } from './reads/read-pace.ts'
import { countQuarantined } from './reads/read-rejects.ts'
import { quotaDays } from './reads/read-quota.ts'
import { countOpenReports } from './reads/read-reports.ts'
import { lastRuns } from './reads/read-runs.ts'
import { pipelineCounts, readWindows } from './reads/read-windows.ts'

const runStates = ['running', 'done', 'failed', 'cancelled', 'interrupted'] as const

/** By name without its prefix: what it says, and its labels. docs/status-page.md lists them. */
export const metrics = {
  units: { help: 'Units by state.', labels: ['pipeline', 'state'] },
  rows: { help: 'Current rows of the loaded units.', labels: ['pipeline'] },
  last_load_timestamp_seconds: { help: 'When a unit was last loaded.', labels: ['pipeline'] },
  reports_open: {
    help: 'Reports that are not downloaded yet; `known`: certainly bought, `uncertain`: perhaps bought.',
    labels: ['state'],
  },
  quarantined_rows: { help: 'Rows in quarantine.', labels: ['pipeline'] },
  quota_used_month: { help: 'Credits used this month (UTC).', labels: ['account', 'pipeline'] },
  quota_reserved_month: { help: 'Credits reserved this month for reports under way.', labels: ['account', 'pipeline'] },
  quota_budget_month: { help: "The definition's `quota_per_month`.", labels: ['pipeline'] },
  last_run_state: { help: '1 for the state of the newest run.', labels: ['state'] },
  last_run_started_timestamp_seconds: { help: 'When the newest run started.', labels: [] },
  service_trouble: { help: '1 while the service is away or refuses requests; `code` says why.', labels: ['account', 'code'] },
  service_trouble_since_timestamp_seconds: { help: 'Since when.', labels: ['account'] },
  requests_per_second_allowed: {
    help: 'The request rate that is allowed now. Absent for an account that the service has never refused as too fast (429).',
    labels: ['account'],
  },
  alarms_open: { help: 'Alarms that are not over.', labels: ['kind', 'severity'] },
  ticks_overdue: { help: 'Pipelines whose scheduled run did not start in time.', labels: [] },
  database_reachable: { help: '0 while the database is away or hangs; then this is the only metric.', labels: [] },
} as const satisfies Readonly<Record<string, { readonly help: string; readonly labels: readonly string[] }>>

const gauges =
  (registry: Registry) =>
  (name: keyof typeof metrics): Gauge =>
    new Gauge({
      name: `millrace_${name}`,
      help: metrics[name].help,
      labelNames: [...metrics[name].labels],
      registers: [registry],
    })

const written = async (registry: Registry, isReachable: boolean) => {
  gauges(registry)('database_reachable').set(isReachable ? 1 : 0)
  return { type: registry.contentType, text: await registry.metrics() }
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

  const units = gauge('units')
  const rows = gauge('rows')
  const loadedAt = gauge('last_load_timestamp_seconds')
  const counts = new Map(pipelineCounts(windows).map((one) => [one.pipeline, one]))
  for (const pipeline of new Set([...counts.keys(), ...context.definitions.map((definition) => definition.pipeline)])) {
    const own = counts.get(pipeline)
    for (const state of unitStates) units.set({ pipeline, state }, own?.units[state] ?? 0)
    rows.set({ pipeline }, own?.rows ?? 0)
    if (typeof own?.last_loaded_at === 'string') loadedAt.set({ pipeline }, Date.parse(own.last_loaded_at) / 1000)
  }

  const openReports = gauge('reports_open')
  openReports.set({ state: 'known' }, reports.open - reports.uncertain)
  openReports.set({ state: 'uncertain' }, reports.uncertain)
  const rejected = gauge('quarantined_rows')
  for (const row of quarantine) rejected.set({ pipeline: row.pipeline }, row.rows)

  const used = gauge('quota_used_month')
  const reserved = gauge('quota_reserved_month')
  const budget = gauge('quota_budget_month')
  for (const row of quota) {
    used.inc({ account: row.account, pipeline: row.pipeline }, row.used)
    reserved.inc({ account: row.account, pipeline: row.pipeline }, row.reserved)
  }
  for (const { pipeline, limits } of context.definitions)
    if (limits.quotaPerMonth !== null) budget.set({ pipeline }, limits.quotaPerMonth)

  const trouble = gauge('service_trouble')
  const since = gauge('service_trouble_since_timestamp_seconds')
  const rate = gauge('requests_per_second_allowed')
  for (const { account, requestsPerSecond, trouble: now } of accounts) {
    if (requestsPerSecond !== null) rate.set({ account }, requestsPerSecond)
    if (now === null) continue
    trouble.set({ account, code: now.code }, 1)
    since.set({ account }, Date.parse(now.since) / 1000)
  }

  const open = gauge('alarms_open')
  for (const { kind, severity } of alarms) open.inc({ kind, severity })
  gauge('ticks_overdue').set(overdue.length)
  const lastRun = gauge('last_run_state')
  const started = gauge('last_run_started_timestamp_seconds')
  const [run] = runs
  for (const state of runStates) lastRun.set({ state }, run?.state === state ? 1 : 0)
  if (run !== undefined) started.set(Date.parse(run.started_at) / 1000)
  return written(registry, true)
}
