// `millrace notify test|list`: tests receivers, lists open alarms. `millrace webhooks subscribe|test|remove`: webhooks by which the service tells a running
// `schedule` that it has released data.
import { docPage } from '../core/shipped.ts'
import { settingError, usageError } from '../core/errors.ts'
import type { ReleasedData } from '../core/release-month.ts'
import { forgetSubscription, keepSubscription, lastTest, subscriptionOf } from '../ledger/data-releases.ts'
import { accountsOf } from '../run/apis.ts'
import type { OpenRuntime } from '../run/open-runtime.ts'
import { alarmingOf } from '../schedule/notify/receivers.ts'
import { testReceivers } from '../schedule/notify/send-alarms.ts'
import { openAlarms } from '../web/reads/read-alarms.ts'
import { byAction, timesOf, withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { fields } from './output.ts'

const opened = { callsService: false, usesLanding: false, pipelines: [] } as const

const test = (invocation: Invocation, names: readonly string[]): Promise<number> =>
  withRuntime(invocation, opened, async (runtime) => {
    const { output } = invocation
    const results = await testReceivers(runtime, names)
    for (const { receiver, kind, problem } of results) {
      output.event({ event: 'tested', receiver, kind, arrived: problem === null, problem })
      output.line(`${receiver} (${kind}): ${problem === null ? 'accepted the message.' : `did not get it: ${problem}`}`)
    }
    const failed = results.filter(({ problem }) => problem !== null).length
    output.summary('notify test', { told: results.length - failed, failed })
    return failed === 0 ? 0 : 1
  })

const list = (invocation: Invocation, rest: readonly string[]): Promise<number> => {
  if (rest.length > 0) throw usageError('`millrace notify list` takes no receiver: it lists what is wrong in the warehouse.')
  return withRuntime(invocation, opened, async ({ database, settings, routes }) => {
    const { output } = invocation
    const { receivers } = alarmingOf({ settings, routes })
    const alarms = await openAlarms(database.kysely)
    const times = timesOf(invocation)
    for (const alarm of alarms) output.event({ event: 'alarm', ...alarm })
    output.summary('notify list', { alarms: alarms.length, receivers: receivers.length })
    if (receivers.length === 0)
      output.line(
        `No receiver is set: no alarm is checked or sent (${docPage('alarms.md')}). \`millrace status\` says what is wrong now.`,
      )
    else if (alarms.length === 0) output.line('Nothing is wrong: no alarm is open.')
    if (alarms.length > 0)
      output.table(alarms, {
        ...fields('severity', 'kind'),
        since: ({ raised_at }) => times.at(raised_at),
        'sent to': ({ told }) => told.map(({ receiver, state }) => `${receiver}: ${state}`).join(', '),
        'what is wrong': ({ message }) => message.slice(0, 100),
      })
    if (alarms.length > 0) times.sayZone(output)
    return 0
  })
}

export const notifications = byAction({ test, list })

type Subscriber = ReturnType<typeof subscribers>[number]

type Action = (invocation: Invocation, runtime: OpenRuntime, subscriber: Subscriber) => Promise<boolean>

const limits = { timeoutMs: 30_000, attempts: 3, maxBodyBytes: 10_000_000 }

export const webhooks: Handler = (invocation) =>
  withRuntime(invocation, { callsService: true, usesLanding: false, pipelines: [] }, async (runtime) => {
    const [action = ''] = invocation.args
    const results: (boolean | undefined)[] = []
    for (const subscriber of subscribers(invocation, runtime))
      results.push(await actions[action]?.(invocation, runtime, subscriber))
    const failed = results.filter((isDone) => isDone !== true).length
    invocation.output.summary(`webhooks ${action}`, { done: results.length - failed, failed })
    return failed === 0 ? 0 : 1
  })

const subscribers = ({ options, signal }: Invocation, runtime: OpenRuntime) => {
  const wanted = options['account']
  const found = accountsOf(runtime.definitions).flatMap(({ of, definitions }) => {
    const api = runtime.releaseApi(of)
    if (api === null || (wanted !== undefined && of.account !== wanted)) return []
    const http = runtime.service(of).forUnit({ ...limits, account: of.account, signal, record: () => undefined })
    const every = [...new Set(definitions.map(({ window }): ReleasedData => (window.every === 'month' ? 'month' : 'day')))]
    return [{ of, account: `${of.source}/${of.account}`, api, http, every }]
  })
  if (found.length === 0)
    throw usageError(
      `No account of the definitions${wanted === undefined ? '' : ` is named '${String(wanted)}' and`} has a service that announces releases.`,
    )
  return found
}

/** The webhook's address. Its last part is a secret, so only the part before is shown. */
const addressOf = ({ hooks }: OpenRuntime, { of, api }: Subscriber) => {
  const address = hooks?.releaseAddress(of.source, of.account) ?? null
  if (address === null)
    throw settingError(
      'The service needs an address to send to: set MILLRACE_PUBLIC_URL, under which `millrace schedule` is reached from outside, and MILLRACE_HOOK_SECRET (`openssl rand -hex 24`).',
    )
  if (address.reveal().length > api.longestAddress)
    throw settingError(
      `MILLRACE_PUBLIC_URL makes an address of ${address.reveal().length} characters; the service takes ${api.longestAddress}.`,
    )
  return address
}

const elsewhere = 'a server answered, but not `millrace schedule` of this warehouse'
/** The service may send the webhook a moment after its reply. Milliseconds between two checks, and their number. */
const [betweenLooksMs, looks] = [250, 20]

const hasArrived = async ({ database, clock }: OpenRuntime, account: string, before: string | null): Promise<boolean> => {
  for (let look = 0; look < looks; look += 1) {
    if ((await lastTest(database.kysely, account)) !== before) return true
    await clock.sleep(betweenLooksMs)
  }
  return false
}

const noSuchWay = 'the service offers no such messages; its capabilities are polled instead.'

const actions: Readonly<Record<string, Action>> = {
  subscribe: async ({ output }, runtime, subscriber) => {
    const { account, api, http, every } = subscriber
    const address = addressOf(runtime, subscriber)
    let isDone = true
    for (const data of every) {
      const id = await api.subscribe(http, data, address)
      output.event({ event: 'subscription', account, every: data, subscription_id: id })
      output.line(
        `${account}: ${data}ly data: ${id === null ? noSuchWay : `subscribed as ${id}. Next: \`millrace webhooks test\`.`}`,
      )
      if (id === null) isDone = false
      else await keepSubscription(runtime.database.kysely, account, data, id)
    }
    return isDone
  },
  test: async ({ output }, runtime, subscriber) => {
    const { account, api, http } = subscriber
    const before = await lastTest(runtime.database.kysely, account)
    const refused = await api.test(http, addressOf(runtime, subscriber))
    const problem = refused ?? ((await hasArrived(runtime, account, before)) ? null : elsewhere)
    output.event({ event: 'tested', account, arrived: problem === null, problem })
    output.line(
      `${account}: ${problem === null ? 'the message of the service arrived.' : `it did not arrive: ${problem}. Is \`millrace schedule\` running, and reached under MILLRACE_PUBLIC_URL?`}`,
    )
    return problem === null
  },
  remove: async ({ output }, runtime, { account, api, http, every }) => {
    for (const data of every) {
      const id = await subscriptionOf(runtime.database.kysely, account, data)
      const isGone = id !== null && (await api.unsubscribe(http, data, id))
      if (id !== null) await forgetSubscription(runtime.database.kysely, account, data)
      output.event({ event: 'subscription', account, every: data, removed: isGone, subscription_id: id })
      output.line(
        `${account}: ${data}ly data: ${id === null ? 'there was no subscription.' : isGone ? 'removed.' : 'forgotten here; the service no longer knows it.'}`,
      )
    }
    return true
  },
}
