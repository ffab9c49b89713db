// Holds the year that was lived through against what it must come to, and against a warehouse filled in one go at its end.
import type pg from 'pg'
import { dateIn } from '../../src/core/window.ts'
import { releaseByPerson } from '../../src/ledger/release-unit.ts'
import { planRun } from '../../src/plan/plan-run.ts'
import { runJobs } from '../../src/run/run-jobs.ts'
import { expectedBooks, expectedMessages } from './expected.ts'
import { openWarehouse, type Pipeline, type YearWorld } from './world.ts'
import { outage } from './year.ts'

export interface YearFigures {
  readonly nights: number
  readonly windows: number
  readonly versions: number
  /** Each of one month or of several. */
  readonly reports: number
  readonly messages: number
  /** What is not as it must be, in words; empty where all is well. */
  readonly wrong: readonly string[]
}

/** @param freshUrl an empty database for the warehouse that is filled in one go. */
export const judgeYear = async (world: YearWorld, freshUrl: string): Promise<YearFigures> => {
  const wrong: string[] = []
  const figures = { nights: 0, windows: 0, versions: 0, reports: 0 }
  for (const pipeline of world.pipelines) {
    const nights = await nightsOf(world, pipeline)
    figures.nights += nights.length
    wrong.push(...wrongTicks(world, pipeline, nights))
    const books = expectedBooks(
      pipeline,
      nights.map(({ workedMs }) => workedMs),
      world.price,
    )
    const lived = await livedBooks(world, pipeline)
    figures.windows += books.size
    for (const month of new Set([...books.keys(), ...lived.keys()])) {
      const must = JSON.stringify(books.get(month) ?? null)
      const is = JSON.stringify(lived.get(month) ?? null)
      if (is !== must) wrong.push(`${pipeline.name} ${month}: ${is}, must be ${must}`)
      figures.versions += lived.get(month)?.versions ?? 0
    }
  }
  figures.reports = await reportsBought(world)
  wrong.push(...wrongMessages(world), ...(await releaseShrunk(world)), ...(await differencesFromFresh(world, freshUrl)))
  return { ...figures, messages: world.receiver.messages.length, wrong }
}

interface Night {
  readonly dueMs: number
  readonly workedMs: number
  readonly kind: string
  readonly done: boolean
}

const nightsOf = async ({ client }: YearWorld, { name }: Pipeline): Promise<Night[]> => {
  const { rows } = await client.query<{ due: number; worked: number; kind: string; done: boolean }>(
    `select extract(epoch from due_at)::float8 * 1000 as due, extract(epoch from claimed_at)::float8 * 1000 as worked, kind,
       finished_at is not null and run_id is not null as done
     from etl.ticks where pipeline = $1 order by claimed_at, due_at`,
    [name],
  )
  return rows.map(({ due, worked, kind, done }) => ({ dueMs: due, workedMs: worked, kind, done }))
}

