// Everything a person, a timer or a second machine may start on a warehouse; each says when it is over.
import { type Ended, type Started, start, until, wait } from './commands.ts'
import { unfinishedUnits } from './warehouse.ts'
import { pipelines, type World } from './world.ts'

export const actionNames = [
  'backfill keywords',
  'backfill traffic_and_engagement',
  'backfill shopper_category_performance',
  'run keywords',
  'run traffic_and_engagement',
  'run shopper_category_performance',
  'run',
  'replay',
  'quarantine retry',
  'cancel',
  'tick',
  'worker',
  'page',
] as const

/** What people look with, and what is done when a new version comes: it disturbs nobody either. */
export const lookNames = ['status', 'check', 'migrate', 'dry run', 'quarantine list', 'export traffic_and_engagement'] as const
export type ActionName = (typeof actionNames)[number] | (typeof lookNames)[number]

/** How the first of a pair ends. */
export type Ending = 'by itself' | 'kill -9' | 'closed pipe'

export interface Action {
  readonly name: ActionName
  /** Kills it where it is. */
  kill(): void
  /** Resolves when its work is done; what runs for ever is told to stop. @param others resolves when the other action is done. */
  finish(others: Promise<unknown>): Promise<Ended>
}

/** Seconds within which each action has to end: it takes a few alone. */
export const bound = 75

export interface ActionOptions {
  readonly force: boolean
  readonly pipe: 'whole' | 'closed'
  /** Which of the page's buttons. */
  readonly button: 'cancel' | 'release' | 'retry'
}

export const begin = async (world: World, name: ActionName, options: ActionOptions): Promise<Action> => {
  const given = { bound, pipe: options.pipe, caller: name.replaceAll(' ', '-') }
  const [first = '', last = ''] = [world.months[0], world.months.at(-1)]
  const range = ['--from', first, '--to', last, '--json']
  const [word = '', what] = name.split(' ')
  if (word === 'backfill' && what !== undefined)
    return ending(name, start(world, [word, what, ...range, ...(options.force ? ['--force'] : [])], given))
  if (word === 'replay') return ending(name, start(world, [word, ...pipelines, ...range], given))
  if (word === 'cancel') return ending(name, start(world, ['cancel', String(await newestRun(world)), '--json'], given))
  if (name === 'dry run') return ending(name, start(world, ['backfill', ...pipelines, ...range, '--force', '--dry-run'], given))
  if (word === 'worker') return lasting(name, start(world, ['worker', '--json'], given), async (others) => others)
  if (word === 'tick') return tick(world, given)
  if (word === 'page') return pressButton(world, options.button, given)
  return ending(name, start(world, [...name.split(' '), '--json'], given))
}

const ending = (name: ActionName, started: Started): Action => ({
  name,
  kill: () => started.signal('SIGKILL'),
  finish: () => started.ended,
})

/** A command that runs until it is told to stop, which it is once `work` is over. */
const lasting = (name: ActionName, started: Started, work: (others: Promise<unknown>) => Promise<unknown>): Action => ({
  name,
  kill: () => started.signal('SIGKILL'),
  finish: async (others) => {
    await Promise.race([work(others), started.ended])
    await wait(200)
    started.signal('SIGTERM')
    return started.ended
  },
})

const newestRun = async ({ database }: World): Promise<number> => {
  const { rows } = await database.pool.query<{ run_id: string }>('select run_id from etl.runs order by run_id desc limit 1')
  return Number(rows[0]?.run_id ?? 1)
}

/** `schedule`, begun when each pipeline has missed its tick, until it keeps time and every missed tick is over, whichever scheduler took it. */
const tick = async (world: World, given: Parameters<typeof start>[2]): Promise<Action> => {
  const { pool } = world.database
  await pool.query(
    `insert into etl.ticks (pipeline, due_at, claimed_by, claimed_at, kind, finished_at)
     select p, now() - interval '3 days', 'before', now() - interval '3 days', 'on time', now() - interval '3 days' from unnest($1::text[]) p`,
    [pipelines],
  )
  const started = start(world, ['schedule', '--json'], given)
  const taken = async (): Promise<boolean> => {
    const found = await pool.query<{ n: number }>(
      `select count(distinct pipeline)::int as n from etl.ticks t where due_at > now() - interval '2 days' and not exists (
         select from etl.ticks open where open.pipeline = t.pipeline and open.finished_at is null)`,
    )
    return started.printed().includes('"status_page"') && (found.rows[0]?.n ?? 0) >= pipelines.length
  }
  return lasting('tick', started, () => until(taken, bound - 15))
}

/** `status --serve`, and one of its buttons pressed as a browser would. */
const pressButton = async (
  world: World,
  button: ActionOptions['button'],
  given: Parameters<typeof start>[2],
): Promise<Action> => {
  const started = start(world, ['status', '--serve', '--json'], given)
  const press = async (): Promise<void> => {
    const address = (): string | undefined => /"event":"status_page","url":"([^"]+)"/.exec(started.printed())?.[1]
    if (!(await until(() => address() !== undefined, 20))) return
    const url = address() ?? ''
    const path = await pathOf(world, button)
    if (path === null) return
    const headers = { origin: new URL(url).origin, 'content-type': 'application/x-www-form-urlencoded' }
    await fetch(new URL(path, url), { method: 'POST', headers, body: '' })
  }
  return lasting('page', started, async (others) => {
    await press()
    await others
  })
}

/** The newest run, or the first unit there is to release or retry. */
const pathOf = async (world: World, button: ActionOptions['button']): Promise<string | null> => {
  if (button === 'cancel') return `/runs/${await newestRun(world)}/cancel`
  const state = button === 'release' ? 'held' : 'failed'
  const unit = (await unfinishedUnits(world.database.pool)).find((entry) => entry.state === state)
  return unit === undefined ? null : `/units/${unit.unitId}/${button}`
}
