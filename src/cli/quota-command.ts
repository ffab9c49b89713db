// `millrace quota`: credits left at each service, and what was spent, is reserved and will be spent here: by account, pipeline, tag and value.

import { EtlError } from '../core/errors.ts'
import { openDatabase } from '../db/connect.ts'
import { assertMigrated } from '../db/migrate.ts'
import type { Db } from '../db/tables.ts'
import { databaseMs } from '../ledger/database-now.ts'
import { forecasts } from '../web/reads/read-forecast.ts'
import { quotaDays, quotaMonths } from '../web/reads/read-quota.ts'
import { meterMonths, spendingByMonth, spendingByTag, spendingByValue, unwantedSpending } from '../web/reads/spending.ts'
import { discoverCredits } from './check/discover.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { discoverRequest } from './offered.ts'
import type { Output } from './output.ts'
import { printQuota, type QuotaOf } from './print-quota.ts'

/** The ledger is asked also where the service cannot be. */
export const handle: Handler = async (invocation) => {
  const { output } = invocation
  const request = discoverRequest(invocation)
  const database = await openDatabase({
    databaseUrl: request.settings.databaseUrl,
    home: request.settings.home,
    maxConnections: 2,
  })
  try {
    await assertMigrated(database, { folders: [], allowUnknown: true })
    const db = database.kysely
    const quota = await quotaOf(db, invocation)
    const answers = await discoverCredits(request, database)
    const services = answers.length > 1 ? { services: Object.fromEntries(answers.map(({ api, said }) => [api, said])) } : {}
    quotaEvents(output, quota)
    output.event({
      event: 'summary',
      command: 'quota',
      month: quota.month,
      service: answers[0]?.said ?? null,
      ...services,
      ...totals(quota),
      spent: quotaMonths(await quotaDays(db)),
    })
    printQuota(output, quota, answers)
    return 0
  } finally {
    await database.close()
  }
}

const quotaOf = async (db: Db, { options }: Invocation): Promise<QuotaOf> => {
  const nowMs = await databaseMs(db)
  const present = new Date(nowMs).toISOString().slice(0, 7)
  const month = String(options['month'] ?? present)
  if (!/^\d{4}-(0[1-9]|1[0-2])$/.test(month))
    throw new EtlError('USAGE', `--month is '${month}', expected a month such as ${present}.`)
  const first = `${month}-01`
  const spending = (await spendingByMonth(db, first)).filter((one) => one.month === month)
  const by = options['by'] === undefined ? null : String(options['by'])
  return {
    month,
    spending,
    tags: spendingByTag(spending),
    forecasts: month === present ? await forecasts(db, nowMs) : [],
    unwanted: await unwantedSpending(db, first),
    meters: (await meterMonths(db, first)).filter((one) => one.month === month),
    values: by === null ? null : await spendingByValue(db, first, by),
  }
}

const quotaEvents = (output: Output, { month, spending, tags, forecasts: foretold, unwanted, meters, values }: QuotaOf): void => {
  for (const one of spending) output.event({ event: 'spending', ...one })
  for (const one of tags) output.event({ event: 'tag', ...one })
  for (const one of foretold) output.event({ event: 'forecast', month, ...one })
  for (const one of unwanted) output.event({ event: 'unwanted', month, ...one })
  for (const one of meters) output.event({ event: 'service_books', ...one })
  for (const one of values ?? []) output.event({ event: 'value', month, ...one })
}

const sum = <One>(all: readonly One[], pick: (one: One) => number | null): number =>
  all.reduce((total, one) => total + (pick(one) ?? 0), 0)

/** Of the month. What the service charged beyond what is on record is part of no pipeline. */
const totals = ({ spending, forecasts: foretold, unwanted, meters }: QuotaOf) => ({
  used: sum(spending, ({ used }) => used),
  reserved: sum(spending, ({ reserved }) => reserved),
  forecast: foretold.every(({ forecast }) => forecast === null)
    ? null
    : sum(foretold, ({ forecast, spent }) => forecast ?? spent),
  unwanted: sum(unwanted, ({ credits }) => credits),
  not_on_record: sum(meters, ({ difference }) => difference),
})
