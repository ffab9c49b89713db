// Every transition of a unit, allowed and forbidden, and that a claim which is lost or settled writes nothing.
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { type UnitState, unitStates, zeroCounts } from '../../src/core/types.ts'
import { noteCancel, releaseByPerson, retryByPerson } from '../../src/ledger/actions.ts'
import { releaseHeld, returnRunUnits } from '../../src/ledger/held.ts'
import { markLoaded, markUnchanged } from '../../src/ledger/loads.ts'
import { reopenLanded } from '../../src/ledger/register.ts'
import { reportMemo } from '../../src/ledger/reports.ts'
import { openUnits, requestCancel, unitsAtHand } from '../../src/ledger/runs.ts'
import { type Transition, unitTransitions } from '../../src/ledger/transitions.ts'
import {
  type ClaimedUnit,
  claimUnit,
  dropLanding,
  existingUnits,
  failUnit,
  holdUnit,
  lockUnit,
  markLanded,
  parkUnit,
} from '../../src/ledger/units.ts'
import { claimed, newRun, outcomeOf, planned, tryClaim, unitNamed, unitRow, wholeLedger } from '../support/ledger.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let runId: number
let count = 0

beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())
beforeEach(async () => {
  runId = await newRun(db)
  count += 1
})

const k = () => db.database.kysely
const name = (): string => `u${count}.com`
const landing = { landing: 'here/1', sha256: 'abc', bytes: 17 }
const reason = { code: 'SHRUNK', message: 'fewer rows' }
const fingerprint = { lastUpdated: '2026-02-03', count: 5 }
const loadedMark = (of: number) => ({
  runId: of,
  counts: { ...zeroCounts(), read: 9, inserted: 1, updated: 2, ended: 7, unchanged: 3, quarantined: 1, duplicates: 2 },
  landing: 'here/1',
  landingSha256: 'abc',
  landingBytes: 17,
  fingerprint,
  drift: { unknownColumns: ['x'], missingColumns: [] },
  milliseconds: 12,
})
const parking = { state: 'waiting', notBefore: Date.now() + 60_000, countsAttempt: false, final: false, ...reason } as const

/** Each event by the function that makes it happen; those after a claim get the claim. */
const events: Readonly<Record<keyof typeof unitTransitions, (unitId: number, claim: ClaimedUnit) => Promise<unknown>>> = {
  plan: () => planned(db, runId, name()),
  claim: (unitId) => tryClaim(db, runId, unitId, 'two:2'),
  'not yet': (_, claim) => parkUnit(k(), claim, parking),
  'give back': (_, claim) => parkUnit(k(), claim, { ...parking, state: 'planned', notBefore: null }),
  'needs a person': (_, claim) => holdUnit(k(), claim, reason),
  'cannot succeed': (_, claim) => failUnit(k(), claim, reason),
  'merge commits': (_, claim) => markLoaded(k(), claim, loadedMark(runId)),
  'nothing changed': (_, claim) => markUnchanged(k(), claim, { runId, fingerprint }),
  release: (unitId) => releaseHeld(k(), [unitId]),
  retry: (unitId) => retryByPerson(k(), unitId, 'test'),
  replay: (unitId) => reopenLanded(k(), runId, [unitId]),
  'run cancelled': () => returnRunUnits(k(), runId),
}

/** A unit in `state`, and the claim that brought it there. */
const unitIn = async (state: UnitState, landed: string | null = 'here/0'): Promise<ClaimedUnit> => {
  const unitId = await planned(db, runId, name())
  const claim = await claimed(db, runId, unitId)
  await sql`update etl.units set state = ${state}, landing = ${landed} where unit_id = ${unitId}`.execute(k())
  return claim
}

const fencedOff = { code: 'FENCED' }
const eventNames = Object.keys(unitTransitions) as (keyof typeof unitTransitions)[]

