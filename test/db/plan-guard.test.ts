// The guard of a night (promise 13): what is beyond the usual waits for a person's word, the usual goes on, and a word buys exactly what was held.
import { describe, expect, test, vi } from 'vitest'
import { silentLog } from '../../src/core/log.ts'
import type { GuardRule } from '../../src/core/limits.ts'
import type { Definition } from '../../src/core/types.ts'
import { windowsBetween } from '../../src/core/window.ts'
import type { Source } from '../../src/extract/source.ts'
import { approveSpread } from '../../src/ledger/approved-jobs.ts'
import { approve, withdraw, withdrawRun } from '../../src/ledger/approvals.ts'
import { knownPipeline, adoptWork } from '../../src/ledger/adopt-work.ts'
import { keyParameters } from '../../src/ledger/pipelines.ts'
import { causesInLedger } from '../../src/ledger/causes.ts'
import { priceWaiting } from '../../src/ledger/prices.ts'
import { neededApprovals } from '../../src/web/reads/read-approvals.ts'
import { allLoaded, pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, preview, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

/** Reports at so many credits a unit; null: the service names no price. */
const pricedAt = (credits: number | null): Source => ({
  ...sourceOf({ kind: 'report' }),
  estimate: async ({ box }) => {
    const values = Object.values(box.slice).reduce((total, one) => total * [one].flat().length, 1)
    const units = values * windowsBetween(box.window.from, box.window.to, 'month').length
    return { requests: null, rows: null, quota: credits === null ? null : credits * units }
  },
})

const source = pricedAt(3)
const due = { mode: 'due' } as const
const usual: GuardRule = { creditsPerNight: null, factor: 2 }
const domains = (count: number, from = 0): string[] => Array.from({ length: count }, (_, index) => `d${from + index}.com`)

// The newest published months at whatever moment the test runs.
const months = ((): { newest: string; before: string; middle: string; older: string } => {
  const today = new Date()
  const back = (count: number): string =>
    new Date(Date.UTC(today.getUTCFullYear(), today.getUTCMonth() - count, 15)).toISOString().slice(0, 7)
  const first = today.getTime() - 5 * 3_600_000 >= Date.UTC(today.getUTCFullYear(), today.getUTCMonth(), 10) ? 1 : 2
  return { newest: back(first), before: back(first + 1), middle: back(first + 6), older: back(first + 12) }
})()

/** Each of an account of its own: what others buy counts too. */
const planningOf = (names: readonly string[], more: Partial<Definition> = {}, by: Source = source): Planning => {
  const definition = definitionFor(by, { domains: names }, { from: `${months.older}-01` })
  return { source: by, definition: { ...definition, account: definition.pipeline, guard: usual, ...more } }
}

interface Line {
  readonly reason: string
  readonly state: string
  readonly guard: string
  readonly units: number
}

/** Jobs that are only a plan. */
const plans = async ({ definition }: Planning): Promise<string[]> => {
  const rows = await db.query<Line>(
    `select reason, state, guard, sum(cells)::int as units from etl.jobs
     where pipeline_id = $1 and ask_number is null and state in ('open', 'held') group by 1, 2, 3 order by 1`,
    [await pipelineIdOf(db, definition)],
  )
  return rows.map(({ reason, state, guard, units }) => `${units} ${reason}: ${state}, ${guard}`)
}

/** What was found is bought by whoever works on it, and loaded. */
const bought = async (planning: Planning, run: number): Promise<void> => {
  await db.database.pool.query(
    `update etl.jobs set ask_number = nextval('etl.ask_numbers'), asked_at = clock_timestamp(), run_id = $2, report_state = 'downloaded',
       report_id = 'r' || job_id, used_quota = 3 * cells where pipeline_id = $1 and state = 'open' and ask_number is null`,
    [await pipelineIdOf(db, planning.definition), run],
  )
  await allLoaded(db, planning.definition)
}

/** A pipeline whose values are loaded up to the month before the newest. */
const settled = async (names: readonly string[], more: Partial<Definition> = {}): Promise<Planning> => {
  const planning = planningOf(names, more)
  const { runId } = await plan(db, planning, range(months.older, months.before))
  await db.database.pool.query(`update etl.runs set command = 'backfill' where run_id = $1`, [runId])
  await bought(planning, runId)
  return planning
}

/** Units that are not loaded, each with the job that is to ask for it. */
const unitsOf = async ({ definition }: Planning): Promise<number> => {
  const rows = await db.query<{ units: number }>(
    'select count(*)::int as units from etl.units join etl.jobs using (job_id) where etl.units.pipeline_id = $1',
    [await pipelineIdOf(db, definition)],
  )
  return rows[0]?.units ?? 0
}

const waiting = ({ definition }: Planning) => neededApprovals(db.database.kysely, [definition.pipeline])

const causes = async ({ definition }: Planning) =>
  (await causesInLedger(db.database.kysely)).filter(({ pipeline }) => pipeline === definition.pipeline)

test('reports that the service does not price cost what a setting says, in plan, guard and budget, until there is a bill', async () => {
  const stated = { basis: 'value', credits: 7 } as const
  const planning = { ...planningOf(domains(3), {}, pricedAt(null)), stated }
  const before = await preview(db, planning, range(months.newest, months.newest))
  expect(before.jobs.map(({ units, quota }) => quota === units * 7)).toEqual(before.jobs.map(() => true))
  expect(before.pipelines[0]?.forecast).toBeGreaterThanOrEqual(21)
  const { runId } = await plan(db, planning, range(months.newest, months.newest))
  expect(
    await db.query<{ credits: number }>('select sum(estimated_quota)::float8 as credits from etl.jobs where run_id = $1', [
      runId,
    ]),
  ).toEqual([{ credits: before.jobs.reduce((sum, { quota }) => sum + (quota ?? 0), 0) }])
  await bought(planning, runId)
  const after = await preview(db, planning, range(months.before, months.before))
  expect(after.jobs.map(({ units, quota }) => quota === units * 3)).toEqual(after.jobs.map(() => true))
})

test('a flat price that is set for reports is that of a full one, whatever is in it', async () => {
  const planning = { ...planningOf(domains(4), {}, pricedAt(null)), stated: { basis: 'request', credits: 10 } as const }
  const { jobs } = await preview(db, planning, range(months.newest, months.newest))
  expect(jobs.reduce((sum, { quota }) => sum + (quota ?? 0), 0)).toBe(10)
})

describe('a first run', () => {
  test('of weeks names the first and the last day of what waits', async () => {
    const { definition, ...planning } = planningOf(domains(4))
    const window = { ...definition.window, every: 'week' as const, from: '2026-01-05', lookBack: 2 }
    const weekly = { ...planning, definition: { ...definition, window } }
    await plan(db, weekly, due)
    const rows = await db.query<{ last: string }>('select (window_to - 1)::text as last from etl.approvals order by 1 desc')
    expect(await waiting(weekly)).toMatchObject([{ from: '2026-01-05', to: rows[0]?.last }])
  })

  test('loads the months of the look-back and holds the history before them, with one message that names the command', async () => {
    const planning = planningOf(domains(4))
    const first = await plan(db, planning, due)
    expect(first).toMatchObject({ units: 8 })
    expect(await plans(planning)).toEqual(['8 new: open, usual', '44 older month: held, needs approval'])
    expect(await waiting(planning)).toMatchObject([
      { units: 44, reports: 1, credits: 132, allowed: 48, reasons: { 'older month': 44 } },
    ])
    const told = await causes(planning)
    expect(told).toMatchObject([{ kind: 'approval' }])
    expect(told[0]?.message).toContain(`millrace approve ${planning.definition.pipeline}`)
  })

  test('is planned again without another job, approval or message', async () => {
    const planning = planningOf(domains(4))
    const first = await plan(db, planning, due)
    await bought(planning, first.runId)
    const [before] = await causes(planning)
    const again = await plan(db, planning, due)
    expect(again).toMatchObject({ units: 0, held: 44 })
    expect(await plans(planning)).toEqual(['44 older month: held, needs approval'])
    expect((await causes(planning)).map(({ cause }) => cause)).toEqual([before?.cause])
  })

  test('says that a price is not known, and names it as soon as a report has shown it', async () => {
    const planning = planningOf(domains(4), {}, pricedAt(null))
    const first = await plan(db, planning, due)
    expect(await waiting(planning)).toMatchObject([{ units: 44, credits: null }])
    expect((await causes(planning))[0]?.message).toContain('44 units (1 report, price not known)')
    await bought(planning, first.runId)
    await priceWaiting(db.database.kysely, planning.definition.pipeline, 3)
    expect(await waiting(planning)).toMatchObject([{ units: 44, credits: 132 }])
    expect((await preview(db, planning, due)).pipelines[0]?.waiting).toMatchObject({ credits: 132, priced: true })
  })

  test.each([false, true])(
    'what a restored ledger finds to be bought is not approved, nor bought, once more (approved before: %s)',
    async (isApproved) => {
      const planning = planningOf(domains(4))
      const first = await plan(db, planning, due)
      await bought(planning, first.runId)
      const { pipeline, version } = planning.definition
      if (isApproved) await approve(db.database.kysely, [pipeline], 'ada, approve')
      const lost = windowsBetween(`${months.older}-01`, `${months.before}-01`, 'month').slice(0, 3)
      const window = { from: lost[0]?.from ?? '', to: lost.at(-1)?.to ?? '' }
      await db.database.kysely.transaction().execute(async (trx) => {
        const known = await knownPipeline(trx, {
          pipeline,
          pipeline_version: version,
          parameters: keyParameters(planning.definition),
        })
        if (known === null) expect.fail('no such pipeline')
        const slice = Object.fromEntries(known.dimensions.map((name) => [name, ['d0.com']]))
        const work = {
          window,
          slice,
          ask_number: '900001',
          asked_at: new Date().toISOString(),
          account: 'default',
          report_id: `lost-${isApproved}`,
        }
        const nothing = { endpoint: null, request: {}, request_hash: 'x', estimated_quota: null, answer: null }
        expect(await adoptWork(trx, known, 'month', { kind: 'report', ...work, ...nothing })).toBe('taken up')
      })
      // The rest of the plan stands as it did: a night may not be the one to plan it.
      const rest = [`41 older month: ${isApproved ? 'open, usual' : 'held, needs approval'}`]
      expect(await plans(planning)).toEqual(rest)
      expect(await waiting(planning)).toMatchObject(isApproved ? [] : [{ units: 41 }])
      await plan(db, planning, due)
      expect(await plans(planning)).toEqual(rest)
      expect(
        await db.query(
          `select j.job_id from etl.jobs j where j.ask_number is null and j.state <> 'replaced' and j.pipeline_id = $1
         and j.cells <> (select count(*) from etl.units u where u.job_id = j.job_id)`,
          [await pipelineIdOf(db, planning.definition)],
        ),
      ).toEqual([])
    },
  )

  test('with somebody who says yes buys all of it, and it is on record who', async () => {
    const planning = planningOf(domains(2))
    await plan(db, { ...planning, approvedBy: 'ada, run --yes' }, due)
    expect(await plans(planning)).toEqual(['4 new: open, usual', '22 older month: open, usual'])
    expect(
      await db.query('select state, decided_by, units, credits from etl.approvals where pipeline_id = $1', [
        await pipelineIdOf(db, planning.definition),
      ]),
    ).toEqual([{ state: 'approved', decided_by: 'ada, run --yes', units: '22', credits: '66' }])
  })
})

describe('a night on which 300 values came to a list', () => {
  const grown = async (): Promise<Planning> => {
    const planning = await settled(domains(10))
    return { ...planning, definition: withLists(planning.definition, { domains: domains(310) }) }
  }

  test('buys the new month of those that are held, and holds the rest', async () => {
    const planning = await grown()
    expect(await plan(db, planning, due)).toMatchObject({ units: 10 })
    expect(await plans(planning)).toEqual(['10 new: open, usual', '3900 new value: held, needs approval'])
  })

  test('holds the rest, and foretells its price, also where the service names nothing for what it has charged for', async () => {
    const planning = { ...(await grown()), source: pricedAt(0) }
    const foreseen = await preview(db, planning, due)
    expect(foreseen.jobs.every(({ units, quota }) => quota === units * 3)).toBe(true)
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['10 new: open, usual', '3900 new value: held, needs approval'])
  })

  test('buys exactly what was held, and only once somebody has approved it', async () => {
    const planning = await grown()
    const night = await plan(db, planning, due)
    await bought(planning, night.runId)
    expect((await plan(db, planning, due)).units).toBe(0)
    expect(await approve(db.database.kysely, [planning.definition.pipeline], 'ada, approve')).toMatchObject([
      { units: 3_900, reports: 3, credits: 11_700 },
    ])
    const next = await plan(db, planning, due)
    expect(next).toMatchObject({ units: 3_900, jobs: 3, held: 0 })
    await bought(planning, next.runId)
    expect(await plan(db, planning, due)).toMatchObject({ units: 0, held: 0 })
    expect(await waiting(planning)).toEqual([])
    expect(await causes(planning)).toEqual([])
  })

  test('is no usual night once it was approved: the next 300 are held again', async () => {
    const planning = await grown()
    await plan(db, planning, due)
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    await bought(planning, (await plan(db, planning, due)).runId)
    const more = { ...planning, definition: withLists(planning.definition, { domains: domains(610) }) }
    await plan(db, more, due)
    expect(await plans(more)).toEqual(['3900 new value: held, needs approval'])
  })

  test('is planned anew when the list is changed back, and nothing of it is left', async () => {
    const planning = await grown()
    await bought(planning, (await plan(db, planning, due)).runId)
    const back = { ...planning, definition: withLists(planning.definition, { domains: domains(10) }) }
    expect(await plan(db, back, due)).toMatchObject({ units: 0, held: 0 })
    expect(await plans(back)).toEqual([])
    expect(await waiting(back)).toEqual([])
  })

  test('tells once more, in one message, when what is held has changed', async () => {
    const planning = await grown()
    await plan(db, planning, due)
    const [before] = await causes(planning)
    const more = { ...planning, definition: withLists(planning.definition, { domains: domains(410) }) }
    await plan(db, more, due)
    const after = await causes(more)
    expect(after).toHaveLength(1)
    expect(after[0]?.cause).not.toBe(before?.cause)
    expect(await waiting(more)).toMatchObject([{ units: 5_200 }])
  })

  test('buys of what was approved nothing for values that have left since', async () => {
    const planning = await grown()
    await bought(planning, (await plan(db, planning, due)).runId)
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    const fewer = { ...planning, definition: withLists(planning.definition, { domains: domains(60) }) }
    expect(await plan(db, fewer, due)).toMatchObject({ units: 50 * 13 })
  })

  test('leaves nothing to buy where the word is taken back', async () => {
    const planning = await grown()
    await bought(planning, (await plan(db, planning, due)).runId)
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    expect(await withdraw(db.database.kysely, [planning.definition.pipeline], 'ada')).toBe(3)
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['3900 new value: held, needs approval'])
  })
})

