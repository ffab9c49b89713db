// The ledger as Prometheus metrics, read at each request; the figures equal those of the page, because both come from the ledger.
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

/** By name without prefix: help text and labels. docs/status-page.md lists them. */
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
  quota_reserved_month: { help: 'Credits reserved this month for unfinished reports.', labels: ['account', 'pipeline'] },
  quota_budget_month: { help: "The definition's `quota_per_month`.", labels: ['pipeline'] },
  last_run_state: { help: '1 for the state of the newest run.', labels: ['state'] },
  last_run_started_timestamp_seconds: { help: 'When the newest run started.', labels: [] },
  service_trouble: {
    help: '1 while the service does not answer or refuses requests; `code` says why.',
    labels: ['account', 'code'],
  },
  service_trouble_since_timestamp_seconds: { help: 'Since when.', labels: ['account'] },
  requests_per_second_allowed: {
    help: 'The request rate that is allowed now. Absent for an account that the service has never refused as too fast (429).',
    labels: ['account'],
  },
  alarms_open: { help: 'Alarms that are not over.', labels: ['kind', 'severity'] },
  ticks_overdue: { help: 'Pipelines whose scheduled run did not start in time.', labels: [] },
  database_reachable: { help: '0 while the database does not answer; then this is the only metric.', labels: [] },
} as const satisfies Readonly<Record<string, { readonly help: string; readonly labels: readonly string[] }>>

type MetricName = keyof typeof metrics

const isMetric = (name: string): name is MetricName => name in metrics

const gaugesIn = (registry: Registry, names: readonly MetricName[]) =>
  Object.fromEntries(
    names.map((name) => {
      const { help, labels } = metrics[name]
      return [name, new Gauge({ name: `millrace_${name}`, help, labelNames: [...labels], registers: [registry] })]
    }),
  ) as Readonly<Record<MetricName, Gauge>>

const written = async (registry: Registry) => ({ type: registry.contentType, text: await registry.metrics() })

/** While the ledger cannot be read. */
export const metricsWithoutLedger = () => {
  const registry = new Registry()
  gaugesIn(registry, ['database_reachable']).database_reachable.set(0)
  return written(registry)
}

/** All metrics in Prometheus' text format. Rows and times are totals over a pipeline's units. */
export const metricsText = async (context: WebContext) => {
  const registry = new Registry()
  const gauges = gaugesIn(registry, Object.keys(metrics).filter(isMetric))
  const { kysely, clock, definitions } = context
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
  const counts = new Map(pipelineCounts(windows).map((one) => [one.pipeline, one]))
  for (const pipeline of new Set([...counts.keys(), ...definitions.map((definition) => definition.pipeline)])) {
    const own = counts.get(pipeline)
    for (const state of unitStates) gauges.units.set({ pipeline, state }, own?.units[state] ?? 0)
    gauges.rows.set({ pipeline }, own?.rows ?? 0)
    if (typeof own?.last_loaded_at === 'string')
      gauges.last_load_timestamp_seconds.set({ pipeline }, Date.parse(own.last_loaded_at) / 1000)
  }
  gauges.reports_open.set({ state: 'known' }, reports.open - reports.uncertain)
  gauges.reports_open.set({ state: 'uncertain' }, reports.uncertain)
  for (const { pipeline, rows } of quarantine) gauges.quarantined_rows.set({ pipeline }, rows)
  for (const { account, pipeline, used, reserved } of quota) {
    gauges.quota_used_month.inc({ account, pipeline }, used)
    gauges.quota_reserved_month.inc({ account, pipeline }, reserved)
  }
  for (const { pipeline, limits } of definitions)
    if (limits.quotaPerMonth !== null) gauges.quota_budget_month.set({ pipeline }, limits.quotaPerMonth)
  for (const { account, requestsPerSecond, trouble } of accounts) {
    if (requestsPerSecond !== null) gauges.requests_per_second_allowed.set({ account }, requestsPerSecond)
    if (trouble === null) continue
    gauges.service_trouble.set({ account, code: trouble.code }, 1)
    gauges.service_trouble_since_timestamp_seconds.set({ account }, Date.parse(trouble.since) / 1000)
  }
  for (const { kind, severity } of alarms) gauges.alarms_open.inc({ kind, severity })
  gauges.ticks_overdue.set(overdue.length)
  const [run] = runs
  for (const state of runStates) gauges.last_run_state.set({ state }, run?.state === state ? 1 : 0)
  if (run !== undefined) gauges.last_run_started_timestamp_seconds.set(Date.parse(run.started_at) / 1000)
  gauges.database_reachable.set(1)
  return written(registry)
}
