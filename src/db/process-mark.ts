// Identifies a process, also against a later one with the same pid, and tells whether it is alive.
import { readFileSync, readlinkSync } from 'node:fs'

const orEmpty = (read: () => string): string => {
  try {
    return read().trim()
  } catch {
    return ''
  }
}

/**
 * Identifies the boot of the machine and the container that this process runs in: pids are comparable only between processes with the same
 * mark. Empty where the system does not say.
 */
export const bootMark = (): string => {
  const boot = orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))
  const container = orEmpty(() => readlinkSync('/proc/self/ns/pid'))
  return `${boot} ${container}`.trim()
}

/** Fields of /proc/<pid>/stat (proc(5)), counted from after the name in brackets: state and start time. */
const statePlace = 0
const startPlace = 19

/** When the process started, in ticks since the boot; null: it has ended (maybe a zombie); empty: the system does not say. */
export const startMark = (pid: number): string | null => {
  const stat = orEmpty(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  if (['Z', 'X'].includes(fields[statePlace] ?? '')) return null
  return stat === '' ? '' : (fields[startPlace] ?? '')
}

/** True also for a process of another user. */
export const processIsAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
