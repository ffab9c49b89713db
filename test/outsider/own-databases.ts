// The databases of samples: copies of the template that all tests of a run share.
import { createTestDatabase } from '../support/postgres.ts'
import { becomeOwn, type Databases } from './databases.ts'

export const sampleDatabases: Databases = {
  create: async () => {
    const { url, database, drop } = await createTestDatabase({ published: true })
    await becomeOwn(database.pool)
    return { url, pool: database.pool, drop }
  },
  remove: async () => undefined,
}
