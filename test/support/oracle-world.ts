// The world that the oracle of loads is compared with: a real ledger and tables, answers that are loaded, killed, raced, released and replayed, and somebody's hand.
import { expect } from 'vitest'
import { secret } from '../../src/core/redact.ts'
import type { Box, Definition } from '../../src/core/types.ts'
import { inclusiveRange } from '../../src/core/window.ts'
import { type Database, openDatabase } from '../../src/db/connect.ts'
import { answersInQuarantine, registerReplay } from '../../src/ledger/register-replay.ts'
import { releaseByPerson } from '../../src/ledger/release-unit.ts'
import type { JobWork } from '../../src/run/job-work.ts'
import { boxOf, shippedDefinition } from './definitions.ts'
import { waitFor } from './ledger.ts'
import { jobRow } from './ledger-answers.ts'
import {
  changeByHand,
  handVisits,
  isAnothers,
  loadIntoOracle,
  mostVisits,
  newOracle,
  type Oracle,
  type OracleAnswer,
  type OracleHand,
  shown,
} from './load-oracle.ts'
import { claimed, type LoadKit, loadBody, openLoading, workOn } from './loading.ts'
import type { TestDatabase } from './postgres.ts'

/** `kill`: the load's session ends about its n-th statement, and whoever takes the job then loads it again. */
export type Step =
  | { readonly kind: 'load'; readonly answer: number; readonly kill: number | null }
  | { readonly kind: 'race'; readonly answers: readonly [number, number] }
  | { readonly kind: 'replay'; readonly answer: number; readonly part: boolean; readonly kill: number | null }
  | { readonly kind: 'release'; readonly unit: number }
  | { readonly kind: 'retry'; readonly isMended: boolean }
  | { readonly kind: 'hand'; readonly hand: OracleHand }

export const oracleUnits = ['2026-01', '2026-02'].flatMap((month) =>
  ['a.com', 'b.com', 'c.com'].map((domain) => `${month} ${domain}`),
)

/** `mended`: what could not be read is read from another field. */
export const oracleDefinitions = async (): Promise<{ readonly plain: Definition; readonly mended: Definition }> => {
  const shipped = await shippedDefinition('traffic_and_engagement')
  const bounds = { from: null, to: String(mostVisits) }
  const plain: Definition = {
    ...shipped,
    params: { ...shipped.params, granularity: 'daily' },
    period: { every: 'day', isInKey: true },
    limits: { ...shipped.limits, rejectShare: 1, shrink: 0.5 },
    tests: [{ name: 'most', onFailure: 'hold', kind: 'range', column: 'all_traffic_visits', allow: 0, bounds }],
  }
  const columns = plain.columns.map((column) =>
    column.name === 'mobile_visits' ? { ...column, from: ['mobile_clean'] } : column,
  )
  return { plain, mended: { ...plain, columns } }
}

const bodyOf = ({ records }: OracleAnswer): string => {
  const header =
    'date,domain,country,all_traffic_visits,mobile_visits,mobile_clean,desktop_visits,desktop_unique_visitors,mobile_unique_visitors,all_page_views'
  const lines = records.map(
    ({ domain, month, day, visits, bad }) =>
      `${bad === 'undated' ? 'someday' : `${month}-0${day}`},${bad === 'stray' ? 'nobody.com' : domain},us,${visits},${bad === 'cell' ? 'oops' : '1'},1,2,3,4,5`,
  )
  return `${[header, ...lines].join('\n')}\n`
}

const boxOfUnits = (definition: Definition, names: readonly string[]): Box => {
  const found = [...new Set(names.map((name) => name.split(' ')[1] ?? ''))]
  const span = [...new Set(names.map((name) => name.split(' ')[0] ?? ''))].sort()
  const [only, ...others] = found
  const domain = others.length === 0 ? (only ?? '') : found
  return boxOf(definition, span[0] ?? '', { domain, country: 'us' }, span.at(-1) ?? '')
}

interface Killer {
  /** Ends the session that sends the n-th statement from now; null: none. */
  at(statement: number | null): void
  hasKilled(): boolean
  /** Once the session that was to end has ended. */
  ended(): Promise<unknown>
}

