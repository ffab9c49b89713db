// The frame of every page: title, navigation, skip link; no style or script but our own two files.
import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import { aboutCredits, formatNumber } from '../core/counted.ts'
import type { UnitLine } from './reads/unit-lines.ts'

/** Escaped text: `html` escapes every value that is not Html itself. */
export type Html = HtmlEscapedString | Promise<HtmlEscapedString>

const places = [
  ['/', 'Overview'],
  ['/coverage', 'Coverage'],
  ['/plan', 'Plan'],
  ['/runs', 'Runs'],
  ['/units', 'Units'],
  ['/reports', 'Reports'],
  ['/quota', 'Quota'],
  ['/quarantine', 'Quarantine'],
  ['/tests', 'Tests'],
  ['/schedule', 'Schedule'],
] as const

export interface Page {
  readonly title: string
  /** Path of the page's entry in the navigation. */
  readonly place: string
  readonly warehouse: string
  readonly body: Html
  /** Whether a script reloads the page when the ledger changes. Default true. */
  readonly live?: boolean
  /** Whether the content is still being computed: a script reloads the page soon. Default false. */
  readonly again?: boolean
  readonly find?: string
}

export const page = ({ title, place, warehouse, body, live = true, again = false, find = '' }: Page): Html => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} – Millrace</title>
<link rel="stylesheet" href="/assets/style.css">
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<script src="/assets/live.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<p class="name"><a href="/">Millrace</a></p>
<nav aria-label="Places"><ul>
${places.map(([path, name]) => html`<li><a href="${path}"${path === place ? html` aria-current="page"` : ''}>${name}</a></li>`)}
</ul></nav>
${warehouse === '' ? '' : searchForm(find)}
</header>
<main id="main" tabindex="-1"${live ? html` data-live="/live"` : ''}${again ? html` data-again` : ''}>
<h1>${title}</h1>
${body}
</main>
<footer><p>Warehouse <code>${warehouse}</code><span id="live-state" role="status"></span></p></footer>
</body>
</html>`

const searchForm = (find: string): Html =>
  html`<form role="search" action="/search" class="search"><label for="find">Find</label> <input id="find" name="q" type="search" size="18" placeholder="first letters of a value" value="${find}" required> <button type="submit">Search</button></form>`

/** By column heading, the content of a row's cell; text is escaped. */
type Columns<Row> = Readonly<Record<string, (row: Row) => Html | string | number>>

/** Columns named after the fields that they show: numbers with thousands separators, a dash for null. */
export const fields = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(
    names.map((name) => [`${name[0]?.toUpperCase()}${name.slice(1)}`, (row: Readonly<Record<Name, Field>>) => shown(row[name])]),
  ) as { readonly [Of in Name as Capitalize<Of>]: (row: { readonly [One in Of]: Field }) => Html | string }

type Field = Html | string | number | null
const shown = (value: Field): Html | string => (value === null ? '–' : typeof value === 'number' ? formatNumber(value) : value)

/** @param empty the text in place of a table without rows */
export const table = <Row>(caption: string, rows: readonly Row[], empty: string, columns: Columns<Row>): Html =>
  rows.length === 0
    ? html`<section><h2>${caption}</h2><p class="empty">${empty}</p></section>`
    : html`<section><h2>${caption}</h2><div class="scroll" role="region" aria-label="${caption}" tabindex="0"><table${rows.length > mostLabelled ? '' : html` class="stack"`}>
<thead><tr>${Object.keys(columns).map((name) => html`<th scope="col">${name}</th>`)}</tr></thead>
<tbody>${rows.map((row) => html`<tr>${Object.entries(columns).map(([name, show]) => cell(show(row), rows.length > mostLabelled ? undefined : name))}</tr>`)}</tbody>
</table></div></section>`

/** Nothing where there are no rows. */
export const optionalTable = <Row>(caption: string, rows: readonly Row[], columns: Columns<Row>): Html =>
  rows.length === 0 ? html`` : table(caption, rows, '', columns)

/** On a phone each cell is shown below its column's name; a table with more rows scrolls instead. */
const mostLabelled = 500

const cell = (value: Html | string | number, name: string | undefined): Html => {
  const numeric = typeof value === 'number' || (typeof value === 'string' && /^[\d,.]+( [kMG]?B)?$/.test(value))
  const label = name === undefined ? '' : html` data-label="${name}"`
  return numeric ? html`<td class="number"${label}>${value}</td>` : html`<td${label}>${value}</td>`
}

/** A state as a coloured word, never as a colour alone. */
export const badge = (state: string): Html => html`<span class="badge ${state.replaceAll(/[^a-z]/g, '')}">${state}</span>`

export const unitLink = (unitId: number, name: string): Html => html`<a href="/units/${unitId}">${name}</a>`

/** A command to copy. */
export const command = (text: string): Html => html`<code class="command">${text}</code>`

/** A link to the question before an action, with the cost beside it. @param credits null: not known */
export const actionButton = (name: string, href: string, credits: number | null): Html =>
  html`<a class="button" href="${href}">${name}…</a> <span class="soft">${aboutCredits(credits)}</span>`

/** What a person can do about a unit that is not loaded: a command, and the same as a button. @param credits the cost of a retry by unit */
export const nextStepOf = (
  unit: Pick<UnitLine, 'unit_id' | 'pipeline' | 'state' | 'error_code'>,
  credits: ReadonlyMap<number, number | null>,
): Html => {
  const button = (name: string): Html =>
    actionButton(name, `/units/${unit.unit_id}/${name.toLowerCase()}`, credits.get(unit.unit_id) ?? null)
  if (unit.state === 'held') {
    if (unit.error_code === 'NEEDS_APPROVAL') return command(`millrace approve ${unit.pipeline}`)
    const uncertain = unit.error_code === 'REPORT_UNCERTAIN'
    return html`${command(uncertain ? `millrace run ${unit.pipeline} --resubmit-uncertain` : `millrace release ${unit.unit_id}`)}
${uncertain ? '' : button('Release')}`
  }
  if (unit.state === 'failed') return html`${command(`millrace run ${unit.pipeline}`)} ${button('Retry')}`
  if (unit.state === 'loaded') return html`nothing to do`
  return html`it resumes automatically`
}
