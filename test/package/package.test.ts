// The packed program in an empty folder, as a user gets it: npm alone, Node 26 and Node 24, a repository of one's own with its own source.
import { type ExecFileOptions, execFile } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { tarballName } from '../first-hour/packed.ts'
import { cleanEnvironment } from '../support/command.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const nodeFolder = join(repository, 'node_modules', '.bin')
const shopToken = 'token-of-the-shop-0123456789'

let root: string
let home: string
let warehouse: string
let shop: Server

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const execute = (file: string, args: readonly string[], options: ExecFileOptions): Promise<Ended> =>
  new Promise((done) => {
    execFile(file, [...args], { ...options, encoding: 'utf8', timeout: 240_000, maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1
      done({ code, stdout: String(stdout), stderr: String(stderr) })
    })
  })

const environment = (path: string): NodeJS.ProcessEnv => {
  const clean = cleanEnvironment({
    HOME: home,
    PATH: `${path}:${process.env['PATH'] ?? ''}`,
    npm_config_update_notifier: 'false',
  })
  // npm's answers are kept where they always are; everything else a program writes must stay in its folder.
  return { ...clean, npm_config_cache: process.env['npm_config_cache'] ?? join(process.env['HOME'] ?? '/root', '.npm') }
}

const inWarehouse = (args: readonly string[], extra: Readonly<Record<string, string>> = {}) =>
  execute('npx', ['millrace', ...args], { cwd: warehouse, env: { ...environment(nodeFolder), ...extra } })

const npm = (args: readonly string[], cwd: string) =>
  execute('npm', [...args, '--no-audit', '--no-fund', '--loglevel=error'], { cwd, env: environment(nodeFolder) })

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'millrace-package-'))
  home = join(root, 'home')
  mkdirSync(home)
  const tarball = process.env[tarballName] ?? 'nothing was packed'
  const folder = join(root, 'empty')
  mkdirSync(folder)
  writeFileSync(join(folder, 'package.json'), '{"name":"empty","private":true}')
  const installed = await npm(['install', tarball], folder)
  expect(installed.code, installed.stderr).toBe(0)
  const made = await execute('npx', ['millrace', 'init', 'my-warehouse'], { cwd: folder, env: environment(nodeFolder) })
  expect(made.code, made.stderr).toBe(0)
  warehouse = join(folder, 'my-warehouse')
  const own = await npm(['install'], warehouse)
  expect(own.code, own.stderr).toBe(0)
  shop = createServer((request, response) => {
    const query = new URL(request.url ?? '/', 'http://shop').searchParams
    response.writeHead(200, { 'content-type': 'application/json' })
    const items = request.headers['x-shop-token'] === shopToken ? [{ product: `chair of ${query.get('shop')}`, price: 12.5 }] : []
    response.end(JSON.stringify({ items, next: null, total: items.length }))
  })
  await new Promise<void>((done) => shop.listen(0, '127.0.0.1', done))
})

afterAll(() => {
  shop?.close()
  rmSync(root, { recursive: true, force: true })
})

