// Copies of a warehouse that nothing has run in yet: whose they are is told by what lies beside the landings.
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { runPath } from '../../src/extract/receipts.ts'
import { settledHere, settleIdentity } from '../../src/pipeline/identity.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { type MemoryLanding, memoryLanding } from '../support/memory-landing.ts'

let landing: MemoryLanding
let copies: CopiedDatabase[]
let id: string
let copy: CopiedDatabase

const opened = async <T>({ url }: CopiedDatabase, work: (database: Database) => Promise<T>): Promise<T> => {
  const database = await openDatabase({ databaseUrl: secret('copy', url), home: '/nowhere' })
  return work(database).finally(() => database.close())
}

beforeEach(async () => {
  landing = memoryLanding()
  const original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  copies = [original]
  // As `millrace migrate` does.
  const found = await opened(original, (database) => settledHere({ database }))
  id = found.id
  expect(found.home).toBe(found.here)
  copy = await original.copy()
  copies.push(copy)
})
afterEach(async () => {
  for (const one of copies) await one.drop()
})

test('a backup from before the first run is known by what was done under its name since', async () => {
  await landing.notes.write(runPath({ id, epoch: 1 }, 1), '{}')
  const { identity, warning } = await opened(copy, (database) => settleIdentity({ database, landing }))
  expect(identity).toMatchObject({ id, standing: 'copy' })
  expect(warning).toContain('millrace migrate --as restored')
})

test('a template under whose name nobody has worked makes warehouses of their own', async () => {
  const { identity, warning } = await opened(copy, (database) => settleIdentity({ database, landing }))
  expect([warning, identity.standing, identity.home === identity.here]).toEqual([null, 'own', true])
  expect(identity.id).not.toBe(id)
  // From now on it is where it is.
  expect((await opened(copy, (database) => settleIdentity({ database, landing }))).identity.id).toBe(identity.id)
})
