// Nights: what is asked about again, and how little where nothing changed.
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import type { Box, Fingerprint } from '../../src/core/types.ts'
import { addWindows, lastRestatementMs } from '../../src/core/window.ts'
import { slicesPerBlock } from '../../src/ledger/candidates.ts'
import { checkCycle, windowsInScope } from '../../src/plan/frames.ts'
import { jobRow, setJob } from '../support/ledger-answers.ts'
import { allLoaded, cellsOf, closedWindows, died, jobsOf, loaded, pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, type Planning, plan, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

const due = { mode: 'due' } as const
const day = 86_400_000
const reports = sourceOf({ kind: 'report' })
const inDays = (days: number): string => new Date(Date.now() + days * day).toISOString()
/** The first of the month so many months ago. */
const monthsAgo = (months: number): string => addWindows(new Date().toISOString().slice(0, 8).concat('01'), 'month', -months)
/** Published windows since five months ago: 3 or 4, two of them looked back at. */
const months = (planning: Planning): string[] =>
  windowsInScope(planning.definition, due, Date.now()).map(({ from }) => from.slice(0, 7))

const names = (count: number): string[] => Array.from({ length: count }, (_, index) => `d${String(index).padStart(2, '0')}.com`)
const open = async ({ definition }: Planning) => (await jobsOf(db, definition)).filter(({ state }) => state === 'open')

describe('reports', () => {
  const nightly = (): Planning => ({
    source: reports,
    definition: definitionFor(reports, { domains: ['a.com', 'b.com'] }, { from: monthsAgo(5) }),
  })

  test.each([
    ['before the service may have restated it are bought again within the look-back', -1, 4],
    ['after that are not', 1, 0],
  ])('asked for %s', async (_, offset, expected) => {
    const planning = nightly()
    await plan(db, planning, due)
    const restated = lastRestatementMs(planning.definition.window.publication, Date.now())
    await allLoaded(db, planning.definition, { askedAt: new Date(restated + offset * 60_000).toISOString() })
    expect(await plan(db, planning, due)).toMatchObject({ units: expected, done: 0 })
    const again = await open(planning)
    expect(again.flatMap(({ cells }) => cells.map((cell) => cell.slice(0, 7)))).toEqual(
      expected === 0
        ? []
        : months(planning)
            .slice(-2)
            .flatMap((month) => [month, month]),
    )
    expect(again.every(({ reason }) => reason === 'look-back')).toBe(true)
  })

  test.each([
    [9, 8, 0],
    [9, 10, 4],
  ])('with a full check of %i days those %i days old are bought again: %i', async (fullCheckDays, age, expected) => {
    const source = reports
    // The calendar asks for nothing: its days are long past.
    const definition = definitionFor(source, { domains: ['a.com', 'b.com'] }, { from: monthsAgo(5), fullCheckDays })
    await plan(db, { source, definition }, due)
    const restated = lastRestatementMs(definition.window.publication, Date.now())
    await allLoaded(db, definition, { askedAt: inDays(-age) })
    const counted = await plan(db, { source, definition }, due)
    const isRestated = Date.now() - age * day < restated
    expect(counted.units).toBe(isRestated ? 4 : expected)
  })

  test('a nightly run leaves unfinished units before the first window to the backfill that made them', async () => {
    const planning = nightly()
    await plan(db, planning, range('2020-01', '2020-01'))
    expect(await plan(db, planning, due)).toMatchObject({ units: months(planning).length * 2 })
  })

  test('windows older than the look-back are closed once every wanted unit is loaded, and then hold nothing to look at', async () => {
    const planning = nightly()
    const older = months(planning).slice(0, -2)
    await plan(db, planning, due)
    expect(await closedWindows(db, planning.definition)).toEqual({})
    await allLoaded(db, planning.definition)
    await plan(db, planning, due)
    expect(await closedWindows(db, planning.definition)).toEqual(Object.fromEntries(older.map((month) => [month, 1])))
    const rows = await db.database.kysely
      .selectFrom('etl.windows')
      .select(['closed_units', 'closed_rows'])
      .where('closed_generation', 'is not', null)
      .where('pipeline_id', '=', await pipelineIdOf(db, planning.definition))
      .execute()
    expect(rows).toEqual(older.map(() => ({ closed_units: '2', closed_rows: '2' })))
    expect(await plan(db, planning, range(older[0] ?? '', older.at(-1) ?? ''))).toMatchObject({
      units: 0,
      done: older.length * 2,
    })
  })

  test('a value that is added opens closed windows for itself alone', async () => {
    const planning = nightly()
    await plan(db, planning, due)
    await allLoaded(db, planning.definition)
    await plan(db, planning, due)
    const more = { ...planning, definition: withLists(planning.definition, { domains: ['a.com', 'b.com', 'c.com'] }) }
    const added = await plan(db, more, due)
    expect(added).toMatchObject({ units: months(planning).length, jobs: 1 })
    expect(await closedWindows(db, planning.definition)).toEqual({})
    await allLoaded(db, planning.definition)
    await plan(db, more, due)
    expect(Object.values(await closedWindows(db, planning.definition))).toEqual(
      months(planning)
        .slice(0, -2)
        .map(() => 2),
    )
  })

  test('a value that leaves lets windows close at the new lists', async () => {
    const planning = nightly()
    await plan(db, planning, due)
    await allLoaded(db, planning.definition)
    await plan(db, planning, due)
    const fewer = { ...planning, definition: withLists(planning.definition, { domains: ['a.com'] }) }
    await plan(db, fewer, due)
    expect(Object.values(await closedWindows(db, planning.definition))).toEqual(
      months(planning)
        .slice(0, -2)
        .map(() => 2),
    )
  })

  test('a window with a held or an asked unit stays open', async () => {
    const planning = nightly()
    const [first = ''] = months(planning)
    await plan(db, planning, due)
    await allLoaded(db, planning.definition)
    await sql`update etl.units set held_answer_id = answer_id, held_code = 'SHRUNK' where unit_id = (
      select min(unit_id) from etl.units where pipeline_id = ${await pipelineIdOf(db, planning.definition)} and window_from = ${`${first}-01`}::date)`.execute(
      db.database.kysely,
    )
    expect(await plan(db, planning, due)).toMatchObject({ held: 1, units: 0 })
    expect(Object.keys(await closedWindows(db, planning.definition))).not.toContain(first)
  })
})

describe('walks', () => {
  const answer = { lastUpdated: '2026-01-01', count: 3 }
  /** Loaded walks in every window that is due, and a probe that answers by domain and month. */
  const loadedWalks = async (count: number, askedAt: string, window: { fullCheckDays?: number | null; from?: string } = {}) => {
    const probed: string[] = []
    const changed = new Set<string>()
    const probe = ({ slice, window: { from } }: Box): Fingerprint => {
      const cell = `${from.slice(0, 7)} ${slice['domain']}`
      probed.push(cell)
      return changed.has(cell) ? { ...answer, lastUpdated: '2026-02-02' } : answer
    }
    const source = sourceOf({ kind: 'walk', probe })
    const planning = { source, definition: definitionFor(source, { domains: names(count) }, { from: monthsAgo(5), ...window }) }
    await plan(db, planning, due)
    for (const { jobId } of await jobsOf(db, planning.definition)) await loaded(db, jobId, { askedAt, ...answer })
    return { planning, probed, changed, newest: months(planning).slice(-2) }
  }

  test('two units of each window of the look-back are asked about; where none changed nothing is written but when that was', async () => {
    const { planning, probed, newest } = await loadedWalks(40, inDays(0))
    const before = await cellsOf(db, planning.definition)
    expect(await plan(db, planning, due)).toMatchObject({ units: 0, jobs: 0, done: 80 })
    expect(probed.map((cell) => cell.slice(0, 7)).sort()).toEqual(newest.flatMap((month) => [month, month]))
    expect(await cellsOf(db, planning.definition)).toEqual(before)
    const rows = await db.database.kysely
      .selectFrom('etl.windows')
      .select('window_from')
      .where('looked_at', 'is not', null)
      .where('pipeline_id', '=', await pipelineIdOf(db, planning.definition))
      .orderBy('window_from')
      .execute()
    expect(rows.map((row) => row.window_from.slice(0, 7))).toEqual(newest)
  })

  test('a copy that nobody has decided about asks about none where that costs, as a page does', async () => {
    const { planning, probed } = await loadedWalks(40, inDays(0))
    const paid = { ...planning, source: { ...planning.source, billing: { seen: [] } } }
    await sql`update etl.warehouse set standing = 'copy', standing_reason = 'found', standing_since = now()`.execute(
      db.database.kysely,
    )
    try {
      expect(await plan(db, paid, due)).toMatchObject({ units: 0, jobs: 0 })
      expect(probed).toEqual([])
    } finally {
      await sql`update etl.warehouse set standing = 'own', standing_reason = null, standing_since = null`.execute(
        db.database.kysely,
      )
    }
    await plan(db, paid, due)
    expect(probed).toHaveLength(4)
  })

  test.each(['quota_per_day', 'credits_per_night'])(
    'what asking costs is reserved: under a spent %s a window is not asked about',
    async (bound) => {
      const { planning, probed, changed, newest } = await loadedWalks(40, inDays(0))
      for (const name of names(40)) changed.add(`${newest[1]} ${name}`)
      const { definition, source } = planning
      const perDay = bound === 'quota_per_day'
      const paid: Planning = {
        source: { ...source, billing: { seen: [] } },
        definition: {
          ...definition,
          guard: perDay ? null : { creditsPerNight: 35, factor: 2 },
          limits: { ...definition.limits, quotaPerDay: perDay ? 35 : null },
        },
        stated: { basis: 'request', credits: 10 },
      }
      const pipelineId = await pipelineIdOf(db, definition)
      const spent = async () =>
        (
          await db.query('select coalesce(sum(credits), 0)::int as credits from etl.request_credits where pipeline_id = $1', [
            pipelineId,
          ])
        )[0]
      await db.database.pool.query(
        `insert into etl.request_credits select current_date, 'default', pipeline_id, tag_set_id, true, 0, 1, 20, 0, 0 from etl.pipelines where pipeline_id = $1`,
        [pipelineId],
      )
      expect(await plan(db, paid, due)).toMatchObject({ units: 0 })
      expect(probed).toEqual([])
      expect(await spent()).toEqual({ credits: 20 })
      await db.database.pool.query('update etl.request_credits set credits = 10 where pipeline_id = $1', [pipelineId])
      await plan(db, paid, due)
      expect(probed).toHaveLength(4)
      expect(await spent()).toEqual({ credits: 10 })
    },
  )

  test('twenty after a day on which the service may have restated, once', async () => {
    const { planning, probed } = await loadedWalks(40, inDays(-120), { fullCheckDays: null })
    await plan(db, planning, due)
    expect(probed).toHaveLength(40)
    await plan(db, planning, due)
    expect(probed).toHaveLength(44)
  })

  test('where one changed every loaded unit of the window is asked about, and none of the others', async () => {
    const { planning, changed, newest } = await loadedWalks(40, inDays(0))
    for (const name of names(40)) changed.add(`${newest[1]} ${name}`)
    expect(await plan(db, planning, due)).toMatchObject({ units: 40, done: 40 })
    const again = await open(planning)
    expect(new Set(again.map(({ cells, reason }) => `${cells[0]?.slice(0, 7)} ${reason}`))).toEqual(
      new Set([`${newest[1]} look-back`]),
    )
  })

  test('a window of two units is seen whole: only what changed is asked for', async () => {
    const { planning, changed, newest } = await loadedWalks(2, inDays(0))
    changed.add(`${newest[0]} d01.com`)
    expect(await plan(db, planning, due)).toMatchObject({ units: 1, done: 3 })
    expect((await open(planning)).map(({ cells }) => cells)).toEqual([[`${newest[0]} d01.com`]])
  })

  test('every unit is asked about once within window.full_check, spread over the nights, also in closed windows', async () => {
    const days = 9
    const { nights = 0 } = checkCycle('walk', days) ?? {}
    const { planning, probed, newest } = await loadedWalks(nights * slicesPerBlock, inDays(-days - 1), { fullCheckDays: days })
    await plan(db, planning, due)
    const tonight = (await open(planning)).filter(({ reason }) => reason === 'full check')
    // Two of each older month by planning itself.
    const cells = [...tonight.flatMap((job) => job.cells), ...probed.filter((cell) => cell < (newest[0] ?? ''))]
    const rows = await db.query<{ slice_id: number; values: string[] }>(
      'select slice_id, "values" from etl.slices where pipeline_id = $1',
      [await pipelineIdOf(db, planning.definition)],
    )
    const turnOf = new Map(rows.map((row) => [row.values[0], Math.floor(row.slice_id / slicesPerBlock) % nights]))
    expect(new Set(cells.map((cell) => turnOf.get(cell.slice(8)))).size).toBe(1)
    expect(cells).toHaveLength(slicesPerBlock * months(planning).length)
    for (const { jobId } of tonight) await loaded(db, jobId, { askedAt: inDays(0), ...answer })
    expect((await plan(db, planning, due)).units).toBe(0)
  })

  test.each([
    ['is asked about as the others', 'look-back', 'night', {}, 1],
    ['is checked in its turn', 'full check', 'beyond', { fullCheckDays: 3 }, -3],
  ])('a loaded unit whose forced pages a person took back %s', async (_, reason, wanted_by, window, at) => {
    const { planning, changed } = await loadedWalks(1, inDays(at === 1 ? 0 : -4), window)
    const month = months(planning).at(at === 1 ? -1 : 0) ?? ''
    const { runId } = await plan(db, planning, range(month, month, { force: true }))
    await died(db, runId)
    const taken = { state: 'failed', error_code: 'CANCELLED', begun_landing: 'begun/pages', wanted_by: 'beyond' } as const
    const [forced] = await open(planning)
    await setJob(db, forced?.jobId ?? 0, taken)
    changed.add(`${month} d00.com`)
    await plan(db, planning, due)
    const again = (await open(planning)).filter(({ cells }) => cells[0]?.startsWith(month))
    expect(again).toHaveLength(1)
    // It is looked at first, and then goes on from those pages.
    const asked = { begun_landing: 'begun/pages', forced: false, reason, wanted_by }
    expect(await jobRow(db, again[0]?.jobId ?? 0)).toMatchObject(asked)
  })

  test.each([
    ['were restated waits for a person: it is as dear as to load them was', true],
    ['stand waits for nobody', false],
  ])('a full check of older months that %s', async (_, isRestated) => {
    const { planning, changed } = await loadedWalks(3, inDays(-3), { fullCheckDays: 2, from: monthsAgo(12) })
    const older = months(planning).slice(0, -2)
    if (isRestated) for (const month of older) for (const name of names(3)) changed.add(`${month} ${name}`)
    const paid: Planning = {
      source: { ...planning.source, billing: { seen: [] } },
      definition: { ...planning.definition, guard: { creditsPerNight: null, factor: 2 } },
      stated: { basis: 'request', credits: 10 },
    }
    await plan(db, paid, due)
    const jobs = (await jobsOf(db, planning.definition)).filter(({ reason }) => reason === 'full check')
    const held = jobs.filter(({ state }) => state === 'held').map(({ cells }) => cells[0]?.slice(0, 7))
    // Two of each older month were asked about by planning: those that stand are not asked about again.
    const checked = isRestated ? 0 : 2 * older.length
    expect([jobs.length, [...new Set(held)].sort()]).toEqual([3 * months(planning).length - checked, isRestated ? older : []])
  })

  test.each([
    [30, 0],
    [40, 1],
  ])(
    'of %i credits a day older months are asked about with what the newest one leaves, the newest of them first',
    async (quotaPerDay, isAsked) => {
      const { planning, probed } = await loadedWalks(2, inDays(-3), { fullCheckDays: 2, from: monthsAgo(12) })
      const [last = '', ...others] = months(planning).toReversed()
      await sql`update etl.units set answer_id = null, ask_number = null where window_from = ${`${last}-01`}::date
      and pipeline_id = ${await pipelineIdOf(db, planning.definition)}`.execute(db.database.kysely)
      const { definition, source } = planning
      const paid: Planning = {
        source: { ...source, billing: { seen: [] } },
        definition: { ...definition, limits: { ...definition.limits, quotaPerDay } },
        stated: { basis: 'request', credits: 10 },
      }
      await plan(db, paid, due)
      const asked = isAsked === 1 ? others : others.slice(0, 1)
      expect(probed.map((cell) => cell.slice(0, 7))).toEqual(asked.flatMap((month) => [month, month]))
    },
  )

  test('a unit that could not be asked about is left to a job of its own', async () => {
    const source = sourceOf({
      kind: 'walk',
      probe: () => {
        throw new Error('down')
      },
    })
    const { planning } = await loadedWalks(40, inDays(0))
    expect(await plan(db, { ...planning, source }, due)).toMatchObject({ units: 4 })
  })

  test('where the service cannot say what changed every unit of the look-back is asked for', async () => {
    const source = sourceOf({ kind: 'walk' })
    const planning = { source, definition: definitionFor(source, { domains: names(3) }, { from: monthsAgo(5) }) }
    await plan(db, planning, due)
    await allLoaded(db, planning.definition)
    expect(await plan(db, planning, due)).toMatchObject({ units: 6 })
  })
})
