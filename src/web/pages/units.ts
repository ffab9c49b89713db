// Units by filter, ten thousand on one page if need be, and one unit with its report, landing file, loads, requests and error.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { bytes, count, moment, sliceLabel } from '../format.ts'
import { badge, command, type Html, page, table, unitLink } from '../layout.ts'
import { mendOf } from '../mend.ts'
import { quarantined } from '../../reads/quarantine.ts'
import { unitReports } from '../../reads/reports.ts'
import {
  countUnits,
  type UnitDetail,
  type UnitFilter,
  unitDetail,
  unitLines,
  unitLoads,
  unitRequests,
  unitStates,
} from '../../reads/units.ts'
import { quarantineTable } from './quarantine.ts'
import { reportTable } from './reports.ts'

export const unitsPage = async (context: WebContext, filter: UnitFilter, limit: number, offset: number): Promise<Html> => {
  const [units, all] = await Promise.all([unitLines(context.kysely, filter, limit, offset), countUnits(context.kysely, filter)])
  const address = (from: number): string => {
    const query = new URLSearchParams({ limit: String(limit), offset: String(from) })
    for (const name of ['pipeline', 'state', 'month'] as const) if (filter[name] !== undefined) query.set(name, filter[name])
    return `/units?${query}`
  }
  const body = html`${filterForm(context, filter)}
<p>${count(all)} units${all > units.length ? html`, ${count(offset + 1)} to ${count(offset + units.length)} shown` : ''}.
${offset > 0 ? html`<a href="${address(Math.max(0, offset - limit))}">Earlier</a>` : ''}
${offset + units.length < all ? html`<a href="${address(offset + limit)}">More</a>` : ''}</p>
${table(
  'Units',
  ['State', 'Unit', 'Rows', 'Tries', 'Loaded', 'Error'],
  units.map((unit) => [
    badge(unit.state),
    unitLink(unit.unit_id, unit.unit_key),
    count(unit.rows),
    unit.attempts,
    moment(unit.loaded_at),
    unit.error_code ?? '',
  ]),
  'No unit fits.',
)}`
  return page({ title: 'Units', place: '/units', warehouse: context.warehouse, body })
}

const filterForm = ({ definitions }: WebContext, filter: UnitFilter): Html => {
  const pipelines = [...new Set(definitions.map(({ pipeline }) => pipeline))]
  const options = (names: readonly string[], chosen: string | undefined): Html =>
    html`<option value="">all</option>${names.map((name) => html`<option${name === chosen ? html` selected` : ''}>${name}</option>`)}`
  return html`<form method="get" action="/units"><p>
<label for="pipeline">Pipeline</label> <select id="pipeline" name="pipeline">${options(pipelines, filter.pipeline)}</select>
<label for="state">State</label> <select id="state" name="state">${options(unitStates, filter.state)}</select>
<label for="month">Month</label> <input id="month" name="month" placeholder="2026-01" pattern="\\d{4}-\\d{2}" value="${filter.month ?? ''}" size="8">
<button type="submit">Show</button></p></form>`
}

export const unitPage = async (context: WebContext, unitId: number): Promise<Html | null> => {
  const unit = await unitDetail(context.kysely, unitId)
  if (unit === null) return null
  const [reports, loads, requests, rejected] = await Promise.all([
    unitReports(context.kysely, unitId),
    unitLoads(context.kysely, unitId),
    unitRequests(context.kysely, unitId),
    quarantined(context.kysely, 50, unitId),
  ])
  const body = html`${facts(unit)}
${reportTable('Reports', reports, context.clock.now(), 'This unit bought no report.')}
${table(
  'Loads',
  [
    'When',
    'Run',
    'Outcome',
    'Read',
    'Inserted',
    'Updated',
    'Ended',
    'Unchanged',
    'Quarantined',
    'Duplicates',
    'Drift',
    'Landing',
  ],
  loads.map((load) => [
    moment(load.loaded_at),
    load.run_id === null ? '–' : html`<a href="/runs/${load.run_id}">#${load.run_id}</a>`,
    badge(load.outcome),
    ...[
      load.rows_read,
      load.rows_inserted,
      load.rows_updated,
      load.rows_ended,
      load.rows_unchanged,
      load.rows_quarantined,
      load.rows_duplicates,
    ].map((value) => count(value)),
    load.drift === null ? '' : html`<code>${JSON.stringify(load.drift)}</code>`,
    html`<code>${load.landing ?? '–'}</code>`,
  ]),
  'Not loaded yet.',
)}
${quarantineTable('Rows in quarantine', rejected)}
${table(
  'Requests',
  ['Started', 'Request', 'Part', 'Try', 'Status', 'Size', 'Took'],
  requests.map((request) => [
    moment(request.started_at),
    `${request.method} ${request.endpoint}`,
    request.part ?? '–',
    request.attempt,
    request.status ?? request.error_code ?? 'no answer',
    bytes(request.bytes),
    `${Math.round(request.milliseconds)} ms`,
  ]),
  'No request yet.',
)}`
  return page({ title: `Unit #${unit.unit_id}`, place: '/units', warehouse: context.warehouse, body })
}

const facts = (unit: UnitDetail): Html => html`
${unit.error_message === null || unit.state === 'loaded' ? '' : html`<p class="problem" role="alert"><strong>${unit.error_code ?? ''}</strong> ${unit.error_message}</p>`}
<dl>
<dt>Unit</dt><dd><code>${unit.unit_key}</code></dd>
<dt>State</dt><dd>${badge(unit.state)}</dd>
<dt>What mends it</dt><dd>${mendOf(unit)}</dd>
<dt>Pipeline</dt><dd><a href="/coverage/${unit.pipeline}">${unit.pipeline}</a></dd>
<dt>Window</dt><dd>${unit.window_from} up to ${unit.window_to}</dd>
<dt>Slice</dt><dd>${sliceLabel(unit.slice)}</dd>
<dt>Rows</dt><dd>${count(unit.rows)}</dd>
<dt>Loaded</dt><dd>${moment(unit.loaded_at)}</dd>
<dt>Looked at</dt><dd>${moment(unit.checked_at)}</dd>
<dt>Service says</dt><dd>${unit.source_last_updated === null ? '–' : `last updated ${unit.source_last_updated}`}${unit.source_count === null ? '' : `, ${count(unit.source_count)} rows`}</dd>
<dt>Tries</dt><dd>${unit.attempts}</dd>
<dt>Not before</dt><dd>${moment(unit.not_before)}</dd>
<dt>At work</dt><dd>${unit.state === 'running' ? (unit.lease_owner ?? '–') : 'nobody'}</dd>
<dt>Landing file</dt><dd><code>${unit.landing ?? unit.loaded_landing ?? '–'}</code> ${bytes(unit.landing_bytes)}</dd>
<dt>Parse again</dt><dd>${command(`millrace replay ${unit.pipeline} --from ${unit.window_from.slice(0, 7)} --to ${unit.window_from.slice(0, 7)}`)}</dd>
</dl>`