describe('what a night may cost by itself', () => {
  test('a value more costs no more than a report of a night did so far, and goes on, long after that', async () => {
    const planning = await settled(domains(20))
    await bought(planning, (await plan(db, planning, due)).runId)
    const id = await pipelineIdOf(db, planning.definition)
    await db.database.pool.query(`update etl.jobs set asked_at = asked_at - interval '40 days' where pipeline_id = $1`, [id])
    const next = { ...planning, definition: withLists(planning.definition, { domains: domains(21) }) }
    await plan(db, next, due)
    expect(await plans(next)).toEqual(['13 new value: open, usual'])
  })

  test('a large range that a person named makes no later night dearer', async () => {
    const planning = await settled(domains(10))
    const first = await plan(db, planning, due)
    await bought(planning, first.runId)
    const next = { ...planning, definition: withLists(planning.definition, { domains: domains(15) }) }
    await plan(db, next, due)
    expect(await plans(next)).toEqual(['65 new value: held, needs approval'])
    expect(await waiting(next)).toMatchObject([{ credits: 195, allowed: 60 }])
  })

  test('older months after a backfill of one are held', async () => {
    const planning = planningOf(domains(5))
    await bought(planning, (await plan(db, planning, range(months.newest, months.newest))).runId)
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['5 new: open, usual', '55 older month: held, needs approval'])
  })

  test('older months after a backfill of an old one are held, too: no night has loaded what follows it', async () => {
    const planning = planningOf(domains(5))
    await bought(planning, (await plan(db, planning, range(months.older, months.older))).runId)
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['10 new: open, usual', '50 older month: held, needs approval'])
  })

  test('the months of an outage are what a night buys, also after some of them were bought', async () => {
    const planning = planningOf(domains(5), {}, source)
    const from = { ...planning.definition.window, from: `${months.before}-01` }
    await bought(planning, (await plan(db, { ...planning, definition: { ...planning.definition, window: from } }, due)).runId)
    await db.database.pool.query(
      `update etl.slices s set night_from = $2::date from etl.pipelines p where p.pipeline_id = s.pipeline_id and p.pipeline = $1`,
      [planning.definition.pipeline, `${months.older}-01`],
    )
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['55 new: open, usual'])
  })

  test('a new version of a pipeline that holds something is held as a whole', async () => {
    const planning = await settled(domains(5))
    const next = { ...planning, definition: { ...planning.definition, version: 2, params: { test: 'other' } } }
    await plan(db, next, due)
    expect(await plans(next)).toEqual(['65 changed definition: held, needs approval'])
  })

  test('a figure in the definition is the bound, and where even the usual is beyond it everything waits', async () => {
    const guard = usual
    const loose = planningOf(domains(4), { guard: { ...guard, creditsPerNight: 156 } })
    await plan(db, loose, due)
    expect(await plans(loose)).toEqual(['8 new: open, usual', '44 older month: open, usual'])
    const tight = planningOf(domains(4), { guard: { ...guard, creditsPerNight: 155 } })
    await plan(db, tight, due)
    expect(await plans(tight)).toEqual(['8 new: open, usual', '44 older month: held, needs approval'])
    const tightest = planningOf(domains(4), { guard: { ...guard, creditsPerNight: 23 } })
    await plan(db, tightest, due)
    expect(await plans(tightest)).toEqual(['8 new: held, needs approval', '44 older month: held, needs approval'])
  })

  test('with guard: off everything', async () => {
    const planning = planningOf(domains(4), { guard: null })
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['52 new: open, usual'])
  })

  test.each([
    ['an unknown price counts a unit as a credit', null, 'held, needs approval'],
    ['what costs nothing by the word of the service is never held', 0, 'open, usual'],
  ])('%s', async (_, credits, older) => {
    const planning = planningOf(domains(4), {}, pricedAt(credits))
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['8 new: open, usual', `44 older month: ${older}`])
  })

  test('pages that cost nothing are never held', async () => {
    const walks = sourceOf({ kind: 'walk' })
    const planning = planningOf(domains(4), {}, walks)
    await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['52 new: open, usual'])
  })
})

