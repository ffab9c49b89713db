// Loading against the floor: COPY into unlogged staging and the best single statement, interleaved in one run. Run: node bench/load.ts [ROWS] [ROUNDS]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { type Session, withSession } from '../src/db/session.ts'
import { openAccepted } from '../src/load/accepted-units.ts'
import { hasRepeated } from '../src/load/duplicates.ts'
import { largeRows, mergeAnswer } from '../src/load/merge.ts'
import type { MergeResult } from '../src/load/merge-context.ts'
import { manyUnits } from '../src/load/merge-scope.ts'
import { ensurePartitions, ensureStatistics } from '../src/load/partition.ts'
import { openStaging, type StagedChunk } from '../src/load/staging.ts'
import { surveyRows } from '../src/load/survey.ts'
import { benchBox, benchDefinition, benchRows, domains, mostDomains } from './load-data.ts'
import { createFloor } from './load-floor.ts'

const rows = Number(process.argv[2] ?? 1_000_000)
const rounds = Number(process.argv[3] ?? 5)

const createTables = async ({ pool }: Database): Promise<void> => {
  const columns = `"date" date not null, country text not null, domain text not null, site text not null,
    a numeric, b numeric, c numeric, d numeric, e numeric, f numeric,
    _unit_id bigint not null, _run_id bigint not null, _revision integer not null, _loaded_at timestamptz not null`
  await pool.query('create schema data')
  await pool.query('create schema if not exists staging')
  await pool.query(
    `create table data.bench_v1 (${columns}, primary key ("date", country, domain, site)) partition by range ("date")`,
  )
  await pool.query(`create table data.bench_v1_history (${columns}, _valid_from timestamptz not null,
    _valid_to timestamptz not null, _ended_run_id bigint not null, primary key ("date", country, domain, site, _revision))`)
}

/** An answer for units of a domain each, as one window of a report is loaded. */
const load = async (
  session: Session,
  month: string,
  country: string,
  chunks: readonly StagedChunk[],
  domainCount = mostDomains,
): Promise<MergeResult> => {
  const box = benchBox(month, country, domainCount)
  const staging = openStaging(session, benchDefinition)
  for (const chunk of chunks) await staging.write(chunk)
  await staging.flush()
  const accepted = await openAccepted(session, benchDefinition, box)
  await surveyRows(session, benchDefinition, staging, box)
  if (await hasRepeated(session, benchDefinition, staging)) throw new Error('the rows hold a key twice')
  if (staging.rows() > largeRows) await sql`analyze ${sql.raw(staging.table)}`.execute(session.kysely)
  await ensurePartitions(session, benchDefinition, box.window)
  await ensureStatistics(session, benchDefinition, box.window)
  const result = await session.kysely.transaction().execute(async (trx) => {
    await sql`insert into ${accepted.name} (_unit_id, _outcome, domain) select n, 'accepted', d
      from unnest(${domains.slice(0, domainCount)}::text[]) with ordinality as x (d, n)`.execute(trx)
    return mergeAnswer(
      { ...session, kysely: trx },
      {
        ...{ definition: benchDefinition, scope: manyUnits(box, box.window, accepted), runId: 1, staging, rows: staging.rows() },
        ...{ rejectedKeys: [], rejects: 0, mayEnd: true, shrink: benchDefinition.limits.shrink, repeated: 'removed' },
      },
    )
  })
  await staging.close()
  return result
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

const expectCounts = (result: MergeResult, wanted: Partial<MergeResult>): void => {
  for (const [name, value] of Object.entries(wanted)) {
    if (JSON.stringify(result[name as keyof MergeResult]) !== JSON.stringify(value))
      throw new Error(`${name} is ${JSON.stringify(result)}, expected ${value}`)
  }
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const round = async (session: Session, database: Database, number: number): Promise<void> => {
  const floor = createFloor(session.client)
  const month = `2026-${String(number).padStart(2, '0')}`
  const answer = benchRows(month, rows, 0)
  const restated = benchRows(month, rows, 100)
  const vacuum = () => database.pool.query('vacuum analyze data.bench_v1')
  await floor.reset()
  await measure(
    session,
    'first load, empty month',
    async () => expectCounts(await load(session, month, 'us', answer), { inserted: rows }),
    () => floor.intoEmpty(answer),
  )
  await floor.moveAside()
  await measure(
    session,
    'first load, filled month',
    async () => expectCounts(await load(session, month, 'gb', answer), { inserted: rows }),
    () => floor.upsert(answer),
  )
  await measure(
    session,
    'unchanged, first look',
    async () => expectCounts(await load(session, month, 'gb', answer), { unchanged: rows }),
    () => floor.difference(answer),
  )
  await vacuum()
  await measure(
    session,
    'unchanged, after vacuum',
    async () => expectCounts(await load(session, month, 'gb', answer), { unchanged: rows }),
    () => floor.difference(answer),
  )
  await measure(
    session,
    '1 % restated',
    async () => expectCounts(await load(session, month, 'gb', restated), { updated: rows / 100 }),
    () => floor.restate(restated),
  )
  await database.pool.query('drop table data.bench_v1')
  await database.pool.query('drop table data.bench_v1_history')
}

const tinyUnits = async (session: Session, units: number): Promise<number> => {
  const chunk = benchRows('2026-12', 10, 0, 1)
  const started = performance.now()
  for (let unit = 0; unit < units; unit += 1) await load(session, '2026-12', `c${unit}`, chunk, 1)
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