/** One tick for each day of the zone's own calendar, at the schedule's time or, where the clock skips that, when it goes on. */
const wrongTicks = (world: YearWorld, pipeline: Pipeline, nights: readonly Night[]): string[] => {
  const wrong: string[] = []
  const { name, timeZone, catchUp, localTime, skippedOn } = pipeline
  const local = new Intl.DateTimeFormat('en-CA', { timeZone, hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
  const days = new Map<string, number>()
  for (const { dueMs, done } of nights) {
    const day = dateIn(dueMs, timeZone)
    days.set(day, (days.get(day) ?? 0) + 1)
    const must = day === skippedOn?.day ? skippedOn.goesOnAt : localTime
    if (local.format(dueMs) !== must) wrong.push(`${name}: the tick of ${day} came at ${local.format(dueMs)}, not ${must}`)
    if (!done) wrong.push(`${name}: the tick of ${day} has no finished run`)
  }
  for (const [day, count] of days) if (count > 1) wrong.push(`${name}: ${count} ticks on ${day}`)
  const missed = { last: 2, all: 0, none: 3 }[catchUp]
  const must = Math.round((world.endMs - world.startMs) / 86_400_000) - missed
  if (nights.length !== must) wrong.push(`${name}: ${nights.length} ticks, must be ${must}`)
  const caughtUp = nights.filter(({ kind }) => kind === 'caught up').length
  const mustCatchUp = { last: 1, all: 3, none: 0 }[catchUp]
  if (caughtUp !== mustCatchUp) wrong.push(`${name}: ${caughtUp} ticks caught up after ${outage.to}, must be ${mustCatchUp}`)
  return wrong
}

const livedBooks = async (
  { client }: YearWorld,
  { name }: Pipeline,
): Promise<Map<string, { versions: number; bought: number }>> => {
  const { rows } = await client.query<{ month: string; versions: number; bought: number }>(
    `select left(u.window_from::text, 7) as month,
       (select count(distinct l.run_id) from etl.loads l where l.pipeline_id = u.pipeline_id and l.window_from = u.window_from
         and l.outcome = 'loaded' and l.rows_inserted + l.rows_updated + l.rows_ended > 0)::int as versions,
       max((select count(*) from etl.jobs j where j.pipeline_id = u.pipeline_id and j.window_from <= u.window_from
         and j.window_to > u.window_from and u.slice_id = any (j.slice_ids) and j.submitted_at is not null))::int as bought
     from etl.unit_list u where u.pipeline = $1 group by u.pipeline_id, u.window_from`,
    [name],
  )
  return new Map(rows.map(({ month, versions, bought }) => [month, { versions, bought }]))
}

const reportsBought = async ({ client }: YearWorld): Promise<number> => {
  const { rows } = await client.query<{ n: number }>(`select count(*)::int as n from etl.jobs where submitted_at is not null`)
  return rows[0]?.n ?? 0
}

const wrongMessages = ({ receiver, startMs, budgetSpentUntil }: YearWorld): string[] => {
  const must = expectedMessages(new Date(startMs).toISOString().slice(0, 10), budgetSpentUntil)
  const are = receiver.messages.map(({ day, event, kind, pipeline }) => `${day} ${event} ${kind} ${pipeline}`).sort()
  const ids = new Set(receiver.messages.map(({ id }) => id))
  return [
    ...must
      .filter((line, at) => must.indexOf(line) === at && count(are, line) < count(must, line))
      .map((line) => `no message: ${line}`),
    ...are
      .filter((line, at) => are.indexOf(line) === at && count(are, line) > count(must, line))
      .map((line) => `a message too many: ${line}`),
    ...(ids.size < are.length ? ['a message was sent twice'] : []),
  ]
}

const count = (list: readonly string[], line: string): number => list.filter((one) => one === line).length

/** What a correction took the last row of waits for a person, who lets it go now; anything else that is held is wrong. */
const releaseShrunk = async (world: YearWorld): Promise<string[]> => {
  const { rows } = await world.client.query<{ id: string; key: string; code: string }>(
    `select unit_id as id, unit_key as key, error_code as code from etl.unit_list where state in ('held', 'failed') and wanted`,
  )
  if (rows.length === 0) return []
  const runtime = await world.open()
  const { definitions } = runtime
  const { signal } = new AbortController()
  for (const { id } of rows) await releaseByPerson(runtime.database.kysely, Number(id), 'year')
  const plan = (runId: number) => planRun(runtime, runId, definitions, { mode: 'due' }, signal)
  await runJobs(runtime, { command: 'run', arguments: {}, definitions, plan, signal })
  await runtime.close()
  return rows.filter(({ code }) => code !== 'SHRUNK').map(({ key, code }) => `at the end ${key} is held (${code})`)
}

/** What the service says at the end, loaded at once into a warehouse that was never there, must be what a year of nights has made. */
const differencesFromFresh = async (world: YearWorld, freshUrl: string): Promise<string[]> => {
  const fresh = await openWarehouse(world.service, freshUrl, world.clock.now(), { budgets: false })
  try {
    const runtime = await fresh.open()
    const { definitions } = runtime
    const { signal } = new AbortController()
    const plan = (runId: number) => planRun(runtime, runId, definitions, { mode: 'due' }, signal)
    const { state } = await runJobs(runtime, { command: 'run', arguments: {}, definitions, plan, signal })
    await runtime.close()
    const wrong = state === 'done' ? [] : [`the warehouse filled in one go ended ${state}`]
    for (const { name } of world.pipelines) {
      const [is, must] = [await contentsOf(world.client, name), await contentsOf(fresh.client, name)]
      if (is !== must) wrong.push(`bi.${name}: ${is}, filled in one go ${must}`)
    }
    return wrong
  } finally {
    await fresh.close()
  }
}

const ofTheMoment = ['_unit_id', '_run_id', '_revision', '_loaded_at', 'is_final', 'restated_at'] as const

const contentsOf = async (client: pg.Client, view: string): Promise<string> => {
  const { rows } = await client.query<{ digest: string }>(
    `select count(*) || ' rows, ' || md5(string_agg(line, chr(10) order by line collate "C")) as digest
     from (select (to_jsonb(t) - $1::text[])::text as line from bi.${view} t) l`,
    [ofTheMoment],
  )
  return rows[0]?.digest ?? ''
}
