// What a page sets aside of a budget before it is asked for.
import { expect, test } from 'vitest'
import { nothingHeld, type Payer, reservePages } from '../../src/ledger/budget.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { emptyTraffic, openLoading, workOn } from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

test('a page that fits at its likely price alone leaves nothing for another in the same moment', async () => {
  await emptyTraffic(db)
  const definition = await shippedDefinition('traffic_and_engagement')
  const kit = await openLoading(db, definition)
  const unbounded = { perMonth: null, perDay: null }
  const payer: Payer = {
    ...{ account: 'default', pipeline: definition.pipeline, budget: unbounded, tagBudgets: [] },
    accountBudget: { perMonth: null, perDay: 300 },
  }
  const [one, other] = [
    await workOn(kit, boxOf(definition, '2026-01', { domain: 'a.com', country: 'us' }), { set: { kind: 'walk' } }),
    await workOn(kit, boxOf(definition, '2026-01', { domain: 'b.com', country: 'us' }), { set: { kind: 'walk' } }),
  ]
  const page = { more: 130, held: nothingHeld, isBlind: false }
  await reservePages(db.database.kysely, one.claim, payer, { ...page, takesAll: true })
  const next = reservePages(db.database.kysely, other.claim, payer, { ...page, takesAll: false })
  await expect(next).rejects.toMatchObject({ code: 'REPORT_PENDING' })
})
