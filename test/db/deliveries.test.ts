// How alarms leave: one message for one cause, by one process, never twice for one fact, later where the receiver is away or wants to be left alone.
import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Cause } from '../../src/core/alarm.ts'
import {
  deliverDue,
  deliverNext,
  type ReceiverTraits,
  type Transport,
  settleInterrupted,
  syncNotifications,
  type Alarm,
} from '../../src/ledger/deliveries.ts'
import { endLease, takeLease, claimInterval } from '../../src/ledger/processes.ts'
import { newProcess } from '../support/ledger.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

beforeEach(async () => {
  await sql`truncate etl.notifications, etl.deliveries`.execute(k())
})

const k = () => db.database.kysely

const person: ReceiverTraits = { name: 'person', grouped: true, repeatable: false }
const machine: ReceiverTraits = { name: 'machine', grouped: false, repeatable: true }
const everybody = [person, machine]

const failure = (pipeline: string, more: Partial<Cause> = {}): Cause => ({
  cause: `failure/${pipeline}`,
  kind: 'failure',
  pipeline,
  grouping: 'KEY_REFUSED',
  message: `${pipeline} failed`,
  details: {},
  ...more,
})
const sync = (causes: readonly Cause[], targets: readonly string[] = ['person']): Promise<void> =>
  syncNotifications(k(), causes, () => targets, ['person', 'machine'])

/** Delivers what is due; what was sent. */
const deliver = async (answer: string | null = null, waitMs: Transport['waitMs'] = () => 0): Promise<Alarm[]> => {
  const sent: Alarm[] = []
  const send = async (alarm: Alarm): Promise<string | null> => {
    sent.push(alarm)
    return answer
  }
  while (await deliverNext(k(), everybody, { waitMs, send }));
  return sent
}
const shown = (all: readonly Alarm[]) =>
  all.map(({ target, event, causes }) => [target, event, causes.map(({ pipeline }) => pipeline).sort()])
const outcomes = async () =>
  (
    await k()
      .selectFrom('etl.deliveries')
      .select(['target', 'event', 'outcome', 'attempts'])
      .orderBy('notification_id')
      .orderBy('target')
      .orderBy('event')
      .execute()
  ).map(({ target, event, outcome, attempts }) => [target, event, outcome, attempts])
const dueAgain = () => sql`update etl.deliveries set next_at = clock_timestamp()`.execute(k())

test('one cause in several pipelines is one message for people and one each for machines', async () => {
  await sync([failure('a'), failure('b'), failure('c', { grouping: 'BAD_RESPONSE' }), failure('d')], ['person', 'machine'])
  const sent = await deliver()
  expect(shown(sent).filter(([target]) => target === 'person')).toEqual([
    ['person', 'raised', ['a', 'b', 'd']],
    ['person', 'raised', ['c']],
  ])
  expect(shown(sent).filter(([target]) => target === 'machine')).toHaveLength(4)
  expect(await deliver()).toEqual([])
})

test('what is over is told once, after it was told that it began', async () => {
  await sync([failure('a')])
  expect(shown(await deliver('HTTP 500'))).toEqual([['person', 'raised', ['a']]])
  await sync([])
  expect(await deliver()).toEqual([])
  await dueAgain()
  expect(shown(await deliver())).toEqual([
    ['person', 'raised', ['a']],
    ['person', 'resolved', ['a']],
  ])
  await sync([])
  expect(await deliver()).toEqual([])
})

test('a receiver that refuses is tried again later and given up after twelve tries, and hears no end of what it never heard', async () => {
  await sync([failure('a')])
  for (let times = 1; times <= 12; times += 1) {
    expect(await deliver('HTTP 500'), `try ${times}`).toHaveLength(1)
    expect(await deliver('HTTP 500'), `right after try ${times}`).toEqual([])
    await dueAgain()
  }
  expect(await deliver('HTTP 500')).toEqual([])
  expect(await outcomes()).toEqual([['person', 'raised', 'given up', 12]])
  await sync([])
  expect(await deliver()).toEqual([])
})