/** As if the service had refused them before anything was bought. */
const failed = async ({ definition }: Planning, run: number): Promise<void> => {
  await db.database.pool.query(
    `update etl.jobs set state = 'failed', error_code = 'SERVICE_ERROR' where pipeline_id = $1 and state = 'open' and ask_number is null`,
    [await pipelineIdOf(db, definition)],
  )
  await db.database.pool.query(`update etl.run_jobs set outcome = 'failed' where run_id = $1 and outcome is null`, [run])
  await db.database.pool.query(`update etl.runs set state = 'failed' where run_id = $1`, [run])
}

const finished = (run: number) => db.database.pool.query(`update etl.runs set state = 'done' where run_id = $1`, [run])

const measure: Omit<Definition['columns'][number], 'name' | 'from'> = {
  ...{ type: 'numeric', isKey: false, nullable: true, description: '', unit: null },
  ...{ origin: 'response', ifAbsent: null, normalize: null, rounding: null },
}

const withMetrics = (planning: Planning, ...names: readonly string[]): Planning => ({
  source: pricedAt(3 * names.length),
  definition: { ...planning.definition, columns: names.map((name) => ({ ...measure, name, from: [name] })) },
})

test.each([
  ['approved', { creditsPerNight: 100, factor: 2 }],
  ['put off by a budget', { creditsPerNight: null, factor: 2 }],
])(
  'a range of a person that was %s is held by a night at its new price, where metrics are added before it is bought',
  async (how, guard) => {
    const planning = planningOf(domains(4), { guard })
    const two = withMetrics(planning, 'a', 'b')
    const { runId } = await plan(db, two, range(months.older, months.middle))
    const { pipeline } = planning.definition
    if (how === 'approved') await approve(db.database.kysely, [pipeline], 'ada')
    else {
      await db.database.pool.query(`update etl.jobs set error_code = 'QUOTA_EXHAUSTED' where run_id = $1`, [runId])
      await db.database.pool.query(`update etl.run_jobs set outcome = 'waiting' where run_id = $1`, [runId])
      await approveSpread(db.database.kysely, runId, 'ada', [two])
    }
    await finished(runId)
    const fewer = await plan(db, withMetrics(planning, 'a'), due)
    expect((await plans(two)).filter((line) => line.includes('new: open'))).toHaveLength(1)
    await finished(fewer.runId)
    const more = withMetrics(planning, 'a', 'b', 'c', 'd')
    const said = vi.spyOn(silentLog, 'warn')
    await finished((await plan(db, more, due)).runId)
    expect(said).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ pipeline }), expect.stringContaining('planned again'))
    said.mockRestore()
    expect(
      await db.query<{ units: number }>(
        `select count(*)::int as units from etl.units u join etl.jobs j using (job_id)
      where u.pipeline_id = $1 and j.state = 'open' and u.window_from <= $2`,
        [await pipelineIdOf(db, planning.definition), `${months.middle}-01`],
      ),
    ).toEqual([{ units: 0 }])
    expect(await waiting(more)).toHaveLength(1)
  },
)