const watch = ({ pool }: Database, { database }: TestDatabase): Killer => {
  const seen = new WeakSet<object>()
  let left = Number.POSITIVE_INFINITY
  let hasKilled = false
  let ended: Promise<unknown> = Promise.resolve()
  pool.on('acquire', (client) => {
    if (seen.has(client) || !('pid' in client)) return
    seen.add(client)
    const { pid, query } = client as typeof client & { readonly pid: number }
    client.query = ((...sent: readonly unknown[]): unknown => {
      left -= 1
      if (left === 0) {
        hasKilled = true
        // The pool notices the end of an idle session only when its socket closes: a later step would be handed a dead one.
        const closed = new Promise((resolve) => client.once('end', () => resolve(undefined)))
        ended = Promise.all([database.pool.query('select pg_terminate_backend($1, 10000)', [pid]), closed])
      }
      return Reflect.apply(query, client, sent)
    }) as typeof query
  })
  return {
    at: (statement) => {
      left = statement ?? Number.POSITIVE_INFINITY
      hasKilled = false
    },
    hasKilled: () => hasKilled,
    ended: () => ended,
  }
}

export interface World {
  readonly kit: LoadKit
  /** Another process on the same warehouse. */
  readonly twin: LoadKit
  readonly mended: Definition
  readonly answers: readonly OracleAnswer[]
  readonly jobs: ReadonlyMap<string, JobWork>
  /** Numbers in the ledger of what was loaded at least once. */
  readonly ids: Map<string, number>
  readonly killer: Killer
  oracle: Oracle
}

const table = 'data.traffic_and_engagement_v1'

const query = async <T extends Record<string, unknown>>(
  { kit: { db } }: Pick<World, 'kit'>,
  text: string,
  values: unknown[] = [],
): Promise<T[]> => (await db.database.pool.query<T>(text, values)).rows

/** An empty warehouse without the months, with jobs for the answers, asked for in their order; `play` it. */
const openWorld = async (
  db: TestDatabase,
  fresh: readonly [Database, Database],
  answers: readonly OracleAnswer[],
): Promise<World> => {
  const { plain, mended } = await oracleDefinitions()
  for (const month of ['202601', '202602']) await db.database.pool.query(`drop table if exists ${table}_p${month}`)
  await db.database.pool.query(`truncate ${table}, ${table}_history`)
  await db.database.pool.query(
    'truncate etl.pipelines, etl.slices, etl.jobs, etl.units, etl.windows, etl.quarantine, etl.test_failures cascade',
  )
  const opened = await openLoading(db, plain)
  const on = (database: Database): LoadKit => ({ ...opened, runtime: { ...opened.runtime, database } })
  const kit = on(fresh[0])
  const jobs = new Map<string, JobWork>()
  // When a later month was out: what they have no row of is no month that is not published yet.
  const set = { asked_at: '2026-04-20T00:00:00Z' }
  for (const answer of answers) jobs.set(answer.name, await workOn(kit, boxOfUnits(plain, answer.units), { set }))
  const names = [...new Set(answers.flatMap((answer) => answer.units))]
  return { kit, twin: on(fresh[1]), mended, oracle: newOracle(names), answers, jobs, ids: new Map(), killer: watch(fresh[0], db) }
}

/** Whatever became of the session, the job is done at the end. */
const loadDespite = async (
  world: World,
  kit: LoadKit,
  work: JobWork,
  answer: OracleAnswer,
  kill: number | null,
): Promise<void> => {
  const { killer } = world
  const { jobId } = work.claim
  const choice = { body: bodyOf(answer), bytes: answer.bytes }
  killer.at(kill)
  try {
    await loadBody(kit, work, choice)
  } catch (error) {
    if (!killer.hasKilled()) throw error
    killer.at(null)
    await killer.ended()
    if ((await jobRow(kit.db, jobId)).state === 'done') return
    await query(world, 'update etl.jobs set holder = null where job_id = $1', [jobId])
    const other = { ...kit, runtime: world.twin.runtime }
    await loadBody(other, await claimed(other, jobId), choice)
  } finally {
    killer.at(null)
    await killer.ended()
  }
}

