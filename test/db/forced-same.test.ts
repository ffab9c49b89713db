// A forced report with the bytes that are loaded, from its claim on: nothing is parsed while PostgreSQL shows that its rows are untouched, and
// whatever else is the case, the rows are those of the answer.
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Box, Definition, Payload } from '../../src/core/types.ts'
import { addWindows, windowAt } from '../../src/core/window.ts'
import { withSession } from '../../src/db/session.ts'
import type { Source } from '../../src/extract/source.ts'
import { ownNames } from '../../src/ledger/warehouse.ts'
import { openAccepted } from '../../src/load/accepted-units.ts'
import { manyUnits } from '../../src/load/merge-scope.ts'
import { areUntouched, readProof } from '../../src/load/rows-proof.ts'
import { workJob } from '../../src/pipeline/job.ts'
import type { JobWork } from '../../src/pipeline/job-work.ts'
import { createProgress } from '../../src/pipeline/progress.ts'
import type { Runtime } from '../../src/pipeline/runtime.ts'
import { loadSources } from '../../src/sources/registry.ts'
import { boxOf } from '../support/definitions.ts'
import { newProcess } from '../support/ledger.ts'
import { jobRow, outcomeOf, unitRows } from '../support/ledger-answers.ts'
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
import { type MemoryLanding, memoryLanding } from '../support/memory-landing.ts'
import { createTestDatabase, type TestDatabase } from '../support/postgres.ts'

const count = 5_100
/** So long that the answer is larger than the beginning that is compared. */
const domains = Array.from({ length: count }, (_, at) => `d${at}.a-name-as-long-as-some-are.example`)
const table = 'data.traffic_and_engagement_v1'

let db: TestDatabase
let definition: Definition
let kit: LoadKit
let landing: MemoryLanding
let source: Source
let month = '2001-01-01'

beforeAll(async () => {
  db = await createTestDatabase()
  definition = { ...(await lenientTraffic()), tests: [] }
  const real = (await loadSources()).get(definition.source)
  if (real === undefined) throw new Error('no such source')
  source = real
})
afterAll(() => db.drop())
beforeEach(async () => {
  await emptyTraffic(db)
  kit = await openLoading(db, definition)
  landing = memoryLanding()
  // Processes remember the partitions they have seen.
  month = addWindows(month, 'month', 2)
})

const query = async <T extends Record<string, unknown>>(text: string): Promise<T[]> =>
  (await db.database.pool.query<T>(text)).rows

const box = (until = month): Box => boxOf(definition, month.slice(0, 7), { domain: domains, country: 'us' }, until.slice(0, 7))
const lines = (at = month): string[] => domains.map((domain, place) => line(at.slice(0, 7), domain, String(place)))
const loaded = () => csv(...lines())

interface Sent {
  readonly body: string
  /** Awaited when all but the end of the body was read. */
  readonly beforeEnd?: (rowsParsed: number) => Promise<unknown>
  readonly change?: Partial<Runtime>
}

/** What a job came to, and whether its answer was parsed. */
interface Seen {
  readonly downloads: number
  readonly rowsParsed: number
  readonly load: Record<string, unknown> | undefined
}

const chunkBytes = 64 * 1024

const answering = (sent: Sent, said: { downloads: number }, progress: Runtime['progress']): Source => ({
  ...source,
  extract: async function* () {
    said.downloads += 1
    const bytes = Buffer.from(sent.body)
    const body = async function* () {
      for (let at = 0; at < bytes.length; at += chunkBytes) {
        if (at + chunkBytes >= bytes.length) await sent.beforeEnd?.(progress.counters.rowsRead)
        yield bytes.subarray(at, at + chunkBytes)
      }
    }
    yield { format: 'csv', part: 1, body: body() } satisfies Payload
    return { fingerprint: { lastUpdated: null, count: null }, expectedRows: null, dataPoints: null }
  },
})

