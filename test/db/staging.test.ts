// A COPY into staging: memory that is given back was read before, and a connection that dies between two writes is said to have died.
import { expect, test } from 'vitest'
import { withSession } from '../../src/db/session.ts'
import { openStaging } from '../../src/load/staging.ts'
import { shippedDefinitions } from '../support/definitions.ts'
import { trafficRow } from '../support/merging.ts'
import { createTestDatabase } from '../support/postgres.ts'

test('writing on after the connection was cut fails with the cut', async () => {
  const db = await createTestDatabase()
  const definition = (await shippedDefinitions()).find(({ pipeline }) => pipeline === 'keywords')
  if (definition === undefined) throw new Error('no definition')
  // Less would wait here for more and not be sent yet.
  const line = `${definition.columns
    .filter(({ origin }) => origin === 'response')
    .map(({ name }) => (name === 'keyword' ? 'k'.repeat(100_000) : '\\N'))
    .join('\t')}\n`
  const chunk = { copy: Buffer.from(line), rows: 1 }
  const outcome = withSession(db.database.pool, async (session) => {
    const staging = openStaging(session, definition)
    await staging.write(chunk)
    await db.database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`,
    )
    await new Promise((resolve) => setTimeout(resolve, 300))
    await staging.write({ copy: Buffer.from('x'), rows: 1 })
  })
  await expect(outcome).rejects.toThrow(/terminat|connection/i)
  await db.drop()
})

test('memory is given back only when its rows have left, and only where that is certain', async () => {
  const db = await createTestDatabase()
  const definition = (await shippedDefinitions()).find(({ pipeline }) => pipeline === 'traffic_and_engagement')
  if (definition === undefined) throw new Error('no definition')
  const perChunk = 8_000
  const chunks = 30
  let released = 0
  await withSession(db.database.pool, async (session) => {
    const staging = await openStaging(session, definition)
    const write = (copy: Buffer, rows: number): Promise<void> =>
      staging.write({
        copy,
        rows,
        release: () => {
          released += 1
          copy.fill('x')
        },
      })
    for (let chunk = 0; chunk < chunks; chunk += 1) {
      const rows = Array.from({ length: perChunk }, (_, row) => `${trafficRow('a.com', String(chunk * perChunk + row))}\n`)
      await write(Buffer.from(rows.join('')), perChunk)
    }
    await write(Buffer.from(`${trafficRow('b.com', '5')}\n`), 1)
    await staging.flush()
    const { rows } = await session.client.query<{ n: string; visits: string }>(
      `select count(*) as n, sum(all_traffic_visits) as visits from ${staging.table} where domain = 'a.com'`,
    )
    const n = perChunk * chunks
    expect(rows).toEqual([{ n: String(n), visits: String((n * (n - 1)) / 2) }])
    expect(released).toBe(chunks)
    await staging.close()
  })
  await db.drop()
})
