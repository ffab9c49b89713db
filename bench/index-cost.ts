// What the index by keyword costs a load of keywords: the same loads with and without it, interleaved. Run:
// node bench/index-cost.ts [--rows 200000] [--rounds 5] [--page docs/performance-bi.md]
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import type { Definition } from '../src/core/types.ts'
import { windowAt } from '../src/core/window.ts'
import { type Database, openDatabase } from '../src/db/connect.ts'
import { migrate } from '../src/db/migrate.ts'
import { type Session, withSession } from '../src/db/session.ts'
import { mergeAnswer } from '../src/load/merge.ts'
import { oneUnit } from '../src/load/merge-scope.ts'
import { emptyMonthOf, ensurePartitions } from '../src/load/partition.ts'
import { openStaging, type StagedChunk } from '../src/load/staging.ts'
import { stagedColumns } from '../src/load/table-columns.ts'
import { openDefinitions } from '../src/pipeline/open-runtime.ts'
import { writeSection } from './bi-page.ts'

const { values: options } = parseArgs({
  options: { rows: { type: 'string', default: '200000' }, rounds: { type: 'string', default: '5' }, page: { type: 'string' } },
})
const rows = Number(options.rows)
const rounds = Number(options.rounds)
const rowsPerChunk = 10_000

const intents = ['Informational', 'Commercial', 'Navigational', 'Transactional']

/** Clicks first in order, as the service answers: keywords come unsorted. @param restated every n-th row has other clicks; 0: none. */
const rowOf = (definition: Definition, domain: string, number: number, restated: number): string => {
  const seed = (number * 2_654_435_761) % 1_000_003
  const values: Readonly<Record<string, string>> = {
    keyword: `${number % 3 === 0 ? 'shared' : domain} keyword ${seed}-${number}`,
    top_url: `https://${domain}/page/${seed % 500}`,
    clicks: String(restated > 0 && number % restated === 0 ? seed + 1 : seed),
    traffic_share: `0.00${seed}`,
    difficulty: String(seed % 100),
    primary_intent: intents[seed % 4] ?? '',
    volume: String(seed % 50_000),
    cpc: `1.${seed % 100}`,
    zero_clicks_share: `0.${seed % 100}`,
    position: String(1 + (seed % 90)),
  }
  return `${stagedColumns(definition)
    .map(({ name }) => values[name] ?? '\\N')
    .join('\t')}\n`
}

const answerOf = (definition: Definition, domain: string, restated: number): StagedChunk[] =>
  Array.from({ length: Math.ceil(rows / rowsPerChunk) }, (_, chunk) => {
    const count = Math.min(rowsPerChunk, rows - chunk * rowsPerChunk)
    const lines = Array.from({ length: count }, (_row, at) => rowOf(definition, domain, chunk * rowsPerChunk + at, restated))
    return { copy: Buffer.from(lines.join('')), rows: count }
  })

const load = async (session: Session, definition: Definition, month: string, domain: string, answer: readonly StagedChunk[]) => {
  const window = windowAt(`${month}-01`, 'month')
  const scope = oneUnit({ key: `${month}/${domain}`, window, slice: { domain, country: 'us' } }, 1)
  const staging = await openStaging(session, definition)
  for (const chunk of answer) await staging.write(chunk)
  await staging.flush()
  const emptyMonth = await emptyMonthOf(session, definition, window, rows)
  if (emptyMonth === null) await ensurePartitions(session, definition, window)
  const started = performance.now()
  await session.kysely.transaction().execute((trx) =>
    mergeAnswer(
      { ...session, kysely: trx },
      {
        ...{ definition, scope, runId: 1, staging, rows, rejectedKeys: [], rejects: 0, mayEnd: true, emptyMonth },
        shrink: definition.limits.shrink,
      },
    ),
  )
  const milliseconds = performance.now() - started
  await staging.close()
  return milliseconds
}

type Way = 'without' | 'with'
const timings = new Map<string, Record<Way, { readonly milliseconds: number[]; readonly wal: number[] }>>()

const walPosition = async ({ client }: Session): Promise<number> => {
  const { rows: found } = await client.query<{ at: string }>(`select pg_current_wal_insert_lsn() - '0/0'::pg_lsn as at`)
  return Number(found[0]?.at ?? 0)
}

