// What the lists hold under a name: each slice with its last months, each cell a link to its unit.
import { html } from 'hono/html'
import { addWindows, alignDown, dateIn, windowsBetween } from '../../core/window.ts'
import type { WebContext } from '../context.ts'
import { coverageAddress } from '../format.ts'
import { type Html, page, table } from '../layout.ts'
import { legend, strip } from '../month-strip.ts'
import { type CoverageUnit, coverageStates, searchSlices } from '../reads/read-coverage.ts'

const monthsShown = 24
const most = { ofOne: 25, ofAll: 100 }

/** @param text as somebody typed it */
export const searchPage = async (context: WebContext, text: string): Promise<Html> => {
  const wanted = text.trim()
  const texts = [...new Set([wanted, wanted.toLowerCase()])]
  const newest = alignDown(dateIn(context.clock.now(), 'UTC'), 'month')
  const first = addWindows(newest, 'month', 1 - monthsShown)
  const months = windowsBetween(first, addWindows(newest, 'month', 1), 'month').map(({ from }) => from.slice(0, 7))
  const found = wanted === '' ? [] : await searchSlices(context.kysely, texts, first, most)
  const body = html`${table(
    wanted === '' ? 'Nothing to search for' : `Slices that begin with ${wanted}`,
    ['Slice', 'Pipeline', `The last ${monthsShown} months`],
    found.map(({ pipeline, values, wanted: listed, units }) => [
      html`${values.join(' · ')}${listed ? '' : html` <span class="badge">no list holds it any more</span>`}`,
      html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
      strip(`The last ${monthsShown} months of ${values.join(' · ')}`, months.map((month) => cellOf(month, units))), // biome-ignore format: one look
    ]),
    wanted === ''
      ? 'Type the beginning of a value of the lists.'
      : 'No slice begins with it. Check the spelling; the first value of a slice is searched.',
  )}
<p class="soft">At most ${most.ofOne} slices of a pipeline and about ${most.ofAll} in all are shown; type more of the name to narrow them.</p>${legend}`
  return page({ title: 'Search', place: '/search', warehouse: context.warehouse, body, live: false, find: text })
}

/** The worst of the month's units; without one, nothing was planned. */
const cellOf = (month: string, units: readonly CoverageUnit[]) => {
  const unit = units
    .filter((one) => one.month === month)
    .sort((a, b) => coverageStates.indexOf(a.state) - coverageStates.indexOf(b.state))
    .at(-1)
  return unit === undefined
    ? { month, state: 'later' as const, more: ', or never planned', href: null }
    : { month, state: unit.state, more: '', href: `/units/${unit.unit_id}` }
}
