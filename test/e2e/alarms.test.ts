// Alarms from the real command to real receivers: Slack, a signed webhook, PagerDuty's events and e-mail over SMTP.
import { createHmac } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type HttpReceiver, type MailReceiver, startHttpReceiver, startMailReceiver } from '../support/alarm-receivers.ts'
import { startCommand } from '../support/command.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'
import { until } from '../support/until.ts'
import { runWarm } from '../support/warm-command.ts'

const secrets = {
  slackPath: '/services/T000/B000/slack-s3cret-path',
  hookPath: '/hook-s3cret-path',
  hookKey: 'hook-key-s3cret-0123456789',
  pagerduty: 'pagerduty-s3cret-0123456789',
  mail: 'mail-s3cret-password',
}
const key = 'alarm-key-0123456789'

// A machine at work on other things takes its time for a command.
vi.setConfig({ testTimeout: 600_000 })

let slack: HttpReceiver
let hook: HttpReceiver
let pager: HttpReceiver
let mail: MailReceiver

const notifyYaml = `receivers:
  team: { slack: TEAM_SLACK }
  hub: { webhook: HUB_URL, key: HUB_KEY }
  oncall: { pagerduty: ONCALL_KEY }
  office: { email: [data@example.com, boss@example.com] }
routes:
  - { to: [team, oncall, office], kind: failure }
  - { to: hub, pipeline: keywords }
  - { to: hub, severity: critical }
`

/** Twice as many units: two countries. */
const wanted = (domains: number): void =>
  writeFileSync(
    join(folder, 'pipelines', 'domains.txt'),
    Array.from({ length: domains }, (_, index) => `d${index}.com\n`).join(''),
  )

const { folder, db, sandbox, edit, millraceWith, environment } = sandboxWorld({
  each: true,
  sandbox: { apiKey: key, now: '2026-11-20', keywordsPerDomain: 3 },
  settings: { WEB_ANALYTICS_REQUESTS_PER_SECOND: '10000', MILLRACE_LOG_LEVEL: 'trace' },
})

beforeEach(async () => {
  wanted(1)
  edit('keywords', ['from: 2024-01', 'from: 2026-10'], ['attempts: 5', 'attempts: 1'])
  writeFileSync(join(folder, 'notify.yaml'), notifyYaml)
  ;[slack, hook, pager] = await Promise.all([startHttpReceiver(), startHttpReceiver(), startHttpReceiver()])
  mail = await startMailReceiver('millrace', secrets.mail)
})
afterEach(() => Promise.all([slack.close(), hook.close(), pager.close(), mail.close()]))

const receivers = (): Record<string, string> => ({
  TEAM_SLACK: `${slack.url}${secrets.slackPath}`,
  HUB_URL: `${hook.url}${secrets.hookPath}`,
  HUB_KEY: secrets.hookKey,
  ONCALL_KEY: secrets.pagerduty,
  MILLRACE_PAGERDUTY_URL: `${pager.url}/v2/enqueue`,
  MILLRACE_SMTP_URL: `smtp://millrace:${secrets.mail}@127.0.0.1:${mail.port}`,
  MILLRACE_NOTIFY_FROM: 'millrace@example.com',
})

const command = (...args: string[]) => millraceWith(receivers(), ...args)
const run = () => command('run', 'keywords', '--json')
const refuse = (): void => sandbox.configure({ faults: [{ kind: 'any-status', on: 'keywords', status: 400 }] })
const dueAgain = () => db.database.pool.query('update etl.deliveries set next_at = now()')
const deliveries = async () =>
  (await db.query('select target, event, outcome, attempts, last_error from etl.deliveries order by target, event')) as {
    target: string
    event: string
    outcome: string | null
    attempts: number
    last_error: string | null
  }[]
/** Of a mail, as people read it. */
const readable = (text: string): string =>
  text.replaceAll('=\r\n', '').replaceAll(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))

