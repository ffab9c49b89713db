// Units while an answer is loaded: locked in their order, taken or passed over by ask number, pointed to the answer, held for a person.
import { type RawBuilder, sql } from 'kysely'
import { EtlError } from '../core/errors.ts'
import type { Window } from '../core/types.ts'
import { executePrepared } from '../db/prepared.ts'
import type { Counts, Flags, Maybe, Row } from '../db/row.ts'
import type { Db } from '../db/tables.ts'
import type { ClaimedJob, LoadedAnswer } from './claim.ts'

/** The units of one window that a job's answer is for. */
export interface WindowShare {
  readonly claim: Pick<ClaimedJob, 'jobId' | 'pipelineId' | 'sliceIds' | 'box'>
  readonly answerId: number
  readonly window: Window
}

/** A job that is the unit's newest lets go of it with its answer; one asked for later goes on asking. */
const withoutJob = ({ claim }: WindowShare): RawBuilder<unknown> => sql`nullif(u.job_id, ${claim.jobId}::bigint)`

const askNumberOf = (answerId: number): RawBuilder<unknown> =>
  sql`(select ask_number from etl.answers where answer_id = ${answerId}::bigint)`

/** Not before an answer that was asked for later; its own again, also where a later question found that it still stands. */
const accepts = ({ answerId }: WindowShare): RawBuilder<boolean> =>
  sql<boolean>`(u.ask_number is null or u.ask_number <= ${askNumberOf(answerId)} or u.answer_id = ${answerId}::bigint)`

/** A unit under lock, and whether it takes the answer. */
export interface TakenUnit {
  readonly unitId: number
  readonly accepts: boolean
}

/** Locks the job's one unit for the rest of the transaction. */
export const acceptUnit = async (db: Db, share: WindowShare): Promise<TakenUnit> => {
  const { claim, window } = share
  const [row] = await executePrepared(
    db,
    sql<Row<'etl.units', 'unit_id'> & Flags<'accepts'>>`
    select u.unit_id, ${accepts(share)} as accepts from etl.units u
    where u.pipeline_id = ${claim.pipelineId} and u.window_from = ${window.from}::date and u.slice_id = ${claim.sliceIds[0] ?? null}::integer
    for update`,
  )
  if (row === undefined) throw unitsMissing(share, 0)
  return { unitId: Number(row.unit_id), accepts: row.accepts }
}

const unitsMissing = ({ claim, window }: WindowShare, found: number): EtlError =>
  new EtlError(
    'INTERNAL',
    `${claim.box.key}: of the ${claim.sliceIds.length} units of ${window.from} the ledger has ${found}; please report this defect. Nothing was loaded.`,
  )

/** A table of the session for units and what tells them apart; see load/accepted-units.ts. */
export interface UnitsTable {
  readonly name: RawBuilder<unknown>
  /** Dimensions in the order of the columns behind `_unit_id` and `_outcome`. */
  readonly columns: readonly { readonly name: string; readonly type: string }[]
}

/** Units of a window under lock. */
export interface TakenUnits {
  readonly accepted: number
  readonly skipped: number
  /** Digest of the bytes that all of them were loaded from last; null: they were loaded from several answers, or not all of them. */
  readonly loadedSha256: string | null
}

/** Locks the units of the window in their order and writes them to the table, as `accepted` or `skipped`. */
export const acceptUnits = async (db: Db, share: WindowShare, into: UnitsTable): Promise<TakenUnits> => {
  const { claim, window } = share
  const values = into.columns.map(
    ({ name, type }) => sql`, (s."values"[array_position(p.dimensions, ${name})])::${sql.raw(type)}`,
  )
  const { rows } = await sql<Counts<'accepted' | 'skipped'> & Maybe<Row<'etl.answers', 'sha256'>>>`
    with locked as (
      select u.unit_id, u.slice_id, u.answer_id, ${accepts(share)} as accepts from etl.units u
      where u.pipeline_id = ${claim.pipelineId} and u.window_from = ${window.from}::date
        and u.slice_id = any(${[...claim.sliceIds]}::integer[])
      order by u.slice_id for update
    ), taken as (
      insert into ${into.name} select l.unit_id, case when l.accepts then 'accepted' else 'skipped' end ${sql.join(values, sql``)}
      from locked l join etl.slices s on s.slice_id = l.slice_id join etl.pipelines p on p.pipeline_id = s.pipeline_id returning _outcome
    )
    select count(*) filter (where _outcome = 'accepted') as accepted, count(*) filter (where _outcome = 'skipped') as skipped,
      (select a.sha256 from (select min(answer_id) as first, max(answer_id) as last, count(*) - count(answer_id) as others from locked) l
        join etl.answers a on a.answer_id = l.first where l.first = l.last and l.others = 0) as sha256
    from taken`.execute(db)
  const [accepted, skipped] = [Number(rows[0]?.accepted), Number(rows[0]?.skipped)]
  if (accepted + skipped !== claim.sliceIds.length) throw unitsMissing(share, accepted + skipped)
  return { accepted, skipped, loadedSha256: rows[0]?.sha256 ?? null }
}

