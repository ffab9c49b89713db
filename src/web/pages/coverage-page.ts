// Coverage as a calendar heat map: slices down, months across, each cell with a letter and a colour, linked to its unit. Also the search page: slices by name, each
// with its last months.
import { html } from 'hono/html'
import { type Definition, unitStates } from '../../core/types.ts'
import { addWindows, alignDown, dateIn, isPublished, windowAt, windowsBetween } from '../../core/window.ts'
import type { WebContext } from '../context.ts'
import { count, coverageAddress, unitsAddress } from '../format.ts'
import { command, type Html, page, table } from '../layout.ts'
import { legend, marks, strip } from '../month-strip.ts'
import type { MonthState } from '../reads/read-months.ts'
import { type CoverageState, coverageStates, type CoverageUnit, pipelineCoverage, searchSlices } from '../reads/read-coverage.ts'
import { absentStates, coverageMonths, readWindows, unitsIn, type WindowState } from '../reads/read-windows.ts'

const slicesShown = 50

export const coveragePage = async (context: WebContext): Promise<Html> => {
  const months = coverageMonths(await readWindows(context.kysely, { remembered: true }))
  const names = [...new Set([...context.definitions, ...months].map(({ pipeline }) => pipeline))].sort()
  const all = monthsOf(context, months)
  const body = html`${legend}
<div class="scroll newest" role="region" aria-label="Coverage by pipeline and month" tabindex="0"><table class="heat">
${head('Pipeline', all)}
<tbody>${names.map((pipeline) => {
    const definition = context.definitions.find((one) => one.pipeline === pipeline)
    const own = new Map(months.filter((row) => row.pipeline === pipeline).map((row) => [row.month, row]))
    return html`<tr><th scope="row"><a href="${coverageAddress(pipeline)}">${pipeline}</a></th>${all.map((month) => {
      const row = own.get(month)
      if (row === undefined) return empty(context, definition, pipeline, month)
      const figures = `: ${row.loaded} loaded, ${row.open} open, ${row.held} held, ${row.failed} failed`
      const state = row.held > 0 ? 'held' : row.failed > 0 ? 'failed' : row.open > 0 ? 'missing' : 'loaded'
      return square(state, month, unitsAddress(pipeline, month), figures)
    })}</tr>`
  })}</tbody></table></div>`
  return page({ title: 'Coverage', place: '/coverage', warehouse: context.warehouse, body })
}

/** Units by month of one pipeline; null: there is no such pipeline. @param offset slices before the first one shown */
export const pipelineCoveragePage = async (context: WebContext, pipeline: string, offset = 0): Promise<Html | null> => {
  const [{ slices, more }, { states, absent }] = await Promise.all([
    pipelineCoverage(context.kysely, pipeline, { most: slicesShown, offset }),
    readWindows(context.kysely, { pipelines: [pipeline], remembered: true }),
  ])
  const definition = context.definitions.find((one) => one.pipeline === pipeline)
  if (slices.length === 0 && offset === 0 && definition === undefined) return null
  const parts = partMonths(absent)
  const planned = slices.flatMap(({ units }) => units)
  const all = monthsOf(context, planned, definition)
  const address = (from: number): string => `${coverageAddress(pipeline)}?offset=${Math.max(0, from)}`
  const body = html`<p>${definition?.description ?? ''}</p>${stateCounts(pipeline, states)}${legend}
${offset === 0 && !more ? '' : html`<p>Slices ${count(offset + 1)} to ${count(offset + slices.length)}. ${offset > 0 ? html`<a href="${address(offset - slicesShown)}">Earlier</a> ` : ''}${more ? html`<a href="${address(offset + slicesShown)}">More</a>` : ''} <span class="soft">The search above finds one by its name.</span></p>`}
<div class="scroll newest" role="region" aria-label="Coverage by slice and month" tabindex="0"><table class="heat">
${head('Slice', all)}
<tbody>${slices.map(({ values, units }) => {
    return html`<tr><th scope="row">${values.length === 0 ? 'all' : values.join(' · ')}</th>${all.map((month) => {
      const unit = worstOf(month, units)
      return unit === undefined
        ? empty(context, definition, pipeline, month)
        : square(shownState(unit, parts.has(`${pipeline}/${month}`)), month, `/units/${unit.unit_id}`, '')
    })}</tr>`
  })}</tbody></table></div>`
  return page({ title: `Coverage of ${pipeline}`, place: '/coverage', warehouse: context.warehouse, body })
}

/** Units by state, each a link to their list; over all slices, also those of other pages. */
const stateCounts = (pipeline: string, states: readonly WindowState[]): Html => {
  const counted = unitStates.flatMap((state) => {
    const units = unitsIn(states.filter((row) => row.state === state))
    return units === 0 ? [] : [{ state, units }]
  })
  return html`<p>${counted.map(({ state, units }, place) => html`${place === 0 ? '' : ', '}<a href="/units?${new URLSearchParams({ pipeline, state }).toString()}">${count(units)} ${state}</a>`)}</p>`
}

/** The cell of a month without units; a missing month links to the command that loads it. */
const empty = (context: WebContext, definition: Definition | undefined, pipeline: string, month: string): Html => {
  const state = emptyState(context, definition, month)
  return square(state, month, state === 'missing' ? coverageAddress(pipeline, month) : null, '')
}

