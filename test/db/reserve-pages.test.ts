// What a page sets aside of a budget before it is asked for.
import { expect, test } from 'vitest'
import { nothingHeld, type Payer, reserveBudget, reservePages, reserveForPlanning } from '../../src/ledger/budget.ts'
import { setPlanningReserve } from '../../src/ledger/request-credits.ts'
import { newRun } from '../support/ledger.ts'
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

test('what the questions of a night set aside before midnight (UTC) counts on the new day while they are asked, and on theirs where its process died', async () => {
  await emptyTraffic(db)
  const definition = await shippedDefinition('traffic_and_engagement')
  await openLoading(db, definition)
  const { kysely, pool } = db.database
  const runId = await newRun(db)
  const { rows } = await pool.query<{ id: number }>('select pipeline_id as id from etl.pipelines where pipeline = $1', [
    definition.pipeline,
  ])
  const of = { runId, pipelineId: rows[0]?.id ?? 0 }
  const bounded = {
    ...{ account: 'default', pipeline: definition.pipeline, tagBudgets: [], unitKey: 'questions', estimated: 20 },
    ...{ budget: { perMonth: null, perDay: null }, accountBudget: { perMonth: null, perDay: 30 } },
  }
  await reserveForPlanning(kysely, of, bounded)
  await pool.query('update etl.request_credits set day = day - 1')
  const page = () => reserveBudget(kysely, { ...bounded, isExtra: false })
  await expect(page()).rejects.toMatchObject({ code: 'QUOTA_EXHAUSTED' })
  await pool.query(`update etl.runs set state = 'interrupted' where run_id = $1`, [runId])
  expect(await page()).toBe(10)
  await setPlanningReserve(kysely, { ...of, account: 'default' }, 0)
  expect((await pool.query('select from etl.request_credits')).rows).toEqual([])
})
