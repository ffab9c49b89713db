// A warehouse as analysts meet it: keywords of 50 domains in 2 countries over 24 months, made by the server itself.
import type { Database } from '../src/db/connect.ts'
import type { Definition } from '../src/core/types.ts'
import { withSession } from '../src/db/session.ts'
import type { Source } from '../src/extract/source.ts'
import { fillLoadedWalks } from './night-ledger.ts'

export const months = Array.from({ length: 24 }, (_, at) => new Date(Date.UTC(2024, at, 1)).toISOString().slice(0, 10))
const domainCount = 50
const countryCount = 2

/** Key columns that are one value each here, as in the shipped definition. */
const params = `'All', 'Total', 'All'`

/**
 * Each unit draws its keywords from a pool of its domain, a third of which every domain shares; one in eleven is missing in a month, so that keywords come and go.
 * Months that are there stay: a filling that was stopped goes on.
 * @param rows of all months together; rounded to whole units
 */
export const fillKeywords = async (
  database: Database,
  pipeline: { readonly definition: Definition; readonly source: Source },
  rows: number,
  log: (text: string) => void,
): Promise<void> => {
  const each = Math.round((rows * 1.1) / (months.length * domainCount * countryCount))
  await withSession(database.pool, async ({ client }) => {
    // Made and sorted once: it is the same in every month.
    await client.query(
      `create temporary table pool as select d, n, 'domain-' || d || '.example' as domain, country,
        case when n % 3 = 0 then 'shared keyword ' else 'domain-' || d || '.example keyword ' end || n as keyword, 'https://domain-' || d || '.example/page/' || n % 500 as url
      from generate_series(1, ${domainCount}) d, unnest(array['us', 'gb']) country, generate_series(1, ${each}) n order by domain, country, keyword`,
    )
    for (const month of months) {
      const partition = `data.keywords_v1_p${month.slice(0, 7).replace('-', '')}`
      const { rows: there } = await client.query('select where to_regclass($1) is not null', [partition])
      if (there.length > 0) continue
      // One transaction: a server with wal_level minimal writes no log of a table made in it.
      await client.query('begin')
      await client.query(`create table ${partition} (like data.keywords_v1 including defaults)`)
      const { rowCount } = await client.query(fillMonth(partition, month))
      await client.query(`alter table ${partition} add primary key (${keyColumns})`)
      await client.query('commit')
      await client.query(
        `alter table data.keywords_v1 attach partition ${partition} for values from ('${month}') to ('${month}'::date + interval '1 month')`,
      )
      log(`${month}: ${rowCount} rows`)
    }
  })
  const { rows: units } = await database.pool.query('select from etl.units limit 1')
  const slices = Array.from({ length: domainCount }, (_, at) => `domain-${at + 1}.example`).flatMap((domain) => [
    [domain, 'us'],
    [domain, 'gb'],
  ])
  const said = months.map((month) => ({ month: month.slice(0, 7), updated: month, count: each }))
  if (units.length === 0) await fillLoadedWalks(database, pipeline, { slices, months: said })
  await fillDimensions(database)
}

const keyColumns = 'month, domain, country, traffic_source, web_source, branded_type, keyword, top_url'

const fillMonth = (
  partition: string,
  month: string,
): string => `insert into ${partition} (month, domain, country, traffic_source, web_source, branded_type, keyword, top_url, clicks, traffic_share,
    difficulty, primary_intent, volume, zero_clicks_share, position, serp_features, _unit_id, _run_id, _revision, _loaded_at)
  select '${month}', domain, country, ${params}, keyword, url, (h % 100000) * (h % 7) / 100, (h % 1000) / 1000000.0, h % 100,
    (array['Informational', 'Commercial', 'Navigational', 'Transactional'])[1 + n % 4], 100 + n % 50000, (n % 100) / 100.0, 1 + h % 90,
    case h % 3 when 0 then array['news', 'video'] when 1 then array['shopping'] end, 1, 1, 1, now() - interval '2 days'
  from (select *, abs(hashint4(n * 131 + d * 7 + extract(month from '${month}'::date)::int)::bigint) as h from pool) made where h % 11 <> 0`

const fillDimensions = async ({ pool }: Database): Promise<void> => {
  await pool.query(
    `insert into bi.dim_domain (domain) select 'domain-' || d || '.example' from generate_series(1, ${domainCount}) d on conflict do nothing`,
  )
  await pool.query(
    `insert into bi.dim_country (country, name) values ('us', 'United States'), ('gb', 'United Kingdom') on conflict do nothing`,
  )
  await pool.query('vacuum (analyze) data.keywords_v1')
}
