// A process that asks for departures of a shared budget, with a clock of its own: prints when each left, in true time.
import { parseArgs } from 'node:util'
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { z } from 'zod'
import { systemClock } from '../../src/core/clock.ts'
import type { Tables } from '../../src/db/tables.ts'
import { createRateBudget } from '../../src/extract/rate.ts'
import { createAccountPace } from '../../src/ledger/account-pace.ts'

const { values } = parseArgs({ options: { given: { type: 'string', default: '{}' } } })
const { url, requestsPerSecond, count, clockAheadMs } = z
  .object({ url: z.string(), requestsPerSecond: z.number(), count: z.number(), clockAheadMs: z.number() })
  .parse(JSON.parse(values.given))
const trueNow = Date.now
Date.now = () => trueNow() + clockAheadMs
const database = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString: url, max: 2 }) }) })
const budget = createRateBudget({ requestsPerSecond, clock: systemClock, account: createAccountPace(database, 'default') })
const never = new AbortController().signal
const departures: number[] = []
for (let index = 0; index < count; index += 1) {
  await budget.take(never, 'run')
  departures.push(trueNow())
}
await database.destroy()
process.stdout.write(JSON.stringify(departures))
