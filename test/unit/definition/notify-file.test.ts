// notify.yaml: every mistake with line and column, and never a secret that somebody wrote into it.
import { expect, test } from 'vitest'
import { checkNotifyFile } from '../../../src/definition/notify-file.ts'

const whole = `receivers:
  team: { slack: SLACK_DATA_TEAM }
  hub: { webhook: HUB_URL, key: HUB_KEY }
  oncall: { pagerduty: PAGERDUTY_DATA }
  office: { email: [a@example.com, b@example.com] }
quiet_hours: { from: "20:00", to: "07:00", days: saturday, time_zone: Europe/Berlin }
routes:
  - { to: oncall, severity: critical }
  - { to: [team, slack], kind: [failure, held], pipeline: keywords, tags: { client: acme } }
`

const problems = (text: string, pipelines: readonly string[] | null = ['keywords']): string[] =>
  checkNotifyFile('notify.yaml', text, pipelines).problems.map(({ line, column, message }) => `${line}:${column} ${message}`)

test('a whole file is read', () => {
  const { routes, problems: found } = checkNotifyFile('notify.yaml', whole, ['keywords'])
  expect(found).toEqual([])
  expect(routes).toMatchObject({
    receivers: [
      { name: 'team', kind: 'slack', variable: 'SLACK_DATA_TEAM', at: 'notify.yaml:2:9' },
      { name: 'hub', kind: 'webhook', variable: 'HUB_URL', key: 'HUB_KEY' },
      { name: 'oncall', kind: 'pagerduty', variable: 'PAGERDUTY_DATA' },
      { name: 'office', kind: 'email', to: ['a@example.com', 'b@example.com'] },
    ],
    quietHours: { hours: { from: 1_200, to: 420 }, days: [6], timeZone: 'Europe/Berlin', but: ['critical'] },
    routes: [
      { to: ['oncall'], severities: ['critical'], kinds: null, pipelines: null, tags: {} },
      {
        to: ['team', 'slack'],
        kinds: ['failure', 'held'],
        pipelines: ['keywords'],
        tags: { client: 'acme' },
        at: 'notify.yaml:9:5',
      },
    ],
  })
})

test('names that nobody bears are found where they stand', () => {
  expect(problems(whole.replace('to: oncall', 'to: oncal'))).toEqual([
    "8:11 there is no receiver 'oncal'. Did you mean 'oncall'?",
  ])
  expect(problems(whole.replace('pipeline: keywords', 'pipeline: keyword'))).toEqual([
    "9:59 there is no pipeline 'keyword'. Did you mean 'keywords'?",
  ])
  expect(problems(whole.replace('pipeline: keywords', 'pipeline: keyword'), null)).toEqual([])
  expect(problems(whole.replace('kind: [failure, held]', 'kind: [failure, heldd]'))[0]).toMatch(
    /^9:42 .*heldd.*Did you mean 'held'/,
  )
  expect(problems(whole.replace('quiet_hours', 'quiet_hour'))[0]).toContain("'quiet_hour' is not known")
  expect(problems(whole.replace('Europe/Berlin', 'Europe/Berlim'))[0]).toContain('a time zone such as Europe/Berlin')
  expect(problems(whole.replace(', to: "07:00"', ''))[0]).toContain('quiet hours need both from and to')
})

/** In two parts: whole it would be taken for a secret. */
const slack = ['https://hooks.slack.com', 'services'].join('/')

test.each([
  `team: { slack: ${slack}/T0/B0/s3cretpath }`,
  `team: ${slack}/T0/B0/s3cretpath`,
  'team: { webhook: https://example.com/s3cretpath }',
  'team: { pagerduty: s3cretpath0123456789 }',
  'team: { email: s3cretpath }',
])('an address or a key where the name of a variable belongs is not shown: %s', (line) => {
  const found = problems(whole.replace('team: { slack: SLACK_DATA_TEAM }', line))
  expect(found.length).toBeGreaterThan(0)
  expect(found.join('\n')).not.toContain('s3cretpath')
  expect(found.join('\n')).toMatch(/^2:/m)
})
