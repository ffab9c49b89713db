// Answers of odd units, loaded, killed, raced, released, retried and replayed in every order, and rows that somebody changes between, against rules worked out in memory.
import fc from 'fast-check'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import { openDatabase } from '../../src/db/connect.ts'
import { createOwnDatabase } from '../storm/own-database.ts'
import { installedVersions, startInstalled } from '../support/installed-server.ts'
import { mostVisits, type OracleAnswer, type OracleHand, type OracleRecord } from '../support/load-oracle.ts'
import { oracleUnits as units, play, type Step } from '../support/oracle-world.ts'
import { asTestDatabase, createTestDatabase, type TestDatabase } from '../support/postgres.ts'

/** `LOAD_ORACLE_RUNS=200` tries so many of each: seven answers and more in one, so that the usual number loads 500. */
const runs = (usual: number): number => Number(process.env['LOAD_ORACLE_RUNS'] ?? usual)
const limitMs = 300_000 + runs(0) * 10_000

/** Of the usual number where the server is not the one that all tests have. */
const sample = 3

const days = [1, 2, 3, 4]
const sizes = [1_000, 300_000, 2_000_000]

const whole = (visits: number, unit: string): OracleRecord[] => {
  const [month = '', domain = ''] = unit.split(' ')
  return days.map((day) => ({ month, domain, day, visits, bad: null }))
}

const nullOr = (most: number): fc.Arbitrary<number | null> =>
  fc.oneof({ arbitrary: fc.constant(null), weight: 2 }, fc.integer({ min: 1, max: most }))
const kill = nullOr(30)

const record = (unit: string): fc.Arbitrary<OracleRecord> => {
  const [month = '', domain = ''] = unit.split(' ')
  return fc.record({
    month: fc.constant(month),
    domain: fc.constant(domain),
    day: fc.constantFrom(...days),
    visits: fc.constantFrom(1, 2, 1, 2, 1, 2, 1, 2, mostVisits + 1),
    bad: fc.constantFrom(null, null, null, null, 'cell' as const),
  })
}

const oneUnit = (unit: string): fc.Arbitrary<readonly OracleRecord[]> =>
  fc.oneof(
    { arbitrary: fc.constant(whole(1, unit)), weight: 2 },
    { arbitrary: fc.constant([]), weight: 1 },
    // The same records twice.
    { arbitrary: fc.constant([...whole(2, unit), ...whole(2, unit).slice(2)]), weight: 1 },
    { arbitrary: fc.array(record(unit), { maxLength: 6 }), weight: 4 },
  )

const covered = [units, units.slice(0, 3), units.slice(3), [units[1] ?? ''], [units[0] ?? '', units[3] ?? '']]

const answer = (place: number): fc.Arbitrary<OracleAnswer> =>
  fc
    .record({
      covered: fc.constantFrom(...covered),
      unknown: fc.constantFrom(null, null, null, null, 'stray' as const, 'undated' as const),
      bytes: fc.constantFrom(...sizes),
    })
    .chain(({ covered: own, unknown, bytes }) => {
      const [month = '', domain = ''] = own[0]?.split(' ') ?? []
      const stray = { month, domain: unknown === 'stray' ? 'x' : domain, day: 1, visits: 1, bad: unknown }
      return fc.tuple(...own.map(oneUnit)).map((records) => ({
        name: `n${place}`,
        ask: place,
        units: own,
        bytes,
        records: [...records.flat(), ...(unknown === null ? [] : [stray])],
      }))
    })

const hand: fc.Arbitrary<OracleHand> = fc.oneof(
  fc.record({
    what: fc.constantFrom('change' as const, 'delete' as const),
    unit: fc.constantFrom(...units),
    day: fc.constantFrom(...days),
  }),
  fc.record({
    what: fc.constant('put' as const),
    unit: fc.constantFrom(...units),
    day: fc.constantFrom(4, 5),
    number: fc.constantFrom(...units, '-'),
  }),
)

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constant('load' as const), answer: fc.nat(3), kill }),
  fc.record({ kind: fc.constant('race' as const), answers: fc.tuple(fc.nat(3), fc.nat(3)) }),
  fc.record({ kind: fc.constant('replay' as const), answer: fc.nat(3), part: fc.boolean(), kill }),
  fc.record({ kind: fc.constant('release' as const), unit: fc.nat(5) }),
  fc.record({ kind: fc.constant('retry' as const), isMended: fc.boolean() }),
  { arbitrary: fc.record({ kind: fc.constant('hand' as const), hand }), weight: 3 },
)

