// What the three questions to the services share: who asks, and what is said where one does not tell.
import { createLog } from '../core/log.ts'
import type { Answer, DiscoverRequest } from './check/discover.ts'
import { pipelinesFolder, settingsOf } from './command-runtime.ts'
import type { Invocation } from './command-spec.ts'
import type { Output } from './output.ts'

/** Throws CONFIGURATION for settings that are wrong. */
export const discoverRequest = (invocation: Invocation): DiscoverRequest => {
  const settings = settingsOf(invocation)
  return {
    settings,
    pipelinesFolder: pipelinesFolder(invocation),
    account: String(invocation.options['account']),
    log: createLog(settings.raw['MILLRACE_LOG_LEVEL']),
    signal: invocation.signal,
  }
}

/** Shows what each API says, under its name where there are several. `show` prints one and returns what the summary says of it. */
export const showAnswers = <T>(
  { output }: Invocation,
  { command, what }: { readonly command: string; readonly what: string },
  answers: readonly Answer<T>[],
  show: (said: T, output: Output) => Readonly<Record<string, unknown>>,
): number => {
  if (answers.length === 0) {
    output.event({ event: 'summary', command, offered: false })
    output.line(`No source here has a way to tell ${what}.`)
  }
  for (const { api, said } of answers) {
    const name = answers.length > 1 ? { api } : {}
    if (answers.length > 1) output.line(`${api}:`)
    const offered = said !== null
    // Absence is no failure: not every version of a service has the endpoint.
    if (!offered) output.line(`The service does not tell ${what} (no such endpoint). Nothing depends on it.`)
    output.event({ event: 'summary', command, ...name, offered, ...(offered ? show(said, output) : {}) })
  }
  return 0
}
