// New data as the service announces them: by a webhook, whose sender is checked, and in its capabilities, which are polled. A recorded release starts a run.
// A webhook about a report brings the report's next poll forward.
import { messageOf } from '../core/errors.ts'
import type { HookReceiver } from '../core/hooks-setting.ts'
import { type Environment, readNumber } from '../core/read-setting.ts'
import { unregisteredSecret } from '../core/redact.ts'
import { dataOf, type Release, type ReleasedData } from '../core/release-month.ts'
import { type AccountOf, accountName } from '../core/source-spec.ts'
import type { IsoDate } from '../core/types.ts'
import { addWindows, alignDown, dateIn } from '../core/window.ts'
import type { ReleaseApi, ReleaseMessage } from '../extract/api.ts'
import type { HttpClient } from '../extract/http-types.ts'
import { claimInterval } from '../ledger/processes.ts'
import { makePollDue, newestRelease, recordRelease, subscriptionOf, testTurn } from '../ledger/data-releases.ts'
import { accountsOf } from '../run/apis.ts'
import type { Runtime } from '../run/runtime.ts'
import { scheduledOf } from '../plan/ticks.ts'

/** HTTP statuses for messages. `later`: the sender cannot be checked now and may try again. */
const [taken, forged, notUnderstood, later] = [200, 403, 400, 503] as const

/** Most sender checks in flight; further messages get `later`. */
const mostAtOnce = 64
const longestProof = 4_096
const limits = { timeoutMs: 10_000, attempts: 2, maxBodyBytes: 10_000_000 }

interface Watch {
  readonly runtime: Runtime
  readonly signal: AbortSignal
  readonly onRelease: () => void
  asking: number
}

type ReleaseWatch = ReturnType<typeof createReleaseWatch>

/** @param onRelease called when a release that starts runs is recorded */
export const createReleaseWatch = (runtime: Runtime, signal: AbortSignal, onRelease: () => void) => {
  const watch: Watch = { runtime, signal, onRelease, asking: 0 }
  const accounts = accountsOf(scheduledOf(runtime.definitions).flatMap(({ versions }) => versions))
  const nextLookMs = new Map<string, number>()
  return {
    /** @param proofOf reads the sender's proof from a header; null: the header is missing */
    hear: async (apiName: string, account: string, body: unknown, proofOf: (header: string) => string | null) => {
      const of = accounts.find((one) => one.of.source === apiName && one.of.account === account)?.of
      const api = of === undefined ? null : runtime.releaseApi(of)
      if (of === undefined || api === null) return forged
      if (api.isTest(body)) {
        await claimInterval(runtime.database.kysely, testTurn(accountName(of)), runtime.process, 0)
        return taken
      }
      const message = api.read(body)
      if (message === null) return notUnderstood
      return (await withoutAsking(watch, of, message)) ?? hearOf(watch, of, api, message, proofOf(api.proofHeader))
    },
    /** Polls the capabilities of each account where a poll is due and no other process has done it. */
    look: async () => {
      for (const { of, definitions } of accounts) {
        if ((nextLookMs.get(accountName(of)) ?? 0) > runtime.clock.now()) continue
        const sizes = [...new Set(definitions.map(({ window }) => dataOf(window.every)))]
        const seconds = await lookAt(watch, of, sizes)
        nextLookMs.set(accountName(of), runtime.clock.now() + seconds * 1_000)
      }
    },
  }
}

/** Decides without a request: an impossible or wrongly addressed message is forged, a known release is taken. null: the service must confirm the sender. */
const withoutAsking = async ({ runtime }: Watch, of: AccountOf, message: ReleaseMessage) => {
  const { database, clock } = runtime
  if (message.availableTo > tomorrow(clock.now())) return forged
  const subscription = await subscriptionOf(database.kysely, accountName(of), message.every)
  if (subscription !== null && subscription !== message.subscriptionId) return forged
  const known = await newestRelease(database.kysely, accountName(of), message.every)
  return known !== null && known.availableTo >= wholeUntil(message.every, message.availableTo, clock.now()) ? taken : null
}

const hearOf = async (
  watch: Watch,
  of: AccountOf,
  api: ReleaseApi,
  { every, availableTo: date }: ReleaseMessage,
  proof: string | null,
) => {
  if (proof === null || proof === '' || proof.length > longestProof || /[^\x21-\x7e]/.test(proof)) return forged
  if (watch.asking >= mostAtOnce) return later
  const availableTo = wholeUntil(every, date, watch.runtime.clock.now())
  watch.asking += 1
  try {
    const http = clientOf(watch, of)
    const sender = await api.sender(http, unregisteredSecret('proof of a webhook', proof)).catch(() => 'unknown' as const)
    if (sender === 'forged') return forged
    // A sender that cannot be checked may still be right: the service's capabilities decide.
    if (sender === 'unknown') {
      const newest = await api.newest(http, tomorrow(watch.runtime.clock.now())).catch(() => null)
      if (newest === null || wholeUntil(every, newest, watch.runtime.clock.now()) < availableTo) return later
    }
    await record(watch, of, { every, availableTo }, 'message')
    return taken
  } finally {
    watch.asking -= 1
  }
}

