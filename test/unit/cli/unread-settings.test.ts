// Settings that nobody reads, found by check; and the list of those that are read, against the program.
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { ownSettings, unreadSettings } from '../../../src/cli/check/check-settings.ts'
import { api } from '../../../src/sources/web-analytics/index.ts'

const apis = new Map([['web-analytics', api]])
const unread = (raw: Readonly<Record<string, string>>, named = ''): string[] => unreadSettings({ raw }, apis, named)

test('a misspelled name is named with the one that was meant', () => {
  expect(unread({ MILLRACE_LANDIN: 'x' })).toEqual([
    `MILLRACE_LANDIN is set, and nothing reads it. Did you mean 'MILLRACE_LANDING'?`,
  ])
  expect(unread({ WEB_ANALYTICS_BASEURL: 'x' })).toEqual([
    `WEB_ANALYTICS_BASEURL is set, and nothing reads it. Did you mean 'WEB_ANALYTICS_BASE_URL'?`,
  ])
  expect(unread({ WEB_ANALYTICS_PATH_STATUSS: '/x', MILLRACE_WEB_TOKEN_FIEL: 'x' })).toHaveLength(2)
})

test('what is read, and what is of others, is no finding', () => {
  expect(
    unread(
      {
        ...{ MILLRACE_HOME: 'x', MILLRACE_WEB_TOKEN_FILE: 'x', MILLRACE_TEAM_HOOK: 'x', PATH: 'x', AWS_REGION: 'x' },
        ...{ WEB_ANALYTICS_API_KEY_ACME: 'x', WEB_ANALYTICS_QUOTA_PER_DAY_ACME: '5', WEB_ANALYTICS_PATH_STATUS: '/x' },
      },
      'url_setting: MILLRACE_TEAM_HOOK',
    ),
  ).toEqual([])
})

test('the list holds what the program reads, and nothing else', () => {
  const src = resolve(import.meta.dirname, '..', '..', '..', 'src')
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.ts') && !name.endsWith('check-settings.ts'),
  )
  const read = new Set(files.flatMap((name) => readFileSync(join(src, name), 'utf8').match(/MILLRACE_[A-Z_]*[A-Z]\b/g) ?? []))
  expect(ownSettings.map((name) => `MILLRACE_${name}`)).toEqual([...read].sort())
})
