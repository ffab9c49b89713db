// What the three questions to the service share: who asks, and what is said when it offers none.
import { createLog } from '../core/log.ts'
import type { DiscoverRequest } from '../check/discover.ts'
import type { Invocation } from './command-spec.ts'
import { settingsOf } from './runtime.ts'

export const discoverRequest = (invocation: Invocation): DiscoverRequest => {
  const settings = settingsOf(invocation)
  return {
    settings,
    account: String(invocation.options['account']),
    log: createLog(settings.raw['MILLRACE_LOG_LEVEL']),
    signal: invocation.signal,
  }
}

/** Absence is no failure: not every version of the service has the endpoint. */
export const notOffered = ({ output }: Invocation, command: string, what: string): number => {
  output.event({ event: 'summary', command, offered: false })
  output.line(`The service does not tell ${what} (no such endpoint). Nothing depends on it.`)
  return 0
}
