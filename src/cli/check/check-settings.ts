// Finds settings that no code reads: a misspelled name has no effect and causes no error.
import type { Settings } from '../../core/env.ts'
import { suggest } from '../../definition/problem.ts'
import type { Api } from '../../extract/api.ts'

const prefix = 'MILLRACE_'

// biome-ignore format: a word list
/** Settings that this program reads, without their prefix; a test compares the list with the code. */
export const ownSettings: readonly string[] = [
  'DATABASE_SILENCE', 'FISCAL_YEAR_FROM', 'GUARD', 'HOME', 'HOOK_SECRET', 'LANDING',
  'LANDING_DAYS', 'LANDING_PATH_STYLE', 'LEDGER_DAYS', 'LOG_LEVEL', 'NOTIFY_EMAIL', 'NOTIFY_FROM',
  'NOTIFY_PAGERDUTY', 'NOTIFY_SLACK', 'NOTIFY_WEBHOOK', 'NOTIFY_WEBHOOK_SECRET', 'PAGERDUTY_URL', 'PING_URL',
  'PLAIN_HTTP_HOSTS', 'PUBLIC_URL', 'READER_URL', 'RELEASE_POLL', 'SMTP_URL', 'SUPERSET_DATABASE_URL',
  'SUPERSET_PASSWORD', 'SUPERSET_URL', 'SUPERSET_USER', 'TAG_BUDGETS', 'WEB_HOST', 'WEB_PORT',
  'WEB_TOKEN',
]

/** Warnings about unread settings. @param apis by name @param named the text of files in which a person names settings */
export const unreadSettings = (
  { raw }: Pick<Settings, 'raw'>,
  apis: ReadonlyMap<string, Pick<Api, 'settings'>>,
  named: string,
): string[] => {
  const own = Object.keys(raw).filter((name) => name.startsWith(prefix) && !named.includes(name))
  const unknown = own.flatMap((name) => {
    const candidates = ownSettings.map((one) => prefix + one)
    return candidates.some((known) => new RegExp(`^${known}(_FILE|_COMMAND)?$`).test(name)) ? [] : [{ name, candidates }]
  })
  const ofApis = [...apis].flatMap(([api, { settings }]) => {
    const start = `${api.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}_`
    return Object.keys(raw).flatMap((name) =>
      settings === undefined || !name.startsWith(start) || settings.isRead(name) ? [] : [{ name, candidates: settings.names }],
    )
  })
  return [...unknown, ...ofApis].map(
    ({ name, candidates }) => `${name} is set, and nothing reads it.${suggest(name, candidates)}`,
  )
}