/** The answer that every unit of the job has its rows from; null: there is none that is all of theirs, or some wait for a person with another. */
export const answerOfAll = async (
  db: Db,
  { pipelineId, box, sliceIds }: WindowShare['claim'],
  cells: number,
): Promise<LoadedAnswer | null> => {
  const these = db
    .selectFrom('etl.units')
    .select((eb) => [
      eb.fn.min('answer_id').as('first'),
      eb.fn.max('answer_id').as('last'),
      eb.fn.count('answer_id').as('loaded'),
      eb.fn.count('held_answer_id').as('held'),
    ])
    .where('pipeline_id', '=', pipelineId)
    .where('window_from', '>=', box.window.from)
    .where('window_from', '<', box.window.to)
    .where((eb) => eb('slice_id', '=', eb.fn.any(eb.val([...sliceIds]))))
    .as('u')
  const row = await db
    .selectFrom(these)
    .innerJoin('etl.answers as a', 'a.answer_id', 'u.first')
    .select(['a.answer_id', 'a.sha256', 'a.source_last_updated', 'a.source_count'])
    .whereRef('u.last', '=', 'u.first')
    .where('u.loaded', '=', String(cells))
    .where('u.held', '=', '0')
    .executeTakeFirst()
  if (row === undefined) return null
  const { answer_id, sha256, source_last_updated, source_count } = row
  const count = source_count === null ? null : Number(source_count)
  return { answerId: Number(answer_id), sha256, fingerprint: { lastUpdated: source_last_updated, count } }
}

/**
 * Part of a larger statement: what points units to the answer. One that a person has still to see stays held if it is newer.
 * @param answerId the answer, or an expression for it @param askNumber its own
 */
export const pointed = (
  jobId: number | string,
  answerId: RawBuilder<unknown>,
  askNumber: RawBuilder<unknown>,
): RawBuilder<unknown> => {
  const isNewer = sql`(select h.ask_number from etl.answers h where h.answer_id = u.held_answer_id) > ${askNumber}`
  return sql`answer_id = ${answerId}, ask_number = greatest(u.ask_number, ${askNumber}), job_id = nullif(u.job_id, ${jobId}::bigint),
    held_answer_id = case when ${isNewer} then u.held_answer_id end, held_code = case when ${isNewer} then u.held_code end`
}

/**
 * A statement that points units to the answer that their rows come from now. By their numbers and nothing else: with a second way to find them
 * the planner takes the wrong one while the ledger has no statistics.
 * @param units their numbers, as an array
 */
export const pointUnits = ({ claim, answerId }: WindowShare, units: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`update etl.units u set ${pointed(claim.jobId, sql`${answerId}::bigint`, askNumberOf(answerId))} where u.unit_id = any(${units})`

/** The unit that the answer is for; null where it is for several. */
export const unitOfAnswer = async (db: Db, answerId: number): Promise<number | null> => {
  const row = await db
    .selectFrom('etl.answers as a')
    .innerJoin('etl.pipelines as p', 'p.pipeline_id', 'a.pipeline_id')
    .innerJoin('etl.units as u', (join) =>
      join.onRef('u.pipeline_id', '=', 'a.pipeline_id').onRef('u.window_from', '=', 'a.window_from'),
    )
    .select('u.unit_id')
    .where('a.answer_id', '=', String(answerId))
    .where(sql<boolean>`a.slice_ids = array[u.slice_id] and a.window_to = etl.window_end(a.window_from, p.window_every)`)
    .executeTakeFirst()
  return row === undefined ? null : Number(row.unit_id)
}

/** The job asks no more for units that were passed over. */
export const passOver = async (db: Db, { claim, window }: WindowShare): Promise<void> => {
  await db
    .updateTable('etl.units')
    .set({ job_id: null })
    .where('pipeline_id', '=', claim.pipelineId)
    .where('window_from', '=', window.from)
    .where((eb) => eb('slice_id', '=', eb.fn.any(eb.val([...claim.sliceIds]))))
    .where('job_id', '=', String(claim.jobId))
    .execute()
}

/** A unit that keeps its rows, and the code that says why. */
export interface HeldBack {
  readonly unitId: number
  readonly code: string
}

/** The answer waits for a person before it changes these units; their window is open again from here on. A newer one that waits already goes on waiting. */
export const holdUnits = async (db: Db, share: WindowShare, held: readonly HeldBack[]): Promise<void> => {
  if (held.length === 0) return
  const { claim, answerId, window } = share
  const isNewer = sql`(select h.ask_number from etl.answers h where h.answer_id = u.held_answer_id) > ${askNumberOf(answerId)}`
  await sql`
    with held as (
      update etl.units u set job_id = ${withoutJob(share)},
        held_answer_id = case when ${isNewer} then u.held_answer_id else ${answerId}::bigint end,
        held_code = case when ${isNewer} then u.held_code else x.code end
      from unnest(${held.map(({ unitId }) => String(unitId))}::bigint[], ${held.map(({ code }) => code)}::text[]) as x (unit_id, code)
      where u.unit_id = x.unit_id returning u.unit_id
    )
    update etl.windows set closed_generation = null, closed_at = null, closed_units = null, closed_rows = null
    where pipeline_id = ${claim.pipelineId} and window_from = ${window.from}::date and closed_generation is not null
      and exists (select 1 from held)`.execute(db)
}
