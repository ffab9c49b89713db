// What must hold of the ledger whenever nothing runs: nobody waits, nothing is at hand, and every row leads to the answer that held it.
import type { WorldDatabase } from './databases.ts'
import { pipelines } from './world.ts'

type Pool = WorldDatabase['pool']

const counted = async (pool: Pool, what: string, statement: string): Promise<string[]> => {
  const { rows } = await pool.query<{ line: string }>(`select x::text as line from (${statement}) as x limit 5`)
  return rows.map(({ line }) => `${what}: ${line}`)
}

/** Leftovers after a calm run; empty when all is well. */
export const restless = async (pool: Pool): Promise<string[]> => [
  ...(await counted(
    pool,
    'a run that is over still runs',
    `select run_id, command, process_id from etl.runs where state = 'running'`,
  )),
  ...(await counted(pool, 'a run still waits for a job', `select run_id, job_id from etl.run_jobs where outcome is null`)),
  ...(await counted(
    pool,
    'a job is still open',
    `select job_id, kind, reason, report_state, ask_number, answer_id, holder, not_before, error_code from etl.jobs where state = 'open'`,
  )),
]

/** Rows and revisions that lead to no answer for their unit. */
export const homeless = async (pool: Pool): Promise<string[]> => {
  const wrong: string[] = []
  for (const pipeline of pipelines)
    for (const table of [`data.${pipeline}_v1`, `data.${pipeline}_v1_history`])
      wrong.push(
        ...(await counted(
          pool,
          `a row of ${table} leads to no answer`,
          `select t._unit_id, t._loaded_at from ${table} t where not exists (
             select 1 from etl.units u join etl.loads l on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from
               join etl.answers a on a.answer_id = l.answer_id
             where u.unit_id = t._unit_id and l.loaded_at = t._loaded_at and u.slice_id = any (a.slice_ids))`,
        )),
      )
  return wrong
}

/** What a command that does not end waits for. */
export const snapshot = async (pool: Pool): Promise<string> => {
  const ask = async (statement: string): Promise<unknown[]> => (await pool.query(statement)).rows
  return JSON.stringify({
    runs: await ask(`select run_id, command, state, process_id, cancel_requested_at from etl.runs order by 1 desc limit 4`),
    waits: await ask(
      `select w.run_id, w.job_id, j.state, j.holder, j.kind, j.report_state, j.not_before, j.ask_number, j.answer_id, j.error_code
       from etl.run_jobs w left join etl.jobs j using (job_id) where w.outcome is null limit 8`,
    ),
    processes: await ask(
      `select process_id, system_process_id, ended_at, round(extract(epoch from lease_until - clock_timestamp())) as lease from etl.processes order by 1 desc limit 6`,
    ),
    statements: await ask(
      `select pid, wait_event_type, wait_event, state, left(query, 160) as query from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    ),
  })
}
