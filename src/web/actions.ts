// Actions that a person may take from the page: each asks for confirmation and acts only on a form sent from the page itself.
import { hash } from 'node:crypto'
import type { Context, Hono } from 'hono'
import { html } from 'hono/html'
import { HTTPException } from 'hono/http-exception'
import { aboutCredits, counted, sum } from '../core/counted.ts'
import { approve as approveAll } from '../ledger/approvals.ts'
import { releaseByPerson, retryByPerson } from '../ledger/release-unit.ts'
import { actor, type WebContext } from './context.ts'
import { type Html, page } from './layout.ts'
import { totalCost, successorOf, neededApprovals } from './reads/read-approvals.ts'
import { oneRun } from './reads/read-runs.ts'
import { repairCredits } from './reads/repair-credits.ts'
import { unitDetail } from './reads/unit-detail.ts'
import { unitLine } from './reads/unit-lines.ts'

/** The number in the path's `:id`. Throws 404 for a number too large for any row. */
export const numberIn = (context: Context): number => {
  const value = Number(context.req.param('id'))
  if (Number.isSafeInteger(value)) return value
  throw new HTTPException(404, { message: 'There is nothing at this address.' })
}

type Question = Readonly<Record<'title' | 'text' | 'button', string>>

interface Action {
  /** The question before the action; null: there is no such unit, run or approval. */
  question(web: WebContext, id: number): Promise<Question | null>
  /** The id that replaced this one, such as a newer approval; null: none. */
  successor?(web: WebContext, id: number): Promise<number | null>
  /** Acts; the result in words, and whether anything was done. */
  act(web: WebContext, id: number): Promise<readonly [text: string, isDone: boolean]>
}

const forCredits = (credits: number | null): string => (credits === null ? 'at an unknown price' : `for ${aboutCredits(credits)}`)

type UnitWords = Readonly<Record<'title' | 'state' | 'meaning' | 'button' | 'done' | 'undone', string>> & {
  act(db: WebContext['kysely'], id: number, by: string): Promise<boolean>
}

/** The question about a unit shows the reason for its state and the cost of trying again. */
const unitAction = (words: UnitWords): Action => ({
  question: async (web, id) => {
    const unit = await unitLine(web.kysely, id)
    if (unit === null) return null
    const why = unit.error_message ?? unit.error_code ?? 'no reason given'
    return {
      title: `${words.title} unit #${id}?`,
      text: `${unit.unit_key} ${words.state}: ${why} ${words.meaning}`,
      button: `${words.button} ${forCredits((await repairCredits(web, [unit])).get(id) ?? null)}`,
    }
  },
  act: async ({ kysely }, id) => ((await words.act(kysely, id, actor)) ? [words.done, true] : [words.undone, false]),
})

const release = unitAction({
  ...{ title: 'Release', state: 'is held', button: 'Release it', act: releaseByPerson },
  meaning: 'Released, its answer is loaded as it is, or requested again.',
  done: 'Released. A running schedule or worker resumes it, otherwise the next run.',
  undone: 'It is not held (any more), or needs approval; nothing was changed.',
})

const retry = unitAction({
  ...{ title: 'Retry', state: 'failed', button: 'Plan it again', act: retryByPerson },
  meaning: 'It is planned again, attempts count from 0; a report that was bought is not bought again.',
  done: 'Planned again. The next run takes it.',
  undone: 'It has not failed, or no longer; nothing was changed.',
})

/** Approves everything of the pipeline that waits, as `millrace approve` does. */
const approve: Action = {
  question: async ({ kysely }, id) => {
    const waiting = await neededApprovals(kysely)
    const pipeline = waiting.find(({ approval_id }) => approval_id === id)?.pipeline
    if (pipeline === undefined) return null
    const units = sum(waiting, (one) => (one.pipeline === pipeline ? one.units : 0))
    return {
      title: `Approve ${pipeline}?`,
      text: `${pipeline}: ${counted(units, 'unit')} would cost more than usual, and approval is needed. Once approved, the next run buys them.`,
      button: `Buy them ${forCredits(totalCost(waiting, pipeline))}`,
    }
  },
  successor: ({ kysely }, id) => successorOf(kysely, id),
  act: async ({ kysely }, id) => {
    const pipeline = (await neededApprovals(kysely)).find(({ approval_id }) => approval_id === id)?.pipeline
    const units = pipeline === undefined ? 0 : sum(await approveAll(kysely, [pipeline], actor), 'units')
    return units > 0
      ? [`${counted(units, 'unit')} approved. A running schedule buys them within a minute, otherwise the next run.`, true]
      : ['Nothing of it needs approval any more; nothing was changed.', false]
  },
}