describe('the packed program', () => {
  test('a repository made by init passes check and demo at once', async () => {
    const checked = await inWarehouse(['check', '--offline'])
    expect(checked.code, checked.stdout + checked.stderr).toBe(0)
    const demo = await inWarehouse(['demo', '--json'])
    expect(demo.code, demo.stderr).toBe(0)
    expect(demo.stdout).toContain('"failed":0')
  })

  test('init writes nothing over what is there', async () => {
    const again = await execute('npx', ['millrace', 'init', '.'], { cwd: warehouse, env: environment(nodeFolder) })
    expect([again.code, again.stderr.includes('nothing was written')]).toEqual([2, true])
  })

  test('the documented example of a source loads a dataset of its own', async () => {
    const [, example] = /```ts\n([\s\S]*?)```/.exec(readFileSync(join(warehouse, 'sources', 'README.md'), 'utf8')) ?? []
    mkdirSync(join(warehouse, 'sources', 'shop-api'))
    writeFileSync(join(warehouse, 'sources', 'shop-api', 'index.ts'), example ?? '')
    const made = await inWarehouse(['new', 'dataset', 'prices', '--source', 'shop-api.prices'])
    expect(made.code, made.stderr).toBe(0)
    const yaml = join(warehouse, 'pipelines', 'prices.yaml')
    const migration = join(
      warehouse,
      'migrations',
      readdirSync(join(warehouse, 'migrations')).find((name) => name.endsWith('prices_v1.ts')) ?? '',
    )
    expect(existsSync(yaml) && existsSync(migration)).toBe(true)
    const address = shop.address()
    if (address === null || typeof address === 'string') throw new Error('no port')
    const settings = {
      SHOP_API_URL: `http://127.0.0.1:${address.port}`,
      SHOP_API_TOKEN: shopToken,
      MILLRACE_HOME: join(warehouse, '.millrace-own'),
    }
    const loaded = await inWarehouse(['backfill', 'prices', '--from', '2026-09', '--to', '2026-09', '--json'], settings)
    expect(loaded.code, `${loaded.stdout}${loaded.stderr}\n${readFileSync(yaml, 'utf8')}`).toBe(0)
    expect(loaded.stdout).toMatch(/"inserted":[1-9]/)
  })

  test('a source of one’s own has types', async () => {
    const config = {
      compilerOptions: { module: 'nodenext', strict: true, noEmit: true, skipLibCheck: true, types: [] },
      include: ['sources'],
    }
    writeFileSync(join(warehouse, 'tsconfig.json'), JSON.stringify(config))
    const right = await execute(join(nodeFolder, 'tsc'), ['-p', warehouse], { cwd: warehouse, env: environment(nodeFolder) })
    expect(right.stdout).toBe('')
    const file = join(warehouse, 'sources', 'shop-api', 'index.ts')
    writeFileSync(file, readFileSync(file, 'utf8').replace("kind: 'walk'", "kind: 'stroll'"))
    const wrong = await execute(join(nodeFolder, 'tsc'), ['-p', warehouse], { cwd: warehouse, env: environment(nodeFolder) })
    expect(wrong.stdout).toContain('stroll')
    rmSync(join(warehouse, 'sources', 'shop-api'), { recursive: true })
    rmSync(join(warehouse, 'pipelines', 'prices.yaml'))
  })

  test('Node 24, which has no Temporal, runs it too', async () => {
    const folder = join(root, 'node24')
    mkdirSync(folder)
    writeFileSync(join(folder, 'package.json'), '{"name":"node24","private":true,"allowScripts":{"node":true}}')
    expect((await npm(['install', 'node@24'], folder)).code).toBe(0)
    const node = join(folder, 'node_modules', 'node', 'bin', 'node')
    const launcher = join(warehouse, 'node_modules', 'millrace', 'bin', 'millrace.js')
    const options = {
      cwd: warehouse,
      env: { ...environment(join(folder, 'node_modules', '.bin')), MILLRACE_HOME: join(folder, 'home') },
    }
    expect((await execute(node, ['-p', 'process.version + typeof Temporal'], options)).stdout).toMatch(/^v24.*undefined/)
    for (const args of [
      ['check', '--offline'],
      ['demo', '--json'],
    ]) {
      const ended = await execute(node, [launcher, ...args], options)
      expect(ended.code, ended.stdout + ended.stderr).toBe(0)
    }
  })

  test('nothing was written outside the folder, and uninstalling leaves what is the user’s own', async () => {
    expect(readdirSync(home)).toEqual([])
    expect((await npm(['uninstall', 'millrace'], warehouse)).code).toBe(0)
    expect(existsSync(join(warehouse, 'node_modules', 'millrace'))).toBe(false)
    expect(existsSync(join(warehouse, 'pipelines', 'keywords.yaml'))).toBe(true)
  })
})
