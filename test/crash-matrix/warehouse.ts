// What a warehouse holds after all is done, without what names the run and the moment: every table of `data` and `bi`, rows and history.
import type pg from 'pg'

const ofTheRun = ['_unit_id', '_run_id', '_loaded_at', '_valid_from', '_valid_to', '_ended_run_id', 'first_seen_at'] as const

/** A digest and a count by table. */
export const contentsOf = async (client: pg.Client): Promise<Readonly<Record<string, string>>> => {
  const { rows: tables } = await client.query<{ name: string }>(
    `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('data', 'bi') and c.relkind in ('r', 'p') and not c.relispartition order by 1`,
  )
  const found: Record<string, string> = {}
  for (const { name } of tables) {
    const { rows } = await client.query<{ digest: string }>(
      `select count(*) || ' rows, ' || coalesce(md5(string_agg(line, chr(10) order by line collate "C")), 'none') as digest
       from (select (to_jsonb(t) - $1::text[])::text as line from ${name} t) l`,
      [ofTheRun],
    )
    found[name] = rows[0]?.digest ?? ''
  }
  return found
}

/** Units loaded more than once in one edition: there must be none. */
export const doubledLoads = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ n: number }>(
    `select count(*)::int as n from (select 1 from etl.loads where outcome = 'loaded' group by unit_id, edition having count(*) > 1) d`,
  )
  return rows[0]?.n ?? 0
}

export const uncertainReports = async (client: pg.Client): Promise<number> => {
  const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from etl.reports where state = 'uncertain'`)
  return rows[0]?.n ?? 0
}
