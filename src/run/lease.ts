// Renews the lease of a process, and frees the jobs of processes whose lease ended.
import { setTimeout as sleep } from 'node:timers/promises'
import { messageOf } from '../core/errors.ts'
import type { Log } from '../core/log.ts'
import { type Database, openDatabase } from '../db/connect.ts'
import { cancelOn } from '../db/stoppable.ts'
import type { Db } from '../db/tables.ts'
import { endProcess, type OwnProcess, reapDead, renewLease } from '../ledger/processes.ts'
import { freeStrays } from './work-loop.ts'

const tickMs = 2_000
const renewEveryMs = 4_000
const tryAgainMs = 1_000
/** How long work that is not urgent waits for a lock of others. */
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
  const watching = cancelOn(stopping.signal, () => watch(watched, stopping.signal))
  return {
    /** The connection of the lease, once there is one: it is free even while all others wait for a lock. */
    line: (): Db => watched.line?.kysely ?? database.kysely,
    /** Call when the process is done: what it still holds is free for others at once. Never throws. */
    end: async (): Promise<void> => {
      stopping.abort()
      await watching
      // If that fails, the lease runs out.
      await cancelOn(AbortSignal.timeout(patienceMs), () => endProcess(database.kysely, own)).catch((error) =>
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
      // A lock on a dead process's jobs must not keep this process from renewing.
      const soon = AbortSignal.any([signal, AbortSignal.timeout(patienceMs)])
      await cancelOn(soon, () => reapDead(kysely, own))
      const strays = await cancelOn(soon, () => freeStrays(kysely, own))
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

/** False once the signal aborts. */
const slept = (ms: number, signal: AbortSignal): Promise<boolean> => sleep(ms, true, { signal, ref: false }).catch(() => false)
