// One command at a time sets up, starts or stops an embedded server. The operating system frees the lock when its holder dies.
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { systemClock } from '../core/clock.ts'
import { EtlError, messageOf } from '../core/errors.ts'

const lookEveryMs = 25
/** Longer than a set-up and a recovery take. */
const patienceMs = 600_000
const busy = 5

/** Runs `work` while no other process (and nobody else in this one) holds the lock of `folder`, which must exist. */
export const withServerLock = async <T>(folder: string, work: () => Promise<T>): Promise<T> => {
  const until = performance.now() + patienceMs
  let lock = tryLock(folder)
  for (; lock === null; lock = tryLock(folder)) {
    if (performance.now() > until) {
      throw new EtlError(
        'DATABASE_UNREACHABLE',
        `Another command has been starting or stopping the embedded PostgreSQL in ${folder} for ${patienceMs / 60_000} minutes; ` +
          'end that command, then run this one again.',
      )
    }
    await systemClock.sleep(lookEveryMs)
  }
  try {
    return await work()
  } finally {
    lock.close()
  }
}

/** null: another has it. Node has no flock(2); SQLite holds its locks with the operating system's: no pid file that outlives a kill -9. */
const tryLock = (folder: string): DatabaseSync | null => {
  let lock: DatabaseSync | null = null
  try {
    lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
    lock.exec('begin exclusive')
    return lock
  } catch (cause) {
    lock?.close()
    if (cause instanceof Error && 'errcode' in cause && cause.errcode === busy) return null
    throw new EtlError(
      'DISK',
      `${folder} cannot be locked: ${messageOf(cause)}. Set MILLRACE_HOME to a local folder of yours, which you may write to.`,
      { cause },
    )
  }
}
