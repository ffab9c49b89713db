// What a person may do from the page: each asks first, and acts only on a form sent from the page itself.
import type { Hono } from 'hono'
import { html } from 'hono/html'
import type { WebContext } from './context.ts'
import { type Html, page } from './layout.ts'
import { numberIn } from './number-in.ts'
import { oneRun } from './reads/read-runs.ts'
import { unitLine } from './reads/unit-lines.ts'

interface Question {
  readonly title: string
  readonly text: string
  readonly button: string
  readonly back: string
}

const ask = ({ warehouse }: WebContext, { title, text, button, back }: Question): Html =>
  page({
    title,
    place: '',
    warehouse,
    live: false,
    body: html`<p>${text}</p><form method="post"><p><button class="danger" type="submit">${button}</button> <a class="button" href="${back}">Leave it</a></p></form>`,
  })

const done = ({ warehouse }: WebContext, title: string, text: string, back: string): Html =>
  page({ title, place: '', warehouse, live: false, body: html`<p role="status">${text}</p><p><a href="${back}">Back</a></p>` })

/** POST routes for what the page can do. */
export const mountActions = (app: Hono, web: WebContext): void => {
  app.get('/units/:id{[0-9]+}/release', async (context) => {
    const unit = await unitLine(web.kysely, numberIn(context))
    if (unit === null) return context.notFound()
    return context.html(
      ask(web, {
        title: `Release unit #${unit.unit_id}?`,
        text: `${unit.unit_key} is held: ${unit.error_message ?? unit.error_code ?? 'no reason given'} Released, its answer is loaded as it is, or asked for again.`,
        button: 'Release it',
        back: `/units/${unit.unit_id}`,
      }),
    )
  })
  app.post('/units/:id{[0-9]+}/release', async (context) => {
    const id = numberIn(context)
    const released = await web.actions.release(id)
    const text = released
      ? 'Released. A running schedule or worker takes it up, else the next run.'
      : 'It is not held (any more), or needs approval; nothing was changed.'
    return context.html(done(web, `Unit #${id}`, text, `/units/${id}`), released ? 200 : 409)
  })
  app.get('/units/:id{[0-9]+}/retry', async (context) => {
    const unit = await unitLine(web.kysely, numberIn(context))
    if (unit === null) return context.notFound()
    return context.html(
      ask(web, {
        title: `Retry unit #${unit.unit_id}?`,
        text: `${unit.unit_key} failed: ${unit.error_message ?? unit.error_code ?? 'no reason given'} It is planned again with all its tries; a report that was bought is not bought again.`,
        button: 'Plan it again',
        back: `/units/${unit.unit_id}`,
      }),
    )
  })
  app.post('/units/:id{[0-9]+}/retry', async (context) => {
    const id = numberIn(context)
    const planned = await web.actions.retry(id)
    const text = planned ? 'Planned again. The next run takes it.' : 'It has not failed (any more); nothing was changed.'
    return context.html(done(web, `Unit #${id}`, text, `/units/${id}`), planned ? 200 : 409)
  })
  app.get('/runs/:id{[0-9]+}/cancel', async (context) => {
    const run = await oneRun(web.kysely, numberIn(context))
    if (run === null) return context.notFound()
    return context.html(
      ask(web, {
        title: `Cancel run #${run.run_id}?`,
        text: `${run.command} #${run.run_id} stops within 5 seconds and submits nothing more. What is loaded stays; run the same command again to resume.`,
        button: 'Cancel it',
        back: `/runs/${run.run_id}`,
      }),
    )
  })
  app.post('/runs/:id{[0-9]+}/cancel', async (context) => {
    const id = numberIn(context)
    if ((await oneRun(web.kysely, id)) === null) return context.notFound()
    return context.html(done(web, `Run #${id}`, `The run is ${await web.actions.cancel(id)}.`, `/runs/${id}`))
  })
}
