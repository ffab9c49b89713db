// Lists from the database that people hear of: held ones, and queries that fail.
import { type Selectable, sql } from 'kysely'
import type { Cause } from '../core/alarm.ts'
import type { Db, ListReadsTable, PipelinesTable } from '../db/tables.ts'

type ListTrouble = Pick<PipelinesTable, 'pipeline'> &
  Pick<Selectable<ListReadsTable>, 'dimension' | 'message'> & {
    /** null: its query failed. */
    readonly list_id: number | null
  }

/** Of each list what its newest reading found. */
export const listCauses = async (db: Db): Promise<Cause[]> => {
  const { rows } = await sql<ListTrouble>`
    with read as (
      select distinct on (r.pipeline_id, r.dimension) r.* from etl.list_reads r order by r.pipeline_id, r.dimension, r.run_id desc
    )
    select p.pipeline, r.dimension, r.message, (select l.list_id::float8 from etl.lists l where l.pipeline_id = r.pipeline_id
        and l.dimension = r.dimension and l.state = 'held') as list_id
    from read r join etl.pipelines p using (pipeline_id)
    where r.outcome = 'failed' or r.outcome = 'held' and exists (select from etl.lists l where l.pipeline_id = r.pipeline_id
      and l.dimension = r.dimension and l.state = 'held') order by 1, 2`.execute(db)
  return rows.map(({ pipeline, dimension, list_id, message }) => ({
    cause: `list/${pipeline}/${dimension}/${list_id ?? 'failed'}`,
    kind: 'list',
    pipeline,
    message: `${pipeline}: the list of ${dimension}: ${message ?? ''}`,
    changed: list_id === null ? 'Its query could not be read.' : 'It came empty or much shorter than before.',
    nextStep:
      list_id === null
        ? 'Correct the query, or give the reader what it needs; the next run reads it again.'
        : `Where that is right, \`millrace approve ${pipeline}\` obeys it; else correct what its query reads.`,
    details: { dimension, list_id },
  }))
}
