// How a page in a browser hears that the ledger has changed: it asks for the ledger's mark once a second, and for itself when that is another one.
import { sql } from 'kysely'
import type { Db } from '../db/tables.ts'
import type { Texts } from '../db/typed-row.ts'

/** Pages that ask within this time share one question to the ledger. */
const sharedMs = 900
/** Jobs counted at most each time; a larger run shows by its requests and loads. */
const mostCounted = 10_000

/** Text that differs whenever anything the pages show has changed. */
const ledgerMark = async (db: Db): Promise<string> => {
  const { rows } = await sql<Texts<'mark'>>`
    select concat_ws('/', (select max(load_id) from etl.loads), (select max(event_id) from etl.events),
      (select max(run_id) from etl.runs), (select max(request_id) from etl.requests),
      (select string_agg(r.run_id || ':' || (select count(*) from (select from etl.run_jobs w
          where w.run_id = r.run_id and w.outcome is null limit ${mostCounted}) open), ',' order by r.run_id)
        from etl.runs r where r.state = 'running'),
      (select string_agg(j.job_id || ':' || j.fence, ',' order by j.job_id) from etl.jobs j where j.holder is not null),
      (select count(*) from (select from etl.jobs j where j.state in ('held', 'failed') limit ${mostCounted}) trouble)) as mark`.execute(
    db,
  )
  return rows[0]?.mark ?? ''
}

/** Asks the ledger only while pages are open. */
export const sharedMark = (db: Db): (() => Promise<string>) => {
  let asked: { readonly atMs: number; readonly mark: Promise<string> } | null = null
  return () => {
    const atMs = performance.now()
    if (asked === null || atMs - asked.atMs > sharedMs) asked = { atMs, mark: ledgerMark(db) }
    return asked.mark
  }
}
