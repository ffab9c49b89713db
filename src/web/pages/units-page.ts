// Units by filter, ten thousand on one page if need be.
import { html } from 'hono/html'
import { unitStates } from '../../core/types.ts'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { badge, type Html, page, table, unitLink } from '../layout.ts'
import { windowStates } from '../reads/read-windows.ts'
import { countUnits, type UnitFilter, unitLines } from '../reads/unit-lines.ts'

/** @param limit rows of one page @param offset those before it */
export const unitsPage = async (context: WebContext, filter: UnitFilter, limit: number, offset: number): Promise<Html> => {
  const states = await windowStates(context.kysely, {
    pipelines: filter.pipeline === undefined ? [] : [filter.pipeline],
    remembered: true,
  })
  const all = countUnits(states, filter)
  const units = await unitLines(context.kysely, states, filter, { limit, offset })
  const address = (from: number): string => {
    const query = new URLSearchParams({ limit: String(limit), offset: String(from) })
    for (const name of ['pipeline', 'state', 'month'] as const) if (filter[name] !== undefined) query.set(name, filter[name])
    return `/units?${query}`
  }
  const body = html`${filterForm(context, filter)}
<p>${count(all)} units${all > units.length ? html`, ${count(offset + 1)} to ${count(offset + units.length)} shown` : ''}.
${offset > 0 ? html`<a href="${address(Math.max(0, offset - limit))}">Earlier</a>` : ''}
${offset + units.length < all ? html`<a href="${address(offset + limit)}">More</a>` : ''}</p>
${table('Units', units, 'No matching units.', {
  State: ({ state }) => badge(state),
  Unit: ({ unit_id, unit_key }) => unitLink(unit_id, unit_key),
  Rows: ({ rows }) => count(rows),
  Tries: ({ attempts }) => attempts,
  Loaded: ({ loaded_at }) => moment(loaded_at),
  Error: ({ error_code }) => error_code ?? '',
})}`
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
