// What services send to a running schedule: releases of data go to its watch, the state of a report brings its next poll forward.
import { messageOf } from '../core/errors.ts'
import type { HookReceiver } from '../core/hook-receiver.ts'
import { hastenPoll } from '../ledger/releases.ts'
import type { Runtime } from '../run/runtime.ts'
import type { Reception, ReleaseWatch } from './release-watch.ts'

const statuses: Readonly<Record<Reception, number>> = {
  recorded: 200,
  known: 200,
  test: 200,
  forged: 403,
  'not understood': 400,
  later: 503,
}

/** A report that is being polled at the moment its message comes is polled once more. */
const heldAgainMs = 500
const mostHeld = 10

/** null: MILLRACE_HOOK_SECRET is not set. @param watch null as long as the schedule is not up: senders try again */
export const hookReceiver = (runtime: Runtime, watch: () => ReleaseWatch | null): HookReceiver | null => {
  const { hooks, log, database, clock } = runtime
  if (hooks === null) return null
  const hasten = async (jobId: number): Promise<void> => {
    for (let look = 0; look < mostHeld && (await hastenPoll(database.kysely, jobId)) === 'held'; look += 1)
      await clock.sleep(heldAgainMs)
  }
  return {
    token: hooks.token,
    release: async (api, account, body, header) => {
      const found = await (watch()?.hear(api, account, body, header) ?? 'later')
      log.debug({ account: `${api}/${account}`, found }, 'message about a release')
      return statuses[found]
    },
    report: async (jobId, body) => {
      const apis = [...new Set(runtime.definitions.map(({ source, account }) => runtime.releaseApi({ source, account })))]
      if (apis.some((api) => api?.isStillMaking(body))) return 200
      // The service waits five seconds at most; it is answered at once.
      hasten(jobId).catch((error: unknown) =>
        log.warn({ job_id: jobId, error: messageOf(error) }, 'the poll is not brought forward'),
      )
      return 200
    },
  }
}
