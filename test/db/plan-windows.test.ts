// What a night reads of a window as a whole: units left behind, a sample, what is overdue, whether it is whole; and how it is closed.
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { slicesPerBlock } from '../../src/ledger/candidates.ts'
import * as windows from '../../src/ledger/windows.ts'
import { jobsOf, loaded, pipelineIdOf } from '../support/plan-ledger.ts'
import { definitionFor, plan, range, sourceOf, withLists } from '../support/planning.ts'
import { testDatabase } from '../support/postgres.ts'

const db = testDatabase()

describe('what a night reads of a window', () => {
  const [january1, february1] = ['2025-01-01', '2025-02-01']
  const night = (number: number): string => `2025-03-0${number}T00:00:00.000Z`
  type Loaded = Parameters<typeof loaded>[2]

  /** Walks of January and February, loaded as `how` says; where it says nothing they stay open. */
  const loadedWalks = async (domains: readonly string[], how: (domain: string, month: string) => Loaded | null) => {
    const source = sourceOf({ kind: 'walk' })
    const planning = { source, definition: definitionFor(source, { domains }) }
    const { runId } = await plan(db, planning, range('2025-01', '2025-02'))
    for (const { jobId, cells } of await jobsOf(db, planning.definition)) {
      const [month = '', domain = ''] = cells[0]?.split(' ') ?? []
      const choice = how(domain, month)
      if (choice !== null) await loaded(db, jobId, choice)
    }
    const pipelineId = await pipelineIdOf(db, planning.definition)
    const rows = await db.query<{ id: number; domain: string }>(
      'select slice_id as id, "values"[1] as domain from etl.slices where pipeline_id = $1',
      [pipelineId],
    )
    const idOf = (domain: string): number => rows.find((row) => row.domain === domain)?.id ?? 0
    const unit = (domain: string) =>
      sql`pipeline_id = ${pipelineId} and window_from = ${january1}::date and slice_id = ${idOf(domain)}`
    return {
      planning,
      runId,
      pipelineId,
      idOf,
      named: (ids: readonly number[]): string[] => ids.map((id) => rows.find((row) => row.id === id)?.domain ?? ''),
      hold: (domain: string) =>
        sql`update etl.units set held_answer_id = answer_id, held_code = 'SHRUNK' where ${unit(domain)}`.execute(
          db.database.kysely,
        ),
      /** As if it were asked for again, by the job of another. */
      ask: (domain: string, by: string) =>
        sql`update etl.units set job_id = (select job_id from etl.units where ${unit(by)}) where ${unit(domain)}`.execute(
          db.database.kysely,
        ),
      stands: (domain: string, at: string) =>
        sql`update etl.answer_rows set stood_at = ${at} where answer_id in (select answer_id from etl.units where ${unit(domain)})`.execute(
          db.database.kysely,
        ),
      keep: (kept: readonly string[]) =>
        plan(db, { ...planning, definition: withLists(planning.definition, { domains: kept }) }, range('2099-01', '2099-01')),
    }
  }

  test('units left behind: loaded, free and wanted, last known to stand before a newer release was seen', async () => {
    const domains = ['behind', 'newer', 'held', 'later', 'meanwhile', 'stands', 'left', 'unknown', 'asked', 'open']
    const former = { lastUpdated: '2025-02-10', askedAt: night(1) }
    const others: Readonly<Record<string, Loaded | null>> = {
      newer: { lastUpdated: '2025-02-20', askedAt: night(4) },
      later: { ...former, askedAt: night(5) },
      meanwhile: { ...former, askedAt: night(4) },
      unknown: { askedAt: night(1) },
      open: null,
    }
    const february = { lastUpdated: '2025-03-02', askedAt: night(2) }
    const walks = await loadedWalks(domains, (domain, month) =>
      month === '2025-02' ? february : domain in others ? (others[domain] ?? null) : former,
    )
    await walks.hold('held')
    await walks.stands('stands', night(4))
    await walks.ask('asked', 'open')
    await walks.keep(domains.filter((name) => name !== 'left'))
    const behind = (from: string) => windows.unrefreshedUnits(db.database.kysely, walks.pipelineId, from)
    expect(walks.named(await behind(january1))).toEqual(['behind'])
    expect(await behind(february1)).toEqual([])
  })

  test('a sample: free, wanted units of the window alone, other ones each night, all where there are no more', async () => {
    const free = [...'abcdefghijkl'].map((letter) => `free-${letter}`)
    const walks = await loadedWalks([...free, 'held', 'left', 'asked', 'open'], (domain, month) =>
      domain === 'open' ? null : { lastUpdated: month, count: domain === 'free-a' ? null : 3, askedAt: night(1) },
    )
    await walks.hold('held')
    await walks.ask('asked', 'open')
    await walks.stands('free-b', night(2))
    await walks.keep([...free, 'held', 'asked', 'open'])
    const sample = async (most: number, turn = 0) =>
      windows.sampleUnits(db.database.kysely, walks.pipelineId, january1, { most, turn })
    const whole = await sample(12)
    expect(whole.isWhole).toBe(true)
    expect(walks.named(whole.units.map(({ sliceId }) => sliceId))).toEqual(free)
    expect(whole.units.slice(0, 2)).toMatchObject([
      { values: ['free-a'], fingerprint: { lastUpdated: '2025-01', count: null }, stoodAtMs: Date.parse(night(1)) },
      { values: ['free-b'], fingerprint: { lastUpdated: '2025-01', count: 3 }, stoodAtMs: Date.parse(night(2)) },
    ])
    const seen = await Promise.all([0, 0.25, 0.5, 0.75].map((turn) => sample(3, turn)))
    for (const { units, isWhole } of seen) {
      expect(isWhole).toBe(false)
      expect(units.length).toBeGreaterThan(1)
      expect(units.length).toBeLessThan(4)
      expect(free).toEqual(expect.arrayContaining(walks.named(units.map(({ sliceId }) => sliceId))))
    }
    // Places are spread over the list, and the first of a turn lies where the turn says.
    const ids = seen.map(({ units }) => units.map(({ sliceId }) => sliceId - walks.idOf('free-a')))
    expect(ids[0]).toEqual([0, 4, 9])
    expect(new Set(ids.flat()).size).toBeGreaterThan(6)
  })

  test('a window is overdue where a wanted unit in its turn was last known to stand before the day', async () => {
    const walks = await loadedWalks(['a', 'b', 'left'], (_, month) => ({ askedAt: night(month === '2025-01' ? 1 : 5) }))
    // The turns of slices that follow each other are at most one apart.
    const other = Math.floor(walks.idOf('a') / slicesPerBlock) + 500
    const overdue = async (before: string, check = { nights: 1, night: 0 }) => [
      ...(await windows.windowsOverdue(db.database.kysely, walks.pipelineId, [january1, february1], { before, ...check })),
    ]
    expect(await overdue(night(1))).toEqual([])
    expect(await overdue(night(2))).toEqual([january1])
    expect(await overdue(night(2), { nights: 1000, night: other % 1000 })).toEqual([])
    expect(await overdue(night(6))).toEqual([january1, february1])
    await walks.stands('a', night(3))
    expect(await overdue(night(2))).toEqual([january1])
    await walks.stands('b', night(3))
    await walks.keep(['a', 'b'])
    expect(await overdue(night(2))).toEqual([])
  })

  test('a whole window knows its units and its oldest answer; what a run made whole is counted once, and anew after lists changed', async () => {
    const walks = await loadedWalks(['a', 'b', 'left'], (domain, month) =>
      month === '2025-02' && domain === 'b' ? null : { askedAt: night(domain === 'a' ? 1 : 2) },
    )
    const { kysely } = db.database
    const { pipelineId, runId } = walks
    const { pipeline, version } = walks.planning.definition
    await sql`update etl.load_rows set run_id = ${runId} where pipeline_id = ${pipelineId}`.execute(kysely)
    const whole = (from: string, withAge: boolean) => windows.wholeWindow(kysely, pipelineId, from, { withAge, top: undefined })
    expect(await whole(january1, true)).toEqual({ units: 3, stoodAtMs: Date.parse(night(1)) })
    await walks.stands('a', night(4))
    expect(await whole(january1, true)).toEqual({ units: 3, stoodAtMs: Date.parse(night(2)) })
    expect(await whole(january1, false)).toEqual({ units: 3, stoodAtMs: 0 })
    expect(await whole(february1, true)).toBeNull()
    const loadedBy = async (run: number, before: string, of = version) =>
      (await windows.windowsLoadedBy(kysely, run, { pipeline, version: of, before })).map(({ windowFrom, generation }) => [
        windowFrom,
        generation,
      ])
    expect(await loadedBy(runId, '2025-03-01')).toEqual([
      [january1, 1],
      [february1, 1],
    ])
    expect(await loadedBy(runId, february1)).toEqual([[january1, 1]])
    expect(await loadedBy(runId + 1, '2025-03-01')).toEqual([])
    expect(await loadedBy(runId, '2025-03-01', version + 1)).toEqual([])
    const close = (generation: number) =>
      kysely.transaction().execute((trx) => windows.closeWindows(trx, pipelineId, [january1, february1], generation, undefined))
    const known = async () => (await windows.windowStates(kysely, pipelineId)).get(january1)
    expect(await close(1)).toBe(1)
    expect(await known()).toEqual({ closedGeneration: 1, closedUnits: 3, lookedAtMs: null })
    expect(await loadedBy(runId, '2025-03-01')).toEqual([[february1, 1]])
    await walks.keep(['a', 'b'])
    expect(await close(2)).toBe(1)
    expect(await known()).toMatchObject({ closedGeneration: 2, closedUnits: 2 })
    await windows.noteUnchangedWindow(kysely, pipelineId, january1)
    expect((await known())?.lookedAtMs).toBeGreaterThan(Date.now() - 3_600_000)
    const { rows } = await sql<{ rows: string }>`select closed_rows as rows from etl.windows
      where pipeline_id = ${pipelineId} and window_from = ${january1}::date`.execute(kysely)
    expect(rows).toEqual([{ rows: '3' }])
    expect(await windows.closeWindows(kysely, pipelineId, [], 3, undefined)).toBe(0)
  })

  test.each(['best', 0.5, 7])(
    "a parameter 'top' of a source of one's own, %s, that limits no rows keeps no window open",
    async (top) => {
      const { planning, pipelineId } = await loadedWalks(['a'], () => ({ askedAt: night(1) }))
      const { definition } = planning
      await plan(
        db,
        { ...planning, definition: { ...definition, params: { ...definition.params, top } } },
        range('2025-01', '2025-02'),
      )
      expect((await windows.windowStates(db.database.kysely, pipelineId)).get(january1)?.closedGeneration).toBe(1)
    },
  )

  test('a window of a new pipeline is closed by reading its units and slices a few times, not once for each of the others', async () => {
    const { kysely } = db.database
    // Of a pipeline that came since, the planner expects a row.
    await sql`analyze etl.slices, etl.units`.execute(kysely)
    const source = sourceOf({ kind: 'report', mostPerRequest: 1_000 })
    const domains = Array.from({ length: 700 }, (_, number) => `d${number}`)
    const planning = { source, definition: definitionFor(source, { domains }) }
    await plan(db, planning, range('2025-01', '2025-02'))
    for (const { jobId } of await jobsOf(db, planning.definition)) await loaded(db, jobId, { askedAt: night(1) })
    const pipelineId = await pipelineIdOf(db, planning.definition)
    const read = await kysely.transaction().execute(async (trx) => {
      const rowsRead = async (): Promise<number> => {
        const { rows } = await sql<{ n: string }>`select sum(coalesce(idx_tup_fetch, 0) + coalesce(seq_tup_read, 0)) as n
          from pg_stat_xact_user_tables where schemaname = 'etl' and relname in ('slices', 'units', 'answer_rows')`.execute(trx)
        return Number(rows[0]?.n)
      }
      const before = await rowsRead()
      expect(await windows.closeWindows(trx, pipelineId, [january1], 1, undefined)).toBe(1)
      return (await rowsRead()) - before
    })
    expect(read).toBeLessThan(10 * domains.length)
  })
})
