// What a loaded walk costs in the ledger, by the real program.
import { expect, test } from 'vitest'
import { summaryOf } from '../support/command.ts'
import { sandboxWorld } from '../support/test-world.ts'

const domains = 150
/** What holds a walk, and the columns in which one differs from another. */
const shiftedColumns = {
  units: ['unit_id', 'slice_id', 'ask_number', 'answer_id'],
  answer_rows: ['answer_id', 'job_id', 'slice_id'],
  load_rows: ['load_id', 'answer_id', 'job_id'],
} as const

const { edit, millrace, query } = sandboxWorld({
  lists: { domains: Array.from({ length: domains }, (_, index) => `site${String(index).padStart(6, '0')}.example`) },
  sandbox: { keywordsPerDomain: 5, now: '2026-11-20' },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000', MILLRACE_GUARD: 'off' },
})

test('a loaded walk takes at most 500 bytes of the ledger: its answer, its load and its unit, with their indexes', async () => {
  edit('keywords', ['from: 2024-01', 'from: 2026-06'])

  const range = ['--only', 'country=us', '--from', '2026-06', '--to', '2026-07', '--json']
  expect(summaryOf(await millrace('backfill', 'keywords', ...range))).toMatchObject({
    units: { failed: 0 },
  })
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
    const [size] = await query<{ bytes: number }>(`select pg_total_relation_size('public.${table}')::int as bytes`)
    bytes += size?.bytes ?? 0
  }
  expect(bytes / (walks * copies)).toBeLessThanOrEqual(500)
})
