// Planning in a real ledger: what is asked for, with force and without, and in which order.
import { describe, expect, test } from 'vitest'
import { newRun } from '../support/ledger.ts'
import { allLoaded, asked, cellsOf, died, jobsOf, onlyJob, pipelineIdOf, submitted } from '../support/plan-ledger.ts'
import { lockPipeline, lockQuestion } from '../../src/ledger/pipelines.ts'
import { requestDigest } from '../../src/core/request-digest.ts'
import { definitionFor, january, only, plan, previewAll, range, report, reports, walk, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

describe('what is asked for', () => {
  test('1,000 domains, 3 countries and 36 months are 10 reports', async () => {
    const domains = Array.from({ length: 1000 }, (_, index) => `d${String(index).padStart(4, '0')}.com`)
    const definition = definitionFor(reports, { domains, countries: ['us', 'gb', 'world'] })
    const counts = await plan(db, { source: reports, definition }, range('2022-01', '2024-12'))
    expect(counts).toMatchObject({ units: 108_000, jobs: 10 })
    expect((await jobsOf(db, definition)).map(({ cells }) => cells.length)).toEqual(Array(10).fill(10_800))
  })

  test('a bucket in the definition lowers what one report asks for', async () => {
    const { definition } = report('a.com', 'b.com', 'c.com')
    const [domain] = definition.dimensions
    if (domain === undefined) throw new Error('no dimension')
    const planning = { source: reports, definition: { ...definition, dimensions: [{ ...domain, bucket: 2 }] } }
    await plan(db, planning, january)
    expect(await asked(db, planning)).toEqual(['new: 2025-01 a.com,2025-01 b.com', 'new: 2025-01 c.com'])
  })

  test('of walks one job a unit; the newest window goes first, or the oldest', async () => {
    for (const [order, first] of [
      ['newest-first', '2025-02'],
      ['oldest-first', '2025-01'],
    ] as const) {
      const planning = walk('a.com', 'b.com')
      const { runId } = await plan(db, planning, range('2025-01', '2025-02', { order }))
      const rows = await db.query(
        `select to_char(j.window_from, 'YYYY-MM') as month from etl.run_jobs r join etl.jobs j using (job_id) where r.run_id = $1
          order by r.priority, r.job_id`,
        [runId],
      )
      expect(rows.map(({ month }) => month)).toEqual([
        first,
        first,
        ...Array(2).fill(first === '2025-01' ? '2025-02' : '2025-01'),
      ])
    }
  })

  test('the order holds over all pipelines: each window is a mixture of them', async () => {
    const runId = await newRun(db)
    for (const planning of [walk('a.com'), report('a.com')]) {
      await plan(db, planning, range('2025-02', '2025-02'), runId)
      await plan(db, planning, january, runId)
    }
    const rows = await db.query('select priority, count(*)::int from etl.run_jobs where run_id = $1 group by 1 order by 1', [
      runId,
    ])
    expect(rows.map(({ count }) => count)).toEqual([2, 2])
  })

  test('values that are added are asked for, in one small report; the others stand', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, range('2025-01', '2025-03'))
    await allLoaded(db, planning.definition)
    const more = { ...planning, definition: withLists(planning.definition, { domains: ['c.com', 'b.com', 'a.com'] }) }
    expect(await plan(db, more, range('2025-01', '2025-03'))).toMatchObject({ units: 3, jobs: 1, done: 6 })
    expect(await asked(db, more)).toEqual(['new: 2025-01 c.com,2025-02 c.com,2025-03 c.com'])
  })

  test('a value that left is not asked for; one that comes back is covered by the rows that stayed', async () => {
    const planning = report('a.com', 'b.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    const fewer = { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }
    expect(await plan(db, fewer, range('2025-01', '2025-02'))).toMatchObject({ units: 1, done: 1 })
    expect(await plan(db, planning, january)).toMatchObject({ units: 0, done: 2 })
  })

  test('only narrows to its values, and leaves the others alone whatever their state', async () => {
    const planning = report('a.com', 'b.com', 'c.com')
    await plan(db, planning, range('2025-01', '2025-01', { only: only('a.com') }))
    expect(await asked(db, planning)).toEqual(['new: 2025-01 a.com'])
    await submitted(db, await onlyJob(db, planning))
    expect(await plan(db, planning, range('2025-01', '2025-01', { only: only('b.com') }))).toMatchObject({ done: 0 })
    expect((await jobsOf(db, planning.definition)).map(({ cells }) => cells[0])).toEqual(['2025-01 a.com', '2025-01 b.com'])
  })

  test('months that are not published are shown without calling for them; what was asked for of them is finished', async () => {
    const planning = report('a.com')
    expect(await plan(db, planning, range('2099-01', '2099-02'))).toMatchObject({ units: 0, notPublished: 2 })
    expect(await jobsOf(db, planning.definition)).toEqual([])
  })
})