test('a range of two versions side by side that was put off by a budget goes on with the nights as it was', async () => {
  const planning = planningOf(domains(2))
  const first = withMetrics(planning, 'a')
  const other = withMetrics(planning, 'b')
  const second = { ...other, definition: { ...other.definition, version: 2, publish: false } }
  const { runId } = await plan(db, first, range(months.older, months.older))
  await plan(db, second, range(months.older, months.older), runId)
  await db.database.pool.query(`update etl.jobs set error_code = 'QUOTA_EXHAUSTED' where run_id = $1`, [runId])
  await db.database.pool.query(`update etl.run_jobs set outcome = 'waiting' where run_id = $1`, [runId])
  expect(await approveSpread(db.database.kysely, runId, 'ada', [first, second])).toHaveLength(1)
  await finished(runId)
  const said = vi.spyOn(silentLog, 'warn')
  for (const one of [first, second]) {
    await finished((await plan(db, one, due)).runId)
    expect(await plans(one)).toContainEqual(expect.stringContaining('open, usual'))
  }
  expect(said).not.toHaveBeenCalled()
  said.mockRestore()
})

test.each([
  ['approved, and then metrics are added', true],
  ['approved as it was held, after metrics were added', false],
])('what was %s, is held again at its new price; with fewer metrics the word stays', async (_, isBefore) => {
  const planning = planningOf(domains(4))
  const two = withMetrics(planning, 'b', 'a')
  await bought(two, (await plan(db, two, due)).runId)
  expect(await waiting(two)).toMatchObject([{ units: 44, credits: 264 }])
  const allow = () => approve(db.database.kysely, [planning.definition.pipeline], 'ada')
  if (isBefore) {
    await allow()
    const fewer = await plan(db, withMetrics(planning, 'a'), due)
    expect(fewer).toMatchObject({ units: 44, held: 0 })
    await finished(fewer.runId)
  }
  const more = withMetrics(planning, 'a', 'b', 'c', 'd')
  if (!isBefore) await allow()
  expect(await plan(db, more, due)).toMatchObject({ units: 0 })
  expect(await plans(more)).toEqual(['44 older month: held, needs approval'])
  expect(await waiting(more)).toMatchObject([{ units: 44, credits: 528 }])
  await allow()
  expect(await plan(db, more, due)).toMatchObject({ units: 44, held: 0 })
})