const runtimeOf = async (sent: Sent, said: { downloads: number }): Promise<Runtime> => {
  const [warehouse] = await ownNames(db.database.kysely)
  const progress = createProgress()
  return {
    ...kit.runtime,
    warehouse: warehouse as Runtime['warehouse'],
    landing,
    sources: new Map([[definition.source, answering(sent, said, progress)]]),
    service: () => ({ forUnit: () => ({}) }) as unknown as ReturnType<Runtime['service']>,
    allowance: () => ({ requestsPerSecond: 10, budget: { perMonth: null, perDay: null } }) as ReturnType<Runtime['allowance']>,
    progress,
    ...sent.change,
  }
}

const perform = async ({ claim }: JobWork, sent: Sent): Promise<Seen> => {
  const said = { downloads: 0 }
  const runtime = await runtimeOf(sent, said)
  await workJob(runtime, claim, new AbortController().signal)
  const [load] =
    await query(`select answer_id, units, rows_read::int, rows_inserted::int, rows_updated::int, rows_ended::int, rows_unchanged::int,
    slices_without_rows, proof is not null as has_proof from etl.loads where job_id = ${claim.jobId} order by load_id desc limit 1`)
  return { downloads: said.downloads, rowsParsed: runtime.progress.counters.rowsRead, load }
}

const forced = { forced: true, reason: 'forced' }

const force = async (sent: Sent, of = box()): Promise<Seen & { jobId: number }> => {
  const work = await workOn(kit, of, { set: forced })
  return { ...(await perform(work, sent)), jobId: work.claim.jobId }
}

const first = async (body = loaded(), of = box()): Promise<Seen> => perform(await workOn(kit, of), { body })

const rowsNow = () => query(`select ctid, xmin, t.* from ${table} t order by domain, date`)
const visits = (place: number) => query(`select all_traffic_visits::int as v from ${table} where domain = '${domains[place]}'`)

/** Not parsed, and the units have it. */
const proven = { downloads: 1, rowsParsed: 0, load: { units: count, rows_read: count, rows_unchanged: count, has_proof: true } }
const parsed = (load: Record<string, unknown>) => ({ downloads: 1, rowsParsed: count, load })

