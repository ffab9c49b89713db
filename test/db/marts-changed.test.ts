// Marts, pipelines and what people add to both, changed in any order: `migrate` publishes what the files say, loses nothing of somebody's, or names it.
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { readSettings } from '../../src/core/env.ts'
import { refreshSummaries } from '../../src/load/summaries.ts'
import { migrateAndPublish } from '../../src/run/migrate-and-publish.ts'
import { newMigration } from '../../src/run/new-migration.ts'
import { openMarts } from '../../src/run/open-runtime.ts'
import { shippedDefinition, unitOf } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'
import { testFolder } from '../support/test-world.ts'

const db = testDatabase({ each: true })
const folder = testFolder({ each: true })

const pipelinesFolder = () => join(folder, 'pipelines')
const settings = () => readSettings({ DATABASE_URL: db.url, MILLRACE_HOME: folder }, folder)
const migrate = () => migrateAndPublish({ settings: settings(), pipelinesFolder: pipelinesFolder(), dryRun: false })

const put = (name: string, header: string, query: string): void => {
  mkdirSync(join(folder, 'marts'), { recursive: true })
  writeFileSync(join(folder, 'marts', `${name}.sql`), `-- purpose: p\n-- grain: g\n-- question: q?\n-- ${header}\n${query}`)
}
const view = (name: string, query: string, reads = 'keywords'): void => put(name, `reads: ${reads}`, query)
const cells = 'month, domain, country, traffic_source, web_source, branded_type'
const sums = `select ${cells}, sum(clicks) as clicks from {{facts}} group by ${cells}`
const summary = (name: string, query = sums, key = cells): void => put(name, `kind: summary of keywords\n-- key: ${key}`, query)
const taken = (name: string): void => rmSync(join(folder, 'marts', `${name}.sql`))
const yaml = (name: string): string => join(pipelinesFolder(), `${name}.yaml`)
const edit = (name: string, change: (text: string) => string): void =>
  writeFileSync(yaml(name), change(readFileSync(yaml(name), 'utf8')))
/** The columns of bi.keywords in another order: it is dropped and made again, with what reads it. */
const reorder = (): void => edit('keywords', (text) => text.replace(/( {4}clicks: .*\n)( {4}traffic_share: .*\n)/, '$2$1'))

const load = async (domain: string): Promise<void> => {
  const [keywords, marts] = [await shippedDefinition('keywords'), await openMarts(pipelinesFolder())]
  await db.database.kysely.transaction().execute(async (trx) => {
    await sql`insert into bi.dim_domain (domain) values (${domain})`.execute(trx)
    await sql`insert into bi.dim_country (country) values ('us') on conflict do nothing`.execute(trx)
    await sql`create table if not exists data.own_month partition of data.keywords_v1 for values from ('2026-08-01') to ('2026-09-01')`.execute(
      trx,
    )
    await sql`insert into data.keywords_v1 (${sql.raw(cells)}, keyword, top_url, clicks, traffic_share, _unit_id, _run_id, _revision, _loaded_at)
      values ('2026-08-01', ${domain}, 'us', 'All', 'Total', 'All', 'k', 'u', 70, 0.5, 1, 1, 1, now())`.execute(trx)
    const unit = unitOf(keywords, '2026-08', { domain, country: 'us' })
    await refreshSummaries(trx, keywords, { ...unit, leftOut: [], units: sql`false` }, marts)
  })
}

const begin = async (): Promise<void> => {
  mkdirSync(pipelinesFolder(), { recursive: true })
  cpSync('pipelines/keywords.yaml', yaml('keywords'))
  cpSync('pipelines/domains.txt', join(pipelinesFolder(), 'domains.txt'))
  await migrate()
}

test.each(['\n-- The end.', ' -- The end.', ';\n-- The end.\n'])(
  'a summary whose query ends with a comment (%j) is filled by migrate and by loads',
  async (end) => {
    await begin()
    summary('own_sums', sums + end)
    await migrate()
    await load('first.com')
    taken('own_sums')
    summary('own_later', sums + end)
    await migrate()
    await load('second.com')
    expect(await db.query('select domain from bi.own_later order by 1')).toEqual([
      { domain: 'first.com' },
      { domain: 'second.com' },
    ])
  },
)
