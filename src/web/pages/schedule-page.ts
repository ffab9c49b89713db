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
  const drifted = 'Schema drift: fields the service sends or lacks against the definition'
  const body = html`${table('The next five ticks', context.nextTicks(5), 'No pipeline has a schedule.', {
    Pipeline: ({ pipeline }) => html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
    'Time zone': ({ timeZone }) => timeZone,
    'Next runs': ({ at }) =>
      html`${at.map((ms, place) => html`${place === 0 ? '' : ', '}${moment(new Date(ms).toISOString())}`)}`,
  })}
${table(`Restatements of the last ${daysShown} days, the largest first`, changed, 'The service restated nothing.', {
  When: ({ loaded_at }) => moment(loaded_at),
  What: restated,
  'Rows changed': ({ rows_updated }) => count(rows_updated),
  'Rows ended': ({ rows_ended }) => count(rows_ended),
  'Rows new': ({ rows_inserted }) => count(rows_inserted),
  'Share changed': ({ rows_read, rows_updated, rows_ended }) =>
    rows_read === 0 ? '–' : `${Math.round(((rows_updated + rows_ended) / rows_read) * 100)} %`,
})}
${table(drifted, drifts, 'The answers look as the definitions say.', {
  Pipeline: ({ pipeline }) => pipeline,
  Seen: ({ loaded_at }) => moment(loaded_at),
  'Answer for': boxKey,
  What: ({ drift }) => html`<code>${JSON.stringify(drift)}</code>`,
})}`
  return page({ title: 'Schedule', place: '/schedule', warehouse: context.warehouse, body })
}
