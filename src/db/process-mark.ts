// What tells a process from every other one, also from a later one with the same number, and whether it lives.
import { readFileSync, readlinkSync } from 'node:fs'

const orEmpty = (read: () => string): string => {
  try {
    return read().trim()
  } catch {
    return ''
  }
}

/**
 * Which boot of the machine, and which container on it, this process runs in: process numbers mean something among those with the same mark
 * only. Empty where the system does not say.
 */
export const bootMark = (): string => {
  const boot = orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))
  const container = orEmpty(() => readlinkSync('/proc/self/ns/pid'))
  return `${boot} ${container}`.trim()
}

/** Where proc(5) has the state and the time of the start, counted from after the name in brackets. */
const statePlace = 0
const startPlace = 19

/** When the process began, in ticks since the boot; null: it has ended, though its parent may not know yet; empty: the system does not say. */
export const beginMark = (pid: number): string | null => {
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