describe('pages that are paid for one by one', () => {
  const pages: Source = { ...sourceOf({ kind: 'walk' }), billing: { seen: [] } }

  test('are held like reports, and bought once they are approved', async () => {
    const planning: Planning = { ...planningOf(domains(4), {}, pages), stated: { basis: 'request', credits: 2 } }
    const first = await plan(db, planning, due)
    expect(await plans(planning)).toEqual(['8 new: open, usual', '44 older month: held, needs approval'])
    expect(await waiting(planning)).toMatchObject([{ units: 44, reports: 0, credits: 88, allowed: 32 }])
    expect((await causes(planning))[0]?.message).toContain('44 units (about 88 credits) need approval')
    await allLoaded(db, planning.definition)
    expect(await plan(db, planning, due)).toMatchObject({ held: 44 })
    expect((await preview(db, planning, due)).pipelines[0]?.waiting).toMatchObject({ units: 44, credits: 88 })
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    await finished(first.runId)
    expect(await plan(db, planning, due)).toMatchObject({ held: 0 })
    expect(await plans(planning)).toContain('44 older month: open, usual')
  })

  test('that were taken back amid a walk are asked for anew, as beyond the usual, and the walk goes on from them', async () => {
    const stated = { basis: 'request', credits: 2 } as const
    const guard = { ...usual, creditsPerNight: 1 }
    const planning: Planning = { ...planningOf(domains(4), { guard }, pages), stated }
    const approved = { ...planning, approvedBy: 'ada' }
    await bought(planning, (await plan(db, approved, range(months.older, months.newest))).runId)
    const next = { ...planning, definition: withLists(planning.definition, { domains: domains(5) }) }
    const { runId } = await plan(db, next, due)
    const { pipeline } = next.definition
    await approve(db.database.kysely, [pipeline], 'ada')
    const id = await pipelineIdOf(db, next.definition)
    await db.database.pool.query(
      `update etl.jobs set begun_landing = 'begun/pages' where pipeline_id = $1 and window_from = $2 and reason = 'new value'`,
      [id, `${months.newest}-01`],
    )
    await finished(runId)
    // With the look-back of the others.
    expect(await withdraw(db.database.kysely, [pipeline], 'ada')).toBe(13 + 8)
    // The value is one that nights know by now: what is missing of it is usual, but this one was not.
    await bought(next, (await plan(db, { ...next, approvedBy: 'ada' }, range(months.before, months.before))).runId)
    await plan(db, next, due)
    expect(await plans(next)).toContain('1 unfinished: held, needs approval')
    await approve(db.database.kysely, [pipeline], 'ada')
    expect(
      await db.query(
        `select state, begun_landing from etl.jobs where pipeline_id = $1 and begun_landing is not null order by job_id`,
        [id],
      ),
    ).toEqual([
      { state: 'replaced', begun_landing: 'begun/pages' },
      { state: 'open', begun_landing: 'begun/pages' },
    ])
  })

  test('are foreseen as held', async () => {
    const planning = planningOf(domains(4), {}, pages)
    const held = (await preview(db, planning, due)).jobs.filter((job) => job.held)
    expect(held.reduce((total, { units }) => total + units, 0)).toBe(44)
  })

  test('are foreseen as bought with somebody who says yes', async () => {
    const planning = planningOf(domains(4), {}, pages)
    const foreseen = { units: 52, held: 0, waiting: 0 }
    const seen = async () => {
      const { jobs, pipelines } = await preview(db, { ...planning, approvedBy: 'ada' }, due)
      const units = jobs.reduce((total, job) => total + job.units, 0)
      return { units, held: jobs.filter(({ held }) => held).length, waiting: pipelines[0]?.waiting.units }
    }
    expect(await seen()).toEqual(foreseen)
    await plan(db, planning, due)
    expect(await seen()).toEqual(foreseen)
  })

  test('with somebody who says yes are bought', async () => {
    const planning = planningOf(domains(2), {}, pages)
    await plan(db, { ...planning, approvedBy: 'ada, run --yes' }, due)
    expect(await plans(planning)).toEqual(['4 new: open, usual', '22 older month: open, usual'])
  })
})

