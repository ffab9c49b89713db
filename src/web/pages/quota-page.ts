// Credits spent, reserved and foretold against the budgets of the definitions, by pipeline, tag and day.
import { html } from 'hono/html'
import type { DataPointRule } from '../../core/data-point-counts.ts'
import { dayBars } from '../chart.ts'
import type { WebContext } from '../context.ts'
import { dayBefore, lastDays } from '../format.ts'
import { type Html, page, table } from '../layout.ts'
import { forecasts } from '../reads/read-forecast.ts'
import { dataPointReadings, type QuotaDay, quotaDays, type ReadingLine } from '../reads/read-quota.ts'
import { meterMonths } from '../reads/read-meter.ts'
import { spendingByMonth, spendingByTag, unwantedSpending } from '../reads/spending.ts'
import { lanesFor } from '../lanes.ts'
import {
  accountTable,
  booksTable,
  nightsShown,
  pipelineTable,
  type Shown,
  sumCards,
  tagTable,
  thisMonth,
  unwantedTable,
} from './quota-tables.ts'

const daysShown = 92
/** Questions at once. */
const lanes = 3

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
  const nowMs = context.clock.now()
  const since = `${dayBefore(nowMs, daysShown).slice(0, 7)}-01`
  const month = new Date(nowMs).toISOString().slice(0, 7)
  const { kysely } = context
  const ask = lanesFor(lanes)
  const [days, readings, foretold, spending, unwanted, meters] = await Promise.all([
    ask(() => quotaDays(kysely, since)),
    ask(() => dataPointReadings(kysely)),
    ask(() => forecasts(kysely, nowMs)),
    ask(() => spendingByMonth(kysely, `${month}-01`)),
    ask(() => unwantedSpending(kysely, `${month}-01`)),
    ask(() => meterMonths(kysely, `${month}-01`)),
  ])
  const rows = thisMonth(days, month)
  const shown: Shown = { context, days, foretold, nights: lastDays(nowMs, nightsShown) }
  const body = html`
${sumCards(rows, foretold, month)}
${accountTable(shown, rows, month)}
${pipelineTable(shown, rows, month)}
${tagTable(spendingByTag(spending))}
${unwantedTable(unwanted)}
${booksTable(meters)}
${readingsTable(context, readings)}
${dailyCharts(context, days, since)}`
  return page({ title: 'Quota', place: '/quota', warehouse: context.warehouse, body })
}

const dailyCharts = (context: WebContext, days: readonly QuotaDay[], since: string): Html => {
  const pipelines = [...new Set(days.map(({ pipeline }) => pipeline))].sort()
  return html`${pipelines.map((pipeline) =>
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
