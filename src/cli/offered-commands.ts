// What a service offers this key: `millrace describe`: datasets; `millrace capabilities`: values and dates; `millrace quota`: credits left, and credits spent,
// reserved and forecast here, by account, pipeline, tag and value.
import { existsSync } from 'node:fs'
import { counted, formatNumber, sum, sums } from '../core/counted.ts'
import { type EtlError, usageError } from '../core/errors.ts'
import type { Database } from '../db/connect.ts'
import { databaseMs } from '../db/database-clock.ts'
import { suggest } from '../definition/problem.ts'
import { loadDefinitions } from '../definition/load.ts'
import type { Capabilities, Credits } from '../extract/api.ts'
import { totalForecast, describeForecast, type Forecast, forecasts } from '../ledger/month-end.ts'
import { pricesOf } from '../plan/price.ts'
import { readApiSettings } from '../run/apis.ts'
import { sourceFolders } from '../run/open-runtime.ts'
import { quotaDays, quotaMonths } from '../web/reads/read-quota.ts'
import { meterMonths, spendingByMonth, spendingByTag, spendingByValue, unwantedSpending } from '../web/reads/spending.ts'
import { type Answer, discover } from './check/discover.ts'
import { pipelinesFolder, settingsOf, withDatabase } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { fields, type Output } from './output.ts'

export const describe: Handler = async (invocation) => {
  const answers = await discover(invocation, 'describe')
  return showAnswers(invocation, { command: 'describe', what: 'its datasets' }, answers, (datasets, output) => {
    for (const dataset of datasets) {
      output.event({ event: 'dataset', ...dataset })
      output.line(dataset.table)
      for (const [param, values] of Object.entries(dataset.choices))
        output.line(`  ${`${param}:`.padEnd(14)} ${values.join(', ') || '-'}`)
      output.line(`  filters:       ${dataset.filters?.join(', ') || '-'}`)
      if (dataset.dimensions !== null) output.line(`  dimensions:    ${dataset.dimensions.join(', ') || '-'}`)
      output.line(`  metrics:       ${dataset.metrics.join(', ') || '-'}`)
    }
    output.line()
    output.line('Next: `millrace new dataset NAME` writes the definition of one of them.')
    return { datasets: datasets.length }
  })
}

type Family = Capabilities['families'][number]

export const capabilities: Handler = async (invocation) => {
  const answers = await discover(invocation, 'capabilities')
  return showAnswers(invocation, { command: 'capabilities', what: 'what this key may ask' }, answers, (found, output) => {
    const kinds = [...new Set(found.families.flatMap(({ values }) => Object.keys(values)))]
    output.table(found.families, {
      family: ({ name }) => name,
      ...fields('from', 'to'),
      ...Object.fromEntries(kinds.map((kind) => [kind, ({ values }: Family) => values[kind]?.join(' ') ?? null])),
    })
    if (found.remainingHits !== null) output.line(`${counted(found.remainingHits, 'request')} left.`)
    return {
      remaining_hits: found.remainingHits,
      families: found.families.map(({ values, ...family }) => ({ ...family, ...values })),
    }
  })
}

/** Prints each API's answer, under its name where there are several. `show` prints one answer and returns its part of the summary. */
const showAnswers = <T>(
  { output }: Invocation,
  { command, what }: { readonly command: string; readonly what: string },
  answers: readonly Answer<T>[],
  show: (said: T, output: Output) => Readonly<Record<string, unknown>>,
): number => {
  if (answers.length === 0) {
    output.summary(command, { offered: false })
    output.line(`No source here can list ${what}.`)
  }
  for (const { api, said } of answers) {
    const name = answers.length > 1 ? { api } : {}
    if (answers.length > 1) output.line(`${api}:`)
    const offered = said !== null
    // A missing endpoint is no failure: some versions of the service lack it.
    if (!offered) output.line(`The service does not tell ${what} (no such endpoint). Nothing depends on it.`)
    output.summary(command, { ...name, offered, ...(offered ? show(said, output) : {}) })
  }
  return 0
}

/** Shows the ledger's figures also where the service cannot be reached; the service's error is shown beside them. */
export const quota: Handler = async (invocation) => {
  const { output } = invocation
  return withDatabase(invocation, async (database) => {
    const db = database.kysely
    const found = await quotaOf(database, invocation)
    const failures: EtlError[] = []
    const answers = await discover(invocation, 'credits', database, (error) => failures.push(error))
    const services = answers.length > 1 ? { services: Object.fromEntries(answers.map(({ api, said }) => [api, said])) } : {}
    quotaEvents(output, found)
    for (const { code, message } of failures) {
      output.event({ event: 'error', code, message })
      output.note(`millrace: ${message} [${code}]`)
    }
    output.summary('quota', {
      month: found.month,
      service: answers[0]?.said ?? null,
      ...services,
      ...totals(found),
      spent: quotaMonths(await quotaDays(db)),
    })
    printQuota(output, found, answers)
    return failures.length > 0 ? 1 : 0
  })
}