/** As `replay` does it: the answer into all its units, or into one. */
const again = async (
  world: World,
  answer: OracleAnswer,
  one: string | null,
  { isMended = false, kill = null }: { readonly isMended?: boolean; readonly kill?: number | null } = {},
): Promise<void> => {
  const { kit, ids, oracle } = world
  const [month = '', domain = ''] = one?.split(' ') ?? []
  const scope = {
    pipelineId: kit.pipeline.pipelineId,
    range: one === null ? null : inclusiveRange(month, month, 'month'),
    only: one === null ? null : new Map([['domain', [domain]]]),
    reason: 'replay',
  }
  const part = { answerIds: [ids.get(answer.name) ?? 0], priority: 0, counts: 'all' as const }
  await kit.db.database.kysely.transaction().execute((trx) => registerReplay(trx, kit.runId, scope, part))
  await loadWaiting(world, answer, { isMended, kill })
  loadIntoOracle(oracle, answer, { only: one === null ? answer.units : [one], mended: isMended })
}

/** The job that the run waits for now. */
const loadWaiting = async (
  world: World,
  answer: OracleAnswer,
  { isMended, kill }: { readonly isMended: boolean; readonly kill: number | null },
): Promise<void> => {
  const { kit, jobs, mended } = world
  const own = [...jobs.values()].map(({ claim }) => claim.jobId)
  const waiting = await query<{ job_id: string }>(
    world,
    'select job_id from etl.run_jobs where run_id = $1 and outcome is null and job_id <> all($2::bigint[])',
    [kit.runId, own],
  )
  expect(waiting).toHaveLength(1)
  const other = { ...kit, definition: isMended ? mended : kit.definition }
  await loadDespite(world, other, await claimed(other, Number(waiting[0]?.job_id)), answer, kill)
}

const take = async (world: World, step: Step): Promise<void> => {
  const { answers, ids } = world
  switch (step.kind) {
    case 'release':
      return release(world, oracleUnits[step.unit % oracleUnits.length] ?? '')
    case 'hand':
      return byHand(world, step.hand)
    case 'retry': {
      const names = new Map([...ids].map(([name, id]) => [id, name]))
      for (const { answerId } of await answersInQuarantine(world.kit.db.database.kysely, [world.kit.pipeline.pipelineId])) {
        const answer = answers.find(({ name }) => name === names.get(answerId))
        if (answer !== undefined) await again(world, answer, null, { isMended: step.isMended })
      }
      return
    }
    case 'race':
      return race(world, step.answers)
    case 'replay': {
      const answer = answers[step.answer % answers.length]
      if (answer === undefined || !ids.has(answer.name)) return
      return again(world, answer, step.part ? (answer.units.at(-1) ?? null) : null, { kill: step.kill })
    }
    case 'load': {
      const answer = answers[step.answer % answers.length]
      if (answer !== undefined) await loadFirst(world, answer, step.kill)
    }
  }
}

const loadFirst = async (world: World, answer: OracleAnswer, kill: number | null): Promise<void> => {
  const job = world.jobs.get(answer.name)
  if (world.ids.has(answer.name) || job === undefined) return
  if (isAnothers(answer)) {
    const choice = { body: bodyOf(answer), bytes: answer.bytes }
    return expect(loadBody(world.kit, job, choice)).rejects.toMatchObject({ code: 'WRONG_ECHO' })
  }
  await loadDespite(world, world.kit, job, answer, kill)
  await learn(world, answer)
  loadIntoOracle(world.oracle, answer)
}

const learn = async ({ kit, jobs, ids }: World, { name }: OracleAnswer): Promise<void> => {
  ids.set(name, Number((await jobRow(kit.db, jobs.get(name)?.claim.jobId ?? 0)).answer_id))
}