describe('what a person asked for and failed', () => {
  test.each([
    ['a range', false],
    ['--force', true],
  ])('(%s) is bought by the night in that name, and makes it no more usual', async (_, force) => {
    const planning = await settled(domains(10))
    const first = await plan(db, planning, due)
    await bought(planning, first.runId)
    await finished(first.runId)
    const more = { ...planning, definition: withLists(planning.definition, { domains: domains(force ? 10 : 40) }) }
    await failed(more, (await plan(db, more, range(months.older, months.newest, { force }))).runId)
    const night = await plan(db, more, due)
    expect(night.units).toBe(force ? 130 : 390)
    await bought(more, night.runId)
    await finished(night.runId)
    // As much as twice what the night bought would allow.
    const grown = { ...planning, definition: withLists(planning.definition, { domains: domains(force ? 20 : 65) }) }
    await plan(db, grown, due)
    expect(await plans(grown)).toEqual([`${force ? 130 : 325} new value: held, needs approval`])
  })

  test.each([
    ['a range', 'withdraw', false],
    ['a range', 'cancel', false],
    ['--force', 'withdraw', true],
    ['--force', 'cancel', true],
  ])('(%s) can be taken back by %s as long as it is not bought', async (_, by, force) => {
    const planning = await settled(domains(10))
    const first = await plan(db, planning, due)
    await bought(planning, first.runId)
    await finished(first.runId)
    const more = { ...planning, definition: withLists(planning.definition, { domains: domains(force ? 10 : 40) }) }
    const { runId } = await plan(db, more, range(months.older, months.newest, { force }))
    await failed(more, runId)
    const { kysely } = db.database
    const names = [more.definition.pipeline]
    expect(await (by === 'cancel' ? withdrawRun(kysely, runId, 'ada') : withdraw(kysely, names, 'ada'))).toBeGreaterThan(0)
    expect(await plan(db, more, due)).toMatchObject({ units: 0 })
    expect(await plans(more)).toEqual(force ? [] : ['390 new value: held, needs approval'])
  })
})