/** The command that loads a missing month. */
export const missingMonthPage = ({ warehouse, definitions }: WebContext, pipeline: string, month: string): Html | null => {
  if (!definitions.some((definition) => definition.pipeline === pipeline)) return null
  const range = `millrace backfill ${pipeline} --from ${month} --to ${month}`
  const body = html`<p>Load the missing units of this month:</p><p>${command(range)}</p>
<p>See the cost first; this spends nothing:</p><p>${command(`${range} --dry-run`)}</p>
<p><a href="${unitsAddress(pipeline, month)}">Units of this month</a> · <a href="${coverageAddress(pipeline)}">Coverage of ${pipeline}</a></p>`
  return page({ title: `${pipeline}, ${month}`, place: '/coverage', warehouse, body })
}

/** The worst of the month's units; undefined: nothing was planned. */
const worstOf = (month: string, units: readonly CoverageUnit[]): CoverageUnit | undefined =>
  units
    .filter((one) => one.month === month)
    .sort((a, b) => coverageStates.indexOf(a.state) - coverageStates.indexOf(b.state))
    .at(-1)

/** Months of which weeks or days have no unit, as `pipeline/2026-01`. */
const partMonths = (absent: readonly WindowState[]): ReadonlySet<string> =>
  new Set(absent.flatMap((row) => (row.shown ? [`${row.pipeline}/${row.window_from.slice(0, 7)}`] : [])))

const shownState = ({ state }: CoverageUnit, isPart: boolean): MonthState =>
  isPart && (state === 'loaded' || state === 'restated') ? 'partly' : state

/** A month without a unit is missing when the service has published it and the pipeline wants it. */
const emptyState = ({ clock }: WebContext, definition: Definition | undefined, month: string): CoverageState | 'later' => {
  if (definition === undefined) return 'later'
  const window = windowAt(`${month}-01`, 'month')
  const wanted = window.from >= definition.window.from && isPublished(window, definition.window.publication, clock.now())
  return wanted ? 'missing' : 'later'
}

/** Months from the oldest one that is wanted or has units to the present one. */
const monthsOf = ({ clock, definitions }: WebContext, known: readonly { readonly month: string }[], definition?: Definition) => {
  const today = dateIn(clock.now(), 'UTC')
  const wanted = (definition === undefined ? definitions : [definition]).map(({ window }) => window.from.slice(0, 7))
  const first = [...known.map(({ month }) => month), ...wanted].sort()[0] ?? today.slice(0, 7)
  return windowsBetween(`${first}-01`, today, 'month').map((window) => window.from.slice(0, 7))
}

const head = (name: string, months: readonly string[]): Html => {
  const years = Map.groupBy(months, (month) => month.slice(0, 4))
  return html`<thead><tr><th scope="col" rowspan="2">${name}</th>${[...years].map(([year, own]) => html`<th scope="colgroup" colspan="${own.length}">${year}</th>`)}</tr>
<tr>${months.map((month) => html`<th scope="col"><abbr title="${month}">${month.slice(5)}</abbr></th>`)}</tr></thead>`
}

const square = (state: MonthState, month: string, href: string | null, more: string): Html => {
  const [mark, words] = marks[state]
  const label = `${month}: ${words}${more}`
  return href === null
    ? html`<td><span class="${state}" title="${label}">${mark}</span></td>`
    : html`<td><a class="${state}" href="${href}" title="${label}" aria-label="${label}">${mark}</a></td>`
}

const monthsShown = 24
const mostFound = { ofOne: 25, ofAll: 100 }

/** @param text as the visitor typed it */
export const searchPage = async (context: WebContext, text: string): Promise<Html> => {
  const wanted = text.trim()
  const texts = [...new Set([wanted, wanted.toLowerCase()])]
  const newest = alignDown(dateIn(context.clock.now(), 'UTC'), 'month')
  const first = addWindows(newest, 'month', 1 - monthsShown)
  const months = windowsBetween(first, addWindows(newest, 'month', 1), 'month').map(({ from }) => from.slice(0, 7))
  const found = wanted === '' ? [] : await searchSlices(context.kysely, texts, first, mostFound)
  const parts = partMonths(found.length === 0 ? [] : await absentStates(context.kysely))
  const last = `The last ${monthsShown} months`
  const body = html`${table(
    wanted === '' ? 'Nothing to search for' : `Slices that begin with ${wanted}`,
    found,
    wanted === ''
      ? 'Type the first letters of a value.'
      : 'No slice begins with it. Check the spelling; the first value of a slice is searched.',
    {
      Slice: ({ values, wanted: listed }) =>
        html`${values.join(' · ')}${listed ? '' : html` <span class="badge">no longer in any list</span>`}`,
      Pipeline: ({ pipeline }) => html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
      [last]: ({ pipeline, values, units }) =>
        strip(`${last} of ${values.join(' · ')}`, months.map((month) => cellOf(month, units, parts.has(`${pipeline}/${month}`)))), // biome-ignore format: one look
    },
  )}
<p class="soft">At most ${mostFound.ofOne} slices of a pipeline and about ${mostFound.ofAll} in all are shown; type more of the name to narrow them.</p>${legend}`
  return page({ title: 'Search', place: '/search', warehouse: context.warehouse, body, live: false, find: text })
}

const cellOf = (month: string, units: readonly CoverageUnit[], isPart: boolean) => {
  const unit = worstOf(month, units)
  return unit === undefined
    ? { month, state: 'later' as const, more: ', or no run has planned it yet', href: null }
    : { month, state: shownState(unit, isPart), more: '', href: `/units/${unit.unit_id}` }
}