type QuotaOf = Awaited<ReturnType<typeof quotaOf>>
type Spending = QuotaOf['spending'][number]

const quotaOf = async (database: Database, invocation: Invocation) => {
  const { options } = invocation
  const db = database.kysely
  const nowMs = await databaseMs(db)
  const present = new Date(nowMs).toISOString().slice(0, 7)
  const month = String(options['month'] ?? present)
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(month)) throw usageError(`--month is '${month}', expected a month such as ${present}.`)
  const first = `${month}-01`
  const spending = (await spendingByMonth(db, first)).filter((one) => one.month === month)
  const by = options['by'] === undefined ? null : String(options['by'])
  const known = (await db.selectFrom('etl.pipelines').select('dimensions').execute()).flatMap(({ dimensions }) => dimensions)
  if (by !== null && known.length > 0 && !known.includes(by))
    throw usageError(`--by: no pipeline runs for each '${by}'.${suggest(by, [...new Set(known)])}`)
  return {
    month,
    spending,
    tags: spendingByTag(spending),
    // Forecasts exist only for the present month.
    forecasts: month === present ? await forecasts(db, nowMs, await pricesHere(database, invocation)) : [],
    unwanted: await unwantedSpending(db, first),
    meters: (await meterMonths(db, first)).filter((one) => one.month === month),
    // By the values of `--by`; null: the option is not given.
    values: by === null ? null : await spendingByValue(db, first, by, spending),
  }
}

/** Prices of the valid definitions; `check` reports the others. */
const pricesHere = async (database: Database, invocation: Invocation) => {
  const folder = pipelinesFolder(invocation)
  const { sources, apis } = await sourceFolders(folder)
  const { definitions } = existsSync(folder) ? await loadDefinitions({ folder, sources, only: [] }) : { definitions: [] }
  const { allowance } = readApiSettings(apis, settingsOf(invocation).raw)
  return pricesOf({ allowance, database, sources }, definitions)
}

const quotaEvents = (output: Output, { month, spending, tags, forecasts: foretold, unwanted, meters, values }: QuotaOf): void => {
  for (const one of spending) output.event({ event: 'spending', ...one })
  for (const one of tags) output.event({ event: 'tag', ...one })
  for (const one of foretold) output.event({ event: 'forecast', month, ...one })
  for (const one of unwanted) output.event({ event: 'unwanted', month, ...one })
  for (const one of meters) output.event({ event: 'service_books', ...one })
  for (const one of values ?? []) output.event({ event: 'value', month, ...one })
}

/** Totals of the month. Credits charged beyond the recorded ones belong to no pipeline. */
const totals = ({ spending, forecasts: foretold, unwanted, meters }: QuotaOf) => ({
  ...sums(spending, 'used', 'reserved'),
  ...forecastOf(foretold),
  unwanted: sum(unwanted, 'credits'),
  not_on_record: sum(meters, 'difference'),
})

/** `forecast` is a number where every price is known, else there is a `forecast_range`. */
const forecastOf = (foretold: readonly Forecast[]) => {
  const end = totalForecast(foretold)
  const isKnown = end !== null && end.low === end.high
  return { forecast: isKnown ? end.low : null, forecast_range: isKnown ? null : end }
}

/** The forecast as a number where every price is known, else as a range in words. */
const endCell = (foretold: readonly Forecast[]): number | string | null =>
  forecastOf(foretold).forecast ?? describeForecast(foretold, formatNumber)

/** Credits by account: those left at the service, and those spent and reserved here. */
const printQuota = (output: Output, quota: QuotaOf, answers: readonly Answer<Credits>[]): void => {
  for (const answer of answers) output.line(creditsLeft(answer, answers.length > 1))
  output.line()
  printPipelines(output, quota)
  printTags(output, quota)
  printValues(output, quota)
  printUnwanted(output, quota)
  printBooks(output, quota)
}

const creditsLeft = ({ api, said, hasFailed }: Answer<Credits>, isOneOfSeveral: boolean): string => {
  const whose = isOneOfSeveral ? `The service ${api}` : 'The service'
  const { remaining = null, requests = null, userAllowance = null, userRemaining = null } = said ?? {}
  if (remaining === null && hasFailed) return `${whose} could not be read for the credits left: see the error.`
  if (remaining === null) return `${whose} does not report the credits left.`
  const isOnePurse = requests === null || requests === remaining
  const both = isOnePurse ? '' : ` for reports, ${formatNumber(requests)} for requests`
  const of = userAllowance === null ? '' : ` of ${formatNumber(userAllowance)}`
  const user = userRemaining === null ? '' : ` This user may spend ${formatNumber(userRemaining)}${of} on reports.`
  return `${whose} has ${formatNumber(remaining)} credits left${both}.${user}`
}

