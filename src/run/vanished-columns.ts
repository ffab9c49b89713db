// Compares the fields of an answer with the definition. Drift is reported. A column vanished if no record has its field, though earlier loads had it. The
// fields that an answer had and lacked are kept with its load, for the next comparison.
import { sql } from 'kysely'
import type { Column } from '../core/types.ts'
import type { Db } from '../db/tables.ts'
import { query, queryColumn, type Row } from '../db/typed-row.ts'
import type { LoadRecord } from '../ledger/loads.ts'
import { fieldName, isLacked, namesOf } from '../parse/parse-plan.ts'
import type { ParseReport } from '../parse/parse-report.ts'
import type { Drift, Load } from './job-work.ts'

type Fields = Pick<ParseReport, 'read' | 'missingColumns' | 'partlyMissing'>

type Found = Fields & Pick<ParseReport, 'unknownColumns'>

/** How many earlier loads are compared, the newest; also those of another version with the same request: its answers may be all that this one loads. */
const formerLoads = 50
/** In fewer records, a field that some records lack may be missing from all by chance. */
const enoughForSparse = 100

/** Names of columns. Empty: nothing vanished, or the definition allows it. Where a first answer has unknown fields instead of all measures, these are taken for renamed. */
export const vanishedColumns = async (db: Db, { work, answer }: Load, found: Found): Promise<readonly string[]> => {
  const { claim, definition } = work
  const dialect = work.source.dialects?.[answer.completeness.dialect ?? '']
  const suspects = definition.columns.filter(
    (column) => found.missingColumns.includes(column.name) && column.mayVanish !== true && !isLacked(column, dialect),
  )
  if (found.read === 0 || suspects.length === 0) return []
  const measures = definition.columns.filter(({ isKey, origin }) => !isKey && origin === 'response')
  const isRenamed = found.unknownColumns.length > 0 && measures.every((column) => suspects.includes(column))
  // By numbers, so that PostgreSQL can estimate how few their answers are among all others, and does not read millions of a version with another request.
  const versions = await queryColumn<Row<'etl.pipelines', 'pipeline_id'>>(db)`
    select o.pipeline_id from etl.pipelines o join etl.pipelines own using (pipeline, source, account)
    where own.pipeline_id = ${claim.pipelineId} and o.definition -> 'params' is not distinct from own.definition -> 'params'`
  const rows = await query<Row<'etl.answers', 'missing_columns' | 'partly_missing' | 'metrics'>>(db)`
    select a.missing_columns, a.partly_missing, a.metrics from etl.answers a
    where a.pipeline_id = any(${[...versions]}::integer[]) and a.missing_columns is not null
      and (a.pipeline_id = ${claim.pipelineId} or a.asks = (select t.asks from etl.answers t where t.answer_id = ${answer.answerId}::bigint))
      and a.dialect is not distinct from ${answer.completeness.dialect ?? null}
      and a.answer_id <= ${answer.answerId}::bigint
    order by a.answer_id desc limit ${sql.lit(formerLoads)}`
  return suspects.flatMap(({ name, from }) => {
    const asked = rows.filter(({ metrics }) => metrics.includes(from[0] ?? name))
    const isSparse = asked.some(({ partly_missing }) => partly_missing?.includes(name))
    const [newest] = asked
    if (newest === undefined) return isRenamed ? [name] : []
    // A column that the newest load lacked, too, did not vanish now.
    const had = !newest.missing_columns?.includes(name)
    return had && (!isSparse || found.read >= enoughForSparse) ? [name] : []
  })
}

/** What the next loads are compared with; null: an answer without records says nothing of its fields. */
export const fieldsOf = ({ read, missingColumns, partlyMissing }: Fields): LoadRecord['fields'] =>
  read === 0 ? null : { missing: missingColumns, partly: partlyMissing }

/**
 * Compares with what the answer was requested for: it may serve another definition than the one that requested it, or the same after a change. null: no drift.
 * For an answer without metrics it is not known which were requested.
 */
export const driftOf = async (
  db: Db,
  { work, answer }: Load,
  { unknownColumns, newlyMissing }: Pick<ParseReport, 'unknownColumns' | 'newlyMissing'>,
): Promise<Drift | null> => {
  if (unknownColumns.length + newlyMissing.length === 0) return null
  const { definition, source } = work
  const dialect = source.dialects?.[answer.completeness.dialect ?? '']
  const { metrics } = await db
    .selectFrom('etl.answers')
    .select('metrics')
    .where('answer_id', '=', String(answer.answerId))
    .executeTakeFirstOrThrow()
  const asked = new Set(metrics.flatMap((name) => namesOf({ name, from: [] }, dialect)))
  const isNews = (column: Column): boolean =>
    column.mayVanish !== true && (column.isKey || asked.size === 0 || namesOf(column, dialect).some((name) => asked.has(name)))
  const drift = {
    unknownColumns: unknownColumns.filter((name) => !asked.has(fieldName(name))),
    missingColumns: definition.columns
      .filter((column) => newlyMissing.includes(column.name) && isNews(column))
      .map(({ name }) => name),
  }
  return drift.unknownColumns.length + drift.missingColumns.length === 0 ? null : drift
}
