// Old landings swept, from a folder and from a bucket: what any unit still needs stays, whatever its age.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { readSettings } from '../../src/config/env.ts'
import { type LandingStore, openLandingStore } from '../../src/extract/landing.ts'
import { createProgress, type RunEvent } from '../../src/pipeline/progress.ts'
import { type SweepingRuntime, sweepLandings } from '../../src/pipeline/retention.ts'
import { claimed, newRun, planned, unitNamed } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'

let db: TestDatabase
let server: S3Server
let folder: string
let events: RunEvent[]

beforeAll(async () => {
  server = await startS3Server()
  folder = mkdtempSync(join(tmpdir(), 'millrace-retention-'))
})
afterAll(async () => {
  await server.close()
  rmSync(folder, { recursive: true })
})
beforeEach(async () => {
  db = await createTestDatabase()
  events = []
})
afterEach(() => db.drop())

/** As `days` from now. */
const shopOf = (raw: Readonly<Record<string, string>>, days: number): SweepingRuntime => {
  const settings = readSettings({ MILLRACE_HOME: join(folder, 'home'), ...raw }, folder)
  return {
    settings,
    landing: openLandingStore(settings.landing),
    clock: { ...systemClock, now: () => Date.now() + days * 86_400_000 },
    database: db.database,
    progress: createProgress((event) => events.push(event)),
  }
}

const land = async (store: LandingStore, name: string, edition: number): Promise<string> => {
  const locator = store.locator(unitNamed(name), edition, '1')
  const writer = await store.create(locator, { pipeline: 'traffic', unitKey: name })
  await writer.finish({
    completeness: { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null },
  })
  return locator
}

const missing = async (store: LandingStore, locators: readonly string[]): Promise<string[]> => {
  const gone: string[] = []
  for (const locator of locators) await store.open(locator).catch(() => gone.push(locator))
  return gone
}

describe.each([
  ['a folder', () => ({})],
  ['a bucket', () => server.environment('kept')],
])('old landings in %s', (_, settingsOf) => {
  test('go once they are too old and no unit is loaded from them, has them landed or is landing them', async () => {
    const { landing: store } = shopOf(settingsOf(), 0)
    const runId = await newRun(db)
    const [superseded, loaded] = [await land(store, 'a.com', 1), await land(store, 'a.com', 2)]
    const landed = await land(store, 'b.com', 1)
    await planned(db, runId, 'a.com')
    await planned(db, runId, 'b.com')
    await sql`update etl.units set loaded_landing = ${loaded} where unit_key = ${unitNamed('a.com').key}`.execute(
      db.database.kysely,
    )
    await sql`update etl.units set landing = ${landed} where unit_key = ${unitNamed('b.com').key}`.execute(db.database.kysely)

    expect(await sweepLandings(shopOf({ ...settingsOf(), MILLRACE_LANDING_DAYS: '30' }, 29))).toBe(0)
    const running = await planned(db, runId, 'c.com')
    await claimed(db, runId, running)
    expect(await sweepLandings(shopOf({ ...settingsOf(), MILLRACE_LANDING_DAYS: '30' }, 31))).toBe(0)
    await sql`update etl.units set state = 'failed' where unit_id = ${running}`.execute(db.database.kysely)
    expect(await sweepLandings(shopOf({ ...settingsOf(), MILLRACE_LANDING_DAYS: '30' }, 31))).toBe(1)
    expect(await missing(store, [superseded, loaded, landed])).toEqual([superseded])
    expect(events).toEqual([])
  })
})

describe('a bucket that refuses to be swept', () => {
  test('is said, and ends nothing', async () => {
    const wrong = { ...server.environment('kept'), AWS_SECRET_ACCESS_KEY: 'another-secret' }
    expect(await sweepLandings(shopOf(wrong, 0))).toBe(0)
    expect(events).toMatchObject([{ event: 'notice', code: 'LANDING_REFUSED' }])
  })
})
