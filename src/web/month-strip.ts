// Months as cells: a letter, a colour and words for each state, as a strip of one pipeline or slice and as squares of a heat map.
import { html } from 'hono/html'
import { count, coverageAddress, unitsAddress } from './format.ts'
import type { Html } from './layout.ts'
import type { MonthLine, MonthState } from './reads/read-months.ts'

/** The character and words of a cell, so that it can be read without colour. */
export const marks: Readonly<Record<MonthState, readonly [mark: string, words: string]>> = {
  loaded: ['✓', 'loaded'],
  restated: ['≠', 'loaded, restated since'],
  partly: ['½', 'partly loaded'],
  running: ['▸', 'running'],
  waiting: ['…', 'waiting (report, publication, rate or budget)'],
  missing: ['–', 'missing'],
  failed: ['✗', 'failed'],
  held: ['!', 'held'],
  later: ['', 'not published yet, or before window.from'],
}

export const legend = html`<ul class="legend heat" aria-label="Legend">${Object.entries(marks).map(([state, [mark, words]]) => html`<li><span class="${state}">${mark || ' '}</span>${words}</li>`)}</ul>`

interface StripCell {
  /** `2026-01` */
  readonly month: string
  readonly state: MonthState
  /** After the words of the state, for example `, 3 of 6 units`. */
  readonly more: string
  /** null: the cell is no link. */
  readonly href: string | null
}

/** Months side by side, oldest first. Only cells with an address are links, so that the Tab key does not stop at every month. */
export const strip = (label: string, cells: readonly StripCell[]): Html =>
  html`<ol class="strip" aria-label="${label}">${cells.map(({ month, state, more, href }) => {
    const [mark, words] = marks[state]
    const text = `${month}: ${words}${more}`
    const shown = html`<span class="unseen">${text}</span><span aria-hidden="true">${mark || '·'}</span>`
    const start = month.endsWith('-01') ? ' year' : ''
    return href === null
      ? html`<li class="${state}${start}" title="${text}">${shown}</li>`
      : html`<li class="${state}${start}" title="${text}"><a class="to" href="${href}">${shown}</a></li>`
  })}</ol>`

/** The months of a pipeline: an incomplete month links to its units, or to the command that loads it. */
export const monthStrip = (pipeline: string, months: readonly MonthLine[]): Html =>
  strip(
    `The last ${months.length} months of ${pipeline}`,
    months.map(({ month, state, loaded, wanted }) => ({
      month,
      state,
      more: wanted === 0 ? '' : `, ${count(loaded)} of ${count(wanted)} units`,
      href: hrefOf(pipeline, month, state, loaded),
    })),
  )

const hrefOf = (pipeline: string, month: string, state: MonthState, loaded: number): string | null => {
  if (state === 'loaded' || state === 'later') return null
  if (state === 'missing' && loaded === 0) return coverageAddress(pipeline, month)
  return unitsAddress(pipeline, month)
}