describe('200 units of one cause', () => {
  test('are one message for each receiver, and one when it is over, saying what changed and what to do; no secret is anywhere', async () => {
    wanted(100)
    refuse()
    const failed = await run()
    expect(failed.code, failed.stderr).toBe(1)
    sandbox.configure({ faults: [] })
    const repaired = await succeeded(run())
    const third = await command('run', 'keywords', '--only', 'domain=d0.com')

    expect(slack.received.map(({ path }) => path)).toEqual([secrets.slackPath, secrets.slackPath])
    const [began, over] = slack.received.map(
      ({ body }) => JSON.parse(body) as { text: string; blocks: { text: { text: string } }[] },
    )
    expect(began?.text).toContain('Error (failure): 200 units of keywords failed')
    expect(began?.blocks.map(({ text }) => text.text.split('\n')[0])).toEqual([began?.text, 'What changed:', 'What to do:'])
    expect(over?.text).toContain('Over (failure): 200 units of keywords failed')

    expect(hook.received).toHaveLength(2)
    for (const { path, headers, body } of hook.received) {
      expect(path).toBe(secrets.hookPath)
      const [, at, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['millrace-signature'])) ?? []
      expect(createHmac('sha256', secrets.hookKey).update(`${at}.${body}`).digest('hex')).toBe(signature)
    }
    expect(JSON.parse(hook.received[0]?.body ?? '{}')).toMatchObject({
      event: 'raised',
      kind: 'failure',
      severity: 'error',
      pipeline: 'keywords',
      changed: expect.stringContaining('None of them was ever loaded'),
      next_step: expect.stringContaining('millrace status keywords'),
    })

    const events = pager.received.map(({ body }) => JSON.parse(body) as Record<string, unknown>)
    expect(events.map(({ event_action }) => event_action)).toEqual(['trigger', 'resolve'])
    expect(new Set(events.map(({ dedup_key }) => dedup_key)).size).toBe(1)
    expect(events[0]).toMatchObject({
      routing_key: secrets.pagerduty,
      payload: {
        severity: 'error',
        source: 'millrace',
        component: 'keywords',
        class: 'failure',
        summary: expect.stringContaining('200 units'),
      },
    })

    expect(mail.mails.map(({ from, to }) => [from, to])).toEqual([
      ['millrace@example.com', ['data@example.com', 'boss@example.com']],
      ['millrace@example.com', ['data@example.com', 'boss@example.com']],
    ])
    const letter = readable(mail.mails[0]?.text ?? '')
    for (const words of [
      'Subject: [millrace] Error (failure): 200 units',
      'What changed:',
      'What to do:',
      'Auto-Submitted: auto-generated',
    ])
      expect(letter).toContain(words)

    for (const { stdout, stderr } of [failed, repaired, third])
      for (const secret of Object.values(secrets)) expect(stdout + stderr).not.toContain(secret)
    const { rows: tables } = await db.database.pool.query(
      `select relname as name from pg_class where relnamespace = 'etl'::regnamespace and relkind = 'r'`,
    )
    for (const { name } of tables as { name: string }[])
      for (const secret of Object.values(secrets)) {
        expect(await db.query(`select 1 from etl.${name} t where position($1 in t::text) > 0`, [secret]), `${name}`).toEqual([])
      }
  })
})

describe('an address that the mail server does not know', () => {
  test('keeps nothing from the others, who get each message once; `notify test` names it', async () => {
    mail.refused.set('boss@example.com', 550)
    refuse()
    await run()
    await dueAgain()
    await run()
    sandbox.configure({ faults: [] })
    await run()
    expect(mail.mails.map(({ to, text }) => [to, /Error|Over/.exec(text)?.[0]])).toEqual([
      [['data@example.com'], 'Error'],
      [['data@example.com'], 'Over'],
    ])
    expect((await deliveries()).filter(({ target, outcome }) => target === 'office' && outcome !== 'sent')).toEqual([])
    const tested = await command('notify', 'test', 'office')
    expect([tested.code, tested.stdout + tested.stderr]).toEqual([1, expect.stringContaining('refuses 1 of 2 addresses')])
  })

  test('for now is tried again', async () => {
    mail.refused.set('boss@example.com', 451)
    refuse()
    await run()
    mail.refused.clear()
    await dueAgain()
    await run()
    expect(mail.mails.at(-1)?.to).toContain('boss@example.com')
  })
})

