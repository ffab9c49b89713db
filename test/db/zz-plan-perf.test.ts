import { expect, test } from 'vitest'
import { sql } from 'kysely'
import { createTestDatabase } from '../support/postgres.ts'
import { newRun } from '../support/ledger.ts'
import { planRun } from '../../src/pipeline/plan-run.ts'
import { definitionOf, dimension } from '../unit/plan/definition.ts'
import { silentLog } from '../../src/core/log.ts'

const source = (kind: string, most: Record<string, number>) => ({
  name: `x.${kind}`,
  kind,
  description: '',
  params: null,
  fields: {},
  openFields: true,
  dimensions: Object.fromEntries(
    Object.entries(most).map(([n, m]) => [n, { description: '', required: true, mostPerRequest: m }]),
  ),
  packing: { windows: 60 },
  estimate: async () => ({ requests: null, rows: null, quota: null }),
})
const names = (n: number, p: string) => Array.from({ length: n }, (_, i) => `${p}${String(i).padStart(7, '0')}.com`)
const runtimeOf = (db: any, s: any) =>
  ({
    database: db.database,
    sources: new Map([[s.name, s]]),
    consent: { resubmitUncertain: false },
    log: silentLog,
    progress: { counters: { requests: 0 } },
  }) as any
import pg from 'pg'
const original = pg.Client.prototype.query
;(pg.Client.prototype as any).query = function (this: any, ...args: any[]) {
  const started = performance.now()
  const result = (original as any).apply(this, args)
  const text = typeof args[0] === 'string' ? args[0] : args[0]?.text
  if (result?.then)
    result.then(
      () => {
        const ms = performance.now() - started
        if (ms > 60)
          if (ms > 60 && text.includes('select decision') && !(globalThis as any).done) {
            ;(globalThis as any).done = 1
            ;(original as any)
              .call(this, 'explain analyze ' + text, args[0]?.values ?? args[1])
              .then((r: any) => console.log(r.rows.map((x: any) => x['QUERY PLAN']).join('\n')))
          }
        console.log('   SLOW', Math.round(ms), text?.replace(/\s+/g, ' ').slice(0, 150))
      },
      () => {},
    )
  return result
}
const peak = () => process.memoryUsage().rss / 1e6

test.each([
  ['report', 1000, 3],
  ['report', 9260, 3],
  ['walk', 27778, 1],
  ['walk', 1_000_000, -1],
  ['report', 1_000_000, -1],
] as const)(
  '%s %i x %i',
  async (kind, domains, countries) => {
    const db = await createTestDatabase()
    try {
      const s = source(kind, kind === 'walk' ? { domain: 1, country: 1 } : { domain: 100, country: 250 })
      const months = countries === -1 ? 1 : 36
      const base = definitionOf(
        [dimension('domain', names(domains, 'd')), dimension('country', ['us', 'gb', 'world'].slice(0, Math.max(1, countries)))],
        { from: '2020-01-01' },
      )
      const definition = { ...base, source: s.name, key: ['date', 'domain', 'country'] }
      const runId = await newRun(db)
      let t = performance.now()
      const before = peak()
      let top = 0
      const timer = setInterval(() => {
        top = Math.max(top, peak())
      }, 50)
      const range = {
        mode: 'range' as const,
        rangeOf: () => ({ from: '2021-01-01', to: months === 1 ? '2021-02-01' : '2024-01-01' }),
      }
      const counts = await planRun(runtimeOf(db, s), runId, [definition], range, new AbortController().signal)
      console.log(
        kind,
        domains,
        countries,
        JSON.stringify(counts),
        Math.round(performance.now() - t),
        'ms',
        Math.round(before),
        '->',
        Math.round(top),
        'MB',
      )
      t = performance.now()
      const again = await planRun(runtimeOf(db, s), await newRun(db), [definition], range, new AbortController().signal)
      console.log('again', JSON.stringify(again), Math.round(performance.now() - t), 'ms')
      clearInterval(timer)
    } finally {
      await db.drop()
    }
  },
  600_000,
)