const cancel: Action = {
  question: async ({ kysely }, id) => {
    const run = await oneRun(kysely, id)
    return (
      run && {
        title: `Cancel run #${id}?`,
        text: `${run.command} #${id} stops within 5 seconds and submits nothing more. What is loaded stays; run the same command again to resume.`,
        button: 'Cancel it for 0 credits',
      }
    )
  },
  act: async ({ actions }, id) => [`The run is ${await actions.cancel(id)}.`, true],
}

/** Replays the whole month, as the command on the unit's page does. */
const replay: Action = {
  question: async ({ kysely, actions }, id) => {
    const unit = await unitDetail(kysely, id)
    if (unit === null || actions.replay === null || (unit.answer_id ?? unit.held_answer_id) === null) return null
    const month = unit.window_from.slice(0, 7)
    return {
      title: `Replay ${month} of ${unit.pipeline}?`,
      text: `Every kept answer of ${month} is parsed and loaded again. The service is not called.`,
      button: 'Replay it for 0 credits',
    }
  },
  act: async ({ kysely, actions }, id) => {
    const unit = await unitDetail(kysely, id)
    return unit !== null && actions.replay?.(unit.pipeline, unit.window_from.slice(0, 7)) === true
      ? ['Started. The page Runs shows it as the newest run.', true]
      : ['The same replay is still running, or its pipeline has no definition here; nothing was changed.', false]
  },
}

const markOf = ({ text, button }: Question): string => hash('sha256', `${text} ${button}`)

export const mountActions = (app: Hono, web: WebContext): void => {
  for (const [place, name, { question, successor, act }] of [
    ['approvals', 'approve', approve],
    ['units', 'release', release],
    ['units', 'retry', retry],
    ['units', 'replay', replay],
    ['runs', 'cancel', cancel],
  ] as const) {
    const show = (title: string, body: Html): Html => page({ title, place: '', warehouse: web.warehouse, live: false, body })
    const path = `/${place}/:id{[0-9]+}/${name}`
    const home = (id: number): string => (place === 'approvals' ? '/plan' : `/${place}/${id}`)
    const elsewhere = async (context: Context, id: number): Promise<Response> => {
      const next = (await successor?.(web, id)) ?? null
      return next === null ? context.notFound() : context.redirect(`/${place}/${next}/${name}`, 303)
    }
    app.get(path, async (context) => {
      const id = numberIn(context)
      const asked = await question(web, id)
      if (asked === null) return elsewhere(context, id)
      const { title, text, button } = asked
      const body = html`<p>${text}</p><form method="post"><input type="hidden" name="shown" value="${markOf(asked)}"><p><button class="danger" type="submit">${button}</button> <a class="button" href="${home(id)}">Leave it</a></p></form>`
      return context.html(show(title, body))
    })
    app.post(path, async (context) => {
      const id = numberIn(context)
      // The action may cost more by now than the page said: then the question is shown again.
      const asked = await question(web, id)
      if (asked === null) return elsewhere(context, id)
      const { shown = markOf(asked) } = await context.req.parseBody()
      if (shown !== markOf(asked)) return context.redirect(context.req.path, 303)
      const [text, isDone] = await act(web, id)
      const body = html`<p role="status">${text}</p><p><a href="${home(id)}">Back</a></p>`
      return context.html(show({ approvals: 'Approval', runs: 'Run', units: 'Unit' }[place], body), isDone ? 200 : 409)
    })
  }
}