const printPipelines = (output: Output, quota: QuotaOf): void => {
  const { month, spending, forecasts } = quota
  const isSame =
    (one: Pick<Spending, 'pipeline' | 'account'>) =>
    (other: Pick<Spending, 'pipeline' | 'account'>): boolean =>
      other.pipeline === one.pipeline && other.account === one.account
  // Pipelines that have spent nothing yet but have a forecast need a row, too, since the total includes them.
  const unspent = forecasts.filter((one) => !spending.some(isSame(one)) && (totalForecast([one])?.high ?? 0) > 0)
  const nothing = { tags: {}, reports: 0, requests: 0, used: 0, reserved: 0 }
  const rows = [
    // A pipeline has a row for each set of tags; its forecast covers all of them and is shown in the first.
    ...spending.map((one) => ({
      ...one,
      end: spending.find(isSame(one)) === one ? endCell(forecasts.filter(isSame(one))) : '',
    })),
    ...unspent.map((one) => ({ ...one, ...nothing, end: endCell([one]) })),
  ]
  if (rows.length === 0) {
    output.line(`Nothing was spent in ${month}.`)
    return
  }
  const all = {
    ...{ pipeline: 'all', account: '', tags: {}, end: endCell(forecasts) },
    ...sums(spending, 'reports', 'requests', 'used', 'reserved'),
  }
  const isTagged = spending.some(({ tags }) => Object.keys(tags).length > 0)
  output.table([...rows, all], {
    [month]: ({ pipeline }) => pipeline,
    account: ({ account }) => account,
    ...(isTagged ? { tags: ({ tags }: Pick<Spending, 'tags'>) => tagWords(tags) } : {}),
    ...fields('reports', 'requests', 'used', 'reserved'),
    'month end': ({ end }) => end,
  })
}

const tagWords = (tags: Readonly<Record<string, string>>): string =>
  Object.entries(tags)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')

const printTags = (output: Output, { tags }: QuotaOf): void =>
  output.optionalTable(tags, {
    tag: ({ tag }) => tag,
    value: ({ value }) => value ?? '(none)',
    ...fields('used', 'reserved'),
    pipelines: ({ pipelines }) => pipelines.join(', '),
  })

const mostValues = 40

const printValues = (output: Output, { values }: QuotaOf): void => {
  if (values === null) return
  output.line()
  const [known, rest] = [values.filter(({ value }) => value !== null), values.filter(({ value }) => value === null)]
  output.table([...known.slice(0, mostValues), ...rest], {
    value: ({ value, dimension }) => value ?? `no ${dimension} known`,
    ...fields('pipeline', 'credits'),
    'in a list': ({ wanted }) => (wanted === null ? null : wanted ? 'yes' : 'no'),
  })
  if (known.length > mostValues) output.line(`and ${formatNumber(known.length - mostValues)} more; --json has all.`)
}

const printUnwanted = (output: Output, { unwanted }: QuotaOf): void =>
  output.optionalTable(unwanted, {
    'bought for values since removed': ({ pipeline }) => pipeline,
    'units of lists': ({ slices }) => slices,
    credits: ({ credits }) => credits,
    'for example': ({ examples }) => examples.join('; '),
  })

const printBooks = (output: Output, { meters, spending }: QuotaOf): void => {
  const requests = sum(spending, 'request_credits')
  output.line()
  if (requests > 0) output.line(`${formatNumber(requests)} of these credits were charged for requests.`)
  const unpriced = sum(spending, 'unpriced')
  if (unpriced > 0) output.line(`The price of ${counted(unpriced, 'purchase')} is not known and not included.`)
  for (const { account, difference, last_read_at, readings } of meters) {
    const at = last_read_at.slice(0, 16).replace('T', ' ')
    if (difference === null)
      output.line(`Account ${account}: the service's own books were read once (${at}); the next run compares them.`)
    else if (difference === 0)
      output.line(
        `Account ${account}: the service's own books show the same credits (${counted(readings, 'reading')}, the last at ${at} UTC).`,
      )
    else
      output.line(
        `Account ${account}: the service charged ${formatNumber(Math.abs(difference))} credits ${difference > 0 ? 'more' : 'less'} than is on record here (last read at ${at} UTC).`,
      )
  }
}