describe('the table of transitions', () => {
  test.each(unitStates.flatMap((state) => eventNames.map((event) => [state, event] as const)))(
    'from %s by "%s" leads where it says, or changes nothing',
    async (state, event) => {
      const claim = await unitIn(state)
      const before = await wholeLedger(db)
      const { from, to }: Transition<UnitState> = unitTransitions[event]
      const acting = events[event](claim.unitId, claim)
      if (from.includes(state)) {
        await acting
        expect(to).toContain((await unitRow(db, claim.unitId)).state)
      } else {
        const needsClaim = from.length === 1 && from[0] === 'running'
        if (needsClaim) await expect(acting).rejects.toMatchObject(fencedOff)
        else await acting
        expect((await unitRow(db, claim.unitId)).state).toBe(state)
        if (event !== 'plan') expect(await wholeLedger(db)).toEqual(before)
      }
    },
  )
})

/** Everything a process may write for a unit it holds. */
const writes: Readonly<Record<string, (claim: ClaimedUnit) => Promise<unknown>>> = {
  park: (claim) => parkUnit(k(), claim, { ...parking, final: true }),
  'give back': (claim) => parkUnit(k(), claim, { ...parking, state: 'planned', notBefore: null }),
  hold: (claim) => holdUnit(k(), claim, reason),
  fail: (claim) => failUnit(k(), claim, reason),
  'mark landed': (claim) => markLanded(k(), claim, landing),
  'mark loaded': (claim) => markLoaded(k(), claim, loadedMark(runId)),
  'mark unchanged': (claim) => markUnchanged(k(), claim, { runId, fingerprint }),
  lock: (claim) => lockUnit(k(), claim),
}
const memo = (claim: ClaimedUnit) =>
  reportMemo(k(), claim, {
    account: 'a',
    pipeline: 'traffic',
    runId,
    deadlineMs: 1_000,
    requestsPerSecond: 10,
    budget: { perMonth: null, perDay: null },
    accountBudget: { perMonth: null, perDay: null },
  })
const reportWrites: typeof writes = {
  'intend a report': (claim) => memo(claim).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null }),
  'keep an id': (claim) => memo(claim).submitted('r1', 'pending'),
  poll: (claim) => memo(claim).polled({ statusWord: 'pending', nextPollAt: 1 }),
  'find it ready': (claim) => memo(claim).ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 }),
  'retry it': (claim) => memo(claim).retried(),
  'lose its answer': (claim) => memo(claim).uncertain('lost'),
  'withdraw it': (claim) => memo(claim).withdrawn('never left'),
  'give it up': (claim) => memo(claim).failed('failed', 'broken'),
}

describe('a process that lost its unit to another', () => {
  test.each(Object.entries({ ...writes, ...reportWrites }))('cannot %s', async (_, write) => {
    const unitId = await planned(db, runId, name())
    const stale = await claimed(db, runId, unitId)
    await memo(stale).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null })
    await claimed(db, runId, unitId, 'two:2')
    const before = await wholeLedger(db)
    await expect(write(stale)).rejects.toMatchObject(fencedOff)
    expect(await wholeLedger(db)).toEqual(before)
  })

  test('drops no landing of the other', async () => {
    const unitId = await planned(db, runId, name())
    const stale = await claimed(db, runId, unitId)
    await markLanded(k(), await claimed(db, runId, unitId, 'two:2'), landing)
    const before = await wholeLedger(db)
    await dropLanding(k(), stale)
    expect(await wholeLedger(db)).toEqual(before)
  })
})

describe('a unit that was settled', () => {
  test.each(Object.entries(writes))('is not changed by the same claim again: %s', async (_, write) => {
    const unitId = await planned(db, runId, name())
    const claim = await claimed(db, runId, unitId)
    await markLoaded(k(), claim, loadedMark(runId))
    const before = await wholeLedger(db)
    await expect(write(claim)).rejects.toMatchObject(fencedOff)
    expect(await wholeLedger(db)).toEqual(before)
  })
})

