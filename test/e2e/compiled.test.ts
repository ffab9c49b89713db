// The program as it is compiled: few files to read, and everything a checkout has.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
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
    expect([...modules].some((url) => url.includes('/dist/src/chunks/runtime'))).toBe(true)
    expect(modules.size).toBeLessThan(110)
  })

  test('has every migration and every source of the checkout, and the licence of each library in it', () => {
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
    const notices = readFileSync(join(dist, 'THIRD-PARTY-NOTICES.md'), 'utf8')
    for (const library of ['kysely', 'zod', 'undici', 'yaml', 'pino']) expect(notices).toContain(`\n## ${library} `)
  })
})
