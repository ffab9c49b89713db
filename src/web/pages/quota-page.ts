// Credits spent, reserved and forecast against the budgets of the definitions, by pipeline, tag and day.
import { html } from 'hono/html'
import { groupedBy, sum, sums } from '../../core/counted.ts'
import { barsOf, creditsByDay, nightBars } from '../charts.ts'
import { awaitAll, type WebContext } from '../context.ts'
import { count, dayBefore, lastDays, timeTag } from '../format.ts'
import { type Html, optionalTable, page, table, fields } from '../layout.ts'
import { describeForecast, type Forecast, forecasts } from '../../ledger/month-end.ts'
import { type QuotaDay, type QuotaMonth, quotaDays, quotaMonths } from '../reads/read-quota.ts'
import { meterMonths, spendingByMonth, spendingByTag, unwantedSpending } from '../reads/spending.ts'

const nightsShown = 30
/** Days of the large charts; the reads also cover the rest of the first month. */
const daysShown = 92

/** The month so far with its forecast, by tag, and the days of the last three months. */
export const quotaPage = async (context: WebContext): Promise<Html> => {
  const read = await readQuota(context)
  const rows = quotaMonths(read.days).filter((one) => one.month === read.month)
  const body = html`
${sumCards(read, rows)}
${accountTable(read, rows)}
${pipelineTable(context, read, rows)}
${dailyCharts(context, read)}
${tagTable(read)}
${unwantedTable(read)}
${booksTable(read)}`
  return page({ title: 'Quota', place: '/quota', warehouse: context.warehouse, body })
}

/** The data of the page; `nights`: days of the small charts, oldest first. */
type Shown = Awaited<ReturnType<typeof readQuota>>

const readQuota = async ({ kysely, clock, priceOf }: WebContext) => {
  const nowMs = clock.now()
  const month = new Date(nowMs).toISOString().slice(0, 7)
  const since = `${dayBefore(nowMs, daysShown).slice(0, 7)}-01`
  const read = await awaitAll({
    days: quotaDays(kysely, since),
    foretold: forecasts(kysely, nowMs, priceOf),
    spending: spendingByMonth(kysely, `${month}-01`),
    unwanted: unwantedSpending(kysely, `${month}-01`),
    meters: meterMonths(kysely, `${month}-01`),
  })
  return { ...read, month, since, nights: lastDays(nowMs, nightsShown) }
}

/** One chart for each pipeline with spending. */
const dailyCharts = (context: WebContext, { days, nights, since }: Shown): Html[] => {
  const charged = days.filter(({ used, reserved }) => used + reserved > 0)
  return [...Map.groupBy(charged, ({ pipeline }) => pipeline)]
    .sort(([a], [b]) => a.localeCompare(b))
    .map(([pipeline, own]) => {
      const budget = context.definitions.find((one) => one.pipeline === pipeline)?.limits.quotaPerDay ?? null
      return creditsByDay(`${pipeline}: credits by day`, own, since, nights.at(-1) ?? since, budget)
    })
}

const endOf = (foretold: readonly Forecast[]): string => describeForecast(foretold, count) ?? '–'

const sumCards = (
  { foretold, month }: Shown,
  rows: readonly QuotaMonth[],
) => html`<ul class="cards" aria-label="Credits of ${month}">
<li><strong>${count(sum(rows, 'used'))}</strong> credits spent in ${month}</li>
<li><strong>${count(sum(rows, 'reserved'))}</strong> reserved for unfinished reports</li>
<li><strong>${endOf(foretold)}</strong> forecast for the month end</li>
</ul>`

const spark = ({ days, nights }: Shown, own: (day: QuotaDay) => boolean): Html =>
  nightBars('credits', barsOf(nights, days.filter(own).map(({ day, used, reserved }) => ({ day, value: used + reserved }))), '--series-2') // biome-ignore format: one look

const accountTable = (shown: Shown, rows: readonly QuotaMonth[]): Html => {
  const accounts = groupedBy(
    rows,
    ({ account }) => account,
    ({ account }, own) => ({ account, ...sums(own, 'reports', 'requests', 'used', 'reserved') }),
  )
  return table(`By account, ${shown.month}`, accounts, 'Nothing was bought this month.', {
    ...fields('account', 'reports', 'requests', 'used', 'reserved'),
    'Month end': ({ account }) => endOf(shown.foretold.filter((one) => one.account === account)),
    [`Credits, ${nightsShown} nights`]: ({ account }) => spark(shown, (day) => day.account === account),
  })
}

const pipelineTable = ({ definitions }: WebContext, shown: Shown, rows: readonly QuotaMonth[]): Html => {
  const budgetOf = ({ pipeline }: QuotaMonth): number | null =>
    definitions.find((one) => one.pipeline === pipeline)?.limits.quotaPerMonth ?? null
  const isOf = (row: QuotaMonth) => (one: Pick<QuotaMonth, 'pipeline' | 'account'>) =>
    one.pipeline === row.pipeline && one.account === row.account
  return table(`By pipeline, ${shown.month}`, rows, 'Nothing was bought this month.', {
    ...fields('pipeline', 'account', 'reports', 'requests', 'used', 'reserved'),
    'Month end': (row) => endOf(shown.foretold.filter(isOf(row))),
    Budget: (row) => (budgetOf(row) === null ? 'none' : count(budgetOf(row))),
    Share: (row) => shareBadge(row.used + row.reserved, budgetOf(row)),
    [`Credits, ${nightsShown} nights`]: (row) => spark(shown, isOf(row)),
  })
}

const shareBadge = (spent: number, budget: number | null): Html | string => {
  if (budget === null) return '–'
  const share = spent / budget
  return html`<span class="badge${share >= 1 ? ' failed' : share >= 0.8 ? ' held' : ''}">${Math.round(share * 100)} %</span>`
}

const tagTable = ({ spending }: Shown): Html =>
  optionalTable('By tag', spendingByTag(spending), {
    Tag: ({ tag }) => tag,
    Value: ({ value }) => value ?? '(none)',
    ...fields('used', 'reserved'),
    Pipelines: ({ pipelines }) => pipelines.join(', '),
  })

const unwantedTable = ({ unwanted }: Shown): Html =>
  optionalTable('Bought for values since removed from the lists', unwanted, {
    ...fields('pipeline', 'slices', 'credits'),
    'For example': ({ examples }) => examples.join('; '),
  })

const booksTable = ({ meters }: Shown): Html =>
  optionalTable("Compared with the service's own figures", meters, {
    Account: ({ account }) => account,
    'Left at the service': ({ remaining }) => count(remaining),
    'Not on record': ({ difference }) => (difference === null ? 'compared with the next reading' : count(difference)),
    'Last read': ({ last_read_at }) => timeTag(last_read_at),
  })
