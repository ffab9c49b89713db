// Disks that are full, of the database, of the landings and of both, before anything is bought, while reports are being made, while they are downloaded and
// while they are loaded: nothing is bought twice or lost, and with room again the same command ends what was begun.
import { existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { expect, inject, test } from 'vitest'
import { differences } from '../outsider/pairs.ts'
import { wantedTruth } from '../outsider/truth.ts'
import { currentRows } from '../outsider/warehouse.ts'
import { createWorld, names, type World } from '../outsider/world.ts'
import { type CommandResult, type RunningCommand, startCommand, summaryOf } from '../support/command.ts'
import { createTestDatabase } from '../support/postgres.ts'
import { mayMount, mountSmallDisk, type SmallDisk } from '../support/small-disk.ts'

const pipelines = ['traffic_and_engagement', 'shopper_category_performance'] as const

interface Disks {
  readonly database: SmallDisk
  readonly landing: SmallDisk
}

const asAdmin = async <T extends pg.QueryResultRow>(statement: string): Promise<T[]> => {
  const client = new pg.Client({ connectionString: inject('postgresUrl') })
  await client.connect()
  try {
    return (await client.query<T>(statement)).rows
  } finally {
    await client.end()
  }
}

const megabytes = { database: 96, landing: 8 }

/** A database whose tables lie on a small disk, on a server of this machine; null: it cannot be had here. */
const createSmallDatabase = async (): Promise<{ url: string; disk: SmallDisk; drop: () => Promise<void> } | null> => {
  const folder = (await asAdmin<{ data_directory: string }>('show data_directory'))[0]?.data_directory ?? ''
  if (!existsSync(folder)) return null
  const { uid, gid } = statSync(folder)
  const disk = mountSmallDisk(megabytes.database, { uid, gid })
  const name = `small_${process.pid}_${Math.random().toString(36).slice(2, 8)}`
  await asAdmin(`create tablespace ${name} location '${disk.folder}'`)
  await asAdmin(`create database ${name} template ${inject('templateName')} tablespace ${name}`)
  const url = new URL(inject('postgresUrl'))
  url.pathname = `/${name}`
  const drop = async (): Promise<void> => {
    await asAdmin(`drop database ${name} with (force)`)
    await asAdmin(`drop tablespace ${name}`)
    disk.remove()
  }
  return { url: url.href, disk, drop }
}

const millrace = (world: World, disks: Disks): RunningCommand =>
  startCommand(
    ['backfill', ...pipelines, '--from', world.months[0] ?? '', '--to', world.months.at(-1) ?? '', '--json'],
    { ...world.environment('somebody'), MILLRACE_LANDING: join(disks.landing.folder, 'landing') },
    world.folder,
  )

/** From when on the disks are full in the second run. */
const stages: Readonly<Record<string, (world: World, pool: pg.Pool) => Promise<boolean>>> = {
  'are made': async ({ sandbox }) => sandbox.books().submissions.length >= 8,
  'are downloaded': async ({ sandbox }) => (sandbox.books().counts['download'] ?? 0) > 0,
  'are loaded': async (_, pool) => (await pool.query('select from etl.answers limit 1')).rows.length > 0,
}

const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

// A tablespace that is full fails the checkpoints of the whole server, and with them every test beside this one: alone, by `MILLRACE_TEST_DISK_FULL=1 npx vitest run test/e2e/disk-full.test.ts`.
const places = [
  { of: 'the landings', which: ['landing'] },
  { of: 'the database', which: ['database'] },
  { of: 'both', which: ['landing', 'database'] },
] as const
const cases = places.flatMap((place) => Object.entries(stages).map(([stage, isThere]) => ({ ...place, stage, isThere })))

test.runIf(mayMount() && process.env['MILLRACE_TEST_DISK_FULL'] === '1').each(cases)(
  'a full disk of $of while reports $stage costs none',
  async ({ which, isThere }) => {
    const small = await createSmallDatabase()
    if (small === null) return
    const disks: Disks = { database: small.disk, landing: mountSmallDisk(megabytes.landing) }
    const pool = new pg.Pool({ connectionString: small.url, max: 1 })
    pool.on('error', () => undefined)
    const world = await createWorld({
      database: { url: small.url, pool, drop: async () => pool.end().then(small.drop) },
      lists: { shops: names('shop', 4) },
      months: 2,
      sandbox: { reportDurationMs: 4_000 },
    })
    for (const pipeline of pipelines) world.set(pipeline, ['for_each', 'domain', 'bucket'], 1)
    const bought = (): number => world.sandbox.books().submissions.length
    const said = ({ stdout, stderr }: CommandResult): string => stdout + stderr
    try {
      for (const name of which) disks[name].fill()
      const early = await millrace(world, disks).result
      expect([1, 2], said(early)).toContain(early.code)
      expect(said(early)).toMatch(/No space left on device|ENOSPC/)
      expect(bought()).toBe(0)
      for (const name of which) disks[name].free()

      const running = millrace(world, disks)
      for (let tries = 0; tries < 1_500 && !(await isThere(world, pool)); tries += 1) await wait(20)
      for (const name of which) disks[name].fill()
      // Until all reports are made and could be downloaded. A database that takes nothing is waited for, up to two minutes.
      await wait(6_000)
      for (const name of which) disks[name].free()
      const cut = await running.result
      expect([0, 1], said(cut)).toContain(cut.code)

      const again = await millrace(world, disks).result
      expect(again.code, said(again)).toBe(0)
      expect(bought()).toBe(8)
      const truth = [...wantedTruth(world)].filter(([unit]) => !unit.startsWith('keywords'))
      expect(differences(new Map(truth), await currentRows(pool))).toEqual([])
    } finally {
      await world.remove()
      disks.landing.remove()
    }
  },
)

test.runIf(mayMount())('no page is bought that would find no room; with room again the walks go on from theirs', async () => {
  const db = await createTestDatabase({ published: true })
  const disk = mountSmallDisk(16)
  const pool = new pg.Pool({ connectionString: db.url, max: 1 })
  const database = { url: db.url, pool, drop: () => pool.end().then(() => db.drop()) }
  const sandbox = { keywordsPerDomain: 6_000, requestsPerSecond: null }
  const world = await createWorld({ database, lists: { domains: names('site', 8), countries: ['us'] }, months: 1, sandbox })
  world.set('keywords', ['limits', 'page_size'], 1_000)
  const run = async (left: number | null) => {
    if (left === null) disk.free()
    else disk.fill(left)
    const landing = { MILLRACE_LANDING: join(disk.folder, 'landing') }
    const ended = await startCommand(
      ['run', 'keywords', '--json'],
      { ...world.environment('somebody'), ...landing },
      world.folder,
    ).result
    disk.free()
    const pages = world.sandbox.books().requests.filter(({ endpoint, status }) => endpoint === 'keywords' && status === 200)
    const said = ended.stdout + ended.stderr
    const twice = pages.length - new Set(pages.map(({ path, query }) => JSON.stringify([path, query]))).size
    return { code: ended.code, units: summaryOf(ended).units, pages: pages.length, twice, said }
  }
  try {
    const none = await run(200 * 1024)
    expect([none.code, none.pages, none.units.failed], none.said).toEqual([1, 0, 8])
    expect(none.said).toContain('The disk is full: free space')
    const some = await run(5_500 * 1024)
    expect(some.code, some.said).toBe(1)
    expect(some.pages).toBeGreaterThan(0)
    expect(some.pages).toBeLessThan(8 * 6)
    const rest = await run(null)
    expect([rest.code, rest.units.loaded + some.units.loaded], rest.said).toEqual([0, 8])
    expect(rest.twice).toBe(0)
  } finally {
    await world.remove()
    disk.remove()
  }
})
