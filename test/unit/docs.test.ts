// The docs say what the program does: every error code, every command and every setting is written down.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { pages } from '../../scripts/readability.ts'
import { referencePages, withoutReference } from '../../scripts/reference.ts'

const root = resolve(import.meta.dirname, '..', '..')
/** Those that a person wrote: what `millrace docs` makes of the definitions is as long as they are. */
const userPages = pages.filter((page) => !/(?:data|metrics)-dictionary\.md$/.test(page))
const read = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')

describe('the documentation', () => {
  test('has the tables of the code as the code has them; `node scripts/reference.ts` writes them', () => {
    for (const [page, text] of referencePages()) expect(read('docs', page), page).toBe(text)
  })

  test('names every command', () => {
    const text = userPages.map((page) => read(page)).join('\n')
    const names = commands.map(({ usage }) => usage.split(' ')[0] ?? '')
    expect(names.filter((name) => !text.includes(`millrace ${name}`))).toEqual([])
  })

  test('is short: README and the pages for users have at most 25,000 words, what is generated apart', () => {
    // The page for who changes Millrace is none of them.
    const shown = userPages.filter((page) => page !== 'docs/architecture.md')
    const words = shown.map((page) => withoutReference(read(page)).split(/\s+/).filter(Boolean).length)
    expect(words.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(25_000)
  })

  test('migrates before it checks: in an empty database `check` ends with 2, and nothing would follow it', () => {
    const shown = [...userPages, 'examples/README.md', 'templates/warehouse/README.md']
    expect(shown.filter((page) => /millrace check && /.test(read(page)))).toEqual([])
  })

  test('begins each page with what to type', () => {
    const before = (page: string): string => read(page).split(/^## /m)[0] ?? ''
    expect(userPages.filter((page) => page !== 'docs/architecture.md' && !/^```(?:sh|sql|yaml)?$/m.test(before(page)))).toEqual(
      [],
    )
  })

  test('says in less than 4 kB how to work here', () => {
    expect(Buffer.byteLength(read('AGENTS.md'))).toBeLessThan(4_000)
  })

  const forMaintainers = [
    'AGENTS.md',
    'CONTRIBUTING.md',
    'src/README.md',
    ...readdirSync(join(root, 'docs', 'internals')).map((name) => `docs/internals/${name}`),
  ]
    // What was once the case may name what is gone.
    .filter((page) => page.endsWith('.md') && !page.endsWith('history.md'))

  test('names files of the code that are there', () => {
    const wrong = [...userPages, ...forMaintainers].flatMap((page) =>
      [...read(page).matchAll(/`((?:src|test|scripts|bench)\/[\w./-]+)`/g)]
        .map(([, path = '']) => path)
        .filter((path) => !existsSync(join(root, path)))
        .map((path) => `${page} names ${path}`),
    )
    expect(wrong).toEqual([])
  })

  test('names functions of the code that are in the file it says', () => {
    const files = readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    const textOf = (path: string): string => {
      const found = files.find((file) => file === path.replace(/^src\//, '') || file.endsWith(`/${path}`))
      return found === undefined ? '' : read('src', found)
    }
    const wrong = [...userPages, ...forMaintainers].flatMap((page) =>
      [...read(page).matchAll(/((?:`\w+`(?:, | and | or )?)+) in `([\w./-]+\.ts)`/g)].flatMap(([, names = '', path = '']) =>
        [...names.matchAll(/\w+/g)]
          .filter(([name]) => !/^(?:and|or)$/.test(name) && !new RegExp(`\\b${name}\\b`).test(textOf(path)))
          .map(([name]) => `${page} names ${name} in ${path}`),
      ),
    )
    expect(wrong).toEqual([])
  })

  test('names each command of the first hour that is tried', () => {
    const steps = read('test', 'first-hour', 'first-hour.ts')
    const page = `${read('docs', 'first-hour.md')}${read('docs', 'deploy.md')}`
    const tried = [...steps.matchAll(/millrace\(((?:'[^']*'(?:, )?)+)/g), ...steps.matchAll(/\[('(?:sandbox|schedule)')/g)].map(
      ([, words = '']) => [...words.matchAll(/'([^']*)'/g)].map(([, word]) => word).join(' '),
    )
    expect(tried.length).toBeGreaterThan(8)
    expect(tried.filter((command) => !page.includes(`npx millrace ${command}`))).toEqual([])
  })

  test('has an example of every command that begins with it', () => {
    expect(
      commands
        .filter(({ usage, examples }) => !examples.every((example) => example.startsWith(`millrace ${usage.split(' ')[0]}`)))
        .map(({ usage }) => usage),
    ).toEqual([])
  })

  test.each(['.env.example', 'templates/warehouse/env.example'])('names every setting the program reads in %s', (file) => {
    const text = read(file)
    for (const name of [
      'WEB_ANALYTICS_BASE_URL',
      'WEB_ANALYTICS_API_KEY',
      'WEB_ANALYTICS_BATCH_API_KEY',
      'WEB_ANALYTICS_DIALECT',
      'DATABASE_URL',
      'MILLRACE_HOME',
      'MILLRACE_LANDING=',
      'MILLRACE_LANDING_PATH_STYLE',
      'MILLRACE_LANDING_DAYS',
      'MILLRACE_LEDGER_DAYS',
      'AWS_ENDPOINT_URL_S3',
      'AWS_REGION',
      'AWS_ACCESS_KEY_ID',
      'AWS_SECRET_ACCESS_KEY',
      'MILLRACE_DATABASE_SILENCE',
      'MILLRACE_LOG_LEVEL',
      'MILLRACE_GUARD',
      'WEB_ANALYTICS_REQUESTS_PER_SECOND',
      'WEB_ANALYTICS_PATH_',
      'MILLRACE_SUPERSET_URL',
      'MILLRACE_SUPERSET_USER',
      'MILLRACE_SUPERSET_PASSWORD',
      'MILLRACE_SUPERSET_DATABASE_URL',
    ]) {
      expect(text, name).toContain(name)
    }
  })

  test.each(['.env.example', 'templates/warehouse/env.example'])('names no setting in a page that is not in %s', (file) => {
    const named = userPages.flatMap((page) => [...read(page).matchAll(/\b(?:MILLRACE|WEB_ANALYTICS)_[A-Z\d_]*[A-Z\d]\b/g)])
    const settings = new Set(named.map(([name]) => name.replace(/_(?:ACME|FILE|COMMAND)$/, '')))
    expect([...settings].filter((name) => !read(file).includes(name))).toEqual([])
  })
})