/** Two that were not loaded yet, at the same time: the end is that of one of the two orders. */
const race = async (world: World, places: readonly [number, number]): Promise<void> => {
  const { kit, twin, answers, jobs, ids } = world
  const both = places.flatMap((place) => answers[place % answers.length] ?? [])
  const [one, other] = both
  if (
    one === undefined ||
    other === undefined ||
    one === other ||
    both.some((answer) => isAnothers(answer) || ids.has(answer.name))
  )
    return
  const load = (on: LoadKit, answer: OracleAnswer) => {
    const job = jobs.get(answer.name)
    if (job === undefined) throw new Error(`${answer.name} has no job`)
    return loadBody(on, { ...job, runtime: on.runtime }, { body: bodyOf(answer), bytes: answer.bytes })
  }
  await Promise.all([load(kit, one), load(twin, other)])
  for (const answer of both) await learn(world, answer)
  const orders = [both, both.toReversed()].map((order) => {
    const oracle = structuredClone(world.oracle)
    for (const answer of order) loadIntoOracle(oracle, answer)
    return oracle
  })
  const state = JSON.stringify(await found(world, orders[0]?.unsure))
  const fitting = orders.find((oracle) => JSON.stringify(shown(oracle)) === state)
  // Where neither fits, the difference to the first is shown.
  world.oracle = fitting ?? orders[0] ?? world.oracle
}

/** As a person does it: the held answer becomes a job of its own, which the next run takes up. */
const release = async (world: World, name: string): Promise<void> => {
  const { kit, oracle } = world
  const unit = oracle.units.get(name)
  if (unit === undefined || unit.held === null) return
  const { answer } = unit.held
  unit.held = null
  const [month, domain] = name.split(' ')
  const [row] = await query<{ unit_id: string }>(
    world,
    `select u.unit_id from etl.units u join etl.slices s using (slice_id) where u.window_from = $1 and s."values" @> array[$2]`,
    [`${month}-01`, domain],
  )
  expect(await releaseByPerson(kit.db.database.kysely, Number(row?.unit_id), 'test')).toBe(true)
  const [job] = await query<{ job_id: string }>(world, `select max(job_id) as job_id from etl.jobs where reason = 'release'`)
  await waitFor(kit.db, kit.runId, Number(job?.job_id), 1)
  await loadWaiting(world, answer, { isMended: false, kill: null })
  loadIntoOracle(oracle, answer, { only: [name], released: true })
}

const byHand = async (world: World, hand: OracleHand): Promise<void> => {
  const [month = '', domain = ''] = hand.unit.split(' ')
  const date = `${month}-0${hand.day}`
  const [there] = await query<{ is: boolean }>(world, `select to_regclass('${table}_p' || $1) is not null as is`, [
    month.replace('-', ''),
  ])
  if (there?.is !== true || (hand.what === 'put' && !world.oracle.units.has(hand.number) && hand.number !== '-')) return
  if (!changeByHand(world.oracle, hand)) return
  if (hand.what === 'put') await putByHand(world, hand, date)
  else if (hand.what === 'delete') await query(world, `delete from ${table} where date = $1 and domain = $2`, [date, domain])
  else
    await query(world, `update ${table} set all_traffic_visits = ${handVisits} where date = $1 and domain = $2`, [date, domain])
}

const putByHand = async (world: World, hand: Extract<OracleHand, { what: 'put' }>, date: string): Promise<void> => {
  const domain = hand.unit.split(' ')[1]
  const { granularity, include_subdomains: subdomains } = world.kit.definition.params
  const [of, who] = hand.number.split(' ')
  await query(
    world,
    `insert into ${table} (date, granularity, domain, country, include_subdomains, all_traffic_visits, mobile_visits, desktop_visits,
        desktop_unique_visitors, mobile_unique_visitors, all_page_views, _unit_id, _run_id, _loaded_at)
      values ($1, $2, $3, 'us', $4, ${handVisits}, 1, 2, 3, 4, 5, coalesce((select u.unit_id from etl.units u join etl.slices s using (slice_id)
        where to_char(u.window_from, 'YYYY-MM') = $5 and s."values" @> array[$6]), 0), 1, '2026-01-01')`,
    [date, granularity, domain, subdomains, of, who ?? ''],
  )
}

