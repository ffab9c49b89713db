// Credits spent, reserved and foretold against the budgets of the definitions, by pipeline, tag and day.
import { html } from 'hono/html'
import type { DataPointRule } from '../../core/data-points.ts'
import { dayBars } from '../chart.ts'
import type { WebContext } from '../context.ts'
import { count, dayBefore } from '../format.ts'
import { type Html, page, table } from '../layout.ts'
import { type Forecast, forecasts } from '../../reads/forecast.ts'
import { dataPointReadings, type QuotaDay, quotaDays, type ReadingLine } from '../../reads/quota.ts'
import { spendingByMonth, spendingByTag } from '../../reads/spending.ts'

const daysShown = 92

const ruleWords: Readonly<Record<Exclude<DataPointRule, 'learn'>, string>> = {
  rows: 'rows',
  cells: 'cells (rows times metrics)',
  non_empty_cells: 'cells with a value',
  rows_with_duplicates: 'rows, each of identical ones',
  cells_with_duplicates: 'cells (rows times metrics), those of each of identical rows',
  non_empty_cells_with_duplicates: 'cells with a value, those of each of identical rows',
  ignore: 'not compared',
}

/** The month so far and what it will come to, whom it is charged to, and the days of the last three months. */
export const quotaPage = async (context: WebContext): Promise<Html> => {
  const since = `${dayBefore(context.clock.now(), daysShown).slice(0, 7)}-01`
  const days = await quotaDays(context.kysely, since)
  const readings = await dataPointReadings(context.kysely)
  const month = new Date(context.clock.now()).toISOString().slice(0, 7)
  const foretold = await forecasts(context.kysely, context.clock.now())
  const tags = spendingByTag(await spendingByMonth(context.kysely, `${month}-01`))
  const pipelines = [...new Set(days.map(({ pipeline }) => pipeline))].sort()
  const body = html`
${table(
  `This month (${month})`,
  ['Pipeline', 'Account', 'Reports', 'Requests', 'Used', 'Reserved', 'At its end', 'Budget', 'Share of the budget'],
  thisMonth(days, month).map((row) => {
    const budget = context.definitions.find(({ pipeline }) => pipeline === row.pipeline)?.limits.quotaPerMonth ?? null
    const share = budget === null ? null : (row.used + row.reserved) / budget
    return [
      row.pipeline,
      row.account,
      ...[count(row.reports), count(row.requests), count(row.used), count(row.reserved), monthEnd(foretold, row)],
      budget === null ? 'none' : count(budget),
      share === null
        ? '–'
        : html`<span class="badge${share >= 1 ? ' failed' : share >= 0.8 ? ' held' : ''}">${Math.round(share * 100)} %</span>`,
    ]
  }),
  'Nothing was bought this month.',
)}
${
  tags.length === 0
    ? ''
    : table(
        'By tag',
        ['Tag', 'Value', 'Used', 'Reserved', 'Pipelines'],
        tags.map(({ tag, value, used, reserved, pipelines: of }) => [
          ...[tag, value ?? '(none)', count(used), count(reserved)],
          of.join(', '),
        ]),
      )
}
${readingsTable(context, readings)}
${pipelines.map((pipeline) =>
  dayBars({
    title: `${pipeline}: quota by day`,
    unit: 'credits',
    values: days
      .filter((day) => day.pipeline === pipeline)
      .flatMap(({ day, used, reserved }) => [
        { day, series: 'used', value: used },
        { day, series: 'reserved', value: reserved },
      ]),
    days: [since, dayBefore(context.clock.now(), 0)],
    rule: context.definitions.find((definition) => definition.pipeline === pipeline)?.limits.quotaPerDay ?? null,
  }),
)}`
  return page({ title: 'Quota', place: '/quota', warehouse: context.warehouse, body })
}

/** How the reports of each dataset are counted. */
const readingsTable = (context: WebContext, readings: readonly ReadingLine[]): Html =>
  table(
    'What data_points_count counts: learnt from reports that agree, or said by a definition',
    ['Dataset or pipeline', 'Account', 'Data points are', 'Known from'],
    [
      ...readings.map(({ dataset, account, readings: known, answer_id }) => [
        dataset,
        account,
        known.map((reading) => ruleWords[reading]).join(', or '),
        `answer ${answer_id}`,
      ]),
      ...context.definitions.flatMap(({ pipeline, account, report: { dataPoints = 'learn' } }) =>
        dataPoints === 'learn' ? [] : [[pipeline, account, ruleWords[dataPoints], 'its definition']],
      ),
    ],
    'No report that gives a count was loaded yet.',
  )

const monthEnd = (foretold: readonly Forecast[], { pipeline, account }: QuotaDay): string => {
  const forecast = foretold.find((one) => one.pipeline === pipeline && one.account === account)?.forecast ?? null
  return forecast === null ? '–' : count(forecast)
}

const thisMonth = (days: readonly QuotaDay[], month: string): QuotaDay[] => {
  const sums = new Map<string, QuotaDay>()
  for (const day of days.filter((one) => one.day.startsWith(month))) {
    const key = `${day.pipeline} ${day.account}`
    const sum = sums.get(key)
    sums.set(
      key,
      sum === undefined
        ? day
        : {
            ...sum,
            ...{ reports: sum.reports + day.reports, requests: sum.requests + day.requests },
            ...{ used: sum.used + day.used, reserved: sum.reserved + day.reserved },
          },
    )
  }
  return [...sums.values()].sort((a, b) => a.pipeline.localeCompare(b.pipeline))
}
