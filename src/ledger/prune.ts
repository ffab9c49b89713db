// What the ledger deletes by age: finished jobs that bought nothing, wait lists of finished runs, HTTP requests, processes. Answers, loads,
// purchases and runs stay for good.
import { type RawBuilder, sql } from 'kysely'
import { type Counts, type Flags, type Maybe, type Numbers, query, queryColumn, type Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { isLandedIn, type NamedLanding } from './answers.ts'
import { mergePastDays } from './request-credits.ts'
import { valuesIn } from './slices.ts'

/** How many rows were deleted, by table; `jobs`: finished walks and replays. */
type Pruned = Numbers<'jobs' | 'run_jobs' | 'requests' | 'processes'>

/** Rows that one statement reads; each statement commits. */
const step = 10_000

/** Removes what is older than so many days on the database's clock, oldest first, in bounded steps. Two at once do nothing twice. */
export const pruneLedger = async (db: Db, days: number): Promise<Pruned> => {
  const before = sql<string>`(clock_timestamp() - ${days} * interval '1 day')`
  await mergePastDays(db)
  return {
    run_jobs: await untilNone(db, oldRunJobs(before)),
    jobs: await readThrough(db, before, oldJobs),
    requests: await readThrough(db, before, oldRequests),
    processes: await untilNone(db, oldProcesses(before)),
  }
}

/** Rows of a table with numbers that grow with time, and which of them are over. */
interface Aging {
  readonly table: 'etl.jobs' | 'etl.requests'
  readonly id: 'job_id' | 'request_id'
  readonly madeAt: 'created_at' | 'started_at'
  readonly isOver: (before: RawBuilder<string>) => RawBuilder<boolean>
}

const oldJobs: Aging = {
  ...{ table: 'etl.jobs', id: 'job_id', madeAt: 'created_at' },
  isOver: (before) => sql<boolean>`state = 'done' and report_state is null and updated_at < ${before}`,
}

const oldRequests: Aging = {
  ...{ table: 'etl.requests', id: 'request_id', madeAt: 'started_at' },
  isOver: (before) => sql<boolean>`started_at < ${before}`,
}

/** Reads the table from its beginning to the first step with a young row, never the whole table. */
const readThrough = async (db: Db, before: RawBuilder<string>, { table, id, madeAt, isOver }: Aging): Promise<number> => {
  const [from, key, over] = [sql.table(table), sql.ref(id), isOver(before)]
  let removed = 0
  for (let after = '0'; ; ) {
    const [row] = await query<Counts<'gone'> & Maybe<Counts<'last'> & Flags<'young'>>>(db)`
      with batch as (
        select ${key} as id, ${sql.ref(madeAt)} as made_at, ${over} as is_over from ${from} where ${key} > ${after}::bigint order by 1 limit ${step}
      ), gone as (
        delete from ${from} where ${key} in (
          select ${key} from ${from} where ${key} in (select id from batch where is_over) and ${over} order by 1 for update skip locked) returning ${key}
      )
      select (select count(*) from gone) as gone, max(id) as last, max(made_at) >= ${before} as young from batch`
    removed += Number(row?.gone ?? 0)
    if (row === undefined || row.last === null || row.young !== false) return removed
    after = row.last
  }
}

/** Repeats a statement that removes at most one step until it finds no more. */
const untilNone = async (db: Db, statement: RawBuilder<unknown>): Promise<number> => {
  let removed = 0
  for (;;) {
    const { numAffectedRows } = await statement.execute(db)
    const count = Number(numAffectedRows ?? 0)
    removed += count
    if (count < step) return removed
  }
}

const oldRunJobs = (before: RawBuilder<string>): RawBuilder<unknown> => sql`
  delete from etl.run_jobs where (run_id, job_id) in (
    select w.run_id, w.job_id from etl.runs r join etl.run_jobs w on w.run_id = r.run_id
    where r.state <> 'running' and r.finished_at < ${before}
    order by w.run_id, w.job_id limit ${step} for update of w skip locked)`

/** A process stays as long as one of its runs is recorded. */
const oldProcesses = (before: RawBuilder<string>): RawBuilder<unknown> => sql`
  delete from etl.processes where process_id in (
    select p.process_id from etl.processes p
    where p.ended_at < ${before} and not exists (select 1 from etl.runs r where r.process_id = p.process_id)
      and not exists (select 1 from etl.jobs j where j.holder = p.process_id)
    order by p.process_id limit ${step} for update of p skip locked)`

/** Those of `landings` that must stay. */
export const landingsNeeded = async (db: Db, landings: readonly NamedLanding[]): Promise<ReadonlySet<string>> => {
  if (landings.length === 0) return new Set()
  const locators = landings.map(({ locator }) => locator)
  const askNumbers = landings.map(({ askNumber }) => askNumber)
  const needed = await queryColumn<Row<'etl.answers', 'landing'>>(db)`
    select l.landing from unnest(${locators}::text[], ${askNumbers}::bigint[]) as l (landing, ask_number)
    where l.ask_number in (select ask_number from etl.jobs where state = 'open' and ask_number is not null)
      -- Paid pages of an interrupted walk, which a later run resumes.
      or l.landing in (select unnest(string_to_array(begun_landing, ' ')) from etl.jobs where state in ('open', 'held', 'failed') and begun_landing is not null)
      or exists (select 1 from etl.answers a where ${isLandedIn} and (
        exists (select 1 from etl.jobs j where j.answer_id = a.answer_id and j.state in ('open', 'held', 'failed'))
        or exists (select 1 from etl.units u where u.held_answer_id = a.answer_id)
        -- Another version of the pipeline may have loaded it, too; its slices have other numbers.
        or exists (
          select 1 from (select pipeline_id, array_agg(window_from) as windows from etl.loads where answer_id = a.answer_id group by 1) d
            join etl.pipelines t on t.pipeline_id = d.pipeline_id
            -- The slices are found once for all windows, by offset 0.
            cross join lateral (
              select s.slice_id from etl.slices o join etl.pipelines f on f.pipeline_id = o.pipeline_id
                join etl.slices s on s.pipeline_id = t.pipeline_id and s."values" = ${valuesIn('o', 'f', 't')}
              where o.slice_id = any(a.slice_ids) offset 0) s
            cross join unnest(d.windows) as w (window_from)
            join etl.units u on u.pipeline_id = d.pipeline_id and u.window_from = w.window_from and u.slice_id = s.slice_id
          where u.answer_id = a.answer_id)))`
  return new Set(needed)
}
