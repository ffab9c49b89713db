// One unit with everything that led to its rows: its answers, the jobs behind them, their loads, purchases and requests.
import { sql } from 'kysely'
import type { Definition } from '../../core/types.ts'
import type { Numbers } from '../../db/typed-row.ts'
import { missingRelations } from '../../db/catalog.ts'
import type { Db } from '../../db/tables.ts'
import { type ReportLine, reportLines } from './read-reports.ts'
import { shortList, wholeAs, wholeOrNull, wholeOrNullAs } from './first-row.ts'
import { type UnitLine, unitLine } from './unit-lines.ts'

export interface UnitDetail extends UnitLine {
  readonly pipeline_id: number
  readonly version: number
  readonly slice_id: number
  readonly window_from: string
  /** First day that is no longer inside. */
  readonly window_to: string
  readonly slice: unknown
  /** It stands in the lists; where it does not, its rows stay and nothing more is asked for. */
  readonly wanted: boolean
  readonly answer_id: number | null
  readonly held_answer_id: number | null
  readonly job_id: number | null
}

export const unitDetail = async (db: Db, unitId: number): Promise<UnitDetail | null> => {
  const line = await unitLine(db, unitId)
  const row = await db
    .selectFrom('etl.unit_list as u')
    .select(['u.pipeline_id', 'u.version', 'u.slice_id', 'u.window_from', 'u.window_to', 'u.slice', 'u.wanted'])
    .select([wholeOrNullAs('u', 'answer_id'), wholeOrNullAs('u', 'held_answer_id'), wholeOrNullAs('u', 'job_id')])
    .where('u.unit_id', '=', String(unitId))
    .executeTakeFirst()
  return line === null || row === undefined ? null : { ...line, ...row }
}

type Place = Pick<UnitDetail, 'pipeline_id' | 'window_from' | 'slice_id'>

export interface AnswerLine {
  readonly answer_id: number
  readonly job_id: number
  readonly ask_number: number
  readonly asked_at: string
  readonly stood_at: string | null
  readonly landing: string
  readonly sha256: string
  readonly bytes: number
  readonly slices: number
  readonly source_last_updated: string | null
  readonly source_count: number | null
  readonly verdict: string | null
  readonly verdict_message: string | null
}

/** Whatever was answered for the unit, alone or among others, the newest first. */
export const unitAnswers = async (db: Db, { pipeline_id, window_from, slice_id }: Place): Promise<AnswerLine[]> => {
  const covering = db
    .selectFrom('etl.answers as a')
    .selectAll()
    .where('a.pipeline_id', '=', pipeline_id)
    .where('a.window_from', '<=', window_from)
    .where('a.window_to', '>', window_from)
  const alone = covering.where(sql<boolean>`a.slice_ids[1] = ${slice_id}`).where(sql<boolean>`cardinality(a.slice_ids) = 1`)
  const packed = covering
    .where(sql<boolean>`cardinality(a.slice_ids) > 1`)
    .where(sql<boolean>`a.slice_ids @> array[${slice_id}::integer]`)
  return db
    .selectFrom(alone.unionAll(packed).as('a'))
    .select([
      wholeAs('a', 'answer_id'),
      wholeAs('a', 'job_id'),
      wholeAs('a', 'ask_number'),
      'a.asked_at',
      'a.stood_at',
      'a.landing',
    ])
    .select(['a.sha256', wholeAs('a', 'bytes'), sql<number>`cardinality(a.slice_ids)`.as('slices'), 'a.source_last_updated'])
    .select([wholeOrNullAs('a', 'source_count'), 'a.verdict', 'a.verdict_message'])
    .orderBy('a.ask_number', 'desc')
    .limit(shortList)
    .execute()
}

export interface JobLine {
  readonly job_id: number
  readonly kind: string
  readonly reason: string
  readonly state: string
  readonly cells: number
  readonly run_id: number | null
  readonly former_job_id: number | null
  /** Name of the process that works on it; null: none does. */
  readonly holder: string | null
}