const lookAt = async (watch: Watch, of: AccountOf, sizes: readonly ReleasedData[]): Promise<number> => {
  const { runtime } = watch
  const { kysely } = runtime.database
  const api = runtime.releaseApi(of)
  const known = new Map<ReleasedData, IsoDate | null>()
  for (const every of sizes) known.set(every, (await newestRelease(kysely, accountName(of), every))?.availableTo ?? null)
  const seconds = pollSecondsOf(runtime.settings.raw, known, dateIn(runtime.clock.now(), 'UTC'))
  if (api === null || seconds === null) return Number.POSITIVE_INFINITY
  // The turn is a little shorter than the interval: else this process's own turn would still be open at its next poll.
  if (!(await claimInterval(kysely, `releases of ${accountName(of)} polled`, runtime.process, seconds * 0.9))) return seconds
  const newest = await api.newest(clientOf(watch, of), tomorrow(runtime.clock.now())).catch((error: unknown) => {
    runtime.log.info({ account: accountName(of), error: messageOf(error) }, 'capabilities not polled')
    return null
  })
  if (newest !== null)
    for (const every of sizes)
      await record(watch, of, { every, availableTo: wholeUntil(every, newest, runtime.clock.now()) }, 'poll')
  return seconds
}

const clientOf = ({ runtime, signal }: Watch, of: AccountOf): HttpClient =>
  runtime.service(of).forUnit({ ...limits, account: of.account, signal, lane: 'releases', record: () => undefined })

const record = async ({ runtime, onRelease }: Watch, of: AccountOf, release: Release, heardBy: 'message' | 'poll') => {
  const heard = await recordRelease(runtime.database.kysely, { account: accountName(of), ...release, heardBy })
  if (heard !== 'known') runtime.log.info({ account: accountName(of), ...release, heard_by: heardBy, heard }, 'release of data')
  if (heard === 'new') onRelease()
}

const tomorrow = (nowMs: number): IsoDate => addWindows(dateIn(nowMs, 'UTC'), 'day', 1)

/**
 * The last day of complete data. Services name a month by its first or its last day; another day belongs to a month that is not complete yet, as does
 * any day of a month that has not ended.
 */
export const wholeUntil = (every: ReleasedData, date: IsoDate, nowMs: number): IsoDate => {
  if (every === 'day') return date
  const first = alignDown(date, 'month')
  const last = addWindows(addWindows(first, 'month', 1), 'day', -1)
  const isWhole = (date === first || date === last) && last < dateIn(nowMs, 'UTC')
  return isWhole ? last : addWindows(first, 'day', -1)
}

/** A report that is being polled when its webhook comes is polled once more afterwards. */
const heldAgainMs = 500
const mostHeld = 10

/** null: MILLRACE_HOOK_SECRET is not set. @param watch null until the scheduler has started: senders try again */
export const hookReceiver = (runtime: Runtime, watch: () => ReleaseWatch | null): HookReceiver | null => {
  const { hooks, log, database, clock } = runtime
  if (hooks === null) return null
  const hasten = async (jobId: number): Promise<void> => {
    for (let look = 0; look < mostHeld && (await makePollDue(database.kysely, jobId)) === 'held'; look += 1)
      await clock.sleep(heldAgainMs)
  }
  return {
    token: hooks.token,
    release: async (api, account, body, header) => {
      const status = (await watch()?.hear(api, account, body, header)) ?? later
      log.debug({ account: `${api}/${account}`, status }, 'message about a release')
      return status
    },
    report: async (jobId, body) => {
      const apis = [...new Set(runtime.definitions.map(({ source, account }) => runtime.releaseApi({ source, account })))]
      if (apis.some((api) => api?.isStillMaking(body))) return 200
      // The service waits five seconds at most; it is answered at once.
      hasten(jobId).catch((error: unknown) =>
        log.warn({ job_id: jobId, error: messageOf(error) }, 'the next poll could not be moved forward'),
      )
      return 200
    },
  }
}

const pollName = 'MILLRACE_RELEASE_POLL'
/** Poll interval while a release is expected: the first submission follows within a minute, planning included. */
const awaitedSeconds = 40
const otherwiseSeconds = 600
/** Day of the month: on the first two days no release is expected. */
const awaitedFrom = 3

/** Null: not set. Throws CONFIGURATION. */
export const readPoll = (environment: Environment): number | null => {
  const expected = 'seconds from 1 to 86400, or 0 for never'
  return readNumber(environment, pollName, { otherwise: null, least: 0, most: 86_400, expected })
}

/** Seconds between two polls; null: never. Throws CONFIGURATION. @param known the last day of the newest data by kind; null: none is known */
export const pollSecondsOf = (environment: Environment, known: ReadonlyMap<ReleasedData, IsoDate | null>, today: IsoDate) => {
  const seconds = readPoll(environment)
  if (seconds !== null) return seconds === 0 ? null : seconds
  const lastMonth = addWindows(alignDown(today, 'month'), 'day', -1)
  const month = known.get('month')
  const isAwaited = month !== undefined && (month ?? '') < lastMonth && Number(today.slice(8)) >= awaitedFrom
  return isAwaited ? awaitedSeconds : otherwiseSeconds
}
