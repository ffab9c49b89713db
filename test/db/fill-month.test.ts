// An empty month is filled before it is keyed and attached: the same outcome as the long way, all of it or nothing.
import fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition, Window } from '../../src/core/types.ts'
import { addWindows, windowAt } from '../../src/core/window.ts'
import { type Session, withSession } from '../../src/db/session.ts'
import type { MergeResult } from '../../src/load/merge-context.ts'
import { emptyMonthOf, ensurePartitions } from '../../src/load/partition.ts'
import { openStaging } from '../../src/load/staging.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { inCountry, mergeRows, trafficRow } from '../support/merging.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

let db: TestDatabase
let definition: Definition
let box: Box
let month: Window
let monthsUsed = 0

const table = 'data.traffic_and_engagement_v1'
const domains = ['a.com', 'b.com', 'c.com', 'd.com']

beforeAll(async () => {
  db = await createTestDatabase()
  definition = await shippedDefinition('traffic_and_engagement')
})
afterAll(() => db.drop())
beforeEach(() => nextMonth())

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows

/** A month nobody has touched: processes remember the partitions they have seen. */
const nextMonth = async (): Promise<void> => {
  month = windowAt(addWindows('2001-01-01', 'month', monthsUsed), 'month')
  monthsUsed += 1
  box = boxOf(definition, month.from.slice(0, 7), { domain: domains, country: 'us' })
  await query(`truncate ${table}, ${table}_history`)
}

const partition = (): string => `${table}_p${month.from.slice(0, 7).replace('-', '')}`

type Way = 'filled' | 'long'

interface Options {
  readonly way: Way
  readonly of?: Box
  readonly during?: (session: Session) => Promise<void>
}

const load = (rows: readonly string[], { way, of = box, during }: Options): Promise<MergeResult> =>
  mergeRows(db, definition, of, rows, {
    emptyMonth: way === 'filled' ? month : null,
    ...(during === undefined ? {} : { during }),
  })

const row = (domain: string, visits: number | null): string =>
  trafficRow(domain, visits === null ? '\\N' : String(visits), month.from)

const columns = 'domain, country, all_traffic_visits, mobile_visits, _unit_id, _run_id, _revision'

/** Everything a reader or a later load can tell apart, but for times. */
const stateNow = async () => ({
  rows: await query(`select ${columns} from ${table} order by domain`),
  history: await query(`select ${columns} from ${table}_history order by domain, _revision`),
  constraints: await query(`select conname, contype, pg_get_constraintdef(oid) as definition from pg_constraint
    where conrelid = '${partition()}'::regclass order by conname`),
  indexes:
    await query(`select i.indexrelid::regclass::text as index, i.indisvalid, h.inhparent::regclass::text as parent from pg_index i
    left join pg_inherits h on h.inhrelid = i.indexrelid where i.indrelid = '${partition()}'::regclass order by 1`),
  bounds: await query(`select pg_get_expr(relpartbound, oid) as bound from pg_class where oid = '${partition()}'::regclass`),
})

const answers = fc.array(fc.tuple(fc.constantFrom(...domains), fc.constantFrom(1, 2, null)), { minLength: 1, maxLength: 8 })

describe('an empty month', () => {
  test('filled before it is keyed equals one that was keyed first, duplicates, conflicts and later history included', async () => {
    await fc.assert(
      fc.asyncProperty(answers, answers, async (first, second) => {
        const rowsOf = (answer: typeof first) => answer.map(([domain, visits]) => row(domain, visits))
        const outcome = async (way: Way) => {
          await nextMonth()
          const counts = [await load(rowsOf(first), { way }), await load(rowsOf(second), { way: 'long' })]
          const told = counts.map(({ loadedAt: _, ...counted }) => counted)
          return JSON.stringify({ told, ...(await stateNow()) })
            .replaceAll(partition(), 'month')
            .replaceAll(month.from, 'from')
            .replaceAll(month.to, 'to')
            .replaceAll(partition().slice('data.'.length), 'month')
        }
        expect(await outcome('filled')).toEqual(await outcome('long'))
      }),
      { numRuns: 25, seed: 6 },
    )
  })

  test('is seen whole or not at all', async () => {
    const seen = async (): Promise<unknown> => (await query(`select count(*)::int as n from ${table}`))[0]?.['n']
    await load(
      domains.map((domain) => row(domain, 1)),
      {
        way: 'filled',
        during: async () => expect(await seen()).toBe(0),
      },
    )
    expect(await seen()).toBe(4)
  })

  test('leaves nothing behind when its connection is killed after the attach, and is filled by the next try', async () => {
    const killed = load([row('a.com', 1)], {
      way: 'filled',
      during: async ({ client }) => {
        const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
        await query(`select pg_terminate_backend(${rows[0]?.pid}, 10000)`)
      },
    })
    await expect(killed).rejects.toThrow()
    expect(await query(`select to_regclass('${partition()}')::text as name`)).toEqual([{ name: null }])
    expect(await load([row('a.com', 1)], { way: 'filled' })).toMatchObject({ inserted: 1 })
    expect(await query(`select domain from ${table}`)).toEqual([{ domain: 'a.com' }])
  })

  test('is filled by one of two units that want it at once; the other goes the long way', async () => {
    const british = boxOf(definition, month.from.slice(0, 7), { domain: domains, country: 'gb' })
    const results = await Promise.all([
      load([row('a.com', 1)], { way: 'filled' }),
      load(inCountry('gb', [row('a.com', 2)]), { way: 'filled', of: british }),
    ])
    expect(results.map(({ inserted }) => inserted)).toEqual([1, 1])
    expect(await query(`select country, all_traffic_visits as v from ${table} order by country`)).toEqual([
      { country: 'gb', v: '2' },
      { country: 'us', v: '1' },
    ])
  })

  test('is one only for many rows of exactly one month whose partition is not there', async () => {
    await withSession(db.database.pool, async (session) => {
      expect(await emptyMonthOf(session, definition, box.window, 4_999)).toBeNull()
      expect(await emptyMonthOf(session, definition, box.window, 5_000)).toEqual(month)
      await ensurePartitions(session, definition, box.window)
      expect(await emptyMonthOf(session, definition, box.window, 5_000)).toBeNull()
    })
  })
})

describe('a staging table', () => {
  test('is held by one session at a time, and left empty for the next, also by one that was killed', async () => {
    const names = await withSession(db.database.pool, async (one) =>
      withSession(db.database.pool, async (two) => {
        const stagings = [openStaging(one, definition), openStaging(two, definition)]
        for (const staging of stagings) await staging.flush()
        return stagings.map((staging) => staging.table)
      }),
    )
    expect(new Set(names).size).toBe(2)
    const killed = withSession(db.database.pool, async (session) => {
      const staging = openStaging(session, definition)
      await staging.write({ copy: Buffer.from(`${row('a.com', 1)}\n`), rows: 1 })
      await staging.flush()
      throw new Error('killed')
    })
    await expect(killed).rejects.toThrow('killed')
    const left = await withSession(db.database.pool, async (session) => {
      const staging = openStaging(session, definition)
      await staging.flush()
      const { rows } = await session.client.query(`select 1 from ${staging.table}`)
      return rows.length
    })
    expect(left).toBe(0)
  })
})
