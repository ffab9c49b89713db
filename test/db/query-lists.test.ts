// Lists from SQL: read as a reader, remembered with the run, held where they are empty or much shorter than before.
import { sql } from 'kysely'
import { beforeEach, beforeAll, expect, test } from 'vitest'
import { causesInLedger } from '../../src/ledger/causes.ts'
import { approveLists, heldLists } from '../../src/ledger/lists.ts'
import { grantReader } from '../../src/publish/publish.ts'
import type { Definition } from '../../src/core/types.ts'
import { checkScope } from '../../src/plan/frames.ts'
import { planRun } from '../../src/plan/plan-run.ts'
import { previewLists } from '../../src/plan/query-lists.ts'
import { plan, type Planning, preview, previewAll, runtimeFor, sourceOf } from '../support/planning.ts'
import { newRun } from '../support/ledger.ts'
import { testDatabase } from '../support/postgres.ts'
import { definitionOf } from '../unit/plan/definition.ts'

const db = testDatabase()
let count = 0
let planning: Planning
const due = { mode: 'due' } as const
const k = () => db.database.kysely

beforeAll(async () => {
  await sql`create table bi.clients (domain text, active boolean default true)`.execute(k())
  await db.database.kysely.transaction().execute((trx) => grantReader(trx))
})

const definitionWith = (query: string, timeoutMs = 5_000): Definition => ({
  ...definitionOf([{ name: 'domain', values: [], bucket: null, file: null, query: { sql: query, shrink: 0.1, timeoutMs } }], {
    from: '2026-01-01',
  }),
  pipeline: `listed${count}`,
  source: 'test.walk',
})

const clients = async (...domains: string[]): Promise<void> => {
  await sql`truncate bi.clients`.execute(k())
  await sql`insert into bi.clients select unnest(${domains}::text[])`.execute(k())
}

const domains = (number: number): string[] => Array.from({ length: number }, (_, index) => `shop-${index}.example`)

beforeEach(() => {
  count += 1
  planning = { definition: definitionWith('select domain from bi.clients where active;'), source: sourceOf({ kind: 'walk' }) }
})

const wanted = async (): Promise<string[]> => {
  const { rows } = await sql<{
    value: string
  }>`select s."values"[1] as value from etl.slices s join etl.pipelines p using (pipeline_id)
    where p.pipeline = ${planning.definition.pipeline} and s.wanted_until is null order by 1`.execute(k())
  return rows.map(({ value }) => value)
}

const readings = async (): Promise<string[]> => {
  const { rows } = await sql<{ outcome: string; found: number | null; obeyed: number | null }>`
    select r.outcome, r."values" as found, cardinality(l."values") as obeyed from etl.list_reads r join etl.pipelines p using (pipeline_id)
      left join etl.lists l using (list_id) where p.pipeline = ${planning.definition.pipeline} order by r.run_id`.execute(k())
  return rows.map(({ outcome, found, obeyed }) => `${outcome}: found ${found}, obeyed ${obeyed}`)
}

const alarms = async (): Promise<string[]> =>
  (await causesInLedger(k()))
    .filter(({ pipeline }) => pipeline === planning.definition.pipeline)
    .map(({ kind, message }) => `${kind} ${message}`)

test('the values of a query are planned as those of a file are, and each run remembers what it obeyed', async () => {
  await clients('b.example', 'a.example', 'a.example')
  const foretold = await preview(db, planning, due)
  expect(foretold.jobs.length).toBeGreaterThan(0)
  expect(await readings()).toEqual([])
  expect((await plan(db, planning, due)).units).toBeGreaterThan(0)
  expect(await wanted()).toEqual(['a.example', 'b.example'])
  await plan(db, planning, due)
  await clients('b.example', 'a.example', 'c.example')
  await plan(db, planning, due)
  expect(await wanted()).toEqual(['a.example', 'b.example', 'c.example'])
  expect(await readings()).toEqual(['taken: found 2, obeyed 2', 'unchanged: found 2, obeyed 2', 'taken: found 3, obeyed 3'])
})

test('a row of NULL is left out, and said', async () => {
  await clients('a.example')
  await sql`insert into bi.clients values (null), (null)`.execute(k())
  const runtime = runtimeFor(db, planning) as unknown as Parameters<typeof previewLists>[0]
  expect(await previewLists(runtime, planning.definition)).toMatchObject([
    { count: 1, message: '2 values are left out: NULL is no value' },
  ])
  await plan(db, planning, due)
  expect(await wanted()).toEqual(['a.example'])
})

test('an empty or much shorter answer is held, said, and obeyed once a person approves it', async () => {
  await clients(...domains(40))
  await plan(db, planning, due)
  // A tenth may go without a word.
  await clients(...domains(36))
  await plan(db, planning, due)
  await clients()
  await plan(db, planning, due)
  await plan(db, planning, due)
  expect(await wanted()).toHaveLength(36)
  expect(await alarms()).toEqual([
    expect.stringMatching(/^list .* its query gives no value\. The former list of 36 values stays in force\./),
  ])
  await clients(...domains(5))
  const foretold = await preview(db, planning, due)
  expect(foretold.pipelines[0]?.changes.lists).toEqual([])
  await plan(db, planning, due)
  expect(await wanted()).toHaveLength(36)
  expect(await alarms()).toEqual([expect.stringMatching(/gives 5 values, and 31 of 36 are gone/)])
  expect(await approveLists(k(), [planning.definition.pipeline], 'ada')).toMatchObject([{ values: 5, gone: 31 }])
  expect(await alarms()).toEqual([])
  await plan(db, planning, due)
  expect(await wanted()).toHaveLength(5)
  expect(await readings()).toEqual([
    ...['taken: found 40, obeyed 40', 'taken: found 36, obeyed 36', 'held: found 0, obeyed 36', 'held: found 0, obeyed 36'],
    ...['held: found 5, obeyed 36', 'unchanged: found 5, obeyed 5'],
  ])
})

