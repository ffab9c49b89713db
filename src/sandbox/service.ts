// The sandbox's whole state, with what every endpoint needs of it; and the webhooks that it sends.
import { randomBytes, randomUUID } from 'node:crypto'
import { type EtlError, settingError } from '../core/errors.ts'
import { addWindows } from '../core/window.ts'
import { createBookkeeper, type SentMessage } from './books.ts'
import { createFaults } from './faults.ts'
import { addMonths, type Calendar, createCalendar } from './publication-calendar.ts'
import { createReports, type Phase } from './report-jobs.ts'
import { mergeOptions, type Settings, parseOptions } from './sandbox-options.ts'

export type Service = ReturnType<typeof createService>
export type Books = ReturnType<Service['books']>

export const createService = (options: object) => {
  let given = options
  let settings = parseOptions(given)
  let faults = createFaults(settings.faults, settings.seed)
  let hits = 0
  const calendar = createCalendar(
    () => momentOf(settings.now),
    () => settings.historyMonths,
    () => settings.lateDays,
  )
  const elapsedMs = (): number => performance.now()
  const reports = createReports(elapsedMs, () => settings.reportDurationMs)
  const bookkeeper = createBookkeeper()
  const webhooks = createWebhooks({
    calendar,
    elapsedMs,
    settings: () => settings,
    phaseOf: (id) => {
      const report = reports.get(id)
      return report === null ? null : reports.phase(report)
    },
  })
  for (const month of settings.restate) calendar.restate(month)
  return {
    settings: () => settings,
    calendar,
    faults: () => faults,
    reports,
    bookkeeper,
    webhooks,
    bucket: createRateBucket(elapsedMs),
    /** Credits left, without those reserved for unfinished reports; null: unlimited. */
    remaining: () => {
      const { charged, reserved } = reports.credits()
      return settings.quota === null ? null : settings.quota - hits - charged - reserved
    },
    chargeHit: (): void => {
      hits += 1
    },
    /** `messages`: webhooks sent, oldest first; `quotaUsed`: credits spent, minus refunds; `faultsActed`: how often each declared fault acted, in order. */
    books: () => {
      const submissions = reports.list().map(({ submission }) => ({ ...submission }))
      const quotaUsed = hits + reports.credits().charged
      const quotaRemaining = settings.quota === null ? null : settings.quota - quotaUsed
      const counted = { quotaUsed, quotaRemaining, faultsActed: faults.acted() }
      return { submissions, messages: webhooks.sent(), ...bookkeeper.read(), ...counted }
    },
    clearBooks: (): void => {
      bookkeeper.clear()
      webhooks.clear()
    },
    /** Throws CONFIGURATION naming every wrong option. */
    configure: (patch: object): void => {
      const wanted = mergeOptions(given, patch)
      const next = parseOptions(wanted)
      if (next.port !== settings.port || next.downloadHost !== settings.downloadHost) throw fixed()
      given = wanted
      settings = next
      if ('faults' in patch) faults = createFaults(settings.faults, settings.seed)
      if ('restate' in patch) for (const month of settings.restate) calendar.restate(month)
      webhooks.look()
    },
  }
}

const fixed = (): EtlError =>
  settingError('Sandbox options: port and downloadHost are fixed once it listens; start another sandbox.')

/** The present time; an option that is only a date means midnight in the service's time zone. */
const momentOf = (now: Settings['now']): number => {
  if (now === null) return Date.now()
  if (typeof now === 'function') return now()
  return Date.parse(now.length === 10 ? `${now}T00:00:00-05:00` : now)
}

/** @param nowMs a monotonic clock */
export const createRateBucket = (nowMs: () => number) => {
  let tokens = Number.POSITIVE_INFINITY
  let filledAt = nowMs()
  return {
    /** Takes a token; else returns the seconds until the next one. */
    take: (perSecond: number | null) => {
      if (perSecond === null) return { ok: true } as const
      const now = nowMs()
      tokens = Math.min(Math.max(1, perSecond), tokens + ((now - filledAt) / 1000) * perSecond)
      filledAt = now
      if (tokens < 1) return { ok: false, waitSeconds: (1 - tokens) / perSecond } as const
      tokens -= 1
      return { ok: true } as const
    },
  }
}

type EventType = 'Monthly' | 'Daily'

interface WebhookWorld {
  readonly calendar: Calendar
  readonly elapsedMs: () => number
  readonly settings: () => Settings
  /** null: there is no such report. */
  readonly phaseOf: (id: string) => Phase | null
}

const proofMs = 5 * 60_000
const sendMs = 5_000
const lookEveryMs = 100
/** So many days later a day's data are published. */
const dayLag = 3

