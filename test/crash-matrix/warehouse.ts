// What a warehouse holds after all is done, without what names the run and the moment: every table of `data` and `bi`, rows and history.
import type pg from 'pg'

const ofTheRun = ['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id', 'first_seen_at'] as const

/** A digest and a count by table. */
export const contentsOf = async (pool: pg.Pool | pg.Client): Promise<Readonly<Record<string, string>>> => {
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('data', 'bi') and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
  )
  const found: Record<string, string> = {}
  for (const { name } of tables) {
    const { rows } = await pool.query<{ digest: string }>(
      `select count(*) || ' rows, ' || coalesce(md5(string_agg(line, chr(10) order by line collate "C")), 'none') as digest
       from (select (to_jsonb(t) - $1::text[])::text as line from ${name} t) l`,
      [ofTheRun],
    )
    found[name] = rows[0]?.digest ?? ''
  }
  return found
}

/** State of each unit and how often it took an answer, a line each; a run that was killed takes none twice. */
export const unitsOf = async (pool: pg.Pool): Promise<string> => {
  const { rows } = await pool.query<{ line: string }>(
    `select u.unit_key || ': ' || u.state || ', loads: ' || count(l.load_id) as line from etl.unit_list u
       left join (etl.loads l join etl.answers a on a.answer_id = l.answer_id and l.outcome = 'loaded')
         on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from and u.slice_id = any (a.slice_ids)
     group by u.unit_key, u.state order by 1`,
  )
  return rows.map(({ line }) => line).join('\n')
}

/** Every unit that is not loaded waits because its answer lost rows. */
export const areAllShrunk = async (pool: pg.Pool): Promise<boolean> => {
  const { rows } = await pool.query(
    `select 1 from etl.unit_list where state <> 'loaded' and error_code is distinct from 'SHRUNK'`,
  )
  return rows.length === 0
}

export const uncertainReports = async (pool: pg.Pool): Promise<number> => {
  const { rows } = await pool.query<{ n: number }>(
    `select count(*)::int as n from etl.jobs where report_state = 'uncertain' and state = 'held'`,
  )
  return rows[0]?.n ?? 0
}
