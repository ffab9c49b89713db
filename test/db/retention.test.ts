// Old landings swept, from a folder and from a bucket: what any unit still needs stays, whatever its age, and so does what is not ours.
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { readSettings } from '../../src/core/env.ts'
import { openLandingStore } from '../../src/extract/landing.ts'
import type { LandingStore } from '../../src/extract/landing-store.ts'
import { createProgress, type RunEvent } from '../../src/run/progress.ts'
import { type SweepingRuntime, sweep, sweepLandings } from '../../src/run/retention.ts'
import type { Box } from '../../src/core/types.ts'
import { type PipelineKit, newJob, newPipeline, newRun, nextAskNumber } from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, setJob, unitRows } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase({ each: true })
let server: S3Server
const folder = testFolder()
let events: RunEvent[]

beforeAll(async () => {
  server = await startS3Server()
})
afterAll(() => server.close())
beforeEach(async () => {
  await db.database.pool.query('update etl.warehouse set warehouse_id = $1', [warehouse.id])
  events = []
})
const warehouse = { id: '5b1c7d2e-0000-4000-8000-000000000001', epoch: 1 }

/** As `days` from now. */
const runtimeOf = async (raw: Readonly<Record<string, string>>, days: number): Promise<SweepingRuntime> => {
  const settings = readSettings({ MILLRACE_HOME: join(folder, 'home'), ...raw }, folder)
  return {
    settings,
    landing: await openLandingStore(settings.landing),
    clock: { ...systemClock, now: () => Date.now() + days * 86_400_000 },
    database: db.database,
    progress: createProgress((event) => events.push(event)),
  }
}

const boxNamed = (name: string): Box => ({
  key: `traffic/v1/2026-01/domain=${name}`,
  pipeline: 'traffic',
  version: 1,
  window: { from: '2026-01-01', to: '2026-02-01' },
  slice: { domain: name },
})

const land = async (store: LandingStore, name: string, askNumber: number, by = warehouse): Promise<string> => {
  const writer = await store.create({
    box: boxNamed(name),
    warehouse: by,
    askNumber: String(askNumber),
    fence: '1',
    nonce: 'c0ffee',
  })
  await writer.finish({
    completeness: { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null },
  })
  return writer.locator
}

const missing = async (store: LandingStore, locators: readonly string[]): Promise<string[]> => {
  const gone: string[] = []
  for (const locator of locators) await store.open(locator).catch(() => gone.push(locator))
  return gone
}

/** A landed answer of a unit of its own. */
const answered = async (store: LandingStore, pipeline: PipelineKit, name: string) => {
  const jobId = await newJob(db, pipeline)
  const askNumber = await nextAskNumber(db)
  const landing = await land(store, name, askNumber)
  const answerId = await newAnswer(db, jobId, { askNumber, landing })
  const load = async (): Promise<void> => {
    await loadedAs(db, jobId, answerId, askNumber)
    const { window_from } = await jobRow(db, jobId)
    const rows = { rows_read: 0, rows_inserted: 0, rows_updated: 0, rows_ended: 0, rows_unchanged: 0, rows_quarantined: 0 }
    await db.database.kysely
      .insertInto('etl.load_rows')
      .values({
        ...{ answer_id: answerId, pipeline_id: pipeline.pipelineId, window_from, job_id: jobId, outcome: 'loaded' as const },
        ...{ ...rows, rows_duplicates: 0, milliseconds: null },
      })
      .execute()
  }
  return { jobId, askNumber, landing, answerId, load }
}

