// What writing a difference reads of the month that it changes.
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { type Session, withSession } from '../../src/db/session.ts'
import { beginLoad, openStaging, prepareStaging, writeDifference } from '../../src/load/difference.ts'
import { ensurePartitions } from '../../src/load/partition.ts'
import { copiedColumns, names, type UnitScope } from '../../src/load/table-columns.ts'
import { shippedDefinition } from '../support/definitions.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const domains = Array.from({ length: 2_600 }, (_, at) => `d${at}.com`)
const countries = ['gb', 'us']
const window = { from: '2026-01-01', to: '2026-02-01' }
const days = 28
const rows = domains.length * countries.length * days

/** Rows of the month that the transaction has read so far. */
const rowsRead = async ({ kysely }: Session): Promise<number> => {
  const { rows: found } = await sql<{ n: string }>`select seq_tup_read + idx_tup_fetch as n from pg_stat_xact_user_tables
    where relname = 'traffic_and_engagement_v1_p202601'`.execute(kysely)
  return Number(found[0]?.n ?? 0)
}

test('a few changed and missing rows of a large month are found by their keys: it is read once, for the comparison', async () => {
  const definition = await shippedDefinition('traffic_and_engagement')
  const scope: UnitScope = { window, slice: { domain: domains, country: countries }, leftOut: [] }
  await withSession(db.database.pool, async (session) => {
    await ensurePartitions(session, definition, window)
    await sql`insert into data.traffic_and_engagement_v1 ("date", granularity, domain, country, include_subdomains, all_traffic_visits, _unit_id, _run_id)
      select date '2026-01-01' + day, 'monthly', 'd' || d || '.com', c, true, d, 1, 1
      from generate_series(0, ${domains.length - 1}::integer) d, unnest(${countries}::text[]) c, generate_series(0, ${days - 1}::integer) day`.execute(
      session.kysely,
    )
    await sql`vacuum analyze data.traffic_and_engagement_v1_p202601`.execute(session.kysely)
    const trx = await session.kysely.startTransaction().execute()
    try {
      const inside = { ...session, kysely: trx }
      await beginLoad(inside, definition, scope, { runId: 2, looks: false })
      const staging = await openStaging(inside, definition, { isTiny: false, isNumbered: false })
      await sql`insert into ${staging.table} (${names(copiedColumns(definition))}, _unit_id)
        select ${names(copiedColumns(definition))}, _unit_id from data.traffic_and_engagement_v1 where domain !~ '^d8[0-2].[.]com$'`.execute(
        trx,
      )
      await sql`update ${staging.table} set all_traffic_visits = -1 where domain ~ '^d9[0-2].[.]com$'`.execute(trx)
      const missing = 30 * countries.length * days
      await prepareStaging(inside, staging, rows - missing)
      const before = await rowsRead(inside)
      const written = await writeDifference({
        ...{
          session: inside,
          definition,
          scope,
          staging,
          runId: 2,
          came: rows - missing,
          loaded: rows,
          hasProtected: false,
          mayEnd: true,
        },
        moment: { loadedAt: '2100-01-01T00:00:00.000000Z', hasHistory: false },
      })
      expect([written?.updated.get(1), written?.ended.get(1), written?.inserted.size]).toEqual([missing, missing, 0])
      expect((await rowsRead(inside)) - before).toBeLessThan(1.2 * rows)
    } finally {
      await trx.rollback().execute()
    }
  })
})