test('in quiet hours a message waits, what is critical goes, and what is over by then is not told', async () => {
  const night: Transport['waitMs'] = (_, severity) => (severity === 'critical' ? 0 : 3_600_000)
  await sync([failure('a'), failure('b'), failure('c', { severity: 'critical' })])
  expect(shown(await deliver(null, night))).toEqual([['person', 'raised', ['c']]])
  await sync([failure('b'), failure('c', { severity: 'critical' })])
  expect(await deliver(null, night)).toEqual([])
  await dueAgain()
  expect(shown(await deliver())).toEqual([['person', 'raised', ['b']]])
  expect(await outcomes()).toEqual([
    ['person', 'raised', 'not needed', 0],
    ['person', 'raised', 'sent', 1],
    ['person', 'raised', 'sent', 1],
  ])
})

test('a sender that ends in the middle: who tells a repetition is told again, who cannot is not', async () => {
  await sync([failure('a')], ['person', 'machine'])
  const killed = new Error('killed')
  const die = deliverNext(k(), everybody, {
    waitMs: () => 0,
    send: () => Promise.reject(killed),
  })
  await expect(die).rejects.toThrow(killed)
  await expect(deliverNext(k(), everybody, { waitMs: () => 0, send: () => Promise.reject(killed) })).rejects.toThrow(killed)
  // Nobody takes what another one may be sending.
  expect(await deliver()).toEqual([])
  await settleInterrupted(k(), everybody)
  expect(shown(await deliver())).toEqual([['machine', 'raised', ['a']]])
  expect(await outcomes()).toEqual([
    ['machine', 'raised', 'sent', 1],
    ['person', 'raised', 'uncertain', 0],
  ])
  // Its end is told all the same: the beginning may have arrived.
  await sync([])
  expect(
    shown(await deliver())
      .map(([target]) => target)
      .sort(),
  ).toEqual(['machine', 'person'])
})

test('a lease is for one process at a time, until it ends, dies or lets go', async () => {
  const [one, other] = [await newProcess(db), await newProcess(db)]
  expect(await takeLease(k(), 'x', one, 60)).toBe(true)
  expect(await takeLease(k(), 'x', one, 60)).toBe(true)
  expect(await takeLease(k(), 'x', other, 60)).toBe(false)
  await endLease(k(), 'x', other)
  expect(await takeLease(k(), 'x', other, 60)).toBe(false)
  await endLease(k(), 'x', one)
  expect(await takeLease(k(), 'x', other, 60)).toBe(true)
  await sql`update etl.processes set lease_until = clock_timestamp() - interval '1 second' where process_id = ${other.processId}`.execute(
    k(),
  )
  expect(await takeLease(k(), 'x', one, 60)).toBe(true)
  await sql`update etl.locks set held_until = clock_timestamp() where name = 'x'`.execute(k())
  expect(await takeLease(k(), 'x', await newProcess(db), 60)).toBe(true)
})

test('a turn comes once in its time, whoever takes it', async () => {
  const [one, other] = [await newProcess(db), await newProcess(db)]
  expect(await claimInterval(k(), 'y', one, 60)).toBe(true)
  expect(await claimInterval(k(), 'y', one, 60)).toBe(false)
  expect(await claimInterval(k(), 'y', other, 60)).toBe(false)
  await sql`update etl.locks set held_until = clock_timestamp() where name = 'y'`.execute(k())
  expect(await claimInterval(k(), 'y', other, 60)).toBe(true)
})

test('a receiver that does not answer costs one try a pass, and the others get theirs', async () => {
  await sync(
    Array.from({ length: 4 }, (_, index) => failure(`p${index}`, { grouping: null })),
    ['person', 'machine'],
  )
  let ms = 0
  const tried: string[] = []
  const pass = () =>
    deliverDue(
      k(),
      everybody,
      {
        waitMs: () => 0,
        send: async ({ target }) => {
          tried.push(target)
          if (target === 'person') return null
          ms += 10_000
          return 'no answer'
        },
      },
      async () => true,
      () => ms,
    )
  await pass()
  expect(tried.toSorted()).toEqual(['machine', 'person', 'person', 'person', 'person'])
  // The next pass begins with those that were not tried yet.
  await pass()
  expect(tried).toHaveLength(6)
  expect((await outcomes()).filter(([target, , , attempts]) => target === 'machine' && attempts === 1)).toHaveLength(2)
})