const servers = ['of the tests', ...installedVersions()]

describe.each(servers)('on PostgreSQL %s', (server) => {
  let db: TestDatabase
  const isOwn = server === 'of the tests'
  let remove = (): void => undefined
  beforeAll(async () => {
    if (isOwn) db = await createTestDatabase()
    else {
      const installed = await startInstalled(server)
      remove = installed.remove
      const { url, close } = await createOwnDatabase(installed.url, 'oracle')
      await close()
      const database = await openDatabase({ databaseUrl: secret('test database', url), home: '/nowhere' })
      db = asTestDatabase({ url, database, drop: () => database.close() })
    }
  })
  afterAll(async () => {
    await db.drop()
    remove()
  })

  const [shrunk = '', emptied = '', rejected = '', newer = '', fine = '', last = ''] = units
  const base: OracleAnswer = { name: 'base', ask: 1, units, bytes: 1_000, records: units.flatMap((unit) => whole(1, unit)) }
  const odd: OracleAnswer = {
    name: 'odd',
    ask: 2,
    units,
    bytes: 1_000,
    records: [
      ...whole(2, shrunk).slice(0, 1),
      ...whole(2, rejected).map((one) => ({ ...one, bad: 'cell' as const })),
      ...whole(2, newer),
      ...whole(2, fine).slice(0, 3),
      ...whole(2, last),
    ],
  }
  const withStray: OracleAnswer = {
    ...odd,
    records: [...odd.records, { month: '2026-01', domain: 'x', day: 4, visits: 2, bad: 'stray' }],
  }
  // What a process learns of its server with its first statement is learned again where that statement failed.
  const firstStatementKilled: [[OracleAnswer, OracleAnswer, OracleAnswer, OracleAnswer], number[], Step[], Step[]] = [
    [base, { ...base, name: 'n2', ask: 2 }, { ...base, name: 'n3', ask: 3 }, { ...base, name: 'n4', ask: 4 }],
    [0, 1, 2, 3],
    [{ kind: 'load', answer: 0, kill: 1 }],
    [{ kind: 'replay', answer: 1, part: false, kill: null }],
  ]
  const late: OracleAnswer = { name: 'late', ask: 3, units: [newer], bytes: 1_000, records: whole(3, newer) }
  const steps: readonly Step[] = [
    { kind: 'release', unit: units.indexOf(shrunk) },
    { kind: 'release', unit: units.indexOf(emptied) },
    { kind: 'retry', isMended: false },
    { kind: 'retry', isMended: true },
    { kind: 'replay', answer: 1, part: false, kill: null },
    { kind: 'replay', answer: 0, part: false, kill: null },
  ]

  test.each([
    ['with a record that is nobody’s', withStray],
    ['without', odd],
  ])(
    'a packed answer with a shrunk, an emptied, a rejected and an already newer unit, %s: each has its due, then release, retry and replay come in any order',
    async (_, packed) => {
      await fc.assert(
        fc.asyncProperty(
          fc.shuffledSubarray([...steps], { minLength: steps.length }),
          fc.shuffledSubarray([0, 1, 2], { minLength: 3 }),
          async (order, loads) => {
            const loading = loads.map((place): Step => ({ kind: 'load', answer: place, kill: null }))
            await play(db, [base, packed, late], [...loading, ...order])
          },
        ),
        { numRuns: runs(isOwn ? 6 : 6 / sample), seed: 14 },
      )
    },
    limitMs,
  )

  test(
    'answers of any kind, loaded, killed, raced, released, retried and replayed in any order, leave what the rules say',
    async () => {
      const all = (loads: readonly number[]): Step[] => loads.map((place): Step => ({ kind: 'load', answer: place, kill: null }))
      await fc.assert(
        fc.asyncProperty(
          fc.tuple(answer(1), answer(2), answer(3), answer(4)),
          fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
          fc.array(step, { minLength: 1, maxLength: 6 }),
          fc.array(step, { minLength: 1, maxLength: 8 }),
          (answers, loads, before, after) => play(db, answers, [...before, ...all(loads), ...after]),
        ),
        { numRuns: runs(isOwn ? 72 : 72 / sample), seed: 41, examples: [firstStatementKilled] },
      )
    },
    limitMs,
  )
})
