// The month's credits as tables: in all, by account, pipeline and tag, for nobody any more, and beside the service's own books.
import { html } from 'hono/html'
import type { Forecast } from '../reads/read-forecast.ts'
import type { MeterMonth } from '../reads/read-meter.ts'
import type { QuotaDay } from '../reads/read-quota.ts'
import type { TagSpending, UnwantedSpending } from '../reads/spending.ts'
import type { WebContext } from '../context.ts'
import { count, moment } from '../format.ts'
import { type Html, table } from '../layout.ts'
import { barsOf, nightBars } from '../sparks.ts'

/** Nights of the small charts. */
export const nightsShown = 30

/** What the tables are made from. */
export interface Shown {
  readonly context: WebContext
  readonly days: readonly QuotaDay[]
  readonly foretold: readonly Forecast[]
  /** Days of the small charts, oldest first. */
  readonly nights: readonly string[]
}

const sum = <One>(all: readonly One[], pick: (one: One) => number | null): number =>
  all.reduce((total, one) => total + (pick(one) ?? 0), 0)

/** What has no forecast stays as it is. */
const endOf = (foretold: readonly Forecast[]): string =>
  foretold.every(({ forecast }) => forecast === null) ? '–' : count(sum(foretold, ({ forecast, spent }) => forecast ?? spent))

export const sumCards = (
  rows: readonly QuotaDay[],
  foretold: readonly Forecast[],
  month: string,
): Html => html`<ul class="cards" aria-label="Credits of ${month}">
<li><strong>${count(sum(rows, ({ used }) => used))}</strong> credits spent in ${month}</li>
<li><strong>${count(sum(rows, ({ reserved }) => reserved))}</strong> reserved for reports under way</li>
<li><strong>${endOf(foretold)}</strong> at the end of the month, as foretold</li>
</ul>`

const spark = ({ days, nights }: Shown, own: (day: QuotaDay) => boolean): Html =>
  nightBars('credits', barsOf(nights, days.filter(own).map(({ day, used, reserved }) => ({ day, value: used + reserved }))), '--series-2') // biome-ignore format: one look

export const accountTable = (shown: Shown, rows: readonly QuotaDay[], month: string): Html =>
  table(
    `By account, ${month}`,
    ['Account', 'Reports', 'Requests', 'Used', 'Reserved', 'At its end', `Credits, ${nightsShown} nights`],
    [...Map.groupBy(rows, ({ account }) => account)].map(([account, own]) => [
      account,
      ...[count(sum(own, (one) => one.reports)), count(sum(own, (one) => one.requests))],
      ...[count(sum(own, (one) => one.used)), count(sum(own, (one) => one.reserved))],
      endOf(shown.foretold.filter((one) => one.account === account)),
      spark(shown, (day) => day.account === account),
    ]),
    'Nothing was bought this month.',
  )

export const pipelineTable = (shown: Shown, rows: readonly QuotaDay[], month: string): Html =>
  table(
    `By pipeline, ${month}`,
    [
      ...['Pipeline', 'Account', 'Reports', 'Requests', 'Used', 'Reserved'],
      'At its end',
      'Budget',
      'Share',
      `Credits, ${nightsShown} nights`,
    ],
    rows.map((row) => {
      const { pipeline, account } = row
      const budget = shown.context.definitions.find((one) => one.pipeline === pipeline)?.limits.quotaPerMonth ?? null
      return [
        ...[pipeline, account, count(row.reports), count(row.requests), count(row.used), count(row.reserved)],
        endOf(shown.foretold.filter((one) => one.pipeline === pipeline && one.account === account)),
        budget === null ? 'none' : count(budget),
        budget === null ? '–' : shareBadge((row.used + row.reserved) / budget),
        spark(shown, (day) => day.pipeline === pipeline && day.account === account),
      ]
    }),
    'Nothing was bought this month.',
  )

const shareBadge = (share: number): Html =>
  html`<span class="badge${share >= 1 ? ' failed' : share >= 0.8 ? ' held' : ''}">${Math.round(share * 100)} %</span>`

export const tagTable = (tags: readonly TagSpending[]): Html =>
  tags.length === 0
    ? html``
    : table(
        'By tag',
        ['Tag', 'Value', 'Used', 'Reserved', 'Pipelines'],
        tags.map(({ tag, value, used, reserved, pipelines: of }) => [
          ...[tag, value ?? '(none)', count(used), count(reserved)],
          of.join(', '),
        ]),
      )

export const unwantedTable = (unwanted: readonly UnwantedSpending[]): Html =>
  unwanted.length === 0
    ? html``
    : table(
        'Bought for values that no list holds any more',
        ['Pipeline', 'Slices', 'Credits', 'For example'],
        unwanted.map(({ pipeline, slices, credits, examples }) => [pipeline, count(slices), count(credits), examples.join('; ')]),
      )

export const booksTable = (meters: readonly MeterMonth[]): Html =>
  meters.length === 0
    ? html``
    : table(
        "Beside the service's own books",
        ['Account', 'Left there', 'Charged beyond what is on record', 'Last read'],
        meters.map(({ account, remaining, difference, last_read_at }) => [
          account,
          count(remaining),
          difference === null ? 'compared with the next reading' : count(difference),
          moment(last_read_at),
        ]),
      )

export const thisMonth = (days: readonly QuotaDay[], month: string): QuotaDay[] => {
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