describe('a forced report with the bytes that are loaded', () => {
  test('is not parsed: the rows stay as they lie, its units take the new answer, also the second time', async () => {
    const [, ...but] = lines()
    expect((await first(csv(...but))).load).toMatchObject({ rows_inserted: count - 1, has_proof: true })
    const [before, [old]] = [
      await rowsNow(),
      await query<{ answer_id: string; slices_without_rows: number[] }>('select * from etl.loads'),
    ]
    for (const _ of ['once', 'twice']) {
      const { jobId, ...seen } = await force({ body: csv(...but) })
      const none = { rows_inserted: 0, rows_updated: 0, rows_ended: 0 }
      const rows = { rows_read: count - 1, rows_unchanged: count - 1, slices_without_rows: old?.slices_without_rows }
      expect(seen).toEqual({ ...proven, load: { ...proven.load, ...none, ...rows, answer_id: expect.any(String) } })
      const job = await jobRow(db, jobId)
      expect(job).toMatchObject({ state: 'done', answer_id: seen.load?.['answer_id'], holder: null })
      expect(await outcomeOf(db, kit.runId, jobId)).toBe('loaded')
      const units = await unitRows(db, kit.pipeline)
      expect(new Set(units.map(({ answer_id, ask_number, job_id }) => `${answer_id} ${ask_number} ${job_id}`))).toEqual(
        new Set([`${job.answer_id} ${job.ask_number} null`]),
      )
      expect(await query(`select verdict from etl.answers where answer_id = ${job.answer_id}`)).toEqual([{ verdict: 'good' }])
      expect(await query(`select count(*)::int as n from etl.requests where job_id = ${jobId}`)).toEqual([{ n: 0 }])
    }
    expect(await rowsNow()).toEqual(before)
    expect(landing.begun).toHaveLength(3)
    expect(old?.slices_without_rows).toHaveLength(1)
    await query(`update ${table} set all_traffic_visits = 7 where domain = '${domains[1]}'`)
    expect(await force({ body: csv(...but) })).toMatchObject({
      rowsParsed: count - 1,
      load: { rows_updated: 1, rows_unchanged: count - 2 },
    })
    expect(await visits(1)).toEqual([{ v: 1 }])
  })

  test('is parsed once anybody has touched the rows, and not because of rows beside them', async () => {
    const [without, ...but] = lines()
    expect(without).toContain(domains[0])
    const body = csv(...but)
    await first(body)
    const [load] = await query<{ proof: unknown }>('select proof from etl.loads')
    const proof = readProof(load?.proof)
    if (proof === null) throw new Error('no proof')
    const partition = `${table}_p${month.slice(0, 7).replace('-', '')}`
    const one = `domain = '${domains[3]}'`
    const names = (
      await query<{ name: string }>(
        `select string_agg(attname, ', ' order by attnum) as name from pg_attribute where attrelid = '${table}'::regclass and attnum > 0`,
      )
    )[0]?.name
    const copied = (domain: string) =>
      `insert into ${table} (${names}) select ${names?.replace('domain', domain)} from ${table} where ${one}`
    const seen: Record<string, boolean> = {}
    const holdsAfter = (name: string, ...statements: string[]) =>
      withSession(db.database.pool, async (session) => {
        const accepted = await openAccepted(session, definition, box())
        await session.client.query('begin')
        for (const statement of statements) await session.client.query(statement)
        seen[name] = await areUntouched(session, definition, manyUnits(box(), windowAt(month, 'month'), accepted, true), proof)
        await session.client.query('rollback')
      })
    await holdsAfter('nothing')
    await holdsAfter('another value', `update ${table} set all_page_views = 77 where ${one}`)
    await holdsAfter('the same value', `update ${table} set all_page_views = all_page_views where ${one}`)
    await holdsAfter('a row less', `delete from ${table} where ${one}`)
    await holdsAfter('a row less, another one more', copied(`'${domains[4]}x'`), `delete from ${table} where ${one}`)
    await holdsAfter(
      'away and back',
      `create temp table kept on commit drop as select * from ${table} where ${one}`,
      `delete from ${table} where ${one}`,
      `insert into ${table} select * from kept`,
    )
    await holdsAfter(
      'another table, the same rows',
      `create table data.kept as select * from ${partition}`,
      `truncate ${partition}`,
      `insert into ${partition} select * from data.kept`,
    )
    await holdsAfter(
      'a column that lost its values',
      `alter table ${table} drop column all_page_views cascade`,
      `alter table ${table} add column all_page_views numeric default 5`,
    )
    await holdsAfter('another type', `alter table ${table} alter column all_page_views type text`)
    await holdsAfter('a row more, of a unit that had none', copied(`'${domains[0]}'`))
    await holdsAfter('rows of another unit', copied(`'elsewhere.example'`))
    await holdsAfter('a month that was taken out of the table', `alter table ${table} detach partition ${partition}`)
    expect(seen).toEqual({
      ...{ nothing: true, 'another value': false, 'the same value': false, 'a row less': false },
      ...{ 'a row less, another one more': false, 'away and back': false, 'another table, the same rows': false },
      ...{ 'a column that lost its values': false, 'another type': false, 'a row more, of a unit that had none': false },
      ...{ 'rows of another unit': true, 'a month that was taken out of the table': false },
    })
    await query(`vacuum (full, freeze, analyze) ${partition}`)
    expect(await force({ body })).toMatchObject({ rowsParsed: 0, load: { rows_unchanged: count - 1, has_proof: true } })
  })

  test('is parsed where the definition makes other rows of them', async () => {
    await first()
    const columns = definition.columns.map((column) =>
      column.name === 'all_page_views' ? { ...column, from: ['mobile_visits'] } : column,
    )
    const definitions = [{ ...definition, columns }]
    expect(await force({ body: loaded(), change: { definitions } })).toMatchObject(
      parsed({ rows_updated: count, has_proof: false }),
    )
    expect(await query(`select distinct all_page_views::int as v from ${table}`)).toEqual([{ v: 1 }])
  })
})

