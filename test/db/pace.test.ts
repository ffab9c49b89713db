// What refusals teach is kept in the warehouse: one process is refused, all slow down; and who is in trouble is on record.
import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { createRateBudget } from '../../src/extract/rate.ts'
import { createAccountPace, endTrouble, noteTrouble } from '../../src/ledger/account-pace.ts'
import { createRateWindows } from '../../src/ledger/rate-windows.ts'
import { accountStates } from '../../src/web/reads/read-pace.ts'
import type { Tables } from '../../src/db/tables.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
})
afterEach(() => db.drop())

const refusal = { leftMsAgo: 5, succeededMsAgo: 1, perSecond: null, configured: 200 }
const k = () => db.database.kysely

describe('the pace of an account', () => {
  test('is as configured until it is refused, and halved for everybody from then on', async () => {
    const [one, two] = [1, 2].map(() => createAccountPace(k(), 'api/default'))
    expect(await one?.read()).toBeNull()
    expect(await one?.refused(refusal)).toMatchObject({ base: 100, ceiling: null })
    expect(await two?.read()).toMatchObject({ base: 100, ceiling: null })
    expect(await createAccountPace(k(), 'api/other').read()).toBeNull()
  })

  test('is halved once by answers to requests that left together, whoever got them', async () => {
    const paces = Array.from({ length: 6 }, () => createAccountPace(k(), 'api/default'))
    await Promise.all(paces.map((pace) => pace.refused({ ...refusal, leftMsAgo: 5_000 })))
    expect(await paces[0]?.read()).toMatchObject({ base: 100 })
    await db.database.pool.query(
      `update etl.pace set changed_at = changed_at - interval '20 s', refused_at = refused_at - interval '20 s'`,
    )
    // The second within two minutes says where the limit lies.
    expect((await paces[1]?.refused(refusal))?.base).toBeCloseTo(100, 0)
    expect((await paces[2]?.read())?.ceiling).toBeCloseTo(170, 0)
  })

  test('keeps two processes to half of what they had, though only one was refused', async () => {
    const budget = () =>
      createRateBudget({
        requestsPerSecond: 40,
        clock: systemClock,
        shared: createRateWindows(db.database.pool, 'api/default'),
        memory: createAccountPace(k(), 'api/default'),
      })
    const [one, two] = [budget(), budget()]
    const never = new AbortController().signal
    for (let request = 0; request < 10; request += 1) (await one.take(never, 'run')).judged(request === 9)
    await new Promise((resolve) => setTimeout(resolve, 1_100))
    const began = performance.now()
    for (let request = 0; request < 20; request += 1) (await two.take(never, 'run')).judged(false)
    expect(performance.now() - began).toBeGreaterThan(700)
  })
})

test('a database that is away says so before anything leaves: whoever promised a submission has to know that nothing was sent', async () => {
  const away = new pg.Pool({ connectionString: 'postgres://nobody@127.0.0.1:1/none' })
  const kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: away }) })
  try {
    const options = { requestsPerSecond: 40, clock: systemClock }
    const never = new AbortController().signal
    const unreachable = { code: 'DATABASE_UNREACHABLE' }
    const taught = createRateBudget({ ...options, memory: createAccountPace(kysely, 'api/default') })
    await expect(taught.take(never, 'run')).rejects.toMatchObject(unreachable)
    const counted = createRateBudget({ ...options, shared: createRateWindows(away, 'api/default') })
    await expect(counted.take(never, 'run')).rejects.toMatchObject(unreachable)
    // Nobody waits for what the other machines are told; that it failed is thrown to whoever asks next.
    const windows = createRateWindows(away, 'api/default')
    await expect(windows.pause(100)).rejects.toMatchObject(unreachable)
    await expect(windows.extend(100)).rejects.toMatchObject(unreachable)
  } finally {
    await kysely.destroy()
  }
})

describe('a trouble', () => {
  const trouble = { place: 'the account', code: 'RATE_LIMITED', message: 'It answers 429.', sinceMsAgo: 4_000 }

  test('is on record while it is tried, and gone when it is over or nobody tries any more', async () => {
    await noteTrouble(k(), 'api/default', trouble)
    const [state] = await accountStates(k())
    expect(state).toMatchObject({ account: 'api/default', requestsPerSecond: null, trouble: { code: 'RATE_LIMITED' } })
    expect(Date.now() - Date.parse(state?.trouble?.since ?? '')).toBeGreaterThan(3_000)
    await endTrouble(k(), 'api/default', '/another/path')
    expect((await accountStates(k()))[0]?.trouble).not.toBeNull()
    await db.database.pool.query(`update etl.pace set trouble_seen_at = trouble_seen_at - interval '3 minutes'`)
    expect((await accountStates(k()))[0]?.trouble).toBeNull()
    await noteTrouble(k(), 'api/default', trouble)
    await endTrouble(k(), 'api/default', 'the account')
    expect((await accountStates(k()))[0]?.trouble).toBeNull()
  })
})