describe('what was bought within 24 hours', () => {
  const later = (planning: Planning, hours: number) =>
    db.database.pool.query(
      `with moved as (update etl.jobs j set asked_at = asked_at - $2 * interval '1 hour' from etl.pipelines p
         where p.pipeline_id = j.pipeline_id and p.account = $1 and asked_at is not null returning run_id)
       update etl.runs set started_at = started_at - $2 * interval '1 hour' where run_id in (select run_id from moved)`,
      [planning.definition.account, hours],
    )

  test('counts together, whatever runs bought it', async () => {
    const planning = await settled(domains(40))
    await later(planning, 100)
    const night = async (count: number): Promise<string[]> => {
      const next = { ...planning, definition: withLists(planning.definition, { domains: domains(count) }) }
      const { runId } = await plan(db, next, due)
      const planned = await plans(next)
      await bought(next, runId)
      await finished(runId)
      return planned
    }
    expect(await night(43)).toEqual(['40 new: open, usual', '39 new value: open, usual'])
    expect(await night(46)).toEqual(['39 new value: held, needs approval'])
    await later(planning, 24)
    expect(await night(44)).toEqual(['13 new value: open, usual'])
  })

  test('counts over the pipelines of an account', async () => {
    const one = await settled(domains(40))
    const other = await settled(domains(40), { account: one.definition.account })
    await later(one, 100)
    const night = async ({ definition, source: by }: Planning, count: number): Promise<string[]> => {
      const next = { source: by, definition: withLists(definition, { domains: domains(count) }) }
      const { runId } = await plan(db, next, due)
      const planned = await plans(next)
      await bought(next, runId)
      await finished(runId)
      return planned
    }
    // The most expensive day of each is another day, so that the account's is no more than theirs.
    for (const each of [one, other]) {
      expect(await night(each, 40)).toEqual(['40 new: open, usual'])
      await later(one, 25)
    }
    expect(await night(one, 45)).toEqual(['65 new value: open, usual'])
    expect(await night(other, 45)).toEqual(['65 new value: held, needs approval'])
  })

  test('counts against the figure of a definition, the usual included', async () => {
    const before = await settled(domains(10))
    const planning = { ...before, definition: { ...before.definition, guard: { ...usual, creditsPerNight: 50 } } }
    await later(planning, 100)
    const first = await plan(db, planning, due)
    await bought(planning, first.runId)
    await finished(first.runId)
    expect(await plans(planning)).toEqual([])
    const forced = { ...planning, definition: withLists(planning.definition, { domains: domains(11) }) }
    await plan(db, forced, due)
    expect(await plans(forced)).toEqual(['13 new value: held, needs approval'])
  })
})

