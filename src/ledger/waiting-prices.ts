// The price of what waits for a person's word, or has it: named later where nobody could say it when it was planned.
import { sql } from 'kysely'
import type { Row } from '../db/typed-row.ts'
import type { Db } from '../db/tables.ts'
import { countApproval } from './approvals.ts'
import { pastUnits } from './estimates.ts'
import { lockPipeline } from './pipelines.ts'

const unpriced = sql<boolean>`j.kind = 'report' and j.approval_id is not null and j.ask_number is null and j.answer_id is null
  and j.holder is null and j.estimated_quota is null`

/** As much by the unit as the pipeline's reports cost so far; nothing where none was bought yet. */
export const priceWaiting = async (db: Db, pipeline: string): Promise<void> => {
  const { rows } = await sql<Row<'etl.pipelines', 'pipeline_id'>>`
    select p.pipeline_id from etl.pipelines p where p.pipeline = ${pipeline}
      and exists (select from etl.jobs j where j.pipeline_id = p.pipeline_id and ${unpriced}) order by 1`.execute(db)
  if (rows.length === 0) return
  const { quota } = await pastUnits(db, pipeline)
  if (quota === null) return
  for (const { pipeline_id } of rows)
    await db.transaction().execute(async (trx) => {
      await lockPipeline(trx, pipeline_id)
      await sql`
        with locked as (select j.job_id from etl.jobs j where j.pipeline_id = ${pipeline_id} and ${unpriced} order by j.job_id for update)
        update etl.jobs set estimated_quota = round(${quota}::numeric * cells, 2) where job_id in (select job_id from locked)`.execute(
        trx,
      )
      await countApproval(trx, pipeline_id)
    })
}
