import { setTimeout } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { isCluster } from '../../src/db/catalog.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { testDatabase } from '../support/postgres.ts'
import { startTcpProxy } from '../support/tcp-proxy.ts'

const db = testDatabase()

test('whether the server is a cluster is asked again after the question was cut off: a process that goes on loads again', async () => {
  const proxy = await startTcpProxy(db.url)
  const database = await openDatabase({ databaseUrl: secret('test database', proxy.url), home: '/nowhere' })
  try {
    proxy.fallSilent()
    const cutOff = expect(isCluster(database)).rejects.toThrow()
    await setTimeout(100)
    proxy.cut()
    await cutOff
    proxy.speak()
    expect(await isCluster(database)).toBe(false)
  } finally {
    await database.close()
    await proxy.close()
  }
})
