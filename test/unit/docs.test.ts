// The docs say what the program does: every error code, every command and every setting is written down.
import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { commands } from '../../src/cli/commands.ts'
import { errorCodes } from '../../src/core/errors.ts'

const root = resolve(import.meta.dirname, '..', '..')
const read = (...path: string[]): string => readFileSync(join(root, ...path), 'utf8')

describe('the documentation', () => {
  test('lists every error code with its meaning', () => {
    const operations = read('docs', 'operations.md')
    expect(
      Object.entries(errorCodes)
        .filter(([code, { meaning }]) => !operations.includes(`| \`${code}\` | ${meaning} |`))
        .map(([code]) => code),
    ).toEqual([])
  })

  test('names every command', () => {
    const text = read('README.md') + read('docs', 'operations.md') + read('CHANGELOG.md')
    const names = commands.map(({ usage }) => usage.split(' ')[0] ?? '')
    expect(names.filter((name) => !text.includes(name))).toEqual([])
  })

  test('names each command of the first hour that is tried', () => {
    const steps = read('test', 'first-hour', 'first-hour.ts')
    const page = read('docs', 'first-hour.md')
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
})