describe('a claim', () => {
  test('raises the fence and the count of tries, names its holder, and gives back what is known', async () => {
    const unitId = await planned(db, runId, name(), { forced: true })
    const first = await claimed(db, runId, unitId, 'one:1')
    expect(first).toMatchObject({
      unitId,
      unit: unitNamed(name()),
      edition: 1,
      attempts: 1,
      fence: '1',
      runId,
      landing: null,
      loaded: null,
    })
    const later = await newRun(db)
    const second = await claimed(db, later, unitId, 'two:2')
    expect(second).toMatchObject({ attempts: 2, fence: '2', runId: later })
    const row = await unitRow(db, unitId)
    expect(row).toMatchObject({ state: 'running', lease_owner: 'two:2', run_id: String(later) })
    const lease = Date.parse(row.lease_until ?? '') - Date.now()
    expect(lease).toBeGreaterThan(20_000)
    expect(lease).toBeLessThanOrEqual(30_000)
  })

  test('gives back what is loaded', async () => {
    const unitId = await planned(db, runId, name())
    await markLoaded(k(), await claimed(db, runId, unitId), loadedMark(runId))
    await planned(db, runId, name(), { newEdition: true, forced: true })
    const again = await claimed(db, runId, unitId)
    expect(again).toMatchObject({
      edition: 2,
      attempts: 1,
      forced: true,
      released: false,
      loaded: { sha256: 'abc', rows: 6, fingerprint },
    })
  })

  test('is refused for a run that was cancelled, and where the caller may not', async () => {
    const unitId = await planned(db, runId, name())
    const no = sql<boolean>`false`
    expect(await claimUnit(k(), unitId, { owner: 'one:1', leaseMs: 1, runId, holds: no })).toBeNull()
    const other = await newRun(db)
    await requestCancel(k(), other)
    expect(await tryClaim(db, other, unitId)).toBeNull()
    expect((await unitRow(db, unitId)).state).toBe('planned')
    expect(await tryClaim(db, runId, unitId)).not.toBeNull()
  })
})

