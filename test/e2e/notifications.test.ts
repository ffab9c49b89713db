// Notifications from the ledger's record: one message a cause, one when it ends, retried, signed, never with a secret; and the ping of a good night.
import { createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { deliverNext, syncNotifications } from '../../src/ledger/deliveries.ts'
import { type Listening, listen } from '../support/listen.ts'
import { sandboxWorld, succeeded } from '../support/test-world.ts'

const key = 'notify-key-0123456789'
const signingKey = 'webhook-signing-key-0123'

const { sandbox, edit, millraceWith, db } = sandboxWorld({
  each: true,
  lists: { domains: ['a.com'] },
  sandbox: { apiKey: key, now: '2026-11-20' },
  settings: { MILLRACE_LOG_LEVEL: 'trace' },
})
let receiver: Listening
let received: { path: string; headers: IncomingHttpHeaders; body: string }[] = []
let refusals = 0

beforeEach(async () => {
  edit('keywords', ['from: 2024-01', 'from: 2026-10'], ['attempts: 5', 'attempts: 1'])
  received = []
  refusals = 0
  receiver = await listen((request, response, body) => {
    received.push({ path: request.url ?? '', headers: request.headers, body })
    response.writeHead(received.length <= refusals ? 500 : 200).end()
  })
})
afterEach(() => receiver.close())

const run = (extra: Readonly<Record<string, string>> = {}) =>
  millraceWith(
    {
      MILLRACE_NOTIFY_WEBHOOK: `${receiver.url}/hook-s3cret-path`,
      MILLRACE_NOTIFY_WEBHOOK_SECRET: signingKey,
      ...extra,
    },
    ...['run', 'keywords', '--only', 'country=us', '--json'],
  )

const told = () => received.map(({ body }) => JSON.parse(body) as { event: string; kind: string; message: string; id: string })

describe('notifications', () => {
  test('a failure is told once, its end once; signed over the time; no secret in any output', async () => {
    sandbox.configure({ faults: [{ kind: 'status-500', on: 'keywords' }] })
    const failed = await run()
    expect(failed.code).toBe(1)
    expect(told().map(({ event, kind }) => [event, kind])).toEqual([['raised', 'failure']])
    await run()
    expect(received).toHaveLength(1)
    sandbox.configure({ faults: [] })
    const mended = await succeeded(run())
    expect(told().map(({ event, kind }) => [event, kind])).toEqual([
      ['raised', 'failure'],
      ['resolved', 'failure'],
    ])
    for (const { headers, body } of received) {
      const [, at, signature] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['millrace-signature'])) ?? []
      expect(createHmac('sha256', signingKey).update(`${at}.${body}`).digest('hex')).toBe(signature)
    }
    for (const { stdout, stderr } of [failed, mended]) {
      expect(stdout + stderr).not.toContain('hook-s3cret-path')
      expect(stdout + stderr).not.toContain(signingKey)
    }
  })

  test('Slack gets its own form; a receiver that refuses is tried again, and fails no run', async () => {
    refusals = 1
    sandbox.configure({ faults: [{ kind: 'status-500', on: 'keywords' }] })
    await run({ MILLRACE_NOTIFY_WEBHOOK: '', MILLRACE_NOTIFY_SLACK: `${receiver.url}/services/x` })
    expect(JSON.parse(received[0]?.body ?? '{}')).toMatchObject({
      text: expect.stringContaining('keywords failed'),
      blocks: [{ type: 'section' }, { type: 'section' }, { type: 'section' }],
    })
    expect(await db.query('select attempts, sent_at, last_error, next_at > now() as later from etl.deliveries')).toEqual([
      { attempts: 1, sent_at: null, last_error: 'HTTP 500', later: true },
    ])
    await db.database.pool.query('update etl.deliveries set next_at = now()')
    await run({ MILLRACE_NOTIFY_WEBHOOK: '', MILLRACE_NOTIFY_SLACK: `${receiver.url}/services/x` })
    expect(await db.query('select attempts, sent_at is not null as sent from etl.deliveries')).toEqual([
      { attempts: 2, sent: true },
    ])
    expect(received[1]?.headers['millrace-delivery']).toBe(received[0]?.headers['millrace-delivery'])
  })

  test('two senders tell one cause once', async () => {
    const cause = { cause: 'failure/x', kind: 'failure' as const, pipeline: 'x', message: 'm', details: {} }
    const { kysely } = db.database
    const sync = (): Promise<void> => syncNotifications(kysely, [cause], () => ['webhook'], ['webhook'])
    await Promise.all([sync(), sync()])
    const sent: string[] = []
    const send = async (): Promise<null> => {
      sent.push('one')
      await new Promise((resolve) => setTimeout(resolve, 100))
      return null
    }
    const deliver = async (): Promise<void> => {
      const receivers = [{ name: 'webhook', grouped: false, repeatable: true }]
      while (await deliverNext(kysely, receivers, { waitMs: () => 0, send }));
    }
    await Promise.all([deliver(), deliver(), deliver()])
    expect(sent).toEqual(['one'])
  })

  test('an address that is none ends the command before anything is called, without showing it', async () => {
    const result = await run({ MILLRACE_NOTIFY_WEBHOOK: 'http://hooks.example.com/s3cret' })
    expect([result.code, result.stderr.includes('s3cret')]).toEqual([2, false])
    expect(result.stderr).toContain('MILLRACE_NOTIFY_WEBHOOK')
  })
})

test('a good night pings start and success, a bad one fail', async () => {
  const settings = { MILLRACE_NOTIFY_WEBHOOK: '', MILLRACE_PING_URL: `${receiver.url}/ping/abc` }
  await succeeded(run(settings))
  sandbox.configure({ faults: [{ kind: 'status-500', on: 'keywords' }] })
  await run(settings)
  expect(received.map(({ path }) => path)).toEqual(['/ping/abc/start', '/ping/abc', '/ping/abc/start', '/ping/abc/fail'])
})