/** Sends webhooks, each with its own proof of the sender. */
const createSender = ({ calendar, elapsedMs }: WebhookWorld) => {
  const proofs = new Map<string, number>()
  let sent: SentMessage[] = []
  return {
    /** Resolves to the receiver's HTTP status; null: no answer. */
    send: async (event: SentMessage['event'], url: string, body: unknown) => {
      const proof = randomBytes(24).toString('hex')
      proofs.set(proof, elapsedMs())
      const status = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json', 'x-sw-authorization': proof },
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(sendMs),
      }).then(
        async (answer) => {
          await answer.body?.cancel()
          return answer.status
        },
        () => null,
      )
      sent.push({ event, body, at: new Date(calendar.nowMs()).toISOString(), status })
      return status
    },
    /** Checks a proof: right, expired, or wrong (the service did not send it). */
    prove: (proof: string) => {
      const at = proofs.get(proof)
      if (at === undefined) return 'wrong'
      return elapsedMs() - at > proofMs ? 'expired' : 'right'
    },
    sent: () => [...sent],
    clear: (): void => {
      sent = []
    },
  }
}

/** Reports with a webhook. `look` sends a message for each change of state since the last call. */
const createFollower = ({ settings, phaseOf }: WebhookWorld, { send }: ReturnType<typeof createSender>) => {
  const followed = new Map<string, { readonly url: string; told: Phase }>()
  return {
    add: (id: string, url: string) => void followed.set(id, { url, told: 'pending' }),
    look: (): void => {
      for (const [id, report] of followed) {
        const phase = phaseOf(id)
        if (phase === null || phase === 'pending' || phase === report.told) continue
        report.told = phase
        if (phase !== 'processing') followed.delete(id)
        const status = phase === 'done' ? settings().finalWord : phase
        void send('report', report.url, { event_type: 'report_status', payload: { report_id: id, status } })
      }
    },
  }
}

const createWebhooks = (world: WebhookWorld) => {
  const { calendar, settings } = world
  // `told`: the last date sent to the subscriber; at first the newest date when it subscribed.
  const subscriptions = new Map<EventType, { readonly id: string; readonly url: string; told: string }>()
  const sender = createSender(world)
  const reports = createFollower(world, sender)
  let timer: NodeJS.Timeout | null = null

  const newest = (event: EventType): string =>
    event === 'Monthly'
      ? addWindows(`${addMonths(calendar.latestMonth(), 1)}-01`, 'day', -1)
      : addWindows(calendar.today(), 'day', -dayLag)
  /** Sends a message about a release now. False: it has no subscriber. */
  const release = async (event: EventType, date = newest(event)): Promise<boolean> => {
    const subscription = subscriptions.get(event)
    if (subscription === undefined) return false
    if (date > subscription.told) subscription.told = date
    const body = releaseBody(subscription.id, event, date, settings().webhookDates, calendar.nowMs())
    await sender.send(event, subscription.url, body)
    return true
  }
  /** Sends messages about releases and reports since the last call. */
  const look = (): void => {
    for (const [event, { told }] of subscriptions) if (newest(event) > told) void release(event)
    reports.look()
  }
  /** Starts the timer, which runs only once there is a subscriber. */
  const begin = (): void => {
    timer ??= setInterval(look, lookEveryMs).unref()
  }

  return {
    /** Returns the subscription's id. Each event type has one subscription; a new one replaces it. */
    subscribe: (event: EventType, url: string): string => {
      const subscription = { id: randomUUID(), url, told: newest(event) }
      subscriptions.set(event, subscription)
      begin()
      return subscription.id
    },
    /** False: there is no such subscription. */
    unsubscribe: (event: EventType, id: string | null): boolean => {
      const found = subscriptions.get(event)
      if (found === undefined || (id !== null && found.id !== id)) return false
      return subscriptions.delete(event)
    },
    release,
    look,
    /** Sends each change of the report's state to that address. null: to none. */
    follow: (id: string, url: string | null): void => {
      if (url === null) return
      reports.add(id, url)
      begin()
    },
    /** Sends the test message. Resolves to null: accepted; else to the reason why not. */
    test: async (url: string): Promise<string | null> => {
      const body = { event_type: 'test_webhook_endpoint', payload: 'Webhook was triggered successfully.' }
      const status = await sender.send('test', url, body)
      if (status === null) return 'The address did not answer within 5 seconds'
      return status < 300 ? null : `The address answered ${status}`
    },
    prove: sender.prove,
    sent: sender.sent,
    clear: sender.clear,
    close: (): void => {
      if (timer !== null) clearInterval(timer)
    },
  }
}

/** The body of a release message, in either form seen at the service. */
const releaseBody = (id: string, event: EventType, date: string, form: Settings['webhookDates'], nowMs: number): unknown => {
  const [year, month, day] = date.split('-')
  const seconds = Math.floor(nowMs / 1000)
  const shown = form === 'us' ? `${month}/${day}/${year}` : date
  return {
    subscription_id: id,
    latest_data_available: shown,
    webhook_event_type: event,
    created: form === 'us' ? seconds : String(seconds),
    text: `New ${event.toLowerCase()} data: up to ${shown}`,
  }
}
