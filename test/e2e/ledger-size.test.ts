// What a loaded walk costs in the ledger, by the real program.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { pipelinesOfRepository, summaryOf } from '../support/command.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
import { runWarm } from '../support/warm-command.ts'

let folder: string
let db: TestDatabase
let sandbox: Sandbox

const domains = 150
/** What holds a walk, and the columns in which one differs from another. */
const shiftedColumns = {
  units: ['unit_id', 'slice_id', 'ask_number', 'answer_id'],
  answer_rows: ['answer_id', 'job_id', 'slice_id'],
  load_rows: ['load_id', 'answer_id', 'job_id'],
} as const

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-size-'))
  cpSync(pipelinesOfRepository, join(folder, 'pipelines'), { recursive: true })
  const names = Array.from({ length: domains }, (_, index) => `site${String(index).padStart(6, '0')}.example`)
  writeFileSync(join(folder, 'pipelines', 'domains.txt'), `${names.join('\n')}\n`)
  const file = join(folder, 'pipelines', 'keywords.yaml')
  writeFileSync(file, readFileSync(file, 'utf8').replace('from: 2024-01', 'from: 2026-06'))
  db = await createTestDatabase()
  sandbox = await startSandbox({ requestsPerSecond: null, keywordsPerDomain: 5, now: '2026-11-20' })
})
afterEach(async () => {
  await sandbox.close()
  await db.drop()
  rmSync(folder, { recursive: true, force: true })
})

test('a loaded walk takes at most 500 bytes of the ledger: its answer, its load and its unit, with their indexes', async () => {
  const environment = {
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: sandbox.apiKey,
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000',
    MILLRACE_GUARD: 'off',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
  }
  const range = ['--only', 'country=us', '--from', '2026-06', '--to', '2026-07', '--json']
  expect(summaryOf(await runWarm(['backfill', 'keywords', ...range], environment, folder))).toMatchObject({
    units: { failed: 0 },
  })
  const query = async (text: string) => (await db.database.pool.query(text)).rows
  const walks = 2 * domains
  expect(await query('select count(*)::int as walks from etl.loads l join etl.units u using (answer_id)')).toEqual([{ walks }])
  // The rows as the program wrote them, so often that a page more or less does not matter.
  const copies = 100
  let bytes = 0
  for (const [table, shifted] of Object.entries(shiftedColumns)) {
    const sets = shifted.map((column) => `'${column}', r.${column} + n * 100000`)
    await query(`create table public.${table} (like etl.${table} including all)`)
    await query(`insert into public.${table} overriding system value select (jsonb_populate_record(r, jsonb_build_object(${sets}))).*
      from generate_series(1, ${copies}) n cross join etl.${table} r order by n, r.${shifted[0]}`)
    const [size] = await query(`select pg_total_relation_size('public.${table}')::int as bytes`)
    bytes += size.bytes
  }
  expect(bytes / (walks * copies)).toBeLessThanOrEqual(500)
})
