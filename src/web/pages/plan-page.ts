// What the next run would do: units, reports and credits by reason, what waits for approval, and what changed; found out without spending anything.
import { html } from 'hono/html'
import type { WebContext } from '../context.ts'
import type { Foreseen, NightPlan, PlannedPipeline, PlannedReason } from '../foresight.ts'
import { age, count, coverageAddress, moment, span, sum } from '../format.ts'
import { badge, command, type Html, optionalTable, page, table } from '../layout.ts'
import { type Standing, standingWords, type WaitingWord, waitingWords } from '../reads/read-approvals.ts'
import { type Forecast, forecasts } from '../reads/read-forecast.ts'

/** Asks the ledger, and shows the newest dry run; where there is none it is begun. */
export const planPage = async (context: WebContext, foreseen: Foreseen): Promise<Html> => {
  const { kysely, clock } = context
  const [waiting, approved, foretold] = await Promise.all([
    waitingWords(kysely),
    standingWords(kysely),
    forecasts(kysely, clock.now()),
  ])
  const body = html`${foreseenWords(context, foreseen)}
${foreseen.plan === null ? '' : reasonTable(foreseen.plan)}
${approvalTables(waiting, approved)}
${pipelineTable(context, foreseen.plan, foretold)}
${foreseen.plan === null ? '' : changeTable(foreseen.plan)}`
  return page({ title: 'Plan', place: '/plan', warehouse: context.warehouse, body, live: false, again: foreseen.busy })
}

const planAgain = html`<form method="post" action="/plan" class="inline"><button type="submit">Plan again</button></form>`

const foreseenWords = ({ definitions, clock }: WebContext, { plan, atMs, busy, problem }: Foreseen): Html => {
  if (definitions.length === 0) return html`<p class="verdict">No pipeline is defined here: there is nothing to plan.</p>`
  const at = new Date(atMs).toISOString()
  return html`${problem === null ? '' : html`<p class="problem" role="alert">The dry run ended without a plan: ${problem}</p>`}
${plan === null ? '' : html`<p class="verdict">${totalWords(plan)}</p>`}
<p class="soft">${
    plan === null
      ? busy
        ? 'The dry run is at work; its plan is shown here when it is ready.'
        : 'No dry run has ended yet.'
      : html`Found out ${moment(at)}, ${age(at, clock.now())} ago, with ${count(plan.asked)} free ${plan.asked === 1 ? 'request' : 'requests'}; nothing was bought or written.${busy ? ' A new one is at work.' : ''}`
  } ${busy ? html`<a class="button" href="/plan">Show it</a>` : planAgain}</p>`
}

const some = (value: number, unit: string): string => `${count(value)} ${unit}${value === 1 ? '' : 's'}`

const totalWords = ({ reasons, pipelines }: NightPlan): string => {
  const now = reasons.filter(({ held }) => !held)
  if (now.length === 0) return 'The next run has nothing to load.'
  const [units, reports, requests] = [
    sum(now, (one) => one.units),
    sum(now, (one) => one.reports),
    sum(now, (one) => one.requests),
  ]
  const least = span(
    Math.max(
      1,
      sum(pipelines, ({ seconds }) => seconds),
    ),
  )
  return `The next run loads ${some(units, 'unit')}: ${some(reports, 'report')}, ${some(requests, 'request')}, ${creditWords(now)}. It takes ${least} or longer.`
}

/** What nobody knows the price of is not free. */
const creditWords = (reasons: readonly PlannedReason[]): string => {
  const known = sum(reasons, ({ credits }) => credits)
  if (reasons.every(({ credits }) => credits !== null)) return `about ${some(Math.round(known), 'credit')}`
  return known > 0 ? `about ${some(Math.round(known), 'credit')} and what has no price yet` : 'price not known'
}

const reasonTable = ({ reasons }: NightPlan): Html =>
  table(
    'What it would ask for, and why',
    ['Pipeline', 'Why', 'Months', 'Units', 'Reports', 'Requests', 'Credits', 'When'],
    reasons.map(({ pipeline, reason, from, to, units, reports, requests, credits, held }) => [
      html`<a href="${coverageAddress(pipeline)}">${pipeline}</a>`,
      reason,
      from === to ? from : `${from} to ${to}`,
      ...[count(units), count(reports), count(requests), credits === null ? 'not known' : count(Math.round(credits))],
      held ? html`${badge('held')} waits for approval` : 'next run',
    ]),
    'Nothing is to be loaded.',
  )

const pipelineTable = ({ definitions, nextTicks }: WebContext, plan: NightPlan | null, foretold: readonly Forecast[]): Html => {
  const ticks = new Map(nextTicks(1).map(({ pipeline, at }) => [pipeline, at[0]]))
  return table(
    'By pipeline',
    ['Pipeline', 'Next run', 'Loaded already', 'Held', 'Not published yet', 'Credits this month'],
    definitions.map(({ pipeline, limits }) => {
      const tick = ticks.get(pipeline)
      const own = foretold.filter((one) => one.pipeline === pipeline)
      return [
        pipeline,
        tick === undefined ? 'no schedule' : moment(new Date(tick).toISOString()),
        ...idleCells(plan?.pipelines.find((one) => one.pipeline === pipeline)),
        monthWords(own, limits.quotaPerMonth),
      ]
    }),
    'No pipeline is defined here.',
  )
}

/** `246 so far, about 720 at its end, of 4,000` */
const monthWords = (own: readonly Forecast[], budget: number | null): string => {
  const end = own.every(({ forecast }) => forecast === null)
    ? ''
    : `, about ${count(sum(own, ({ forecast }) => forecast))} at its end`
  return `${count(sum(own, ({ spent }) => spent))} so far${end}${budget === null ? '' : `, of ${count(budget)}`}`
}

const idleCells = (one: PlannedPipeline | undefined): string[] =>
  one === undefined ? ['–', '–', '–'] : [count(one.done), count(Math.max(0, one.held)), count(one.notPublished)]

const changeTable = ({ pipelines }: NightPlan): Html => {
  const rows = pipelines.flatMap(({ pipeline, changes }) => [
    ...changes.lists.map(({ dimension, came, left }) => [pipeline, dimension, `${count(came)} came, ${count(left)} left`]),
    ...changes.definition.map(({ what, from, to }) => [pipeline, what, html`<code>${from}</code> to <code>${to}</code>`]),
  ])
  return optionalTable('Changed since the last run', ['Pipeline', 'What', 'How'], rows)
}

/** What costs more than usual and waits for a word; and what has it and is not bought yet. */
export const approvalTables = (waiting: readonly WaitingWord[], approved: readonly Standing[]): Html => html`
${optionalTable(
  'Needs approval',
  ['Pipeline', 'Why', 'Units', 'Reports', 'Credits', 'A night may cost', 'To allow it'],
  waiting.map(({ pipeline, reasons, units, reports, credits, allowed }) => [
    ...[pipeline, Object.keys(reasons).join(', '), count(units), count(reports)],
    credits === null ? 'not known' : `about ${count(credits)}`,
    allowed === null ? '-' : count(allowed),
    command(`npx millrace approve ${pipeline}`),
  ]),
)}
${optionalTable(
  'Approved, not bought yet',
  ['Pipeline', 'Units', 'Reports', 'Credits', 'By', 'Done about'],
  approved.map(({ pipeline, units, reports, credits, approved_by, done_on }) => [
    ...[pipeline, count(units), count(reports), credits === null ? 'not known' : `about ${count(credits)}`],
    approved_by ?? '-',
    done_on ?? 'next run',
  ]),
)}`