const found = async (world: World, unsure: ReadonlySet<string> = world.oracle.unsure) => {
  const { ids, kit } = world
  const names = new Map([...ids].map(([name, id]) => [String(id), name]))
  const named = `to_char(u.window_from, 'YYYY-MM') || ' ' || s."values"[array_position($2::text[], 'domain')]`
  const values = [kit.pipeline.pipelineId, kit.pipeline.dimensions]
  const of = async (rows: string): Promise<string[]> =>
    (
      await query<{ text: string }>(
        world,
        `select date || ' ' || domain || ' ' || all_traffic_visits || ' r' || _revision || ' of ' || coalesce(${named}, '-') as text
          from ${rows} t left join etl.units u on u.unit_id = t._unit_id and u.pipeline_id = $1 left join etl.slices s on s.slice_id = u.slice_id`,
        values,
      )
    )
      .map((row) => row.text)
      .sort()
  const state = await query<{ name: string; answer_id: string | null; held_answer_id: string | null; held_code: string | null }>(
    world,
    `select ${named} as name, u.answer_id, u.held_answer_id, u.held_code from etl.units u join etl.slices s using (slice_id) where u.pipeline_id = $1`,
    values,
  )
  const open = await query<{ name: string | null; answer_id: string; line: string }>(
    world,
    `select q.answer_id, q.line, ${named} as name from etl.quarantine q left join etl.units u on u.unit_id = q.unit_id
      left join etl.slices s on s.slice_id = u.slice_id where q.state = 'open' and $1::integer is not null`,
    values,
  )
  const nameOf = (id: string | null): string => (id === null ? '-' : (names.get(id) ?? `unknown ${id}`))
  const entries = open.map(({ name, answer_id, line }) => `${nameOf(answer_id)} ${name ?? '-'} ${line}`)
  return {
    rows: await of(table),
    past: await of(`${table}_history`),
    units: state
      .map(
        ({ name, answer_id, held_answer_id, held_code }) =>
          `${name}: ${nameOf(answer_id)}${held_answer_id === null ? '' : ` held ${nameOf(held_answer_id)} ${held_code}`}`,
      )
      .sort(),
    quarantine: entries.filter((entry) => !unsure.has(entry)).sort(),
  }
}

/** Every revision that nobody wrote by hand leads, by its unit and its moment, to one answer, whose bytes hold it. */
const expectLineage = async (world: World): Promise<void> => {
  const revisions = await query<{ date: string; domain: string; visits: string; answers: string[] }>(
    world,
    `select r.date::text as date, r.domain, r.visits::text as visits, array(
      select l.answer_id from etl.units u join etl.loads l on l.pipeline_id = u.pipeline_id and l.window_from = u.window_from
        join etl.answers a on a.answer_id = l.answer_id and u.slice_id = any(a.slice_ids)
      where u.unit_id = r._unit_id and l.loaded_at = r._loaded_at and l.outcome = 'loaded') as answers
    from (select date, domain, all_traffic_visits as visits, _unit_id, _loaded_at from ${table}
      union all select date, domain, all_traffic_visits, _unit_id, _loaded_at from ${table}_history) r where visits <> ${handVisits}`,
  )
  for (const { date, domain, visits, answers: led } of revisions) {
    expect(led, `${date} ${domain} ${visits}`).toHaveLength(1)
    const answer = world.answers.find(({ name }) => world.ids.get(name) === Number(led[0]))
    expect(answer === undefined ? '' : bodyOf(answer)).toContain(`${date},${domain},us,${visits},`)
  }
}

const expectCounted = async (world: World): Promise<void> => {
  const off = await query(
    world,
    `select * from etl.loads
    where rows_read <> rows_inserted + rows_updated + rows_unchanged + rows_quarantined + rows_duplicates or units < 1`,
  )
  expect(off).toEqual([])
}

const openFresh = (url: string): Promise<Database> =>
  openDatabase({ databaseUrl: secret('test database', url), home: '/nowhere' })

/** Takes the steps one by one and compares all there is after each with what the oracle says. */
export const play = async (db: TestDatabase, answers: readonly OracleAnswer[], steps: readonly Step[]): Promise<void> => {
  // Sessions that know nothing of months that other worlds had.
  const fresh = [await openFresh(db.url), await openFresh(db.url)] as const
  try {
    const world = await openWorld(db, fresh, answers)
    for (const [place, step] of steps.entries()) {
      await take(world, step)
      expect(await found(world), `after step ${place}: ${JSON.stringify(step)}`).toEqual(shown(world.oracle))
    }
    await expectLineage(world)
    await expectCounted(world)
  } finally {
    for (const database of fresh) await database.close()
  }
}
