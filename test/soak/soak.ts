// A scheduler, workers, readers and a person who asks for restated months again, while the service misbehaves and PostgreSQL is killed again and again.
import pg from 'pg'
import type { DatabasePool } from '../../src/db/connect.ts'
import { type Sandbox, startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { createOwnDatabase, type OwnDatabase } from '../storm/own-database.ts'
import { type StormWorld, stormPipelines } from '../storm/storm-world.ts'
import { type CommandResult, runCommand } from '../support/command.ts'
import { startOwnServer } from '../support/own-server.ts'
import { type Course, courseOf, isFlat, type Sample, takeSample } from './figures.ts'
import { createSoakWorld, type Kept, keepRunning, keepWords, misbehaviour } from './soak-world.ts'

export interface SoakOptions {
  readonly minutes: number
  /** Walks and reports. */
  readonly jobs: number
  readonly workers: number
  readonly killEveryMs: number
  readonly sampleEveryMs: number
  /** Folder for what every process said; null: not kept. */
  readonly logs: string | null
  readonly note: (text: string) => void
}

export interface SoakFigures {
  readonly minutes: number
  readonly workers: number
  readonly requests: number
  readonly faults: number
  readonly kills: number
  readonly restatements: number
  /** Units that a restatement left without a row, released by the person. */
  readonly released: number
  readonly reports: number
  readonly reads: number
  /** Long-running processes that ended and were started again. */
  readonly ended: number
  readonly rows: number
  readonly megabytes: Course
  readonly files: Course
  readonly connections: Course
  readonly deadRows: Course
  /** What must not be; empty when every promise held. */
  readonly wrong: readonly string[]
}

interface Soak {
  readonly options: SoakOptions
  readonly world: StormWorld
  readonly sandbox: Sandbox
  readonly db: OwnDatabase
  readonly environment: Record<string, string>
  readonly wrong: string[]
  readonly counts: { kills: number; restatements: number; released: number; reads: number }
  over: boolean
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

export const runSoak = async (options: SoakOptions): Promise<SoakFigures> => {
  const world = createSoakWorld(options.jobs)
  const server = await startOwnServer()
  // By the real clock, as the schedules are.
  const sandbox = await startSandbox({
    seed: 7,
    keywordsPerDomain: 40,
    requestsPerSecond: null,
    reportDurationMs: 300,
    openReports: 10_000,
  })
  const db = await createOwnDatabase(server.url, 'soak')
  db.pool.on('error', () => undefined)
  const environment = { ...world.environment(sandbox, db.url, 'home'), MILLRACE_WEB_PORT: '0', MILLRACE_DATABASE_SILENCE: '5' }
  const logged = options.logs === null ? environment : { ...environment, MILLRACE_LOG_LEVEL: 'info' }
  const soak: Soak = {
    options,
    world,
    sandbox,
    db,
    environment: logged,
    wrong: [],
    counts: { kills: 0, restatements: 0, released: 0, reads: 0 },
    over: false,
  }
  try {
    await db.pool.query('create extension pgstattuple schema public')
    await command(soak, ['migrate'])
    await command(soak, world.command)
    sandbox.configure({ faults: [...misbehaviour] })
    options.note('loaded once; now the soak')
    const place = { environment: logged, folder: world.folder, logs: options.logs }
    const kept = [
      keepRunning({ ...place, name: 'schedule', args: ['schedule'] }),
      ...Array.from({ length: options.workers }, (_, index) =>
        keepRunning({ ...place, name: `worker-${index + 1}`, args: ['worker'] }),
      ),
    ]
    const samples = await live(soak, server, kept)
    sandbox.configure({ faults: [] })
    for (const one of kept) await one.stop()
    options.note('the service behaves again; the last commands')
    await settle(soak)
    await judge(soak, server.url)
    return await figuresOf(soak, samples, kept)
  } finally {
    await db.close()
    await sandbox.close()
    await server.remove()
    world.remove()
  }
}

const command = async ({ world, environment, options }: Soak, args: readonly string[]): Promise<CommandResult> => {
  const result = await runCommand(args, environment, world.folder)
  keepWords(options.logs, 'commands', `${args.join(' ')}: ${result.code}\n${result.stderr}`)
  return result
}

type Server = Awaited<ReturnType<typeof startOwnServer>>

/** Until the time is up; the person's last wish is carried out to its end. */
const live = async (soak: Soak, server: Server, kept: readonly Kept[]): Promise<readonly Sample[]> => {
  const { options } = soak
  const began = performance.now()
  const samples: Sample[] = []
  const until = (ms: number): boolean => performance.now() - began < ms
  const length = options.minutes * 60_000
  const killing = async (): Promise<void> => {
    while (until(length)) {
      await wait(options.killEveryMs)
      server.kill()
      await server.restart()
      soak.counts.kills += 1
    }
  }
  const sampling = async (): Promise<void> => {
    while (until(length)) {
      const pids = kept.map((one) => one.pid()).filter((pid) => pid !== null)
      samples.push(await takeSample(soak.db.pool, pids, Math.round((performance.now() - began) / 1_000)))
      await wait(options.sampleEveryMs)
    }
  }
  const asking = async (): Promise<void> => {
    for (let turn = 0; until(length); turn += 1) await restateAndAsk(soak, turn)
  }
  await Promise.all([killing(), sampling(), asking(), reading(soak, () => until(length)), reading(soak, () => until(length))])
  return samples
}

/** A month changes at the service, and a person asks for it again until it is there. */
const restateAndAsk = async (soak: Soak, turn: number): Promise<void> => {
  const { world, sandbox, counts, options } = soak
  const month = world.months[turn % world.months.length] ?? world.to
  sandbox.restate(month)
  counts.restatements += 1
  const asked = ['backfill', ...stormPipelines, '--from', month, '--to', month, '--json']
  for (let tries = 1; tries <= 10; tries += 1) {
    // Interrupted before it had planned, it has to wish anew.
    const result = await command(soak, [...asked, '--force'])
    options.note(`${month} restated and asked for: exit code ${result.code}`)
    if (result.code === 0) return
    if (isHeldAlone(result) && (await releaseShrunk(soak)) > 0) return void (await command(soak, asked))
    await wait(1_000)
  }
}

/** Everything was answered; what did not load waits for a person. */
const isHeldAlone = ({ events }: CommandResult): boolean => {
  const units = events.at(-1)?.['units']
  return JSON.stringify(units ?? null).match(/"waiting":0,"held":[1-9]\d*,"failed":0/) !== null
}

/** Units whose only row a restatement took keep it until a person says that it is right. */
const releaseShrunk = async (soak: Soak): Promise<number> => {
  const shrunk = await soak.db.pool
    .query<{ unit: string }>(`select unit_id as unit from etl.unit_list where state = 'held' and error_code = 'SHRUNK'`)
    .catch(() => null)
  const units = (shrunk?.rows ?? []).map(({ unit }) => unit)
  if (units.length > 0) await command(soak, ['release', ...units])
  soak.counts.released += units.length
  return units.length
}

const reading = async ({ db, counts }: Soak, goesOn: () => boolean): Promise<void> => {
  while (goesOn()) {
    const client = new pg.Client({ connectionString: db.url, application_name: 'reader' })
    client.on('error', () => undefined)
    try {
      await client.connect()
      await client.query('begin isolation level repeatable read')
      const count = async (): Promise<string> =>
        JSON.stringify((await client.query('select count(*), sum(clicks) from bi.keywords')).rows)
      const first = await count()
      await wait(2_000)
      if ((await count()) === first) counts.reads += 1
      await client.query('commit')
    } catch {
      await wait(200)
    } finally {
      await client.end().catch(() => undefined)
    }
  }
}

/** Without faults and kills the same command has to come to an end. */
const settle = async (soak: Soak): Promise<void> => {
  for (let turn = 0; turn < 4; turn += 1) {
    if ((await command(soak, soak.world.command)).code === 0) return
    await releaseShrunk(soak)
  }
  soak.wrong.push('the backfill did not end green after the faults had ended')
}

const judge = async (soak: Soak, serverUrl: string): Promise<void> => {
  const { world, sandbox, db, wrong } = soak
  const bought = sandbox.books().submissions.map(({ id }) => id)
  const calm = await createOwnDatabase(serverUrl, 'calm')
  try {
    const result = await runCommand(world.command, world.environment(sandbox, calm.url, 'calm'), world.folder)
    if (result.code !== 0) wrong.push(`the calm run ended with ${result.code}`)
    for (const pipeline of stormPipelines) {
      const [ours, theirs] = [await cellsOf(db.pool, pipeline, world), await cellsOf(calm.pool, pipeline, world)]
      const differing = [...ours].filter((row) => !theirs.has(row)).length + [...theirs].filter((row) => !ours.has(row)).length
      if (differing > 0) wrong.push(`${pipeline}: ${differing} rows differ from the truth`)
      wrong.push(...(await revisionsTwice(db.pool, pipeline)))
    }
  } finally {
    await calm.close()
  }
  wrong.push(...(await purchasesAstray(db.pool, bought)))
}

/** Rows of the months asked for as text, without what names the run and the moment. The schedules load others too. */
const cellsOf = async (pool: DatabasePool, pipeline: string, { from, to }: StormWorld): Promise<ReadonlySet<string>> => {
  const { rows } = await pool.query<{ row: string }>(
    `select (to_jsonb(t) - '{_unit_id,_run_id,_revision,_loaded_at}'::text[])::text as row from data.${pipeline}_v1 t
     where left(coalesce(to_jsonb(t) ->> 'month', to_jsonb(t) ->> 'date'), 7) between $1 and $2`,
    [from, to],
  )
  return new Set(rows.map(({ row }) => row))
}

const revisionsTwice = async (pool: DatabasePool, pipeline: string): Promise<string[]> => {
  const { rows } = await pool.query<{ count: number }>(
    `select count(*)::integer as count from (select 1 from bi.${pipeline}_history h
       group by to_jsonb(h) - '{_valid_from,_valid_to,valid_from,valid_to,_run_id,_ended_run_id,_loaded_at}'::text[], h.valid_from having count(*) > 1) twice`,
  )
  return rows[0]?.count === 0 ? [] : [`${pipeline}: ${rows[0]?.count} revisions stand twice in the history`]
}

/** Each purchase is one job's, and each job has bought once: nothing doubled, no id lost. */
const purchasesAstray = async (pool: DatabasePool, bought: readonly string[]): Promise<string[]> => {
  const { rows } = await pool.query<{
    job: string
    report_id: string | null
    state: string
    asked: string
    message: string | null
  }>(
    `select job_id as job, report_id, report_state as state, asked_at::text as asked, error_message as message
     from etl.jobs where report_state is not null order by job_id`,
  )
  const known = rows.map(({ report_id }) => report_id).filter((id) => id !== null)
  const lost = bought.filter((id) => !known.includes(id)).length
  const twice = known.length - new Set(known).size
  const uncertain = rows.filter(({ state }) => state === 'uncertain' || state === 'intent')
  return [
    ...(lost > 0 ? [`${lost} reports were bought whose id the ledger does not know`] : []),
    ...(twice > 0 ? [`${twice} ids stand at two jobs`] : []),
    ...uncertain.map(({ job, asked, message }) => `the purchase of job ${job}, asked for at ${asked}, is uncertain: ${message}`),
  ]
}

const figuresOf = async (
  { options, sandbox, db, counts, wrong }: Soak,
  samples: readonly Sample[],
  kept: readonly Kept[],
): Promise<SoakFigures> => {
  const books = sandbox.books()
  const rows = await db.pool.query<{ count: number }>(
    `select (${stormPipelines.map((pipeline) => `(select count(*) from data.${pipeline}_v1)`).join(' + ')})::integer as count`,
  )
  const courses = {
    megabytes: courseOf(samples.map(({ megabytes }) => megabytes)),
    files: courseOf(samples.map(({ files }) => files)),
    connections: courseOf(samples.map(({ connections }) => connections)),
    deadRows: courseOf(samples.map(({ deadRows }) => deadRows)),
  }
  const slack = { megabytes: 20, files: 10, connections: 10, deadRows: 5_000 }
  for (const name of ['megabytes', 'files', 'connections', 'deadRows'] as const)
    if (samples.length >= 40 && !isFlat(courses[name], slack[name]))
      wrong.push(`${name} grew from ${courses[name].early} to ${courses[name].late}`)
  return {
    minutes: options.minutes,
    workers: options.workers,
    requests: Object.values(books.counts).reduce((sum, count) => sum + count, 0),
    faults: books.requests.filter(({ fault }) => fault !== null).length,
    reports: books.submissions.length,
    ...counts,
    ended: kept.reduce((sum, one) => sum + one.ended(), 0),
    rows: rows.rows[0]?.count ?? 0,
    ...courses,
    wrong,
  }
}
