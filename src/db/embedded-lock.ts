// One command at a time sets up, starts or stops an embedded server. The operating system frees the lock when its holder dies.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../core/clock.ts'
import { EtlError, messageOf } from '../core/errors.ts'

const lookEveryMs = 25
/** Longer than a set-up and a recovery take. */
const patienceMs = 600_000

/** Runs `work` while no other process (and nobody else in this one) holds the lock of `folder`, which must exist. */
export const withServerLock = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  const lock = openLock(folder)
  try {
    await take(lock, folder)
    return await work()
  } finally {
    lock.close()
  }
}

// Node has no flock(2). SQLite holds its locks with the operating system's: no pid file that outlives a kill -9.
const openLock = (folder: string): DatabaseSync => {
  const file = join(folder, 'lock')
  try {
    return new DatabaseSync(file, { timeout: 0 })
  } catch (cause) {
    throw new EtlError('DISK', `${file} cannot be opened: ${messageOf(cause)}. Set MILLRACE_HOME to a folder you may write to.`, {
      cause,
    })
  }
}

const busy = 5

const take = async (lock: DatabaseSync, folder: string): Promise<void> => {
  const until = performance.now() + patienceMs
  for (;;) {
    try {
      lock.exec('begin exclusive')
      return
    } catch (cause) {
      const isBusy = cause instanceof Error && 'errcode' in cause && cause.errcode === busy
      if (!isBusy) {
        throw new EtlError(
          'DISK',
          `${folder} cannot be locked: ${messageOf(cause)}. Set MILLRACE_HOME to a local folder of yours.`,
          {
            cause,
          },
        )
      }
      if (performance.now() > until) {
        throw new EtlError(
          'DATABASE_UNREACHABLE',
          `Another command has been starting or stopping the embedded PostgreSQL in ${folder} for ${patienceMs / 60_000} minutes; ` +
            'end that command, then run this one again.',
          { cause },
        )
      }
      await systemClock.sleep(lookEveryMs)
    }
  }
}