describe('force', () => {
  const forced = range('2025-01', '2025-01', { force: true })

  test('asks for loaded units again, to be loaded whatever they hold', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    expect(await plan(db, planning, forced)).toMatchObject({ units: 1, done: 0 })
    expect((await jobsOf(db, planning.definition)).at(-1)).toMatchObject({ reason: 'forced', forced: true, state: 'open' })
  })

  test('is satisfied by a job not yet sent, not by one that was', async () => {
    const planning = report('a.com')
    await plan(db, planning, january)
    await plan(db, planning, forced)
    expect(await jobsOf(db, planning.definition)).toMatchObject([{ forced: true, state: 'open' }])
    await submitted(db, await onlyJob(db, planning), { forced: false })
    await plan(db, planning, forced)
    const jobs = await jobsOf(db, planning.definition)
    expect(jobs).toMatchObject([{ state: 'open' }, { state: 'open', former: jobs[0]?.jobId, forced: true }])
    expect((await cellsOf(db, planning.definition))[0]?.jobId).toBe(jobs[1]?.jobId)
  })

  test('that was interrupted goes on with what it sent', async () => {
    const planning = report('a.com')
    const { runId } = await plan(db, planning, forced)
    await submitted(db, await onlyJob(db, planning))
    await died(db, runId)
    await plan(db, planning, forced)
    expect(await jobsOf(db, planning.definition)).toHaveLength(1)
  })

  test('of one value asks for that value alone', async () => {
    const planning = report('a.com', 'b.com', 'c.com')
    await plan(db, planning, january)
    await allLoaded(db, planning.definition)
    await plan(db, planning, { ...forced, only: only('b.com') })
    expect(await asked(db, planning)).toEqual(['forced: 2025-01 b.com'])
  })
})

test('a preview has its locks in the order of who plans, and of who looks at several versions: nobody waits in a circle', async () => {
  const newer = report('circle.com').definition
  const older = { ...newer, version: 2 }
  for (const definition of [older, newer]) await plan(db, { source: reports, definition }, january)
  const waiting = `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  const meets = async (locks: readonly ((trx: Parameters<typeof lockPipeline>[0]) => Promise<void>)[]) => {
    const shown = await db.database.kysely.transaction().execute(async (trx) => {
      const [first, ...others] = locks
      await first?.(trx)
      const shown = previewAll(db, reports, [newer, older], january)
      shown.catch(() => undefined)
      await expect.poll(async () => (await db.database.pool.query(waiting)).rowCount, { timeout: 20_000 }).toBe(1)
      for (const lock of others) await lock(trx)
      return { shown }
    })
    expect((await shown.shown).pipelines.length).toBe(2)
  }
  const [one, two] = [await pipelineIdOf(db, older), await pipelineIdOf(db, newer)]
  await meets([(trx) => lockQuestion(trx, requestDigest(newer)), (trx) => lockPipeline(trx, two)])
  await meets([(trx) => lockPipeline(trx, one), (trx) => lockPipeline(trx, two)])
})
