// Backups, clones and several warehouses on one landing, through the real command: nothing is bought, mixed or deleted that is another's.
import { copyFileSync, existsSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, inject, test } from 'vitest'
import { openLandingStore } from '../../src/extract/landing.ts'
import { boughtPath } from '../../src/extract/landing-files.ts'
import { differences } from '../outsider/pairs.ts'
import { type Rows, wantedTruth } from '../outsider/truth.ts'
import { currentRows } from '../outsider/warehouse.ts'
import { createWorld, names, type World } from '../outsider/world.ts'
import { type CommandResult, summaryOf } from '../support/command.ts'
import { type CopiedDatabase, copyDatabase } from '../support/copied-database.ts'
import { type S3Server, startS3Server } from '../support/s3-server.ts'
import { succeeded } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const reports = ['traffic_and_engagement', 'shopper_category_performance'] as const
const all = ['keywords', ...reports]

let world: World
let original: CopiedDatabase
let others: CopiedDatabase[]
let server: S3Server | null

beforeEach(async () => {
  original = await copyDatabase(inject('postgresUrl'), inject('templateName'))
  others = []
  server = null
  world = await createWorld({ database: original, lists: { shops: names('shop', 4) }, months: 2 })
  // A report for each domain and each shop: eight.
  for (const pipeline of reports) world.set(pipeline, ['for_each', 'domain', 'bucket'], 1)
})
afterEach(async () => {
  await server?.close()
  await world.remove()
  for (const other of others) await other.drop()
})

const another = async (of: Promise<CopiedDatabase>): Promise<CopiedDatabase> => {
  const database = await of
  others.push(database)
  return database
}

const landing = (): string => join(world.folder, 'landing')

/** On a machine of its own; the landing is one for all. */
const millrace = (
  database: CopiedDatabase,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
): Promise<CommandResult> =>
  runWarm(
    [...args, '--json'],
    {
      ...world.environment('somebody'),
      DATABASE_URL: database.url,
      MILLRACE_HOME: join(world.folder, `home${new URL(database.url).pathname.replaceAll('/', '-')}`),
      ...(server === null ? { MILLRACE_LANDING: landing() } : server.environment('warehouse/landings')),
      ...more,
    },
    world.folder,
  )

