// What a person may do from the page: each asks first, and acts only on a form sent from the page itself.
import type { Context, Hono } from 'hono'
import { html } from 'hono/html'
import { HTTPException } from 'hono/http-exception'
import type { WebContext } from './context.ts'
import { type Html, page } from './layout.ts'
import { oneRun } from './reads/read-runs.ts'
import { unitLine } from './reads/unit-lines.ts'

/** The number in the path's `:id`; one that no row can have is an address of nothing. Throws 404. */
export const numberIn = (context: Context): number => {
  const value = Number(context.req.param('id'))
  if (Number.isSafeInteger(value)) return value
  throw new HTTPException(404, { message: 'There is nothing at this address.' })
}

interface Question {
  readonly title: string
  readonly text: string
  readonly button: string
}

interface Action {
  /** What is asked before; null: there is no such unit or run. */
  question(web: WebContext, id: number): Promise<Question | null>
  /** What became of it, and whether anything did. */
  act(web: WebContext, id: number): Promise<{ readonly text: string; readonly isDone: boolean }>
}

/** Asks about a unit with why it stands as it does. */
const aboutUnit =
  (words: (id: number, unit: string, why: string) => Question): Action['question'] =>
  async ({ kysely }, id) => {
    const unit = await unitLine(kysely, id)
    return unit && words(id, unit.unit_key, unit.error_message ?? unit.error_code ?? 'no reason given')
  }

const release: Action = {
  question: aboutUnit((id, unit, why) => ({
    title: `Release unit #${id}?`,
    text: `${unit} is held: ${why} Released, its answer is loaded as it is, or asked for again.`,
    button: 'Release it',
  })),
  act: async ({ actions }, id) =>
    (await actions.release(id))
      ? { text: 'Released. A running schedule or worker takes it up, else the next run.', isDone: true }
      : { text: 'It is not held (any more), or needs approval; nothing was changed.', isDone: false },
}

const retry: Action = {
  question: aboutUnit((id, unit, why) => ({
    title: `Retry unit #${id}?`,
    text: `${unit} failed: ${why} It is planned again with all its tries; a report that was bought is not bought again.`,
    button: 'Plan it again',
  })),
  act: async ({ actions }, id) =>
    (await actions.retry(id))
      ? { text: 'Planned again. The next run takes it.', isDone: true }
      : { text: 'It has not failed (any more); nothing was changed.', isDone: false },
}

const cancel: Action = {
  question: async ({ kysely }, id) => {
    const run = await oneRun(kysely, id)
    return (
      run && {
        title: `Cancel run #${id}?`,
        text: `${run.command} #${id} stops within 5 seconds and submits nothing more. What is loaded stays; run the same command again to resume.`,
        button: 'Cancel it',
      }
    )
  },
  act: async ({ actions }, id) => ({ text: `The run is ${await actions.cancel(id)}.`, isDone: true }),
}

/** A question and a form for each thing the page can do. */
export const mountActions = (app: Hono, web: WebContext): void => {
  for (const [place, name, { question, act }] of [
    ['units', 'release', release],
    ['units', 'retry', retry],
    ['runs', 'cancel', cancel],
  ] as const) {
    const show = (title: string, body: Html): Html => page({ title, place: '', warehouse: web.warehouse, live: false, body })
    const path = `/${place}/:id{[0-9]+}/${name}`
    app.get(path, async (context) => {
      const id = numberIn(context)
      const asked = await question(web, id)
      if (asked === null) return context.notFound()
      const { title, text, button } = asked
      const body = html`<p>${text}</p><form method="post"><p><button class="danger" type="submit">${button}</button> <a class="button" href="/${place}/${id}">Leave it</a></p></form>`
      return context.html(show(title, body))
    })
    app.post(path, async (context) => {
      const id = numberIn(context)
      if ((await question(web, id)) === null) return context.notFound()
      const { text, isDone } = await act(web, id)
      const body = html`<p role="status">${text}</p><p><a href="/${place}/${id}">Back</a></p>`
      return context.html(show(`${place === 'runs' ? 'Run' : 'Unit'} #${id}`, body), isDone ? 200 : 409)
    })
  }
}