/** The job that asks for the unit, those that brought its answers, and whatever these were asked again for. */
export const unitJobs = (db: Db, jobId: number | null, answers: readonly AnswerLine[]): Promise<JobLine[]> => {
  const first = [...new Set([...(jobId === null ? [] : [jobId]), ...answers.map(({ job_id }) => job_id)])]
  return db
    .withRecursive('chain(job_id)', (chain) =>
      chain
        .selectFrom('etl.jobs as j')
        .select('j.job_id')
        .where(sql<boolean>`j.job_id = any(${sql.val(first)}::bigint[])`)
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
    .select([wholeAs('j', 'job_id'), 'j.kind', 'j.reason', 'j.state', 'j.cells', wholeOrNullAs('j', 'run_id')])
    .select([wholeOrNullAs('j', 'former_job_id'), 'p.name as holder'])
    .orderBy('j.job_id', 'desc')
    .limit(shortList)
    .execute()
}

export interface LoadLine {
  readonly load_id: number
  readonly answer_id: number
  readonly run_id: number | null
  readonly outcome: string
  readonly units: number
  readonly landing: string
  readonly loaded_at: string
  readonly rows_read: number
  readonly rows_inserted: number
  readonly rows_updated: number
  readonly rows_ended: number
  readonly rows_unchanged: number
  readonly rows_quarantined: number
  readonly rows_duplicates: number
  readonly drift: unknown
}

/** What the unit's answers did to its window, the newest first; an answer for many units counts the rows of all of them. */
export const unitLoads = async (db: Db, windowFrom: string, answers: readonly AnswerLine[]): Promise<LoadLine[]> =>
  answers.length === 0
    ? []
    : db
        .selectFrom('etl.loads as l')
        .innerJoin('etl.answers as a', 'a.answer_id', 'l.answer_id')
        .select([
          wholeAs('l', 'load_id'),
          wholeAs('l', 'answer_id'),
          wholeOrNullAs('l', 'run_id'),
          'l.outcome',
          'l.units',
          'a.landing',
        ])
        .select(['l.loaded_at', wholeAs('l', 'rows_read'), wholeAs('l', 'rows_inserted'), wholeAs('l', 'rows_updated')])
        .select([wholeAs('l', 'rows_ended'), wholeAs('l', 'rows_unchanged'), wholeAs('l', 'rows_quarantined')])
        .select([wholeAs('l', 'rows_duplicates'), 'l.drift'])
        .where(
          'l.answer_id',
          'in',
          answers.map(({ answer_id }) => String(answer_id)),
        )
        .where('l.window_from', '=', windowFrom)
        .orderBy('l.load_id', 'desc')
        .limit(shortList)
        .execute()

export const jobReports = async (db: Db, jobs: readonly JobLine[]): Promise<ReportLine[]> =>
  jobs.length === 0
    ? []
    : reportLines(db)
        .where(
          'b.job_id',
          'in',
          jobs.map(({ job_id }) => String(job_id)),
        )
        .orderBy('b.job_id', 'desc')
        .execute()

export interface RequestLine {
  readonly request_id: number
  readonly job_id: number | null
  readonly method: string
  readonly endpoint: string
  readonly part: number | null
  readonly attempt: number
  readonly status: number | null
  readonly error_code: string | null
  readonly bytes: number
  readonly started_at: string
  readonly milliseconds: number
}

const mostRequests = 100

/** The newest first. */
export const jobRequests = async (db: Db, jobIds: readonly number[]): Promise<RequestLine[]> =>
  jobIds.length === 0
    ? []
    : db
        .selectFrom('etl.requests as r')
        .select([
          wholeAs('r', 'request_id'),
          wholeOrNull('r.job_id').as('job_id'),
          'r.method',
          'r.endpoint',
          'r.part',
          'r.attempt',
        ])
        .select(['r.status', 'r.error_code', wholeAs('r', 'bytes'), 'r.started_at', 'r.milliseconds'])
        .where('r.job_id', 'in', jobIds.map(String))
        .orderBy('r.request_id', 'desc')
        .limit(mostRequests)
        .execute()

/** Rows of the unit as they stand in the table; null where that is not there. */
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
  const { rows } = await sql<Numbers<'rows'>>`select count(*)::float8 as rows from ${sql.table(name)}
    where ${sql.join(conditions, sql` and `)}`.execute(db)
  return rows[0]?.rows ?? null
}
