// `millrace notify test|list`: whether messages arrive, and what is wrong now.
import { EtlError } from '../core/errors.ts'
import { testReceivers } from '../schedule/notify/send-alarms.ts'
import { openAlarms } from '../web/reads/read-alarms.ts'
import { withRuntime } from './command-runtime.ts'
import type { Handler, Invocation } from './command-spec.ts'
import { timesOf } from './zone.ts'

export const notifications: Handler = (invocation) => {
  const [action, ...rest] = invocation.args
  if (action === 'test') return test(invocation, rest)
  if (action === 'list' && rest.length === 0) return list(invocation)
  throw new EtlError('USAGE', `'${invocation.args.join(' ')}' is not \`test [receiver...]\` or \`list\`.`)
}

const opened = { callsService: false, usesLanding: false, pipelines: [] } as const

const test = (invocation: Invocation, names: readonly string[]): Promise<number> =>
  withRuntime(invocation, opened, async (runtime) => {
    const { output } = invocation
    const results = await testReceivers(runtime, names)
    for (const { receiver, kind, problem } of results) {
      output.event({ event: 'tested', receiver, kind, arrived: problem === null, problem })
      output.line(`${receiver} (${kind}): ${problem === null ? 'accepted the message.' : `did not accept it: ${problem}`}`)
    }
    const failed = results.filter(({ problem }) => problem !== null).length
    output.event({ event: 'summary', command: 'notify test', told: results.length - failed, failed })
    return failed === 0 ? 0 : 1
  })

const list = (invocation: Invocation): Promise<number> =>
  withRuntime(invocation, opened, async ({ database }) => {
    const { output } = invocation
    const alarms = await openAlarms(database.kysely)
    const times = timesOf(invocation)
    for (const alarm of alarms) output.event({ event: 'alarm', ...alarm })
    output.event({ event: 'summary', command: 'notify list', alarms: alarms.length })
    if (alarms.length === 0) output.line('Nothing is wrong: no alarm is open.')
    else
      output.table(
        ['severity', 'kind', 'since', 'sent to', 'what is wrong'],
        alarms.map(({ severity, kind, raised_at, told, message }) => [
          severity,
          kind,
          times.at(raised_at),
          told.map(({ receiver, state }) => `${receiver}: ${state}`).join(', '),
          message.slice(0, 100),
        ]),
      )
    if (alarms.length > 0) times.sayZone(output)
    return 0
  })
