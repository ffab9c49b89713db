// Files and folders that people name: what is no regular file of a sane size is refused before it is read, and a landing that cannot be written is found.
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { startSandbox } from '../../src/sandbox/sandbox-server.ts'
import { type CommandResult, startCommand } from '../support/command.ts'
import { mayMount, mountSmallDisk } from '../support/small-disk.ts'
import { testWorld } from '../support/test-world.ts'
import { runWarm } from '../support/warm-command.ts'

const { folder, millraceWith, db, edit } = testWorld({ each: true })

const check = (more: Readonly<Record<string, string>> = {}): Promise<CommandResult> =>
  millraceWith(more, 'check', '--offline', '--json')

const list = (): string => join(folder, 'pipelines', 'domains.txt')

test('a list that is a pipe, a device or far too large is named, and nothing waits for it', async () => {
  rmSync(list())
  execFileSync('mkfifo', [list()])
  expect((await check()).stdout).toContain('it is no regular file')
  rmSync(list())
  writeFileSync(list(), '')
  truncateSync(list(), 100 * 1024 * 1024)
  expect((await check()).stdout).toContain('more than 67108864')
  writeFileSync(list(), 'a.com\n')
  expect((await check({ WEB_ANALYTICS_API_KEY: '', WEB_ANALYTICS_API_KEY_FILE: '/dev/zero' })).stdout).toContain('a regular file')
}, 60_000)

test.each([
  ['marts', 'own.sql', 'mart'],
  ['semantic', 'own.yaml', 'semantic'],
  ['dashboards', 'own.yaml', 'semantic'],
  ['attributes', 'own.csv', 'attributes'],
  ['.', 'notify.yaml', 'alarms'],
])('a file of %s that is a pipe, or a folder, is named, and nothing waits for it', async (within, name, area) => {
  const file = join(folder, within, name)
  for (const make of ['mkfifo', 'mkdir']) {
    mkdirSync(dirname(file), { recursive: true })
    execFileSync(make, [file])
    const { code, events } = await check()
    expect(code).toBe(2)
    const message = expect.stringContaining(`${name} cannot be read (it is no regular file).`)
    expect(events).toContainEqual(expect.objectContaining({ area, level: 'error', message }))
    rmSync(file, { recursive: true })
  }
})

test("an editor's lock beside the definitions, a link to nowhere, is in nobody's way", async () => {
  await millraceWith({}, 'migrate')
  mkdirSync(join(folder, 'attributes'))
  for (const name of ['pipelines/.#keywords.yaml', 'attributes/.#domains.csv']) symlinkSync('me@host.1:2', join(folder, name))
  for (const words of ['migrate', 'status', 'reports list', 'new dataset own_keywords --source web-analytics.keywords']) {
    const { code, stderr } = await millraceWith({}, ...words.split(' '))
    expect([words, code, stderr]).toEqual([words, 0, expect.not.stringContaining('defect')])
  }
})

test('check writes into the landing, or into what is there of its path, and leaves nothing behind', async () => {
  const well = await check()
  expect(well.stdout).toContain('can be written')
  expect(readdirSync(folder)).toEqual(['pipelines'])
  for (const landing of ['/proc/x', '/proc/self', join(list(), 'below-a-file')]) {
    const { code, events } = await check({ MILLRACE_LANDING: landing })
    expect([landing, code]).toEqual([landing, 2])
    expect(events).toContainEqual(expect.objectContaining({ area: 'landing', level: 'error' }))
  }
}, 60_000)

test.runIf(mayMount())(
  'check finds a disk of landings that is full, or too full for another page',
  async () => {
    const disk = mountSmallDisk(8)
    try {
      const landing = join(disk.folder, 'landing')
      const found = async () => (await check({ MILLRACE_LANDING: landing })).events.filter((event) => event['area'] === 'landing')
      const full = expect.objectContaining({ level: 'error', message: expect.stringMatching(/ENOSPC.*free space/) })
      expect(await found()).toEqual([expect.objectContaining({ result: 'proved' })])
      disk.fill()
      expect(await found()).toEqual([full])
      disk.free()
      mkdirSync(landing)
      disk.fill(64 * 1024)
      expect(await found()).toEqual([full])
    } finally {
      disk.remove()
    }
  },
  60_000,
)

