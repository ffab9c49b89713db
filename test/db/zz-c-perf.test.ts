import pg from 'pg'
import { afterAll, beforeAll, test } from 'vitest'
import type { Definition } from '../../src/core/types.ts'
import { addWindows } from '../../src/core/window.ts'
import { boxOf, shippedDefinition } from '../support/definitions.ts'
import { type LoadKit, loadBody, openLoading, workOn } from '../support/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'
let db: TestDatabase
let definition: Definition
let kit: LoadKit
beforeAll(async () => {
  db = await createTestDatabase()
  definition = await shippedDefinition('traffic_and_engagement')
  kit = await openLoading(db, definition)
})
afterAll(() => db.drop())
const times = new Map<string, { n: number; ms: number }>()
const original = pg.Client.prototype.query
;(pg.Client.prototype as any).query = function (this: any, ...args: any[]) {
  const text = typeof args[0] === 'string' ? args[0] : (args[0]?.text ?? 'copy')
  const started = performance.now()
  const result = (original as any).apply(this, args)
  if (result?.then)
    result.then(
      () => {
        const key = text.replace(/\s+/g, ' ').slice(0, 150)
        const t = times.get(key) ?? { n: 0, ms: 0 }
        t.n += 1
        t.ms += performance.now() - started
        times.set(key, t)
      },
      () => undefined,
    )
  return result
}
const report = (name: string, total: number) => {
  const rows = [...times].sort((a, b) => b[1].ms - a[1].ms).slice(0, 22)
  console.log(
    name,
    Math.round(total),
    'ms\n' + rows.map(([k, t]) => `${t.ms.toFixed(0).padStart(7)} ms ${String(t.n).padStart(4)}x ${k}`).join('\n'),
  )
  times.clear()
}
const line = (month: string, domain: string, visits: string, country = 'us'): string =>
  `${month}-01,${domain},${country},${visits},1,2,3,4,5`
const header =
  'date,domain,country,all_traffic_visits,mobile_visits,desktop_visits,desktop_unique_visitors,mobile_unique_visitors,all_page_views'
const csv = (...lines: readonly string[]): string => `${[header, ...lines].join('\n')}\n`
const sizes = (process.env['SIZES'] ?? '100x36').split(',').map((s) => s.split('x').map(Number))
test.each(sizes)(
  '%d domains x %d months',
  async (count, span) => {
    const domains = Array.from({ length: count! }, (_, at) => `d${at}.com`)
    const months = Array.from({ length: span! }, (_, at) => addWindows('2024-01-01', 'month', at).slice(0, 7))
    const countries = count! > 1000 ? ['us'] : ['us', 'gb', 'world']
    const box = boxOf(definition, '2024-01', { domain: domains, country: countries }, months.at(-1))
    const lines = (add: number) =>
      months.flatMap((month, at) =>
        domains.flatMap((domain, place) =>
          countries.map((c) => line(month, domain, String(at * 1_000 + place + (place % 10 === 0 ? add : 0)), c)),
        ),
      )
    for (const add of [0, 0, 1]) {
      const work = await workOn(kit, box)
      times.clear()
      const started = performance.now()
      const result = await loadBody(kit, work, { body: csv(...lines(add)) })
      report(`${JSON.stringify(result)}`, performance.now() - started)
    }
  },
  300_000,
)