const measure = async (session: Session, name: string, way: Way, work: () => Promise<number>): Promise<void> => {
  const entry = timings.get(name) ?? { without: { milliseconds: [], wal: [] }, with: { milliseconds: [], wal: [] } }
  timings.set(name, entry)
  const before = await walPosition(session)
  entry[way].milliseconds.push(await work())
  entry[way].wal.push((await walPosition(session)) - before)
}

const round = async (database: Database, shipped: Definition, way: Way, month: string): Promise<void> => {
  const definition = way === 'with' ? shipped : { ...shipped, indexes: [] }
  await database.pool.query(indexStatements[way])
  await withSession(database.pool, async (session) => {
    const take = (name: string, domain: string, answer: readonly StagedChunk[]) =>
      measure(session, name, way, () => load(session, definition, month, domain, answer))
    await take('first load, empty month', 'a.example', answerOf(shipped, 'a.example', 0))
    const other = answerOf(shipped, 'b.example', 0)
    await take('first load, filled month', 'b.example', other)
    await database.pool.query('vacuum analyze data.keywords_v1')
    await take('the same again, nothing changed', 'b.example', other)
    await take('1 % restated', 'b.example', answerOf(shipped, 'b.example', 100))
    await take('every row restated', 'b.example', answerOf(shipped, 'b.example', 1))
  })
  await database.pool.query(`drop table data.keywords_v1_p${month.replace('-', '')}; truncate data.keywords_v1_history`)
}

const indexStatements: Readonly<Record<Way, string>> = {
  with: 'create index if not exists bench_by_keyword on data.keywords_v1 (keyword, country, month, traffic_source, web_source, branded_type, domain) include (clicks)',
  without: 'drop index if exists data.bench_by_keyword',
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0

const home = mkdtempSync(join(tmpdir(), 'millrace-bench-'))
const database = await openDatabase({ databaseUrl: null, home })
try {
  await migrate(database, { folders: [] })
  const { definitions } = await openDefinitions(join(dirname(import.meta.dirname), 'pipelines'), [])
  const keywords = definitions.find(({ pipeline }) => pipeline === 'keywords')
  if (keywords === undefined) throw new Error('pipelines/ has no keywords')
  const { rows: own } = await database.pool.query<{ name: string }>(
    `select indexrelid::regclass::text as name from pg_index where indrelid = 'data.keywords_v1'::regclass and not indisprimary`,
  )
  for (const { name } of own) await database.pool.query(`drop index ${name}`)
  for (let number = 1; number <= rounds; number += 1) {
    // Which goes first changes from round to round, so that neither always finds the disk warm.
    const ways: readonly Way[] = number % 2 === 0 ? ['with', 'without'] : ['without', 'with']
    for (const [at, way] of ways.entries()) await round(database, keywords, way, `${2000 + 2 * number + at}-01`)
    process.stderr.write(`round ${number} of ${rounds}\n`)
  }
  const megabytes = (bytes: readonly number[]): string => `${(median(bytes) / 1e6).toFixed(0)} MB`
  const head = `| ${new Intl.NumberFormat('en-US').format(rows)} keywords`
  const printed = [...timings].map(([name, { without, with: carrying }]) => {
    const [plain, indexed] = [median(without.milliseconds), median(carrying.milliseconds)]
    return `| ${name} | ${(plain / 1000).toFixed(2)} s | ${(indexed / 1000).toFixed(2)} s | ${(indexed / plain).toFixed(2)} |`
  })
  process.stdout.write(
    `${[`${head} | without | with the index | ratio |`, '| --- | --- | --- | --- |', ...printed].join('\n')}\n\n`,
  )
  // What does not depend on what else the machine does.
  const log = [...timings].map(
    ([name, { without, with: carrying }]) => `| ${name} | ${megabytes(without.wal)} | ${megabytes(carrying.wal)} |`,
  )
  const section = [`${head} | WAL without the index | WAL with it |`, '| --- | --- | --- |', ...log].join('\n')
  process.stdout.write(`${section}\n`)
  if (options.page !== undefined) writeSection(options.page, 'index', section)
} finally {
  await database.close()
  rmSync(home, { recursive: true, force: true })
}
