// The program as it is compiled: few files to read, and everything a checkout has.
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { launcher, runCommand } from '../support/command.ts'

const repository = resolve(import.meta.dirname, '..', '..')
const dist = join(dirname(launcher()), '..', 'dist')
const service = { WEB_ANALYTICS_BASE_URL: 'http://127.0.0.1:9', WEB_ANALYTICS_API_KEY: 'compiled-key-0123456789' }
let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'millrace-compiled-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('the compiled program', () => {
  test('reads few files to do its work: each one costs a command its start', async () => {
    const seen = join(folder, 'modules')
    const watch = join(folder, 'watch.mjs')
    writeFileSync(
      watch,
      `import { appendFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
registerHooks({ load: (url, context, next) => {
  if (url.startsWith('file:')) appendFileSync(${JSON.stringify(seen)}, url + '\\n')
  return next(url, context)
} })`,
    )
    const { code, stderr } = await runCommand(
      ['backfill', 'keywords', '--from', '2026-01', '--to', '2026-01', '--pipelines', join(repository, 'pipelines')],
      // No server is there: everything a load needs was read before that is found out.
      { NODE_OPTIONS: `--import=${watch}`, DATABASE_URL: 'postgres://nobody@127.0.0.1:9/none', ...service },
      folder,
    )
    expect([code, stderr.includes('DATABASE_UNREACHABLE')], stderr).toEqual([1, true])
    const modules = new Set(readFileSync(seen, 'utf8').trim().split('\n'))
    expect([...modules].some((url) => url.includes('/dist/src/chunks/'))).toBe(true)
    expect(modules.size).toBeLessThan(400)
  })

  test('has every migration and every source of the checkout', () => {
    const names = (path: string, ending: RegExp): string[] =>
      readdirSync(path)
        .filter((name) => ending.test(name))
        .map((name) => name.replace(ending, ''))
        .sort()
    expect(names(join(dist, 'migrations'), /\.js$/)).toEqual(names(join(repository, 'migrations'), /\.ts$/))
    expect(readdirSync(join(dist, 'src', 'sources')).sort()).toEqual(
      readdirSync(join(repository, 'src', 'sources'), { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => name)
        .sort(),
    )
  })

  test('holds and imports the libraries that package.json declares and no other; what is compiled in has its licence beside it', () => {
    const manifest: Record<'dependencies' | 'peerDependencies', Record<string, string>> = JSON.parse(
      readFileSync(join(repository, 'package.json'), 'utf8'),
    )
    const lock: { packages: Record<string, { version: string; dev?: boolean }> } = JSON.parse(
      readFileSync(join(repository, 'package-lock.json'), 'utf8'),
    )
    const scripts = readdirSync(dist, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.js'))
    const imported = scripts.flatMap((name) =>
      [
        ...readFileSync(join(dist, name), 'utf8').matchAll(
          /(?:from|import\(|import|require(?:\$\d+)?\.resolve\() ?"(@?[a-z][^":]*)"/g,
        ),
      ].map(([, specifier = '']) => specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')),
    )
    const compiledIn = [...readFileSync(join(dist, 'THIRD-PARTY-NOTICES.md'), 'utf8').matchAll(/^## (\S+) (\d\S+) \(/gm)]
    for (const [, name, version] of compiledIn) {
      const locked = lock.packages[`node_modules/${name}`]
      expect([name, locked?.version, locked?.dev ?? false]).toEqual([name, version, false])
    }
    const found = compiledIn.map(([, name = '']) => name).filter((name) => name in manifest.dependencies)
    expect(found).toEqual(['kysely', 'pino', 'zod'])
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies }
    expect([...new Set([...found, ...imported])].sort()).toEqual(Object.keys(declared).sort())
  })

  test('keeps compiled code where no other login can put any', async () => {
    const name = `millrace-${process.getuid?.()}`
    const [own, others] = [join(folder, 'own'), join(folder, 'others')]
    for (const path of [own, others, join(folder, 'elsewhere')]) mkdirSync(path)
    symlinkSync(join(folder, 'elsewhere'), join(others, name))
    for (const TMPDIR of [own, others]) expect((await runCommand(['--version'], { TMPDIR }, folder)).code).toBe(0)
    expect(lstatSync(join(own, name)).mode & 0o777).toBe(0o700)
    expect([readdirSync(join(own, name)).length, readdirSync(own), readdirSync(join(folder, 'elsewhere'))]).toEqual([
      1,
      [name],
      [],
    ])
  })
})