test('the held lists of a pipeline are approved together or not at all', async () => {
  await clients(...domains(9))
  await plan(db, planning, due)
  await clients()
  await plan(db, planning, due)
  const { pipeline } = planning.definition
  await sql`insert into etl.lists (pipeline_id, dimension, query, "values", state, came, gone)
    select pipeline_id, 'country', query, "values", state, came, gone from etl.lists join etl.pipelines using (pipeline_id)
    where pipeline = ${pipeline} and state = 'held'`.execute(k())
  await sql`create function public.stops() returns trigger language plpgsql as $$ begin
    if (select count(*) from etl.events where kind = 'approved' and pipeline = new.pipeline) > 1 then raise 'cut off'; end if;
    return null; end $$`.execute(k())
  await sql`create trigger stops after insert on etl.events for each row execute function public.stops()`.execute(k())
  await expect(approveLists(k(), [pipeline], 'ada')).rejects.toThrow('cut off')
  expect(await heldLists(k(), [pipeline])).toMatchObject([{ dimension: 'country' }, { dimension: 'domain' }])
  await sql`drop function public.stops() cascade`.execute(k())
  await approveLists(k(), [pipeline], 'ada')
  expect(await heldLists(k(), [pipeline])).toEqual([])
})

test('a list that is whole again is obeyed without a word, and one that was empty from the start loads nothing', async () => {
  await clients()
  expect(await plan(db, planning, due)).toMatchObject({ units: 0, listsNotObeyed: 1 })
  expect(await alarms()).toEqual([expect.stringContaining('No earlier list is known')])
  await clients(...domains(20))
  await plan(db, planning, due)
  await clients('shop-1.example')
  await plan(db, planning, due)
  expect(await alarms()).toHaveLength(1)
  await clients(...domains(20))
  expect(await plan(db, planning, due)).toMatchObject({ listsNotObeyed: 0 })
  expect([await alarms(), (await wanted()).length]).toEqual([[], 20])
})

test.each([
  ['a write', 'delete from bi.clients returning domain', /syntax error/],
  [
    'a write in front of a select',
    'with gone as (delete from bi.clients returning domain) select domain from gone',
    /WITH clause containing a data-modifying statement/,
  ],
  [
    'a second statement',
    'select domain from bi.clients) as list; drop table bi.clients; select * from (select 1',
    /cannot insert multiple commands/,
  ],
  [
    'a function that writes',
    "select domain from bi.clients where nextval('etl.ask_numbers') > 0",
    /permission denied|read-only transaction/,
  ],
  [
    'what readers may not see',
    'select pipeline from etl.pipelines',
    /permission denied for schema etl.*grant that the right to select/,
  ],
  ['two columns', 'select domain, active from bi.clients', /returns 2 columns/],
  ['too long a query', 'select domain from bi.clients, pg_sleep(30)', /longer than 0.2 s/],
])('%s is refused, and the former list stays in force', async (what, query, reason) => {
  await clients('a.example', 'b.example')
  await plan(db, planning, due)
  planning = { ...planning, definition: definitionWith(query, what === 'too long a query' ? 200 : 5_000) }
  await plan(db, planning, due)
  expect(await wanted()).toEqual(['a.example', 'b.example'])
  expect((await readings()).at(-1)).toBe('failed: found null, obeyed 2')
  expect(await alarms()).toEqual([expect.stringMatching(reason)])
  expect((await sql`select from bi.clients`.execute(k())).rows).toHaveLength(2)
})

test('--only takes what one version has in a file and another in its query; what neither has is refused', async () => {
  await clients('a.example', 'q.example')
  const { definition, source } = planning
  const file = {
    ...definition,
    dimensions: [{ name: 'domain', values: ['a.example', 'f.example'], bucket: null, file: 'f.txt' }],
  }
  const versions = [file, { ...definition, version: 2 }]
  const only = async (value: string) => {
    const scope = { ...due, only: new Map([['domain', [value]]]) }
    checkScope(versions, scope)
    await previewAll(db, source, versions, scope)
    const runtime = runtimeFor(db, planning) as unknown as Parameters<typeof planRun>[0]
    await planRun(runtime, await newRun(db), versions, scope, new AbortController().signal)
    const { rows } = await sql<{
      asked: string
    }>`select distinct 'v' || p.version || ' ' || s."values"[1] as asked from etl.jobs j
      join etl.pipelines p using (pipeline_id) join etl.slices s on s.slice_id = j.slice_ids[1] where p.pipeline = ${definition.pipeline} order by 1`.execute(
      k(),
    )
    return rows.map(({ asked }) => asked)
  }
  await expect(only('x.example')).rejects.toThrow("'x.example' is not in the list of")
  expect(await only('q.example')).toEqual(['v2 q.example'])
  expect(await only('f.example')).toEqual(['v1 f.example', 'v2 q.example'])
  expect(await only('a.example')).toEqual(['v1 a.example', 'v1 f.example', 'v2 a.example', 'v2 q.example'])
})