test('no command goes round for ever in a folder that takes none: each says so at once', async () => {
  for (const args of [
    ['init', '/proc/x'],
    ['docs', '--out', '/proc/x/y'],
    ['new', 'dataset', 'shops', '--pipelines', '/proc/x'],
  ]) {
    const { code, stderr } = await startCommand(args, { MILLRACE_HOME: join(folder, 'home') }, folder).result
    expect([args, code, stderr]).toEqual([args, expect.any(Number), expect.stringContaining("mkdir '/proc/x'")])
    expect(code).toBeGreaterThan(0)
  }
  const { code, stderr } = await startCommand(['demo'], { MILLRACE_HOME: '/proc/x' }, folder).result
  expect([code, stderr]).toEqual([1, expect.stringContaining('MILLRACE_HOME')])
}, 60_000)

test('a list that cannot be read stops its own pipeline alone; run, plan, status and check name it, and the next night loads what it had left', async () => {
  const sandbox = await startSandbox({
    apiKey: 'a-key-of-the-service',
    requestsPerSecond: null,
    keywordsPerDomain: 3,
    now: '2026-11-20',
  })
  const environment = {
    WEB_ANALYTICS_BASE_URL: sandbox.url,
    WEB_ANALYTICS_API_KEY: 'a-key-of-the-service',
    WEB_ANALYTICS_REQUESTS_PER_SECOND: '500',
    DATABASE_URL: db.url,
    MILLRACE_HOME: join(folder, 'home'),
  }
  const shops = join(folder, 'pipelines', 'shop_domains.txt')
  const broken = 'pipelines/shop_domains.txt cannot be read (it is no regular file)'
  const say = (args: readonly string[]): Promise<CommandResult> => runWarm(args, environment, folder)
  const rowsOf = async (pipeline: string): Promise<number> => {
    const rows = await db.query<{ rows: number }>(`select count(*)::int as rows from data.${pipeline}_v1`)
    return rows[0]?.rows ?? 0
  }
  try {
    expect((await say(['migrate'])).code).toBe(0)
    for (const name of ['keywords', 'traffic_and_engagement', 'shopper_category_performance']) {
      edit(name, ['from: 2024-01', 'from: 2026-09'])
    }
    rmSync(shops)
    mkdirSync(shops)
    const plan = await say(['plan'])
    expect([plan.code, plan.stderr]).toEqual([0, expect.stringContaining(broken)])
    const night = await say(['run'])
    expect([night.code, night.stderr]).toEqual([
      1,
      expect.stringContaining(`shopper_category_performance is skipped, since one of its lists cannot be read`),
    ])
    expect(night.stderr).toContain(broken)
    for (const pipeline of ['keywords', 'traffic_and_engagement']) expect(await rowsOf(pipeline), pipeline).toBeGreaterThan(0)
    expect(await rowsOf('shopper_category_performance')).toBe(0)
    const [status, checked, named] = [
      await say(['status']),
      await say(['check']),
      await say(['run', 'shopper_category_performance']),
    ]
    expect([status.code, status.stdout]).toEqual([0, expect.stringContaining(broken)])
    expect([checked.code, checked.stdout]).toEqual([2, expect.stringContaining(broken)])
    expect([named.code, named.stderr]).toEqual([2, expect.stringContaining(broken)])
    const schedule = startCommand(['schedule'], { ...environment, MILLRACE_WEB_PORT: '0' }, folder)
    schedule.child.stdout?.on('data', () => schedule.printed().includes('The status page is at') && schedule.child.kill('SIGINT'))
    expect((await schedule.result).stderr).toContain(broken)
    rmSync(shops, { recursive: true })
    writeFileSync(shops, 'shop-a.com\nno domain at all\n')
    expect((await say(['status', '--json'])).events.at(-1)).toMatchObject({
      definition_problems: [expect.stringMatching(/shop_domains\.txt:2:1: .*no domain at all/)],
    })
    writeFileSync(shops, 'shop-a.com\n')
    const next = await say(['run'])
    expect(next.code, next.stderr).toBe(0)
    expect(await rowsOf('shopper_category_performance')).toBeGreaterThan(0)
    expect((await say(['status', '--json'])).events.at(-1)).toMatchObject({ definition_problems: [] })
  } finally {
    await sandbox.close()
  }
}, 120_000)