const range = (): string[] => ['--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '']
const bought = (): number => world.sandbox.books().submissions.length
const notices = ({ events }: CommandResult): string =>
  events
    .filter(({ event, code }) => event === 'notice' && code === 'WAREHOUSE_COPY')
    .map(({ message }) => String(message))
    .join('\n')
const identityIn = ({ events }: CommandResult): unknown[] =>
  events.filter(({ event, area }) => event === 'finding' && area === 'identity')
const rowsOf = ({ pool }: CopiedDatabase): Promise<Rows> => currentRows(pool)
const wrongRows = async (database: CopiedDatabase, of: readonly string[] = all): Promise<string[]> => {
  const truth = [...wantedTruth(world)].filter(([unit]) => of.some((pipeline) => unit.startsWith(`${pipeline} `)))
  return differences(new Map(truth), await rowsOf(database))
}

/** Folders and files of landings, without what is noted beside them. */
const landed = (): string[] =>
  readdirSync(landing(), { recursive: true, encoding: 'utf8' })
    .filter((path) => !path.startsWith('_') && statSync(join(landing(), path)).isFile())
    .sort()

/** As if it had been written so many days ago. */
const ageLandings = (days: number): void => {
  const then = Date.now() / 1000 - days * 86_400
  for (const path of readdirSync(landing(), { recursive: true, encoding: 'utf8' })) utimesSync(join(landing(), path), then, then)
}

describe.each(['a folder', 'a bucket'])('a backup that is restored elsewhere, with landings in %s', (kind) => {
  test('takes up the reports that were bought since, buys none of them again, and says what it is', async () => {
    if (kind === 'a bucket') server = await startS3Server()
    expect((await millrace(original, ['backfill', 'keywords', ...range()])).code).toBe(0)
    const restored = await another(original.copy())
    expect((await millrace(original, ['backfill', ...reports, ...range()])).code).toBe(0)
    expect(bought()).toBe(8)

    const check = await millrace(restored, ['check'])
    expect(check.code).toBe(2)
    expect(identityIn(check)).toMatchObject([
      { level: 'error', message: expect.stringContaining('millrace migrate --as restored') },
    ])
    const status = await millrace(restored, ['status'])
    expect(status.events.at(-1)).toMatchObject({ warehouse_warning: expect.stringContaining('copy') })

    const again = await millrace(restored, ['backfill', ...reports, ...range()])
    expect(notices(again)).toContain('8 purchases missing in this ledger were restored')
    expect(notices(again).match(/It buys and deletes nothing until you decide/g)).toHaveLength(1)
    expect(again.code, again.stderr).toBe(0)
    expect(bought()).toBe(8)
    expect(summaryOf(again)).toMatchObject({ reports_submitted: 0, units: { failed: 0, held: 0 } })
    expect(await wrongRows(restored)).toEqual([])
    // What the original landed is read where it lies, not downloaded again.
    expect(world.sandbox.books().submissions.map(({ downloads }) => downloads)).toEqual(Array(8).fill(1))

    await succeeded(millrace(restored, ['migrate', '--as', 'restored']))
    expect(identityIn(await millrace(restored, ['check']))).toEqual([])
    // The one it was a backup of is told that it was replaced, and buys nothing any more.
    expect(identityIn(await millrace(original, ['check']))).toMatchObject([
      { message: expect.stringContaining('If this database replaces') },
    ])
    const replaced = await millrace(original, ['backfill', ...reports, ...range(), '--force'])
    expect(replaced.code).toBe(1)
    expect(bought()).toBe(8)
    await succeeded(millrace(restored, ['backfill', ...reports, ...range(), '--force']))
    expect(bought()).toBe(16)
  })
})

describe('a backup whose receipts are gone, where the service lists its reports with what they were asked for', () => {
  /** The backup, taken before eight reports were bought. @param isKept of what is noted beside the landings */
  const restoredWithout = async (isKept: (path: string) => boolean): Promise<CopiedDatabase> => {
    world.sandbox.configure({ history: 'requests' })
    expect((await millrace(original, ['backfill', 'keywords', ...range()])).code).toBe(0)
    const restored = await another(original.copy())
    expect((await millrace(original, ['backfill', ...reports, ...range()])).code).toBe(0)
    expect(bought()).toBe(8)
    const notes = join(landing(), '_warehouses')
    for (const path of readdirSync(notes, { recursive: true, encoding: 'utf8' }))
      if (statSync(join(notes, path)).isFile() && !isKept(path)) rmSync(join(notes, path))
    return restored
  }
  const found = ({ events }: CommandResult): number => events.filter(({ code }) => code === 'REPORT_FOUND').length

  test('takes up what the list has of the time it forgot, once it is declared restored, and buys none of it again', async () => {
    const restored = await restoredWithout(() => false)
    expect((await millrace(restored, ['migrate', '--as', 'restored'])).code).toBe(0)
    const again = await succeeded(millrace(restored, ['backfill', ...reports, ...range()]))
    expect([bought(), found(again)]).toEqual([8, 8])
    expect(await wrongRows(restored)).toEqual([])
    // Who asks for something newer gets it.
    expect((await millrace(restored, ['backfill', ...reports, ...range(), '--force'])).code).toBe(0)
    expect(bought()).toBe(16)
  })

  test('finds there the ids of submissions of which only the intent was noted', async () => {
    const restored = await restoredWithout((path) => !/receipts/.test(path) || path.endsWith('.intent.json'))
    const again = await succeeded(millrace(restored, ['backfill', ...reports, ...range()]))
    expect([bought(), found(again)]).toEqual([8, 8])
    expect(await wrongRows(restored)).toEqual([])
  })
})

test('a backup of the very database, put back in its place, finds out by what was noted since', async () => {
  const backup = await another(original.copy())
  // Both say that they are at home where they are: as two copies of one data directory would.
  const pretend = async (): Promise<void> =>
    void (await backup.pool.query(
      `update etl.warehouse set warehouse_id = $1, home = (select system_identifier from pg_control_system()) || '/' ||
        (select oid from pg_database where datname = current_database())`,
      [(await original.pool.query('select warehouse_id from etl.warehouse')).rows[0].warehouse_id],
    ))
  expect((await millrace(original, ['backfill', ...all, ...range()])).code).toBe(0)
  await pretend()
  const again = await succeeded(millrace(backup, ['backfill', ...all, ...range()]))
  expect(notices(again)).toContain('8 purchases')
  expect(notices(again)).toContain('1 run and 8 purchases missing in its ledger')
  expect(await wrongRows(backup, reports)).toEqual([])
  expect((await millrace(backup, ['migrate', '--as', 'restored'])).code).toBe(0)
  await succeeded(millrace(backup, ['backfill', ...all, ...range()]))
  expect(bought()).toBe(8)
  expect(await wrongRows(backup)).toEqual([])
})

describe('a backup from before the first run', () => {
  const migrated = async (): Promise<CopiedDatabase> => {
    const { code, stderr } = await millrace(original, ['migrate'])
    expect(code, stderr).toBe(0)
    return another(original.copy())
  }

  test('knows whose it is: what was bought since is taken up, not bought again', async () => {
    const backup = await migrated()
    expect((await millrace(original, ['backfill', ...reports, ...range()])).code).toBe(0)
    const decided = await millrace(backup, ['migrate', '--as', 'restored'])
    expect(decided.events.at(-1)).toMatchObject({ taken_up: 8 })
    const again = await millrace(backup, ['backfill', ...reports, ...range()])
    expect([again.code, bought()]).toEqual([0, 8])
    expect(await wrongRows(backup, reports)).toEqual([])
  })

  test.each(['before', 'after'])('takes up what was read in pages since, by a run %s it is decided what it is', async (when) => {
    const backup = await migrated()
    await succeeded(millrace(original, ['backfill', ...all, ...range()]))
    const spent = world.sandbox.books().quotaUsed
    if (when === 'before') await succeeded(millrace(backup, ['run']))
    await succeeded(millrace(backup, ['migrate', '--as', 'restored']))
    await succeeded(millrace(backup, ['backfill', ...all, ...range()]))
    expect([world.sandbox.books().quotaUsed, bought()]).toEqual([spent, 8])
    expect(await wrongRows(backup)).toEqual([])
  })

  test('that nobody has worked with is no copy of anything: as a template, each database made of it is a warehouse of its own', async () => {
    const made = await migrated()
    const first = await millrace(made, ['backfill', 'keywords', ...range()])
    expect([first.code, notices(first)]).toEqual([0, ''])
    expect((await millrace(original, ['backfill', 'keywords', ...range()])).code).toBe(0)
    const names = await Promise.all([made, original].map(({ pool }) => pool.query('select warehouse_id from etl.warehouse')))
    expect(new Set(names.map(({ rows }) => rows[0].warehouse_id)).size).toBe(2)
  })
})

describe('a clone on the landing of its original', () => {
  test('buys and deletes nothing before it is decided what it is, and mixes nothing afterwards', async () => {
    expect((await millrace(original, ['backfill', ...all, ...range()])).code).toBe(0)
    const before = await rowsOf(original)
    const clone = await another(original.copy())
    for (const month of world.months) world.sandbox.restate(month)
    ageLandings(500)
    const files = landed()
    const spent = world.sandbox.books().quotaUsed

    const undecided = await millrace(clone, ['backfill', ...all, ...range(), '--force'])
    expect(undecided.code).toBe(1)
    expect(notices(undecided)).toContain('millrace migrate --as clone')
    expect(summaryOf(undecided).units).toMatchObject({ loaded: 0, failed: 0 })
    const night = await millrace(clone, ['run', 'keywords'])
    expect([0, 1]).toContain(night.code)
    expect(bought()).toBe(8)
    expect(world.sandbox.books().quotaUsed).toBe(spent)
    expect(files.filter((path) => !landed().includes(path))).toEqual([])

    expect((await millrace(clone, ['migrate', '--as', 'clone'])).code).toBe(0)
    expect(identityIn(await millrace(clone, ['check']))).toEqual([])
    await succeeded(millrace(clone, ['backfill', ...all, ...range(), '--force']))
    expect(bought()).toBe(16)
    expect(await wrongRows(clone)).toEqual([])
    await millrace(clone, ['run', 'keywords'])
    expect(files.filter((path) => !landed().includes(path))).toEqual([])

    expect(identityIn(await millrace(original, ['check']))).toEqual([])
    await succeeded(millrace(original, ['replay', ...all, ...range()]))
    expect(await rowsOf(original)).toEqual(before)
  })

  test('whose bytes lie where those of the original were is refused by name', async () => {
    expect((await millrace(original, ['backfill', 'traffic_and_engagement', ...range()])).code).toBe(0)
    const before = await rowsOf(original)
    const clone = await another(original.copy())
    expect((await millrace(clone, ['migrate', '--as', 'clone'])).code).toBe(0)
    for (const month of world.months) world.sandbox.restate(month)
    expect((await millrace(clone, ['backfill', 'traffic_and_engagement', ...range(), '--force'])).code).toBe(0)
    const place = async ({ pool }: CopiedDatabase): Promise<string> =>
      (await pool.query('select landing from etl.answers order by window_from, slice_ids, answer_id desc limit 1')).rows[0]
        .landing
    const [own, foreign] = [await place(original), await place(clone)]
    for (const file of ['data.gz', 'manifest.json']) copyFileSync(join(landing(), foreign, file), join(landing(), own, file))
    const replay = await millrace(original, ['replay', 'traffic_and_engagement', ...range()])
    expect(replay.code).toBe(1)
    expect(replay.stdout).toContain('LANDING_FOREIGN')
    expect(replay.stdout).toContain(own)
    expect(await rowsOf(original)).toEqual(before)
  })
})

test('a run from an empty database on a landing that is full of old folders deletes none of them', async () => {
  expect((await millrace(original, ['backfill', ...all, ...range()])).code).toBe(0)
  const empty = await another(copyDatabase(inject('postgresUrl'), inject('templateName')))
  ageLandings(500)
  const files = landed()
  await succeeded(millrace(empty, ['run', 'keywords'], { MILLRACE_LANDING_DAYS: '1' }))
  expect(files.filter((path) => !existsSync(join(landing(), path)))).toEqual([])
  await succeeded(millrace(original, ['replay', ...all, ...range()]))
})

test('a damaged receipt is named by status, too, and stops no command', async () => {
  expect((await millrace(original, ['backfill', 'keywords', ...range()])).code).toBe(0)
  const { rows } = await original.pool.query('select warehouse_id as id, epoch from etl.warehouse')
  const path = boughtPath(rows[0], '999', 'default', 'cut')
  const landings = await openLandingStore({ kind: 'folder', folder: landing() })
  await landings.notes.write(path, '{"version":1')
  const shown = await succeeded(millrace(original, ['status']))
  expect(shown.events.at(-1)).toMatchObject({ damaged_receipts: [expect.stringContaining('beside the landings is damaged')] })
  expect((await millrace(original, ['backfill', 'keywords', ...range()])).code).toBe(0)
})
