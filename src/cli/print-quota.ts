// What `millrace quota` shows to people: the month by pipeline, by tag, for nobody, and the service's own books beside it.

import type { Credits } from '../extract/api.ts'
import type { Forecast } from '../web/reads/read-forecast.ts'
import type { MeterMonth, Spending, TagSpending, UnwantedSpending, ValueSpending } from '../web/reads/spending.ts'
import type { Answer } from './check/discover.ts'
import { formatNumber, type Output, some } from './output.ts'

/** All that `quota` knows of one month. */
export interface QuotaOf {
  /** `2026-01` */
  readonly month: string
  readonly spending: readonly Spending[]
  readonly tags: readonly TagSpending[]
  /** Of this month; empty for another one. */
  readonly forecasts: readonly Forecast[]
  readonly unwanted: readonly UnwantedSpending[]
  readonly meters: readonly MeterMonth[]
  /** By the values of `--by`; null: it was not asked for. */
  readonly values: readonly ValueSpending[] | null
}

/** Credits by account: those left at the service, and those spent and reserved here. */
export const printQuota = (output: Output, quota: QuotaOf, answers: readonly Answer<Credits>[]): void => {
  for (const answer of answers) output.line(creditsLeft(answer, answers.length > 1))
  output.line()
  printPipelines(output, quota)
  printTags(output, quota)
  printValues(output, quota)
  printUnwanted(output, quota)
  printBooks(output, quota)
}

const creditsLeft = ({ api, said }: Answer<Credits>, isOneOfSeveral: boolean): string => {
  const whose = isOneOfSeveral ? `The service ${api}` : 'The service'
  const remaining = said?.remaining ?? null
  return remaining === null ? `${whose} does not tell the credits left.` : `${whose} has ${formatNumber(remaining)} credits left.`
}

const printPipelines = (output: Output, { month, spending, forecasts }: QuotaOf): void => {
  if (spending.length === 0) {
    output.line(`Nothing was spent in ${month}.`)
    return
  }
  const total = (pick: (one: Spending) => number): string => formatNumber(spending.reduce((sum, one) => sum + pick(one), 0))
  const foretold = (pipeline: string, account: string): string => {
    const one = forecasts.find((known) => known.pipeline === pipeline && known.account === account)
    return one?.forecast == null ? '-' : formatNumber(one.forecast)
  }
  const isTagged = spending.some(({ tags }) => Object.keys(tags).length > 0)
  const seen = new Set<string>()
  const rows = spending.map((one) => {
    const { pipeline, account, tags, reports, requests, used, reserved } = one
    // What a pipeline spent with other tags before is another row, the forecast is of all.
    const isFirst = !seen.has(`${account} ${pipeline}`)
    seen.add(`${account} ${pipeline}`)
    return [
      ...[pipeline, account, ...(isTagged ? [tagWords(tags)] : []), formatNumber(reports), formatNumber(requests)],
      ...[formatNumber(used), formatNumber(reserved), isFirst ? foretold(pipeline, account) : ''],
    ]
  })
  const known = forecasts.filter(({ forecast }) => forecast !== null)
  const whole =
    known.length === 0 ? '-' : formatNumber(forecasts.reduce((sum, { forecast, spent }) => sum + (forecast ?? spent), 0))
  const sums = [total(({ reports }) => reports), total(({ requests }) => requests), total(({ used }) => used)]
  output.table(
    [month, 'account', ...(isTagged ? ['tags'] : []), 'reports', 'requests', 'used', 'reserved', 'at its end'],
    [...rows, ['all', '', ...(isTagged ? [''] : []), ...sums, total(({ reserved }) => reserved), whole]],
  )
}

const tagWords = (tags: Readonly<Record<string, string>>): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')

const printTags = (output: Output, { tags }: QuotaOf): void => {
  if (tags.length === 0) return
  output.line()
  output.table(
    ['tag', 'value', 'used', 'reserved', 'pipelines'],
    tags.map(({ tag, value, used, reserved, pipelines }) => [
      ...[tag, value ?? '(none)', formatNumber(used), formatNumber(reserved)],
      pipelines.join(', '),
    ]),
  )
}

const mostValues = 40

const printValues = (output: Output, { values }: QuotaOf): void => {
  if (values === null) return
  output.line()
  output.table(
    ['value', 'pipeline', 'credits', 'in a list'],
    values
      .slice(0, mostValues)
      .map(({ value, pipeline, credits, wanted }) => [...[value, pipeline, formatNumber(credits)], wanted ? 'yes' : 'no']),
  )
  if (values.length > mostValues) output.line(`and ${formatNumber(values.length - mostValues)} more; --json has all.`)
}

const printUnwanted = (output: Output, { unwanted }: QuotaOf): void => {
  if (unwanted.length === 0) return
  output.line()
  output.table(
    ['bought for nobody any more', 'units of lists', 'credits', 'for example'],
    unwanted.map(({ pipeline, slices, credits, examples }) => [
      ...[pipeline, formatNumber(slices), formatNumber(credits)],
      examples.join('; '),
    ]),
  )
}

const printBooks = (output: Output, { meters, spending }: QuotaOf): void => {
  const requests = spending.reduce((sum, one) => sum + one.request_credits, 0)
  output.line()
  if (requests > 0) output.line(`Of these ${some(requests, 'credit')} are of requests, as their bills said.`)
  const unpriced = spending.reduce((sum, one) => sum + one.unpriced, 0)
  if (unpriced > 0) output.line(`The price of ${some(unpriced, 'purchase')} is not known: they are not among them.`)
  for (const { account, difference, last_read_at, readings } of meters) {
    const at = last_read_at.slice(0, 16).replace('T', ' ')
    if (difference === null)
      output.line(`Account ${account}: the service's own books were read once (${at}); the next run compares.`)
    else if (difference === 0)
      output.line(
        `Account ${account}: the service's own books agree to the credit (${some(readings, 'reading')}, the last at ${at} UTC).`,
      )
    else
      output.line(
        `Account ${account}: the service charged ${formatNumber(Math.abs(difference))} credits ${difference > 0 ? 'more' : 'less'} than is on record here (last read at ${at} UTC).`,
      )
  }
}
