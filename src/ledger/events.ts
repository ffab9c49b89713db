// Events for people: what a person or a process did outside a job, one row in etl.events in the transaction that did it.
import type { Db } from '../db/tables.ts'
import type { Numbers, Texts } from '../db/typed-row.ts'

/** An event to write down. */
type Note = Texts<'kind' | 'message'> & Partial<Numbers<'pipelineId' | 'unitId' | 'jobId' | 'runId'>>

/** For people; nothing is decided by it. */
export const note = async (db: Db, { kind, pipelineId, unitId, jobId, runId, message }: Note): Promise<void> => {
  await db
    .insertInto('etl.events')
    .values((eb) => ({
      kind,
      pipeline:
        pipelineId === undefined
          ? null
          : eb.selectFrom('etl.pipelines').select('pipeline').where('pipeline_id', '=', pipelineId).limit(1),
      unit_id: unitId ?? null,
      job_id: jobId ?? null,
      run_id: runId ?? null,
      message,
      details: '{}',
    }))
    .execute()
}
