// Probes while the database hangs: they end in time, and only the one about readiness fails.
import { Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler } from 'kysely'
import { expect, test } from 'vitest'
import type { Tables } from '../../src/db/tables.ts'
import type { TestDatabase } from '../support/postgres.ts'
import { servePage } from '../support/status-page.ts'

test('a database that takes connections and answers nothing leaves probes two seconds, and one question of theirs waits at a time', async () => {
  let asked = 0
  const nothing = async (): Promise<void> => undefined
  const kysely = new Kysely<Tables>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createQueryCompiler: () => new PostgresQueryCompiler(),
      createIntrospector: (db) => new PostgresIntrospector(db),
      createDriver: () => ({
        init: nothing,
        acquireConnection: () => {
          asked += 1
          return new Promise(() => undefined)
        },
        beginTransaction: nothing,
        commitTransaction: nothing,
        rollbackTransaction: nothing,
        releaseConnection: nothing,
        destroy: nothing,
      }),
    },
  })
  const page = await servePage({ database: { kysely } } as TestDatabase, { definitions: [] })
  try {
    const from = performance.now()
    const probes = await Promise.all(['livez', 'healthz', 'livez', 'healthz'].map((path) => fetch(`${page.url}/${path}`)))
    expect(performance.now() - from).toBeLessThan(2_000)
    expect(probes.map(({ status }) => status)).toEqual([200, 503, 200, 503])
    expect((await fetch(`${page.url}/livez`)).status).toBe(200)
    expect(asked).toBe(1)
  } finally {
    await page.close()
  }
}, 10_000)
