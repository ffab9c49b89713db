// What is wrong with the settings of receivers is named in one go, as `millrace check` says of everything.
import { expect, test } from 'vitest'
import { checkNotifyFile } from '../../../../src/definition/notify-file.ts'
import { alarmingOf } from '../../../../src/schedule/notify/receivers.ts'

const problemsOf = (raw: Record<string, string>, routes: Parameters<typeof alarmingOf>[0]['routes'] = null): string[] => {
  try {
    alarmingOf({ settings: { raw } as never, routes })
    return []
  } catch (error) {
    return (error as Error).message.split('\n')
  }
}

test('every variable that notify.yaml names and nobody set is named', () => {
  const text = `receivers:
  team: { slack: SLACK_TEAM }
  hub: { webhook: HUB_URL, key: HUB_KEY }
  oncall: { pagerduty: ONCALL }
routes:
  - { to: [team, hub, oncall] }
`
  const { routes } = checkNotifyFile('notify.yaml', text, null)
  expect(problemsOf({}, routes).map((one) => /\S+ is not set/.exec(one)?.[0])).toEqual([
    'SLACK_TEAM is not set',
    'HUB_URL is not set',
    'HUB_KEY is not set',
    'ONCALL is not set',
  ])
})

test('e-mail without a server and without a sender names both', () => {
  expect(problemsOf({ MILLRACE_NOTIFY_EMAIL: 'a@example.com' })).toEqual([
    expect.stringContaining('MILLRACE_SMTP_URL is not set'),
    expect.stringContaining('MILLRACE_NOTIFY_FROM is'),
  ])
})