describe('settling', () => {
  test('parked: the time is kept, the lease is gone, and only a try that counts costs one', async () => {
    const unitId = await planned(db, runId, name())
    const notBefore = Date.now() + 60_000
    await parkUnit(k(), await claimed(db, runId, unitId), { ...parking, notBefore })
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'waiting',
      attempts: 0,
      lease_owner: null,
      lease_until: null,
      error_code: 'SHRUNK',
      error_message: 'fewer rows',
    })
    expect(Date.parse((await unitRow(db, unitId)).not_before ?? '')).toBe(notBefore)
    expect(await outcomeOf(db, runId, unitId)).toBeNull()
    await parkUnit(k(), await claimed(db, runId, unitId), { ...parking, countsAttempt: true })
    expect(await unitRow(db, unitId)).toMatchObject({ attempts: 1 })
    await parkUnit(k(), await claimed(db, runId, unitId), { ...parking, final: true })
    expect(await outcomeOf(db, runId, unitId)).toBe('waiting')
  })

  test('given back: as if it had never been claimed, and the run still waits for it', async () => {
    const unitId = await planned(db, runId, name())
    await parkUnit(k(), await claimed(db, runId, unitId), { ...parking, state: 'planned', notBefore: null, final: true })
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'planned',
      attempts: 0,
      error_code: null,
      error_message: null,
      not_before: null,
    })
    expect(await outcomeOf(db, runId, unitId)).toBeNull()
    expect(await openUnits(k(), runId)).toEqual({ count: 1, cancelled: false })
  })

  test.each([
    ['held', holdUnit],
    ['failed', failUnit],
  ] as const)('%s: with its reason, the try counted, the run answered; no other run or unit', async (state, settle) => {
    const unitId = await planned(db, runId, name())
    const later = await newRun(db)
    await planned(db, later, name())
    const sister = await planned(db, runId, `sister${name()}`)
    const before = await newRun(db)
    await sql`insert into etl.run_units (run_id, unit_id, edition, outcome) values (${before}, ${unitId}, 1, 'loaded')`.execute(
      k(),
    )
    await settle(k(), await claimed(db, runId, unitId), reason)
    expect(await unitRow(db, unitId)).toMatchObject({
      state,
      attempts: 1,
      error_code: 'SHRUNK',
      error_message: 'fewer rows',
      lease_owner: null,
    })
    expect([await outcomeOf(db, runId, unitId), await outcomeOf(db, later, unitId), await outcomeOf(db, before, unitId)]).toEqual(
      [state, state, 'loaded'],
    )
    expect(await outcomeOf(db, runId, sister)).toBeNull()
  })

  test('loaded: what was loaded is on record, what was wrong is forgotten', async () => {
    const unitId = await planned(db, runId, name(), { forced: true })
    const claim = await claimed(db, runId, unitId)
    await sql`update etl.units set error_code = 'X', error_message = 'y', released = true, not_before = now() where unit_id = ${unitId}`.execute(
      k(),
    )
    await markLanded(k(), claim, landing)
    await markLoaded(k(), claim, loadedMark(runId))
    const row = await unitRow(db, unitId)
    expect(row).toMatchObject({
      state: 'loaded',
      loaded_edition: 1,
      loaded_rows: '6',
      loaded_sha256: 'abc',
      loaded_landing: 'here/1',
      landing: null,
      source_last_updated: '2026-02-03',
      source_count: '5',
      error_code: null,
      error_message: null,
      not_before: null,
      lease_owner: null,
      lease_until: null,
      released: false,
      forced: false,
    })
    expect(row.loaded_at).not.toBeNull()
    const { rows } = await db.database.pool.query('select * from etl.loads where unit_id = $1', [unitId])
    expect(rows).toMatchObject([
      {
        load_id: row.loaded_load_id,
        edition: 1,
        run_id: String(runId),
        outcome: 'loaded',
        landing: 'here/1',
        landing_sha256: 'abc',
        landing_bytes: '17',
        source_last_updated: '2026-02-03',
        source_count: '5',
        rows_read: '9',
        rows_inserted: '1',
        rows_updated: '2',
        rows_ended: '7',
        rows_unchanged: '3',
        rows_quarantined: '1',
        rows_duplicates: '2',
        drift: { unknownColumns: ['x'], missingColumns: [] },
        milliseconds: 12,
        report_key: null,
      },
    ])
    expect(await outcomeOf(db, runId, unitId)).toBe('loaded')
  })

  test('loaded: by the newest report of the edition', async () => {
    const unitId = await planned(db, runId, name())
    const claim = await claimed(db, runId, unitId)
    for (const submission of [1, 2])
      await sql`insert into etl.reports (unit_id, edition, submission, account, pipeline, endpoint, request_hash, request, state)
        values (${unitId}, 1, ${submission}, 'a', 'p', '/e', 'h', '{}', 'downloaded')`.execute(k())
    await markLoaded(k(), claim, loadedMark(runId))
    const { rows } = await db.database.pool.query(
      'select r.submission from etl.loads l join etl.reports r using (report_key) where l.unit_id = $1',
      [unitId],
    )
    expect(rows).toEqual([{ submission: 2 }])
  })

  test('counts that do not add up are refused by the ledger itself', async () => {
    const unitId = await planned(db, runId, name())
    const mark = loadedMark(runId)
    const wrong = markLoaded(k(), await claimed(db, runId, unitId), {
      ...mark,
      counts: { ...mark.counts, read: 10 },
      drift: null,
    })
    await expect(wrong).rejects.toThrow('check constraint')
    expect((await unitRow(db, unitId)).state).toBe('running')
  })

  test('unchanged: the loaded rows stay on record, with the moment they were seen to stand', async () => {
    const unitId = await planned(db, runId, name())
    await markLoaded(k(), await claimed(db, runId, unitId), loadedMark(runId))
    const loaded = await unitRow(db, unitId)
    await planned(db, runId, name(), { newEdition: true })
    const claim = await claimed(db, runId, unitId)
    await markLanded(k(), claim, { ...landing, landing: 'here/2' })
    const later = await newRun(db)
    await planned(db, later, name())
    await sql`update etl.units set error_code = 'X', error_message = 'y', released = true, forced = true, checked_at = null, not_before = now() where unit_id = ${unitId}`.execute(
      k(),
    )
    await markUnchanged(k(), claim, { runId: later, fingerprint: { lastUpdated: '2026-03-03', count: 6 } })
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'loaded',
      loaded_edition: 2,
      loaded_rows: '6',
      loaded_sha256: 'abc',
      loaded_landing: 'here/1',
      loaded_at: loaded.loaded_at,
      loaded_load_id: loaded.loaded_load_id,
      landing: null,
      source_last_updated: '2026-03-03',
      source_count: '6',
      error_code: null,
      error_message: null,
      not_before: null,
      lease_owner: null,
      lease_until: null,
      released: false,
      forced: false,
      checked_at: expect.any(String),
    })
    expect(await outcomeOf(db, later, unitId)).toBe('unchanged')
    const { rows } = await db.database.pool.query(`select * from etl.loads where unit_id = $1 and outcome = 'unchanged'`, [
      unitId,
    ])
    expect(rows).toMatchObject([
      { edition: 2, run_id: String(later), source_last_updated: '2026-03-03', source_count: '6', rows_read: '0' },
    ])
  })
})

