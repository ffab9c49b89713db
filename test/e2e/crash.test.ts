// kill -9 at any moment costs nothing but time: the same command ends equal to a run nobody disturbed, and buys nothing twice.
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { uncertainReports } from '../crash-matrix/warehouse.ts'
import { loadsTwice, uncertainUnits } from '../storm/warehouse-digest.ts'
import { runCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { succeeded, testWorld } from '../support/test-world.ts'

const pipelines = ['keywords', 'traffic_and_engagement', 'shopper_category_performance']
const kills = 12

const settings = { WEB_ANALYTICS_REQUESTS_PER_SECOND: '300', MILLRACE_GUARD: 'off' }
const world = testWorld({ settings })
const { folder, db: undisturbed, edit } = world

beforeAll(() => {
  for (const pipeline of pipelines.slice(1)) edit(pipeline, ['poll_every: 5s', 'poll_every: 200ms'])
})

const newSandbox = (): Promise<Sandbox> =>
  startSandbox({ seed: 7, keywordsPerDomain: 300, requestsPerSecond: null, reportDurationMs: 150 })

const environment = (sandbox: Sandbox, db: TestDatabase, home: string): Record<string, string> =>
  world.environment({
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: sandbox.apiKey,
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, home),
  })

const command = ['backfill', ...pipelines, '--from', '2026-08', '--to', '2026-09', '--json']

/** Every row of every table and history, without what names the run and the moment. */
const contents = async (db: TestDatabase): Promise<string[]> => {
  const lines: string[] = []
  for (const pipeline of pipelines) {
    for (const table of [`data.${pipeline}_v1`, `data.${pipeline}_v1_history`]) {
      const rows = await db.query<{ line: string }>(
        `select (to_jsonb(t) - array['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id'])::text as line from ${table} t order by 1`,
      )
      lines.push(table, ...rows.map((row) => row.line))
    }
  }
  return lines
}

/** A small deterministic source of moments. */
const moments = (seed: number): (() => number) => {
  let state = seed
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648
    return 250 + (state % 1_400)
  }
}

describe('a backfill of all pipelines', () => {
  test(`killed ${kills} times ends equal to one that was not, and no report is bought twice`, async () => {
    const calm = await newSandbox()
    await succeeded(runCommand(command, environment(calm, undisturbed, 'calm'), folder))
    const bought = calm.books().submissions.length
    await calm.close()

    const stormy = await newSandbox()
    const db = await createTestDatabase()
    const nextMoment = moments(20_261_120)
    for (let kill = 0; kill < kills; kill += 1) {
      const running = startCommand(command, environment(stormy, db, 'stormy'), folder)
      await new Promise((resolve) => setTimeout(resolve, nextMoment()))
      running.child.kill('SIGKILL')
      await running.result
    }
    const last = await runCommand(command, environment(stormy, db, 'stormy'), folder)
    const { pool } = db.database
    const uncertain = await uncertainReports(pool)
    // Only a kill between the submission and its answer leaves a question, and that is held, not bought again.
    expect(summaryOf(last).units.held, last.stderr).toBe(await uncertainUnits(pool))
    expect(stormy.books().submissions.length).toBeLessThanOrEqual(bought)
    await succeeded(runCommand([...command, '--resubmit-uncertain'], environment(stormy, db, 'stormy'), folder))
    expect(stormy.books().submissions.length).toBeLessThanOrEqual(bought + uncertain)
    expect(await contents(db)).toEqual(await contents(undisturbed))
    await stormy.close()
    await db.drop()
  })

  test('two of the same range at once load each unit once and buy each report once', async () => {
    const sandbox = await newSandbox()
    const db = await createTestDatabase()
    const results = await Promise.all([1, 2].map(() => runCommand(command, environment(sandbox, db, 'twin'), folder)))
    expect(
      results.map((result) => result.code),
      results.map((result) => result.stderr).join('\n'),
    ).toEqual([0, 0])
    expect(await loadsTwice(db.database.pool)).toEqual([])
    const bodies = sandbox.books().submissions.map((submission) => JSON.stringify(submission.body))
    expect(new Set(bodies).size).toBe(bodies.length)
    expect(await contents(db)).toEqual(await contents(undisturbed))
    await sandbox.close()
    await db.drop()
  })
})