describe('a forced report with other bytes', () => {
  test('is parsed as it comes where it begins otherwise, and downloaded once', async () => {
    await first()
    const body = csv(...lines().with(2, line(month.slice(0, 7), domains[2] ?? '', '99')))
    let early = 0
    const beforeEnd = async (rowsParsed: number) => {
      early = rowsParsed
    }
    expect(await force({ body, beforeEnd })).toMatchObject(parsed({ rows_updated: 1, rows_unchanged: count - 1 }))
    // Rows were on their way before the download had ended.
    expect(early).toBeGreaterThan(0)
    expect(await visits(2)).toEqual([{ v: 99 }])
  })

  test('is loaded right where only its end is another', async () => {
    await first()
    const body = csv(...lines().with(count - 1, line(month.slice(0, 7), domains[count - 1] ?? '', '99')))
    expect(body.length).toBeGreaterThan(256 * 1024)
    expect(await force({ body })).toMatchObject(parsed({ rows_updated: 1, rows_unchanged: count - 1 }))
    expect(await visits(count - 1)).toEqual([{ v: 99 }])
  })

  test('is parsed where the landing of the loaded answer is gone', async () => {
    await first()
    landing.there.clear()
    expect(await force({ body: loaded() })).toMatchObject(parsed({ rows_unchanged: count }))
  })
})

describe('a forced report that is the loaded one', () => {
  test('does not take a unit that got a newer answer while it was downloaded', async () => {
    await first()
    const work = await workOn(kit, box(), { set: forced })
    const one = boxOf(definition, month.slice(0, 7), { domain: domains[5] ?? '', country: 'us' })
    // The newer answer says the same, so that the rows stay as they are.
    const beforeEnd = async () => {
      const newer = await workOn(kit, one)
      await loadBody(kit, newer, { body: csv(line(month.slice(0, 7), domains[5] ?? '', '5')) })
      asked = newer.claim.askNumber
    }
    let asked: string | null = null
    expect(await perform(work, { body: loaded(), beforeEnd })).toMatchObject(parsed({ units: count - 1 }))
    const numbers = (await unitRows(db, kit.pipeline)).map(({ ask_number }) => ask_number)
    expect(numbers.filter((number) => number === asked)).toHaveLength(1)
    expect(numbers.filter((number) => number === work.claim.askNumber)).toHaveLength(count - 1)
  })

  test('is loaded by a successor where its process died when the answer was on record', async () => {
    await first()
    const work = await workOn(kit, box(), { set: forced })
    const { jobId } = work.claim
    // It hangs where it would begin to load, for ever.
    const pool = { connect: () => new Promise(() => undefined) } as unknown as typeof db.database.pool
    void perform(work, { body: loaded(), change: { database: { ...db.database, pool } } })
    await expect.poll(async () => (await jobRow(db, jobId)).answer_id, { timeout: 20_000 }).not.toBeNull()
    await query(`update etl.jobs set holder = null where job_id = ${jobId}`)
    kit = { ...kit, process: await newProcess(db) }
    const successor = await claimed(kit, jobId)
    expect(successor.claim).toMatchObject({ forced: true, attempts: 2 })
    expect(await perform(successor, { body: '' })).toMatchObject({
      downloads: 0,
      rowsParsed: count,
      load: { rows_unchanged: count },
    })
    expect(await jobRow(db, jobId)).toMatchObject({ state: 'done' })
  })

  test('over several windows is parsed, and so is one that data tests are to judge', async () => {
    const next = addWindows(month, 'month', 1)
    const body = csv(...lines(), ...lines(next))
    expect((await first(body, box(next))).load).toMatchObject({ rows_inserted: count, has_proof: false })
    expect(await force({ body }, box(next))).toMatchObject({
      downloads: 1,
      rowsParsed: 2 * count,
      load: { rows_unchanged: count },
    })
    month = addWindows(month, 'month', 2)
    const tests: Definition['tests'] = [
      { name: 'there', column: 'all_traffic_visits', kind: 'not_null', allow: 0, onFailure: 'warn' },
    ]
    const change = { definitions: [{ ...definition, tests }] }
    const tested = await perform(await workOn(kit, box()), { body: loaded(), change })
    expect(tested).toMatchObject(parsed({ rows_inserted: count, has_proof: false }))
  })
})