describe('a landing', () => {
  test('is kept over a parked try, and dropped where it is no good', async () => {
    const unitId = await planned(db, runId, name())
    const claim = await claimed(db, runId, unitId)
    await markLanded(k(), claim, landing)
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'running',
      landing: 'here/1',
      landing_sha256: 'abc',
      landing_bytes: '17',
    })
    await parkUnit(k(), claim, parking)
    const again = await claimed(db, runId, unitId)
    expect(again.landing).toBe('here/1')
    await dropLanding(k(), again)
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'running',
      landing: null,
      landing_sha256: null,
      landing_bytes: null,
    })
  })

  test('tells how old the loaded answer is: loading it again later makes it no younger', async () => {
    const unitId = await planned(db, runId, name())
    const claim = await claimed(db, runId, unitId)
    await markLanded(k(), claim, landing)
    await markLoaded(k(), claim, loadedMark(runId))
    await sql`update etl.units set checked_at = '2026-02-05T00:00:00Z' where unit_id = ${unitId}`.execute(k())
    await reopenLanded(k(), runId, [unitId])
    await markLoaded(k(), await claimed(db, runId, unitId), loadedMark(runId))
    const found = (await existingUnits(k(), 'traffic', 1)).find((one) => one.unitId === unitId)
    expect(found).toMatchObject({
      state: 'loaded',
      loadedAtMs: Date.parse('2026-02-05T00:00:00Z'),
      landing: 'here/1',
      errorCode: null,
      edition: 1,
    })
  })

  test("of a report is as old as the report's submission", async () => {
    const unitId = await planned(db, runId, name())
    const claim = await claimed(db, runId, unitId)
    await memo(claim).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null })
    await memo(claim).submitted(`r${unitId}`, 'pending')
    await sql`update etl.reports set submitted_at = '2026-02-09T10:00:00Z' where unit_id = ${unitId}`.execute(k())
    await memo(claim).ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 })
    await markLanded(k(), claim, landing)
    expect((await unitRow(db, unitId)).checked_at).toBe('2026-02-09T10:00:00Z')
  })

  test('marks no report of another unit or edition, and is as old as the newest submission', async () => {
    const bought = async (unitName: string, at: string, edition = 1): Promise<ClaimedUnit> => {
      const one = { ...(await claimed(db, runId, await planned(db, runId, unitName))), edition }
      await memo(one).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null })
      await memo(one).submitted(`r-${unitName}-${edition}`, 'pending')
      await memo(one).ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 })
      await sql`update etl.reports set submitted_at = ${at} where unit_id = ${one.unitId} and edition = ${edition}`.execute(k())
      return one
    }
    const other = await bought(`other${name()}`, '2026-03-09T10:00:00Z')
    await bought(name(), '2026-03-08T10:00:00Z', 7)
    const claim = await bought(name(), '2026-02-09T10:00:00Z')
    await sql`update etl.reports set state = 'expired' where unit_id = ${claim.unitId} and edition = 1`.execute(k())
    await memo(claim).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null })
    await memo(claim).submitted(`second-${count}`, 'pending')
    await memo(claim).ready({ statusWord: 'done', usedQuota: 1, dataPoints: 1 })
    await sql`update etl.reports set submitted_at = '2026-02-10T10:00:00Z' where unit_id = ${claim.unitId} and edition = 1 and submission = 2`.execute(
      k(),
    )
    await markLanded(k(), claim, landing)
    expect((await unitRow(db, claim.unitId)).checked_at).toBe('2026-02-10T10:00:00Z')
    expect(await memo(claim).current()).toMatchObject({ state: 'downloaded' })
    expect(await memo(other).current()).toMatchObject({ state: 'ready' })
    expect(await memo({ ...claim, edition: 7 }).current()).toMatchObject({ state: 'ready' })
  })

  test('of another version or pipeline is not among those of this one', async () => {
    const unitId = await planned(db, runId, name())
    await sql`update etl.units set version = 9, pipeline = ${`only${count}`} where unit_id = ${unitId}`.execute(k())
    expect((await existingUnits(k(), `only${count}`, 9)).map((one) => one.unitId)).toEqual([unitId])
    expect(await existingUnits(k(), `only${count}`, 1)).toEqual([])
    expect(await existingUnits(k(), 'traffic', 9)).toEqual([])
  })

  test('that was never made cannot be opened again', async () => {
    const claim = await unitIn('failed', null)
    expect(await reopenLanded(k(), runId, [claim.unitId])).toEqual([])
  })

  test('is not opened again over a report of a newer edition that is still to come', async () => {
    const unitId = await planned(db, runId, name())
    await markLoaded(k(), await claimed(db, runId, unitId), loadedMark(runId))
    await planned(db, runId, name(), { newEdition: true })
    const claim = await claimed(db, runId, unitId)
    await memo(claim).intend({ endpoint: '/e', request: {}, requestHash: 'h', estimatedQuota: null })
    await memo(claim).uncertain('lost')
    await holdUnit(k(), claim, reason)
    expect(await reopenLanded(k(), runId, [unitId])).toEqual([])
    expect((await unitRow(db, unitId)).state).toBe('held')
  })

  test('is opened again for the run that asks, to be loaded whatever it holds', async () => {
    const unitId = await planned(db, runId, name())
    await markLoaded(k(), await claimed(db, runId, unitId), loadedMark(runId))
    await sql`update etl.units set attempts = 4, not_before = now() where unit_id = ${unitId}`.execute(k())
    const later = await newRun(db)
    expect(await reopenLanded(k(), later, [unitId])).toEqual([{ unitId }])
    expect(await reopenLanded(k(), later, [unitId])).toEqual([{ unitId }])
    expect(await unitRow(db, unitId)).toMatchObject({
      state: 'landed',
      landing: 'here/1',
      forced: true,
      attempts: 0,
      not_before: null,
      run_id: String(later),
      edition: 1,
    })
    expect(await openUnits(k(), later)).toEqual({ count: 1, cancelled: false })
  })
})

