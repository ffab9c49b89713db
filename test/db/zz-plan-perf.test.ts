import { test } from 'vitest'
import { createTestDatabase } from '../support/postgres.ts'
import { definitionFor, plan, sourceOf } from '../support/planning.ts'
import { addWindows } from '../../src/core/window.ts'
import pg from 'pg'
const original = pg.Client.prototype.query
;(pg.Client.prototype as any).query = function (this: any, ...args: any[]) {
  const started = performance.now()
  const result = (original as any).apply(this, args)
  const text = typeof args[0] === 'string' ? args[0] : args[0]?.text
  if (result?.then) result.then(() => { const ms = performance.now() - started; if (ms > 150) console.log('   SLOW', Math.round(ms), text?.replace(/\s+/g, ' ').slice(0, 110)) }, () => {})
  return result
}
const slices = 200_000
test.each(['report', 'walk'] as const)('night of %ss', async (kind) => {
  const db = await createTestDatabase()
  try {
    let probes = 0
    const answer = { lastUpdated: 'x', count: 3 }
    const source = sourceOf({ kind, ...(kind === 'walk' ? { probe: () => { probes += 1; return answer } } : {}) })
    const first = addWindows(new Date().toISOString().slice(0, 8).concat('01'), 'month', -36)
    const definition = definitionFor(source, { domains: Array.from({ length: slices }, (_, i) => `d${String(i).padStart(7, '0')}.com`) }, { from: first })
    const t0 = performance.now()
    await plan(db, { source, definition: { ...definition, window: { ...definition.window, from: '2099-01-01' } } }, { mode: 'due' })
    console.log('register', Math.round(performance.now() - t0))
    const q = (text: string) => db.database.pool.query(text)
    await q(`set synchronous_commit=off`)
    if (kind === 'walk') {
      await q(`insert into etl.answers (pipeline_id, job_id, ask_number, asked_at, landing, sha256, bytes, window_from, window_to, slice_ids, asks, metrics, source_last_updated, source_count)
        select 1, row_number() over (), row_number() over (), clock_timestamp(), 'landing/' || s.slice_id, 'sha', 10, w::date, (w + interval '1 month')::date, array[s.slice_id], 'asks', '{}', 'x', 3
        from generate_series('${first}'::date, now()::date - 1, interval '1 month') w, etl.slices s`)
      await q(`insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id) select 1, window_from, slice_ids[1], ask_number, answer_id from etl.answers order by 2, 3`)
    } else {
      await q(`insert into etl.answers (pipeline_id, job_id, ask_number, asked_at, landing, sha256, bytes, window_from, window_to, slice_ids, asks, metrics)
        select 1, row_number() over (), row_number() over (), clock_timestamp(), 'landing', 'sha', 10, w::date, (w + interval '1 month')::date, array_agg(s.slice_id), 'asks', '{}'
        from generate_series('${first}'::date, now()::date - 1, interval '1 month') w, etl.slices s group by w, s.slice_id / 100`)
      await q(`insert into etl.units (pipeline_id, window_from, slice_id, ask_number, answer_id) select 1, window_from, s, ask_number, answer_id from etl.answers, unnest(slice_ids) s order by 2, 3`)
    }
    await q(`insert into etl.loads (answer_id, pipeline_id, window_from, job_id, outcome, units, rows_read, rows_inserted, rows_updated, rows_ended, rows_unchanged, rows_quarantined, rows_duplicates)
      select answer_id, 1, window_from, job_id, 'loaded', cardinality(slice_ids), 1, 1, 0, 0, 0, 0, 0 from etl.answers`)
    console.log('made', (await q('select count(*) from etl.units')).rows[0], Math.round((performance.now() - t0) / 1000))
    for (const what of ['closing', 'night', 'night again']) {
      const t = performance.now(); probes = 0
      const rss = process.memoryUsage().rss / 1e6
      const counts = await plan(db, { source, definition }, { mode: 'due' })
      console.log('NIGHT', kind, what, JSON.stringify(counts), Math.round(performance.now() - t), 'ms probes', probes, Math.round(rss), Math.round(process.memoryUsage().rss / 1e6))
    }
    const more = { ...definition, dimensions: definition.dimensions.map((d) => ({ ...d, values: [...d.values, 'new.com'] })) }
    const t = performance.now()
    const counts = await plan(db, { source, definition: more }, { mode: 'due' })
    console.log('NIGHT', kind, 'one domain added', JSON.stringify(counts), Math.round(performance.now() - t), 'ms')
  } finally { await db.drop() }
}, 1_200_000)
