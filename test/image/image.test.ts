// The image as a cluster runs it: no root, no capability, a file system that cannot be written, no network; left out where no Docker answers.
import { execFile, spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const repository = resolve(import.meta.dirname, '..', '..')
/** An image that is built already; without it one is built, for which npm needs the network. */
const given = process.env['MILLRACE_IMAGE']
const image = given ?? `millrace-test:${process.pid}`
const locked = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']
const alone = ['--network', 'none']
const service = ['-e', 'WEB_ANALYTICS_BASE_URL=http://127.0.0.1:8080', '-e', 'WEB_ANALYTICS_API_KEY=image-key-0123456789']
const started: string[] = []

interface Ended {
  readonly code: number
  readonly text: string
}

const docker = (...args: string[]): Promise<Ended> =>
  new Promise((done) => {
    execFile('docker', args, { encoding: 'utf8', cwd: repository, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      done({ code, text: stdout + stderr })
    })
  })

const inImage = (script: string): Promise<Ended> =>
  docker('run', '--rm', ...locked, ...alone, '--entrypoint', 'sh', image, '-c', script)

/** @returns the container's name */
const start = async (options: readonly string[], ...args: string[]): Promise<string> => {
  const name = `millrace-test-${process.pid}-${started.length}`
  started.push(name)
  const { code, text } = await docker(
    'run',
    '-d',
    '--name',
    name,
    '--health-interval=1s',
    ...locked,
    ...service,
    ...options,
    image,
    ...args,
  )
  expect(code, text).toBe(0)
  return name
}

const inspect = async (name: string, what: string): Promise<string> =>
  (await docker('inspect', '-f', `{{${what}}}`, name)).text.trim().split('\n').at(-1) ?? ''

const untilHealth = async (name: string, wanted: string): Promise<void> => {
  for (let attempt = 0; (await inspect(name, '.State.Health.Status')) !== wanted; attempt += 1) {
    if (attempt > 120) throw new Error(`never ${wanted}: ${(await docker('logs', name)).text.slice(-2_000)}`)
    await sleep(500)
  }
}

describe.skipIf(spawnSync('docker', ['info'], { stdio: 'ignore' }).status !== 0)('the image', () => {
  beforeAll(async () => {
    if (given !== undefined) return
    const { code, text } = await docker('build', '-t', image, '.')
    expect(code, text.slice(-4_000)).toBe(0)
  })

  afterAll(async () => {
    for (const name of started.toReversed()) await docker('rm', '-f', '-v', name)
    for (const name of started) await docker('volume', 'rm', '-f', name)
    if (given === undefined) await docker('rmi', image)
  })

  test('is not root, may do nothing a user may not, and writes only below its home and /tmp', async () => {
    const { text } = await inImage(`id -u; grep Cap /proc/self/status
      for folder in / /millrace /warehouse /usr/local/bin /home/node; do touch $folder/mine 2>/dev/null && echo wrote $folder; done
      touch /var/lib/millrace/mine /tmp/mine && echo home and tmp`)
    expect(text.split('\n')[0]).toBe('1000')
    expect(text).not.toMatch(/Cap\w+:\s*0*[1-9a-f]/)
    expect(text).not.toMatch(/wrote/)
    expect(text).toMatch(/home and tmp/)
  })

  test('holds what it runs and nothing else', async () => {
    const { text } = await inImage('ls -A /millrace /warehouse; ls -d /millrace/node_modules/*')
    expect(text).toMatch(/dist/)
    expect(text).not.toMatch(/^(src|test|docs|\.env.*|\.git)$/m)
    expect(text).not.toMatch(/node_modules\/(typescript|vitest|secretlint|playwright-core|node)$/m)
  })

  test('runs the whole path there', async () => {
    const { code, text } = await docker('run', '--rm', ...locked, ...alone, image, 'demo')
    expect(code, text.slice(-2_000)).toBe(0)
    expect(text).toMatch(/30 units planned, 30 loaded/)
  })

  test('keeps the schedule: red until it answers, green then, red when its database is gone; SIGTERM ends it within 10 seconds', async () => {
    const name = await start(alone, 'schedule')
    expect(await inspect(name, '.State.Health.Status')).not.toBe('healthy')
    await untilHealth(name, 'healthy')
    expect((await docker('exec', name, 'node', '/millrace/bin/healthcheck.js')).code).toBe(0)
    await docker('exec', name, 'sh', '-c', 'kill -9 $(head -n 1 $(find /var/lib/millrace -name postmaster.pid))')
    await untilHealth(name, 'unhealthy')
    const asked = Date.now()
    await docker('stop', '-t', '60', name)
    expect(Date.now() - asked).toBeLessThan(10_000)
    expect(await inspect(name, '.State.ExitCode')).toBe('130')
  })

  test('parks a backfill at SIGTERM within 10 seconds, and goes on when it is started again', async () => {
    const sandbox = await start(alone, 'sandbox', '--key', 'image-key-0123456789')
    const beside = ['--network', `container:${sandbox}`, '-v', `${sandbox}:/var/lib/millrace`]
    const migrated = await docker('run', '--rm', ...locked, ...beside, image, 'migrate')
    expect(migrated.code, migrated.text).toBe(0)
    const backfill = await start(
      beside,
      'backfill',
      'keywords',
      'traffic_and_engagement',
      '--from',
      '2025-06',
      '--to',
      '2026-06',
      '--json',
    )
    const printed = async (): Promise<string> => (await docker('logs', backfill)).text
    while (!(await printed()).includes('"state":"loaded"') && (await inspect(backfill, '.State.Running')) === 'true')
      await sleep(200)
    const asked = Date.now()
    await docker('stop', '-t', '60', backfill)
    expect(Date.now() - asked).toBeLessThan(10_000)
    expect(await inspect(backfill, '.State.ExitCode'), await printed()).toBe('130')
    const before = await printed()
    expect(before).toMatch(/"event":"summary"/)
    await docker('start', backfill)
    await docker('wait', backfill)
    expect(await inspect(backfill, '.State.ExitCode'), await printed()).toBe('0')
    // A unit that was loaded before is not asked for again.
    const loaded = [...(await printed()).matchAll(/"unit":"([^"]+)","state":"loaded"/g)].map(([, unit]) => unit)
    expect(new Set(loaded).size).toBe(loaded.length)
    expect(loaded.length).toBeGreaterThan(100)
  })
})