describe('a held unit', () => {
  test('goes on where a person lets it, from its landing where it has one, with all its tries', async () => {
    const fresh = await unitIn('held', null)
    await sql`update etl.units set attempts = 3 where unit_id = ${fresh.unitId}`.execute(k())
    expect(await releaseHeld(k(), [fresh.unitId])).toEqual([fresh.unitId])
    expect(await unitRow(db, fresh.unitId)).toMatchObject({ state: 'planned', released: true, attempts: 0 })
    count += 1
    const landed = await unitIn('held', 'here/1')
    expect(await releaseHeld(k(), [fresh.unitId, landed.unitId])).toEqual([landed.unitId])
    expect(await unitRow(db, landed.unitId)).toMatchObject({ state: 'landed', released: true })
    expect((await claimed(db, runId, landed.unitId)).released).toBe(true)
  })
})

describe('a cancelled run', () => {
  test('gives back what nobody holds, and nothing of other runs, at hand, or answered for', async () => {
    const states = ['waiting', 'planned', 'running', 'held', 'landed'] as const
    const ids: Record<string, number> = {}
    for (const state of states) {
      count += 1
      ids[state] = (await unitIn(state)).unitId
    }
    const answered = (
      await (async () => {
        count += 1
        return unitIn('waiting')
      })()
    ).unitId
    await sql`update etl.run_units set outcome = 'waiting' where unit_id = ${answered}`.execute(k())
    const mine = runId
    runId = await newRun(db)
    count += 1
    const others = (await unitIn('waiting')).unitId
    expect(await unitsAtHand(k(), mine)).toBe(1)
    expect(await returnRunUnits(k(), mine)).toBe(2)
    for (const state of states) expect((await unitRow(db, ids[state] ?? 0)).state).toBe(state === 'waiting' ? 'planned' : state)
    expect((await unitRow(db, answered)).state).toBe('waiting')
    expect((await unitRow(db, others)).state).toBe('waiting')
    await requestCancel(k(), mine)
    expect(await openUnits(k(), mine)).toEqual({ count: 5, cancelled: true })
  })
})