describe.each([
  ['a folder', () => ({})],
  ['a bucket', () => server.environment('kept')],
])('old landings in %s', (_, settingsOf) => {
  afterEach(async () => {
    const { landing } = await runtimeOf(settingsOf(), 0)
    for await (const locator of landing.older(Number.MAX_SAFE_INTEGER)) await landing.remove(locator)
  })

  test('go once they are too old and no unit is loaded from them, holds them back, or is to load them yet', async () => {
    const { landing: store } = await runtimeOf(settingsOf(), 0)
    const pipeline = await newPipeline(db)
    const [superseded, loaded, waiting, held] = [
      await answered(store, pipeline, 'a.com'),
      await answered(store, pipeline, 'b.com'),
      await answered(store, pipeline, 'c.com'),
      await answered(store, pipeline, 'd.com'),
    ]
    for (const { load } of [superseded, loaded, held]) await load()
    await db.database.pool.query(`update etl.units set answer_id = null where answer_id = $1`, [superseded.answerId])
    await db.database.pool.query(
      `update etl.units set answer_id = null, held_answer_id = $1, held_code = 'SHRUNK' where answer_id = $1`,
      [held.answerId],
    )
    const keep = { ...settingsOf(), MILLRACE_LANDING_DAYS: '30' }
    expect(await sweepLandings(await runtimeOf(keep, 29))).toBe(0)
    expect(await sweepLandings(await runtimeOf(keep, 31))).toBe(1)
    const all = [superseded, loaded, waiting, held].map(({ landing }) => landing)
    expect(await missing(store, all)).toEqual([superseded.landing])
    expect(events).toEqual([])
    // A failed job still has its answer to load; once it is done and nothing holds it, it may go.
    await setJob(db, waiting.jobId, { state: 'failed' })
    expect(await sweepLandings(await runtimeOf(keep, 31))).toBe(0)
    await setJob(db, waiting.jobId, { state: 'done' })
    expect(await sweepLandings(await runtimeOf(keep, 31))).toBe(1)
  })

  test('are kept while another version of the pipeline, which lists its dimensions in another order, is loaded from them', async () => {
    const { landing: store } = await runtimeOf(settingsOf(), 0)
    const pipeline = await newPipeline(db, { dimensions: ['domain', 'country'] })
    const { landing, answerId, jobId } = await answered(store, pipeline, 'e.com')
    const [unit] = await unitRows(db, pipeline)
    const second = await newPipeline(db, { dimensions: ['country', 'domain'], version: 2 })
    await db.database.pool.query(
      `with slice as (insert into etl.slices (pipeline_id, "values", wanted_since)
          select $1, array["values"[2], "values"[1]], 1 from etl.slices where slice_id = $2 returning slice_id)
        insert into etl.units (pipeline_id, window_from, slice_id, answer_id, ask_number)
          select $1, '2026-01-01', slice_id, $3, 1 from slice`,
      [second.pipelineId, unit?.slice_id, answerId],
    )
    await db.database.pool.query(
      `insert into etl.load_rows (answer_id, pipeline_id, window_from, job_id, outcome, rows_read, rows_inserted, rows_updated, rows_ended,
        rows_unchanged, rows_quarantined, rows_duplicates) values ($1, $2, '2026-01-01', $3, 'loaded', 0, 0, 0, 0, 0, 0, 0)`,
      [answerId, second.pipelineId, jobId],
    )
    await setJob(db, jobId, { state: 'done' })
    expect(await sweepLandings(await runtimeOf(settingsOf(), 500))).toBe(0)
    await db.database.pool.query('update etl.units set answer_id = null where pipeline_id = $1', [second.pipelineId])
    expect(await sweepLandings(await runtimeOf(settingsOf(), 500))).toBe(1)
    expect(await missing(store, [landing])).toEqual([landing])
  })

  test('with the paid pages of a walk that goes on later stay, whatever their age', async () => {
    const { landing: store } = await runtimeOf(settingsOf(), 0)
    const pipeline = await newPipeline(db)
    const begun = async (name: string, state: 'open' | 'held' | 'failed' | 'done'): Promise<string> => {
      const jobId = await newJob(db, pipeline)
      const landing = await land(store, name, await nextAskNumber(db))
      await setJob(db, jobId, { state, begun_landing: landing })
      return landing
    }
    const kept = [await begun('g.com', 'open'), await begun('h.com', 'held'), await begun('i.com', 'failed')]
    const over = await begun('j.com', 'done')
    expect(await sweepLandings(await runtimeOf({ ...settingsOf(), MILLRACE_LANDING_DAYS: '0' }, 1))).toBe(1)
    expect(await missing(store, [...kept, over])).toEqual([over])
  })

  test('that no answer names go as well, unless their job is still asking; those of another warehouse or epoch stay', async () => {
    const { landing: store } = await runtimeOf(settingsOf(), 0)
    const pipeline = await newPipeline(db)
    const asking = await nextAskNumber(db)
    await newJob(db, pipeline, { runs: [await newRun(db)], set: { ask_number: asking } })
    const kept = [
      await land(store, 'f.com', asking),
      await land(store, 'f.com', asking + 1, { ...warehouse, id: 'ffffffff-0000-4000-8000-000000000002' }),
      await land(store, 'f.com', asking + 1, { ...warehouse, epoch: 2 }),
    ]
    const left = await land(store, 'f.com', asking + 1)
    expect(await sweepLandings(await runtimeOf({ ...settingsOf(), MILLRACE_LANDING_DAYS: '0' }, 1))).toBe(1)
    expect(await missing(store, [...kept, left])).toEqual([left])
  })
})

describe('a bucket that refuses to be swept', () => {
  test('is said, and ends nothing', async () => {
    const wrong = { ...server.environment('kept'), AWS_SECRET_ACCESS_KEY: 'another-secret' }
    expect(await sweepLandings(await runtimeOf(wrong, 0))).toBe(0)
    expect(events).toMatchObject([{ event: 'notice', code: 'LANDING_REFUSED' }])
  })
})

test.each(['MILLRACE_LANDING_DAYS', 'MILLRACE_LEDGER_DAYS'])(
  '%s that is no number of days is refused by its name',
  async (name) => {
    const sweepWith = async () => sweep(await runtimeOf({ [name]: '-1' }, 0))
    await expect(sweepWith()).rejects.toMatchObject({ code: 'CONFIGURATION', message: expect.stringContaining(name) })
  },
)
