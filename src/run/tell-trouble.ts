// A service that is away or refuses everything, shown to those who watch: at once on standard error, and in the ledger for page and metrics.
import { messageOf } from '../core/errors.ts'
import { redact } from '../core/redact.ts'
import type { Trouble } from '../extract/gate-types.ts'
import { endTrouble, noteTrouble } from '../ledger/account-pace.ts'
import type { Runtime } from './runtime.ts'

/** Said again after so long while it lasts. */
const sayAgainMs = 60_000

/** Never throws: what cannot be written down is logged. */
export const troubleTeller = ({
  database,
  log,
  clock,
  progress,
}: Pick<Runtime, 'database' | 'log' | 'clock' | 'progress'>): ((
  account: string,
  place: string,
  trouble: Trouble | null,
) => void) => {
  const said = new Map<string, { readonly sinceMs: number; readonly saidMs: number; readonly code: string }>()
  const say = (code: string, message: string): void => progress.emit({ event: 'notice', code, message })
  const keep = (writing: Promise<void>): void => {
    writing.catch((error: unknown) => log.warn({ error: messageOf(error) }, 'the trouble of a service is not on record'))
  }
  return (account, place, trouble) => {
    const key = `${account} ${place}`
    const before = said.get(key)
    if (trouble === null) {
      said.delete(key)
      if (before !== undefined)
        say(before.code, `${account}: ${place} answers again, after ${seconds(clock.now() - before.sinceMs)}.`)
      return keep(endTrouble(database.kysely, account, place))
    }
    const { code, sinceMs, nextMs } = trouble
    const message = redact(trouble.message)
    const now = clock.now()
    if (before === undefined || now - before.saidMs >= sayAgainMs) {
      said.set(key, { sinceMs, saidMs: now, code })
      const wait = seconds(Math.max(0, nextMs - now))
      say(code, `${account}: ${message} All requests to ${place} wait; one tries again in ${wait}. [${code}]`)
    }
    keep(noteTrouble(database.kysely, account, { place, code, message, sinceMsAgo: now - sinceMs }))
  }
}

const seconds = (ms: number): string => `${Math.max(1, Math.round(ms / 1000))} s`