describe('a range that a person names', () => {
  const whole = range(months.older, months.newest)

  test('has that word', async () => {
    const planning = planningOf(domains(4))
    await plan(db, planning, whole)
    expect(await plans(planning)).toEqual(['52 new: open, usual'])
  })

  test('takes what a night held of its months', async () => {
    const planning = planningOf(domains(4))
    await bought(planning, (await plan(db, planning, due)).runId)
    await plan(db, planning, whole)
    expect(await plans(planning)).toEqual(['44 new: open, usual'])
    expect(await waiting(planning)).toEqual([])
  })

  test('leaves the other months of a held report waiting, at their share of its price, and a night keeps them', async () => {
    const planning = planningOf(domains(4))
    await bought(planning, (await plan(db, planning, due)).runId)
    const { runId } = await plan(db, planning, range(months.middle, months.middle))
    const rest = ['4 new: open, usual', '40 older month: held, needs approval']
    expect(await plans(planning)).toEqual(rest)
    expect(await waiting(planning)).toMatchObject([{ units: 40, reports: 2, credits: 120, reasons: { 'older month': 40 } }])
    expect(await unitsOf(planning)).toBe(44)
    await bought(planning, runId)
    expect(await plan(db, planning, due)).toMatchObject({ units: 0, held: 40 })
    expect(await plans(planning)).toEqual(rest.slice(1))
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    expect(await plan(db, planning, due)).toMatchObject({ units: 40, jobs: 2, held: 0 })
  })

  test('of a list that was edited meanwhile leaves waiting, and lets be bought, only what the list still has', async () => {
    const planning = planningOf(domains(4))
    await bought(planning, (await plan(db, planning, due)).runId)
    const fewer = { ...planning, definition: withLists(planning.definition, { domains: domains(3) }) }
    await bought(fewer, (await plan(db, fewer, range(months.middle, months.middle))).runId)
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    expect(await plan(db, fewer, due)).toMatchObject({ units: 30, jobs: 2, held: 0 })
    await bought(fewer, (await plan(db, fewer, due)).runId)
    expect(await plan(db, fewer, range(months.older, months.newest))).toMatchObject({ units: 0 })
  })

  test('and another one beside a night that is being planned ask for each unit once', async () => {
    const planning = planningOf(domains(4))
    await bought(planning, (await plan(db, planning, due)).runId)
    await Promise.all([
      plan(db, planning, range(months.middle, months.middle)),
      plan(db, planning, due),
      plan(db, planning, range(months.older, months.middle)),
    ])
    expect(
      await db.query<{ cells: number; units: number }>(
        `select sum(cells)::int as cells, (select count(*)::int from etl.units u where u.pipeline_id = $1 and u.answer_id is null) as units
       from etl.jobs where pipeline_id = $1 and ask_number is null and state in ('open', 'held')`,
        [await pipelineIdOf(db, planning.definition)],
      ),
    ).toEqual([{ cells: 44, units: 44 }])
  })

  test('leaves the other values of a held report waiting where it names some, and a night keeps them', async () => {
    const planning = planningOf(domains(4))
    await bought(planning, (await plan(db, planning, due)).runId)
    const only = new Map([['domain', ['d1.com', 'd2.com']]])
    const { runId } = await plan(db, planning, { ...range(months.middle, months.middle), only })
    expect(await unitsOf(planning)).toBe(44)
    const held = (await plans(planning)).filter((line) => line.includes('held'))
    expect(held).toEqual(['42 older month: held, needs approval'])
    expect(await waiting(planning)).toMatchObject([{ units: 42, credits: 126, reasons: { 'older month': 42 } }])
    await plan(db, planning, { ...range(months.middle, months.middle), only: new Map([['domain', ['d1.com']]]) })
    expect(await waiting(planning)).toMatchObject([{ units: 42, credits: 126 }])
    await bought(planning, runId)
    expect(await plan(db, planning, due)).toMatchObject({ units: 0, held: 42 })
    await approve(db.database.kysely, [planning.definition.pipeline], 'ada')
    expect(await plan(db, planning, due)).toMatchObject({ units: 42, held: 0 })
  })

  test('waits where it is dearer than the figure in the definition, and a night leaves it as it is', async () => {
    const planning = planningOf(domains(4), { guard: { creditsPerNight: 100, factor: 2 } })
    await plan(db, planning, whole)
    expect(await plans(planning)).toEqual(['52 new: held, needs approval'])
    expect(await plan(db, planning, due)).toMatchObject({ units: 0, held: 52 })
    await plan(db, { ...planning, approvedBy: 'ada, backfill --yes' }, whole)
    expect(await plans(planning)).toEqual(['52 new: open, usual'])
  })
})

test('the plan foretells what a night then does, in as many reports', async () => {
  const planning = await settled(domains(10))
  const grown = { ...planning, definition: withLists(planning.definition, { domains: domains(500) }) }
  const foretold = await preview(db, grown, due)
  const now = foretold.jobs.filter(({ held }) => !held)
  const held = foretold.jobs.filter((job) => job.held)
  const [about] = foretold.pipelines
  expect(about?.changes.lists).toMatchObject([{ dimension: 'domain', came: 490, left: 0 }])
  const night = await plan(db, grown, due)
  expect(night).toMatchObject({ units: now.reduce((sum, { units }) => sum + units, 0), jobs: now.length })
  const [word] = await waiting(grown)
  expect(word).toMatchObject({
    units: held.reduce((sum, { units }) => sum + units, 0),
    reports: held.length,
    credits: held.reduce((sum, { quota }) => sum + (quota ?? 0), 0),
    allowed: Math.round(about?.verdict?.allowed ?? 0),
  })
})

test('10,000 values that came in one night are held, approved in one go, and spread over the months of a budget', async () => {
  const known = await settled(domains(10))
  const { window, limits } = known.definition
  const grown: Planning = {
    ...known,
    definition: {
      ...withLists(known.definition, { domains: domains(10_010) }),
      window: { ...window, from: `${months.before}-01` },
      limits: { ...limits, quotaPerMonth: 20_000 },
    },
  }
  expect(await plan(db, grown, due)).toMatchObject({ units: 10 })
  // Two months of each, at most 100 domains in a report.
  expect(await waiting(grown)).toMatchObject([{ units: 20_000, reports: 100, credits: 60_000 }])
  expect(await approve(db.database.kysely, [grown.definition.pipeline], 'ada')).toMatchObject([{ units: 20_000, reports: 100 }])
  const { pipelines } = await preview(db, grown, due)
  expect(pipelines[0]?.backlog).toMatchObject({ reports: 100, units: 20_000 })
  // A third of it a month: the last of it two months from now or later.
  const [year = 0, month = 0] = (pipelines[0]?.doneOn ?? '').split('-').map(Number)
  const now = new Date()
  expect((year - now.getUTCFullYear()) * 12 + month - 1 - now.getUTCMonth()).toBeGreaterThanOrEqual(2)
})
