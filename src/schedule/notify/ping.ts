// The dead man's switch: a service elsewhere expects a ping after each good night, and calls when none comes.
import type { Settings } from '../../core/env.ts'
import { EtlError, messageOf } from '../../core/errors.ts'
import type { Log } from '../../core/log.ts'
import { redact, secret } from '../../core/redact.ts'

const pingName = 'MILLRACE_PING_URL'
const pingMs = 10_000
const tries = 3

/** Tells the watchdog of the night. Never throws: a watchdog that is away must not end a run. */
export type Ping = (what: 'start' | 'success' | 'fail') => Promise<void>

/** Pings URL/start, URL and URL/fail, as healthchecks do. A ping that does not get through is logged and fails nothing. */
export const createPing = ({ raw }: Settings, log: Log): Ping => {
  const text = raw[pingName]
  if (text === undefined || text === '') return async () => undefined
  if (!/^https?:$/.test(URL.parse(text)?.protocol ?? ''))
    throw new EtlError('CONFIGURATION', `${pingName} is no address such as https://hc.example.com/ping/ID.`)
  const base = secret(pingName, text)
  return async (what) => {
    const url = new URL(base.reveal())
    if (what !== 'success') url.pathname = `${url.pathname.replace(/\/$/, '')}/${what}`
    for (let attempt = 1; attempt <= tries; attempt += 1) {
      try {
        const answer = await fetch(url, { signal: AbortSignal.timeout(pingMs) })
        await answer.body?.cancel()
        if (answer.ok) return
        log.warn({ status: answer.status, attempt }, 'ping refused')
      } catch (error) {
        log.warn({ error: redact(messageOf(error)), attempt }, 'ping lost')
      }
    }
  }
}