describe('a receiver that is away', () => {
  test('is told later, and nobody else waits for it or hears it twice', async () => {
    refuse()
    const { port } = mail
    await mail.close()
    slack.answer = 503
    await run()
    expect((await deliveries()).map(({ target, outcome }) => [target, outcome])).toEqual([
      ['hub', 'sent'],
      ['office', null],
      ['oncall', 'sent'],
      ['team', null],
    ])
    const told = await command('notify', 'list', '--json')
    expect(told.events[0]).toMatchObject({ event: 'alarm', kind: 'failure', severity: 'error' })
    mail = await startMailReceiver('millrace', secrets.mail, port)
    slack.answer = 200
    await dueAgain()
    await run()
    await run()
    expect([mail.mails.length, slack.received.length, hook.received.length, pager.received.length]).toEqual([1, 2, 1, 1])
    expect((await deliveries()).every(({ outcome }) => outcome === 'sent')).toBe(true)
  })

  test.each([
    ['Slack, which cannot tell a repetition, is not told again', 'team', () => slack, 1, 'uncertain'],
    ['a webhook, which can, is told again under the same id', 'hub', () => hook, 2, 'sent'],
  ] as const)('when the sender is killed in the middle: %s', async (_, target, receiverOf, times, outcome) => {
    writeFileSync(
      join(folder, 'notify.yaml'),
      `${notifyYaml.slice(0, notifyYaml.indexOf('routes:'))}routes: [{ to: ${target} }]\n`,
    )
    const receiver = receiverOf()
    refuse()
    receiver.answer = null
    const running = startCommand(['run', 'keywords', '--json'], environment(receivers()), folder)
    await until('the message is out', async () => receiver.received.length === 1)
    // A mail server may take its ten seconds for each of many addresses: nobody else sends meanwhile.
    expect(
      await db.query(
        `select held_until > clock_timestamp() + interval '10 minutes' as lasts from etl.locks where name = 'alarms are sent'`,
      ),
    ).toEqual([{ lasts: true }])
    running.child.kill('SIGKILL')
    await running.result
    receiver.answer = 200
    await run()
    await run()
    expect(receiver.received).toHaveLength(times)
    expect(new Set(receiver.received.map(({ headers }) => headers['millrace-delivery'])).size).toBe(1)
    expect(await deliveries()).toMatchObject([{ target, event: 'raised', outcome }])
  })
})

describe('setting it up', () => {
  test('a test message goes to each receiver or to one, and says who did not take it', async () => {
    await succeeded(command('notify', 'test', '--json'))
    // PagerDuty's is opened and closed.
    expect([slack, hook, pager].map(({ received }) => received.length)).toEqual([1, 1, 2])
    expect(mail.mails).toHaveLength(1)
    // A receiver that drops repetitions takes the next test for another message.
    await succeeded(command('notify', 'test', 'hub'))
    expect(new Set(hook.received.map(({ headers }) => headers['millrace-delivery'])).size).toBe(2)
    hook.answer = 500
    const one = await command('notify', 'test', 'hub')
    expect([one.code, one.stdout.includes('did not get it: HTTP 500')]).toEqual([1, true])
    const unknown = await command('notify', 'test', 'nobody')
    expect([unknown.code, unknown.stderr.includes('team, hub, oncall, office')]).toEqual([2, true])
    expect(await db.query('select 1 from etl.notifications')).toEqual([])
  })

  test('one that no route leads to gets no test message, since no alarm would reach it', async () => {
    writeFileSync(join(folder, 'notify.yaml'), `${notifyYaml.slice(0, notifyYaml.indexOf('routes:'))}routes: [{ to: hub }]\n`)
    const all = await command('notify', 'test')
    expect([all.code, all.stdout]).toEqual([1, expect.stringContaining('team (slack): did not get it: no route of notify.yaml')])
    expect([slack, hook, pager].map(({ received }) => received.length)).toEqual([0, 1, 0])
  })

  test('what is wrong with notify.yaml is said with line and column, by check and before anything is called', async () => {
    writeFileSync(
      join(folder, 'notify.yaml'),
      notifyYaml.replace('to: hub, severity', 'to: hubb, severity').replace('kind: failure', 'kind: failed'),
    )
    const ran = await run()
    expect(ran.code).toBe(2)
    expect(ran.stderr).toMatch(/notify\.yaml:7:\d+: .*'failed'/)
    expect(sandbox.books().requests).toEqual([])
    writeFileSync(join(folder, 'notify.yaml'), notifyYaml.replace('to: hub, severity', 'to: hubb, severity'))
    const checked = await command('check', '--offline')
    expect(checked.stdout + checked.stderr).toMatch(/notify\.yaml:9:11: there is no receiver 'hubb'. Did you mean 'hub'\?/)
    const { TEAM_SLACK: _, ...without } = environment(receivers())
    writeFileSync(join(folder, 'notify.yaml'), notifyYaml)
    const missing = await runWarm(['run', 'keywords'], without, folder)
    expect([missing.code, missing.stderr.includes('notify.yaml:2:9: TEAM_SLACK is not set')]).toEqual([2, true])
  })
})
