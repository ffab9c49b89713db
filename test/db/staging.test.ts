// A COPY into staging whose connection dies between two writes says so, and nothing of the driver's inside.
import { expect, test } from 'vitest'
import { withSession } from '../../src/db/session.ts'
import { openStaging } from '../../src/load/staging.ts'
import { shippedDefinitions } from '../support/definitions.ts'
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
