// What the ledger lets go of by age, and what it never does.
import { expect, test } from 'vitest'
import { pruneLedger } from '../../src/ledger/prune.ts'
import { bought, newJob, newPipeline, newProcess, newRun, nextAskNumber } from '../support/ledger.ts'
import { jobRow, loadedAs, newAnswer, setJob } from '../support/ledger-answers.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase({ each: true })

const long = '2020-01-01T00:00:00Z'
const aged = async (jobId: number): Promise<void> => setJob(db, jobId, { created_at: long, updated_at: long })

const ids = async (table: string, column: string): Promise<number[]> =>
  (await db.query<{ id: string }>(`select ${column} as id from etl.${table} order by 1`)).map(({ id }) => Number(id))

test('done walks and replays go; what is not done, was bought, or is young stays, as answers do', async () => {
  const pipeline = await newPipeline(db)
  const done = async (set: object = {}): Promise<number> => {
    const job = await newJob(db, pipeline, { set })
    await loadedAs(db, job, await newAnswer(db, job), Number((await jobRow(db, job)).ask_number))
    return job
  }
  const walks = [await done(), await done({ kind: 'report' })]
  const purchase = await done({ ...bought('r-1', await nextAskNumber(db)), report_state: 'downloaded' })
  const failed = await newJob(db, pipeline, { set: { state: 'failed' } })
  const open = await newJob(db, pipeline)
  for (const job of [...walks, purchase, failed, open]) await aged(job)
  const young = await done()
  expect(await pruneLedger(db.database.kysely, 30)).toMatchObject({ jobs: 2 })
  expect(await ids('jobs', 'job_id')).toEqual([purchase, failed, open, young])
  expect(await ids('answers', 'answer_id')).toHaveLength(4)
  expect(await pruneLedger(db.database.kysely, 30)).toEqual({ jobs: 0, run_jobs: 0, requests: 0, processes: 0 })
})

test('a job is kept as long as it was touched lately, however old it is', async () => {
  const pipeline = await newPipeline(db)
  const job = await newJob(db, pipeline, { set: { state: 'done' } })
  await setJob(db, job, { created_at: long })
  expect(await pruneLedger(db.database.kysely, 30)).toMatchObject({ jobs: 0 })
})

test('wait lists of runs that ended long ago go, those of running ones stay whatever their age; runs stay', async () => {
  const pipeline = await newPipeline(db)
  const [over, running] = [await newRun(db), await newRun(db)]
  await newJob(db, pipeline, { runs: [over, running] })
  await db.database.pool.query(`update etl.runs set started_at = $1`, [long])
  await db.database.pool.query(`update etl.runs set state = 'done', finished_at = $1 where run_id = $2`, [long, over])
  expect(await pruneLedger(db.database.kysely, 30)).toMatchObject({ run_jobs: 1 })
  expect(await ids('run_jobs', 'run_id')).toEqual([running])
  expect(await ids('runs', 'run_id')).toEqual([over, running])
})

test('requests go, those that are young stay; more than one step of them too', async () => {
  await db.database.pool.query(
    `insert into etl.requests (account, method, endpoint, started_at, milliseconds)
      select 'default', 'GET', '/x', case when n <= 25000 then $1::timestamptz else now() end, 1 from generate_series(1, 25010) n`,
    [long],
  )
  expect(await pruneLedger(db.database.kysely, 30)).toMatchObject({ requests: 25_000 })
  expect(await ids('requests', 'request_id')).toHaveLength(10)
})

test('processes that ended long ago go, unless a run is theirs', async () => {
  const [gone, withRun, living] = [await newProcess(db), await newProcess(db), await newProcess(db)]
  await newRun(db, withRun.processId)
  await db.database.pool.query(`update etl.processes set ended_at = $1 where process_id <> $2`, [long, living.processId])
  expect(await pruneLedger(db.database.kysely, 30)).toMatchObject({ processes: 1 })
  expect(await ids('processes', 'process_id')).toEqual([withRun.processId, living.processId].sort((a, b) => a - b))
  expect(gone.processId).not.toBe(withRun.processId)
})
