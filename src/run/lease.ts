// The sign of life of a process, and its look for processes that ended without one: their jobs are free for others.
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { stopsWith } from '../db/stoppable.ts'
import type { Db } from '../db/tables.ts'
import { endProcess, type OwnProcess, reapDead, renewLease } from '../ledger/processes.ts'
import { freeStrays } from './work-loop.ts'

const tickMs = 2_000
const renewEveryMs = 4_000
const tryAgainMs = 1_000
/** How long what is not urgent waits for somebody's lock. */
const patienceMs = 800

interface Heard {
  /** Called over the same connection after each renewal. */
  readonly onRenewed?: (db: Db) => Promise<void>
  /** Called once where the ledger is another one now, restored from a backup perhaps: what the process holds is not there. */
  readonly onLost?: () => void
}

/** Resolves at once: the process was registered with a whole lease, and a command that ends before the first tick needs no other connection. */
export const keepLease = async (
  database: Database,
  own: OwnProcess,
  log: Log,
  { onRenewed = async () => undefined, onLost = () => undefined }: Heard = {},
) => {
  const stopping = new AbortController()
  const watched: Watched = { database, own, log, onRenewed, onLost, line: null }
  const watching = stopsWith(stopping.signal, () => watch(watched, stopping.signal))
  return {
    /** The connection of the lease, once there is one: it is free to ask also while all others wait for somebody's lock. */
    line: (): Db => watched.line?.kysely ?? database.kysely,
    /** The process has done: what it still holds is free for others at once. Never throws. */
    end: async (): Promise<void> => {
      stopping.abort()
      await watching
      // Where that fails its lease runs out.
      await stopsWith(AbortSignal.timeout(patienceMs), () => endProcess(database.kysely, own)).catch((error) =>
        log.warn({ error: messageOf(error) }, 'the process could not be signed off'),
      )
    },
  }
}

interface Watched extends Required<Heard> {
  readonly database: Database
  readonly own: OwnProcess
  readonly log: Log
  /** null: not needed yet. */
  line: Database | null
}

const watch = async (watched: Watched, signal: AbortSignal): Promise<void> => {
  const { database, own, log, onRenewed, onLost } = watched
  let renewedAt = performance.now()
  let pause = tickMs
  while (await slept(pause, signal)) {
    pause = tryAgainMs
    try {
      watched.line ??= await openLine(database)
      const { kysely } = watched.line
      if (performance.now() - renewedAt >= renewEveryMs - tryAgainMs) {
        if (!(await renewLease(kysely, own))) {
          onLost()
          break
        }
        await onRenewed(kysely)
        renewedAt = performance.now()
      }
      // Somebody's lock on a dead one's jobs must not keep this one from renewing.
      const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
      await stopsWith(soon, () => reapDead(kysely, own))
      const strays = await stopsWith(soon, () => freeStrays(kysely, own))
      if (strays > 0) log.info({ jobs: strays }, 'jobs whose claim got no answer are given back')
      pause = tickMs
    } catch (error) {
      log.warn({ error: messageOf(error) }, 'the lease was not renewed; trying again')
    }
  }
  const { line } = watched
  watched.line = null
  await line?.close().catch(() => undefined)
}

const openLine = ({ url }: Database): Promise<Database> =>
  openDatabase({ databaseUrl: url, home: '', maxConnections: 1, applicationName: 'millrace lease' })

/** False once it is to stop. */
const slept = (ms: number, signal: AbortSignal): Promise<boolean> => sleep(ms, true, { signal, ref: false }).catch(() => false)
