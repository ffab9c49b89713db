// What the next run would do: units, reports and credits by reason, purchases that need approval, and changes; a dry run, which spends nothing.
import { html } from 'hono/html'
import { counted, sum } from '../../core/counted.ts'
import type { WebContext } from '../context.ts'
import type { Definition } from '../../core/types.ts'
import { type CachedPlan, isVersion, type NightPlan, type PlannedPipeline, type PlannedReason } from '../plan-cache.ts'
import { age, count, coverageAddress, timeTag, span } from '../format.ts'
import { actionButton, badge, command, type Html, optionalTable, page, table, fields } from '../layout.ts'
import { totalCost, type UnusedApproval, unusedApprovals, type NeededApproval, neededApprovals } from '../reads/read-approvals.ts'
import { describeForecast, type Forecast, forecasts } from '../../ledger/month-end.ts'

/** Reads the ledger and shows the newest dry run. */
export const planPage = async (context: WebContext, cached: CachedPlan): Promise<Html> => {
  const { kysely, clock } = context
  const [waiting, approved, foretold] = await Promise.all([
    neededApprovals(kysely),
    unusedApprovals(kysely),
    forecasts(kysely, clock.now(), context.priceOf),
  ])
  const body = html`${cachedWords(context, cached)}
${cached.plan === null ? '' : reasonTable(cached.plan)}
${approvalTables(waiting, approved)}
${pipelineTable(context, cached.plan, foretold)}
${cached.plan === null ? '' : changeTable(cached.plan)}`
  return page({ title: 'Plan', place: '/plan', warehouse: context.warehouse, body, live: false, again: cached.busy })
}

const planAgain = html`<form method="post" action="/plan" class="inline"><button type="submit">Plan again</button></form>`

const cachedWords = ({ definitions, clock }: WebContext, { plan, atMs, busy, problem }: CachedPlan): Html => {
  if (definitions.length === 0) return html`<p class="verdict">No pipeline is defined here: there is nothing to plan.</p>`
  const at = new Date(atMs).toISOString()
  return html`${problem === null ? '' : html`<p class="problem" role="alert">The dry run failed: ${problem}</p>`}
${plan === null ? '' : html`<p class="verdict">${totalWords(plan)}</p>`}
<p class="soft">${
    plan === null
      ? busy
        ? 'The dry run is in progress; its plan is shown here when it is ready.'
        : 'No dry run has ended yet.'
      : html`As of ${timeTag(at)}, ${age(at, clock.now())} ago, with ${counted(plan.asked, 'free request')}; nothing was bought or written.${busy ? ' A new one is in progress.' : ''}`
  } ${busy ? html`<a class="button" href="/plan">Show it</a>` : planAgain}</p>`
}

const totalWords = ({ reasons, pipelines }: NightPlan): string => {
  const now = reasons.filter(({ held }) => !held)
  if (now.length === 0) return 'The next run has nothing to load.'
  const [units, reports, requests] = [sum(now, 'units'), sum(now, 'reports'), sum(now, 'requests')]
  const least = span(Math.max(1, sum(pipelines, 'seconds')))
  return `The next run loads ${counted(units, 'unit')}: ${counted(reports, 'report')}, ${counted(requests, 'request')}, ${creditWords(now)}. It takes ${least} or longer.`
}

/** An unknown price is not 0. */
const creditWords = (reasons: readonly PlannedReason[]): string => {
  const known = sum(reasons, 'credits')
  if (reasons.every(({ credits }) => credits !== null)) return `about ${counted(Math.round(known), 'credit')}`
  return known > 0 ? `about ${counted(Math.round(known), 'credit')} plus purchases of unknown price` : 'price not known'
}

const reasonTable = ({ reasons, pipelines }: NightPlan): Html =>
  table('What it would request, and why', reasons, 'Nothing to load.', {
    Pipeline: (row) =>
      html`<a href="${coverageAddress(row.pipeline)}">${pipelines.find(isVersion(row))?.name ?? row.pipeline}</a>`,
    Why: ({ reason }) => reason,
    Months: ({ from, to }) => (from === to ? from : `${from} to ${to}`),
    ...fields('units', 'reports', 'requests'),
    Credits: ({ credits }) => (credits === null ? 'not known' : count(Math.round(credits))),
    When: ({ held }) => (held ? html`${badge('held')} waits for approval` : 'next run'),
  })

const pipelineTable = ({ definitions, nextTicks }: WebContext, plan: NightPlan | null, foretold: readonly Forecast[]): Html => {
  const ticks = new Map(nextTicks(1).map(({ pipeline, at }) => [pipeline, at[0]]))
  const own = (definition: Definition): PlannedPipeline | undefined => plan?.pipelines.find(isVersion(definition))
  return table('By pipeline', definitions, 'No pipeline is defined here.', {
    Pipeline: (definition) => own(definition)?.name ?? definition.pipeline,
    'Next run': ({ pipeline }) => {
      const tick = ticks.get(pipeline)
      return tick === undefined ? 'no schedule' : timeTag(new Date(tick).toISOString())
    },
    'Not published yet': (definition) => notPublishedYet(own(definition)),
    'Credits this month': (definition) => monthWords(definition, foretold),
  })
}

const notPublishedYet = (planned: PlannedPipeline | undefined): string =>
  planned === undefined ? '–' : count(Math.max(0, planned.notPublished))

/** `246 so far, about 720 at month end, of 4,000` */
const monthWords = ({ pipeline, limits: { quotaPerMonth: budget } }: Definition, foretold: readonly Forecast[]): string => {
  const own = foretold.filter((one) => one.pipeline === pipeline)
  const end = describeForecast(own, count)
  return `${count(sum(own, 'spent'))} so far${end === null ? '' : `, about ${end} at month end`}${budget === null ? '' : `, of ${count(budget)}`}`
}

const changeTable = ({ pipelines }: NightPlan): Html => {
  const changes = pipelines.flatMap(({ name: pipeline, changes: { lists, definition } }) => [
    ...lists.map(({ dimension, came, left }) => ({
      pipeline,
      what: dimension,
      how: `${count(came)} added, ${count(left)} removed`,
    })),
    ...definition.map(({ what, from, to }) => ({ pipeline, what, how: html`<code>${from}</code> to <code>${to}</code>` })),
  ])
  return optionalTable('Changed since the last run', changes, {
    ...fields('pipeline', 'what', 'how'),
  })
}

/** Purchases that need approval, and approved purchases that are not bought yet. */
export const approvalTables = (waiting: readonly NeededApproval[], approved: readonly UnusedApproval[]): Html => html`
${optionalTable('Needs approval', waiting, {
  Pipeline: ({ pipeline }) => pipeline,
  Why: ({ reasons }) => Object.keys(reasons).join(', '),
  ...fields('units', 'reports'),
  'Nightly limit then': ({ allowed }) => (allowed === null ? '-' : count(allowed)),
  'To approve': ({ pipeline, approval_id }) =>
    html`${actionButton('Approve', `/approvals/${approval_id}/approve`, totalCost(waiting, pipeline))} ${command(`npx millrace approve ${pipeline}`)}`,
})}
${optionalTable('Approved, not bought yet', approved, {
  ...fields('pipeline', 'units', 'reports'),
  Credits: ({ credits }) => (credits === null ? 'not known' : `about ${count(credits)}`),
  By: ({ approved_by }) => approved_by ?? '-',
  'Done about': ({ done_on }) => done_on ?? 'next run',
})}`
