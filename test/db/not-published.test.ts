// A month that the service has not published, asked for together with older ones: it waits, and is not loaded as one without data.
import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition } from '../../src/core/types.ts'
import { runSummary } from '../../src/ledger/runs.ts'
import type { JobWork } from '../../src/run/job-work.ts'
import { settleJob } from '../../src/run/settle.ts'
import { boxOf } from '../support/definitions.ts'
import {
  claimed,
  emptyTraffic,
  lenientTraffic,
  loadBody,
  type LoadKit,
  openLoading,
  trafficCsv as csv,
  trafficLine as line,
  workOn,
} from '../support/loading.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()
let definition: Definition
let kit: LoadKit

beforeAll(async () => {
  definition = await lenientTraffic()
})
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
})

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows

const three = ['a.com', 'b.com', 'c.com']
const both = (domain = three): Box => boxOf(definition, '2026-01', { domain, country: 'us' }, '2026-02')
const load = async (box: Box, ...lines: readonly string[]) => loadBody(kit, await workOn(kit, box), { body: csv(...lines) })

describe('the newest month, of which no row came beside older ones', () => {
  const early = three.map((domain) => line('2026-01', domain, '1'))
  const states = () =>
    query(
      `select to_char(window_from, 'YYYY-MM') as month, state, error_code as code, count(*)::int as units from etl.unit_list group by 1, 2, 3 order by 1`,
    )
  const waiting = { month: '2026-02', state: 'waiting', code: 'NOT_PUBLISHED', units: 3 }
  const loaded = (month: string, units = 3) => ({ month, state: 'loaded', code: null, units })
  const cut = async (work: JobWork): Promise<JobWork> => {
    const refused = loadBody(kit, work, { body: csv(...early) })
    await expect(refused).rejects.toMatchObject({ code: 'NOT_PUBLISHED', message: expect.stringContaining('none of 2026-02') })
    await refused.catch((error: unknown) => settleJob(kit.runtime, work.claim, work, error))
    const [rest] = await query<{ job_id: string }>(`select job_id from etl.jobs where state = 'open' and answer_id is not null`)
    return claimed(kit, Number(rest?.job_id))
  }

  test('waits as not published; the others are loaded from the same answer', async () => {
    const rest = await cut(await workOn(kit, both()))
    expect(await loadBody(kit, rest, {})).toMatchObject({ inserted: 3, unitsLoaded: 3, unitsHeld: 0 })
    expect(await states()).toEqual([loaded('2026-01'), waiting])
    expect(await runSummary(db.database.kysely, kit.runId)).toMatchObject({ units: { loaded: 3, waiting: 3, failed: 0 } })
    // Asked for alone, no row is what the service has.
    expect(await load(boxOf(definition, '2026-02', { domain: three, country: 'us' }))).toMatchObject({
      read: 0,
      unitsLoaded: 3,
    })
    expect(await states()).toEqual([loaded('2026-01'), loaded('2026-02')])
  })

  test.each([
    ['it was released', async () => workOn(kit, both(), { set: { released: true } })],
    [
      'a later month was published when it was asked for',
      async () => workOn(kit, both(), { set: { asked_at: '2026-04-20T00:00:00Z' } }),
    ],
    [
      'another value of it is loaded',
      async () => {
        await load(boxOf(definition, '2026-02', { domain: 'd.com', country: 'us' }), line('2026-02', 'd.com', '1'))
        return workOn(kit, both())
      },
    ],
  ])('is loaded as none where %s', async (_, open) => {
    expect(await loadBody(kit, await open(), { body: csv(...early) })).toMatchObject({ unitsLoaded: 6 })
  })

  test('is loaded as none where fewer values show it: one may have come to its end', async () => {
    const work = await workOn(kit, both(['a.com', 'b.com']))
    expect(await loadBody(kit, work, { body: csv(...early.slice(0, 2)) })).toMatchObject({ unitsLoaded: 4 })
  })
})
