// Loading against the floor: COPY into unlogged staging and the best single statement, interleaved in one run. Run: node bench/load.ts [ROWS] [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { type Session, withSession } from '../src/db/session.ts'
import type { RowsChunk } from '../src/load/copy-rows.ts'
import { benchBox, benchDefinition, benchRows, mostDomains } from './load-data.ts'
import { createFloor } from './load-floor.ts'
import { type Counts, loadOnce } from './load-once.ts'

const rows = Number(process.argv[2] ?? 1_000_000)
const rounds = Number(process.argv[3] ?? 5)

const createTables = async ({ pool }: Database): Promise<void> => {
  const columns = `"date" date not null, country text not null, domain text not null, site text not null,
    a numeric, b numeric, c numeric, d numeric, e numeric, f numeric,
    _unit_id bigint not null`
  const defaults = `_run_id bigint not null default current_setting('millrace.run_id')::bigint, _revision integer not null default 1,
    _loaded_at timestamptz not null default transaction_timestamp()`
  const lineage = '_run_id bigint not null, _revision integer not null, _loaded_at timestamptz not null'
  await pool.query('create schema data')
  await pool.query('create schema if not exists etl')
  await pool.query('create table if not exists etl.locks (name text primary key)')
  await pool.query(
    `create table data.bench_v1 (${columns}, ${defaults}, primary key ("date", country, domain, site)) partition by range ("date")`,
  )
  await pool.query('create index on data.bench_v1 using brin (_unit_id)')
  await pool.query(`create table data.bench_v1_history (${columns}, ${lineage}, _valid_from timestamptz not null,
    _valid_to timestamptz not null, _ended_run_id bigint not null, primary key ("date", country, domain, site, _revision))`)
  await pool.query('create index on data.bench_v1_history using brin (_unit_id)')
}

/** An answer for units of a domain each, as one window of a report is loaded. */
const load = (
  session: Session,
  month: string,
  country: string,
  chunks: readonly RowsChunk[],
  domainCount = mostDomains,
): Promise<Counts> => {
  const { window, slice } = benchBox(month, country, domainCount)
  return loadOnce(session, { definition: benchDefinition, scope: { window, slice, leftOut: [] }, runId: 1, chunks })
}

const timings = new Map<string, { ours: number[]; floor: number[]; wal: number[] }>()

const walPosition = async ({ client }: Session): Promise<number> => {
  const { rows: found } = await client.query<{ at: string }>(`select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as at`)
  return Number(found[0]?.at ?? 0)
}

const measure = async (session: Session, name: string, ours: () => Promise<unknown>, floor: () => Promise<unknown>) => {
  const entry = timings.get(name) ?? { ours: [], floor: [], wal: [] }
  timings.set(name, entry)
  let started = performance.now()
  await floor()
  entry.floor.push((performance.now() - started) / 1000)
  const before = await walPosition(session)
  started = performance.now()
  await ours()
  entry.ours.push((performance.now() - started) / 1000)
  entry.wal.push((await walPosition(session)) - before)
}

const expectCounts = (result: Counts, wanted: Partial<Counts>): void => {
  for (const [name, value] of Object.entries(wanted)) {
    if (JSON.stringify(result[name as keyof Counts]) !== JSON.stringify(value))
      throw new Error(`${name} is ${JSON.stringify(result)}, expected ${value}`)
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const round = async (session: Session, database: Database, number: number): Promise<void> => {
  const floor = createFloor(session.client)
  const month = `2026-${String(number).padStart(2, '0')}`
  const answer = benchRows(month, rows, 0)
  const restated = benchRows(month, rows, 100)
  const marked = (country: string, every = 0) => benchRows(month, rows, every, mostDomains, country)
  const [us, gb, gbRestated] = [marked('us'), marked('gb'), marked('gb', 100)]
  const vacuum = () => database.pool.query('vacuum analyze data.bench_v1')
  await floor.reset()
  await measure(
    session,
    'first load, empty month',
    async () => expectCounts(await load(session, month, 'us', us), { inserted: rows }),
    () => floor.intoEmpty(answer),
  )
  await floor.moveAside()
  await measure(
    session,
    'first load, filled month',
    async () => expectCounts(await load(session, month, 'gb', gb), { inserted: rows }),
    () => floor.upsert(answer),
  )
  await measure(
    session,
    'unchanged, first look',
    async () => expectCounts(await load(session, month, 'gb', gb), { unchanged: rows }),
    () => floor.difference(answer),
  )
  await vacuum()
  await measure(
    session,
    'unchanged, after vacuum',
    async () => expectCounts(await load(session, month, 'gb', gb), { unchanged: rows }),
    () => floor.difference(answer),
  )
  await measure(
    session,
    '1 % restated',
    async () => expectCounts(await load(session, month, 'gb', gbRestated), { updated: rows / 100 }),
    () => floor.restate(restated),
  )
  await database.pool.query('drop table data.bench_v1')
  await database.pool.query('drop table data.bench_v1_history')
}

const tinyUnits = async (session: Session, units: number): Promise<number> => {
  const chunks = Array.from({ length: units }, (_, unit) => benchRows('2026-12', 10, 0, 1, `c${unit}`))
  const started = performance.now()
  for (const [unit, chunk] of chunks.entries()) await load(session, '2026-12', `c${unit}`, chunk, 1)
  return (performance.now() - started) / units
}

const home = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const database = await openDatabase({ databaseUrl: null, home })
try {
  for (let number = 1; number <= rounds; number += 1) {
    await database.pool.query('drop schema if exists data cascade')
    await createTables(database)
    await withSession(database.pool, (session) => round(session, database, number))
  }
  await database.pool.query('drop schema if exists data cascade')
  await createTables(database)
  const perUnit = await withSession(database.pool, (session) => tinyUnits(session, 1000))
  const again = await withSession(database.pool, (session) => tinyUnits(session, 1000))
  const lines = [...timings].map(([name, { ours, floor, wal }]) => {
    const [mine, theirs] = [median(ours), median(floor)]
    return `| ${name} | ${theirs.toFixed(2)} s | ${mine.toFixed(2)} s | ${(mine / theirs).toFixed(2)} | ${(median(wal) / 1e6).toFixed(1)} MB |`
  })
  process.stdout.write(
    `${[`| ${rows} rows | floor | ours | ratio | WAL |`, '| --- | --- | --- | --- | --- |', ...lines].join('\n')}\n` +
      `1,000 units of 10 rows: ${perUnit.toFixed(2)} ms each, unchanged ${again.toFixed(2)} ms each\n`,
  )
} finally {
  await database.close()
  rmSync(home, { recursive: true, force: true })
}
