// When each pipeline runs next, and what the last nights restated.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import { count, coverageAddress, dayBefore, moment, unitsAddress } from '../format.ts'
import { type Html, page, table, unitLink } from '../layout.ts'
import { boxKey } from '../reads/boxes.ts'
import { lastDrifts, type Restatement, restatements } from '../reads/changes.ts'

const daysShown = 60

/** The unit, or the month's units where the answer was for several. */
const restated = (load: Restatement): Html =>
  load.unit_id === null
    ? html`<a href="${unitsAddress(load.pipeline, load.window_from.slice(0, 7))}">${boxKey(load)}</a>`
    : unitLink(load.unit_id, boxKey(load))

/** Next and last ticks by pipeline. */
export const schedulePage = async (context: WebContext): Promise<Html> => {
  const since = dayBefore(context.clock.now(), daysShown)
  const [changed, drifts] = await Promise.all([restatements(context.kysely, since, 100), lastDrifts(context.kysely, since)])
  const body = html`${table(
    'The next five ticks',
    ['Pipeline', 'Time zone', 'Next runs'],
    context
      .nextTicks(5)
      .map(({ pipeline, timeZone, at }) => [
        html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
        timeZone,
        html`${at.map((ms, place) => html`${place === 0 ? '' : ', '}${moment(new Date(ms).toISOString())}`)}`,
      ]),
    'No pipeline has a schedule.',
  )}
${table(
  `Restatements of the last ${daysShown} days, the largest first`,
  ['When', 'What', 'Rows changed', 'Rows ended', 'Rows new', 'Share changed'],
  changed.map((load) => [
    moment(load.loaded_at),
    restated(load),
    count(load.rows_updated),
    count(load.rows_ended),
    count(load.rows_inserted),
    load.rows_read === 0 ? '–' : `${Math.round(((load.rows_updated + load.rows_ended) / load.rows_read) * 100)} %`,
  ]),
  'The service restated nothing.',
)}
${table(
  'Schema drift: fields the service sends or lacks against the definition',
  ['Pipeline', 'Seen', 'Answer for', 'What'],
  drifts.map((line) => [line.pipeline, moment(line.loaded_at), boxKey(line), html`<code>${JSON.stringify(line.drift)}</code>`]),
  'The answers look as the definitions say.',
)}`
  return page({ title: 'Schedule', place: '/schedule', warehouse: context.warehouse, body })
}
