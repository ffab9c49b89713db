// What a person decides while a night is still planned: nothing is held that nobody can approve, and nothing is bought that was not held then.
import type { Kysely } from 'kysely'
import { expect, test } from 'vitest'
import type { Tables } from '../../src/db/tables.ts'
import { approve } from '../../src/ledger/approvals.ts'
import { pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, sourceOf } from '../support/planning.ts'
import { testDatabase, type TestDatabase } from '../support/postgres.ts'

const db = testDatabase()

const due = { mode: 'due' } as const

/** One step of planning holds 50,000 units: these months of 4,200 values take two. */
const firstMonth = new Date(Date.UTC(new Date().getUTCFullYear(), new Date().getUTCMonth() - 15, 1)).toISOString().slice(0, 10)
const planning = (count: number): Planning => {
  const source = sourceOf({ kind: 'report', price: 1 })
  const domains = Array.from({ length: count }, (_, index) => `d${index}.com`)
  return {
    source,
    definition: {
      ...definitionFor(source, { domains }, { from: firstMonth }),
      guard: { creditsPerNight: null, factor: 2 },
    },
  }
}

/** The database, but that `after` happens once between two transactions of whoever plans with it. */
const interrupted = (after: () => Promise<boolean>): TestDatabase => {
  let isDone = false
  const { kysely } = db.database
  const between = new Proxy(kysely, {
    get: (target, name) => {
      if (name !== 'transaction') {
        const value: unknown = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      }
      return () => ({
        execute: async (work: Parameters<ReturnType<Kysely<Tables>['transaction']>['execute']>[0]) => {
          const result = await target.transaction().execute(work)
          if (!isDone) isDone = await after()
          return result
        },
      })
    },
  })
  return { ...db, database: { ...db.database, kysely: between } }
}

/** Jobs that are only a plan, by what they wait for. */
const plans = async ({ definition }: Planning): Promise<Record<string, number>> => {
  const rows = await db.query<{ state: string; units: number }>(
    `select j.guard || ', ' || coalesce(a.state, 'no approval') as state, sum(j.cells)::int as units
     from etl.jobs j left join etl.approvals a using (approval_id)
     where j.pipeline_id = $1 and j.ask_number is null group by 1`,
    [await pipelineIdOf(db, definition)],
  )
  return Object.fromEntries(rows.map(({ state, units }) => [state, units]))
}

/** Reports of it wait for a person. */
const isClaimedBy = async ({ definition }: Planning): Promise<boolean> => {
  const rows = await db.query(
    `select from etl.jobs join etl.pipelines using (pipeline_id) where pipeline = $1 and guard = 'needs approval' limit 1`,
    [definition.pipeline],
  )
  return rows.length > 0
}

const waitingOf = async ({ definition }: Planning): Promise<number> => {
  const rows = await db.query<{ n: number }>(
    `select coalesce(sum(units), 0)::int as n from etl.approvals join etl.pipelines using (pipeline_id)
     where pipeline = $1 and etl.approvals.state = 'waiting'`,
    [definition.pipeline],
  )
  return rows[0]?.n ?? 0
}

test('approving before anything is held approves nothing, and all of it waits', async () => {
  const night = planning(4)
  await plan(
    interrupted(async () => {
      if (await isClaimedBy(night)) return true
      expect(await approve(db.database.kysely, [night.definition.pipeline], 'ada')).toEqual([])
      return false
    }),
    night,
    due,
  )
  const held = await plans(night)
  expect(Object.keys(held).toSorted()).toEqual(['needs approval, waiting', 'usual, no approval'])
  expect(await waitingOf(night)).toBe(held['needs approval, waiting'])
})

test('what is approved in the middle of planning is what was held by then; the rest waits for a word of its own', async () => {
  const night = planning(4_200)
  let approved = 0
  await plan(
    interrupted(async () => {
      if (!(await isClaimedBy(night))) return false
      for (const { units } of await approve(db.database.kysely, [night.definition.pipeline], 'ada')) approved += units
      return true
    }),
    night,
    due,
  )
  const held = await plans(night)
  expect(approved).toBeGreaterThan(0)
  expect(held['usual, approved']).toBe(approved)
  expect(held['needs approval, waiting']).toBe(await waitingOf(night))
  expect(Object.keys(held).toSorted()).toEqual(['needs approval, waiting', 'usual, approved', 'usual, no approval'])
  const [rest] = await approve(db.database.kysely, [night.definition.pipeline], 'ada')
  expect(rest?.units).toBe(held['needs approval, waiting'])
})