describe('what a person did', () => {
  const noted = async () =>
    (await db.database.pool.query('select kind, unit_id, run_id, message from etl.events order by event_id desc limit 1')).rows[0]
  const events = async (): Promise<number> => (await db.database.pool.query('select 1 from etl.events')).rows.length

  test('is on record: a unit released, once', async () => {
    const { unitId } = await unitIn('held')
    expect(await releaseByPerson(k(), unitId, 'status page')).toBe(true)
    expect(await noted()).toEqual({
      kind: 'released',
      unit_id: String(unitId),
      run_id: null,
      message: `Unit ${unitId} was released by a person (status page).`,
    })
    const before = await events()
    expect(await releaseByPerson(k(), unitId, 'status page')).toBe(false)
    expect(await events()).toBe(before)
  })

  test('is on record: a unit planned again, once, with all its tries, from its landing where it has one', async () => {
    const { unitId } = await unitIn('failed', null)
    await sql`update etl.units set attempts = 3, not_before = now() where unit_id = ${unitId}`.execute(k())
    expect(await retryByPerson(k(), unitId, 'status page')).toBe(true)
    expect(await unitRow(db, unitId)).toMatchObject({ state: 'planned', attempts: 0, not_before: null })
    expect(await noted()).toEqual({
      kind: 'retried',
      unit_id: String(unitId),
      run_id: null,
      message: `Unit ${unitId} was planned again by a person (status page).`,
    })
    const before = await events()
    expect(await retryByPerson(k(), unitId, 'status page')).toBe(false)
    expect(await events()).toBe(before)
    count += 1
    const landed = await unitIn('failed', 'here/1')
    await retryByPerson(k(), landed.unitId, 'x')
    expect((await unitRow(db, landed.unitId)).state).toBe('landed')
  })

  test('is on record: a run cancelled', async () => {
    await noteCancel(k(), runId, 'command line')
    expect(await noted()).toEqual({
      kind: 'cancelled',
      unit_id: null,
      run_id: String(runId),
      message: `Run ${runId} was cancelled by a person (command line).`,
    })
  })
})
