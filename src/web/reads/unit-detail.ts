// One unit with everything that led to its rows: its answers, the jobs behind them, their loads, purchases and requests.
import { sql } from 'kysely'
import type { Definition } from '../../core/types.ts'
import { missingRelations } from '../../db/catalog.ts'
import type { Db } from '../../db/tables.ts'
import { type Numbers, query } from '../../db/typed-row.ts'
import { type ReportLine, reportLines } from './read-reports.ts'
import { unitLine } from './unit-lines.ts'
import { amongIds, asNumbers, asNumbersOrNull } from './shared-columns.ts'

/** Most answers, jobs and loads that are listed for a unit. */
const shortList = 50

/** `wanted`: the unit's values are in the lists; otherwise its rows stay, but no run requests it again. */
export const unitDetail = async (db: Db, unitId: number) => {
  const line = await unitLine(db, unitId)
  const row = await db
    .selectFrom('etl.unit_list as u')
    .select(['u.pipeline_id', 'u.version', 'u.slice_id', 'u.window_from', 'u.window_to', 'u.slice', 'u.wanted'])
    .select(sql<boolean>`u.unit_id in (select c.unit_id from etl.capped_units c)`.as('capped'))
    .select(asNumbersOrNull('u', 'answer_id', 'held_answer_id', 'job_id'))
    .where('u.unit_id', '=', String(unitId))
    .executeTakeFirst()
  return line === null || row === undefined ? null : { ...line, ...row }
}

export type UnitDetail = NonNullable<Awaited<ReturnType<typeof unitDetail>>>

type Place = Pick<UnitDetail, 'pipeline_id' | 'window_from' | 'slice_id'>

/** All answers that cover the unit, alone or with other units, newest first. */
export const unitAnswers = (db: Db, { pipeline_id, window_from, slice_id }: Place) => {
  const covering = db
    .selectFrom('etl.answers as a')
    .selectAll()
    .where('a.pipeline_id', '=', pipeline_id)
    .where('a.window_from', '<=', window_from)
    .where('a.window_to', '>', window_from)
  const alone = covering.where('a.slice_id', '=', slice_id)
  const packed = covering.where('a.slice_id', 'is', null).where(sql<boolean>`a.slice_ids @> array[${slice_id}::integer]`)
  return db
    .selectFrom(alone.unionAll(packed).as('a'))
    .select(asNumbers('a', 'answer_id', 'job_id', 'ask_number', 'bytes'))
    .select(['a.asked_at', 'a.stood_at', 'a.landing', 'a.source_last_updated', ...asNumbersOrNull('a', 'source_count')])
    .select(['a.verdict', 'a.verdict_message', sql<number>`cardinality(a.slice_ids)`.as('slices')])
    .orderBy('a.ask_number', 'desc')
    .limit(shortList)
    .execute()
}

/** These jobs, and the former jobs that they repeat. `holder`: the process that works on the job. */
export const unitJobs = (db: Db, jobIds: readonly number[]) =>
  db
    .withRecursive('chain(job_id)', (chain) =>
      chain
        .selectFrom('etl.jobs as j')
        .select('j.job_id')
        .where(amongIds('j.job_id', jobIds))
        .union(
          chain
            .selectFrom('chain as c')
            .innerJoin('etl.jobs as j', 'j.job_id', 'c.job_id')
            .select(sql<string>`j.former_job_id`.as('job_id'))
            .where('j.former_job_id', 'is not', null),
        ),
    )
    .selectFrom('chain as c')
    .innerJoin('etl.jobs as j', 'j.job_id', 'c.job_id')
    .leftJoin('etl.processes as p', 'p.process_id', 'j.holder')
    .select(['j.kind', 'j.reason', 'j.state', 'j.cells', 'j.created_at', 'p.name as holder'])
    .select([...asNumbers('j', 'job_id'), ...asNumbersOrNull('j', 'run_id', 'former_job_id')])
    .orderBy('j.job_id', 'desc')
    .limit(shortList)
    .execute()

/** Loads of the unit's answers into its window, newest first; an answer for many units counts the rows of all units. */
export const unitLoads = (db: Db, windowFrom: string, answerIds: readonly number[]) =>
  db
    .selectFrom('etl.loads as l')
    .select([...asNumbers('l', 'answer_id'), ...asNumbersOrNull('l', 'run_id'), 'l.outcome', 'l.units', 'l.loaded_at', 'l.drift'])
    .select(asNumbers('l', 'rows_read', 'rows_inserted', 'rows_updated', 'rows_ended'))
    .select(asNumbers('l', 'rows_unchanged', 'rows_quarantined', 'rows_duplicates'))
    .where(amongIds('l.answer_id', answerIds))
    .where('l.window_from', '=', windowFrom)
    .orderBy('l.load_id', 'desc')
    .limit(shortList)
    .execute()

export const jobReports = (db: Db, jobIds: readonly number[]): Promise<ReportLine[]> =>
  reportLines(db).where(amongIds('b.job_id', jobIds)).orderBy('b.job_id', 'desc').execute()

const mostRequests = 100

/** The newest first. */
export const jobRequests = (db: Db, jobIds: readonly number[]) =>
  db
    .selectFrom('etl.requests as r')
    .select([...asNumbersOrNull('r', 'job_id'), 'r.method', 'r.endpoint', 'r.part', 'r.attempt', 'r.status', 'r.error_code'])
    .select([...asNumbers('r', 'bytes'), ...asNumbersOrNull('r', 'credits'), 'r.started_at', 'r.milliseconds'])
    .where(amongIds('r.job_id', jobIds))
    .orderBy('r.request_id', 'desc')
    .limit(mostRequests)
    .execute()

/** The number of the unit's rows in the table; null: the table does not exist. */
export const unitRows = async (db: Db, definition: Definition, unit: UnitDetail): Promise<number | null> => {
  const name = `data.${definition.pipeline}_v${unit.version}`
  if ((await missingRelations(db, [name])).length > 0) return null
  const slice = Object.entries(unit.slice ?? {}).filter(([dimension]) =>
    definition.columns.some((column) => column.name === dimension),
  )
  const period = definition.key.find((column) => column === 'month' || column === 'date')
  const conditions = [
    ...(period === undefined
      ? []
      : [sql`${sql.ref(period)} >= ${unit.window_from}::date and ${sql.ref(period)} < ${unit.window_to}::date`]),
    ...slice.map(([dimension, value]) => sql`${sql.ref(dimension)} = ${value}`),
    sql`_unit_id = ${unit.unit_id}::bigint`,
  ]
  const rows = await query<Numbers<'rows'>>(db)`select count(*)::float8 as rows from ${sql.table(name)}
    where ${sql.join(conditions, sql` and `)}`
  return rows[0]?.rows ?? null
}
