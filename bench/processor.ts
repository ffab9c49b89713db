// Processor time, which other work on the machine changes little: of the server with all it has started, and of processes by their number.
import { readdirSync, readFileSync } from 'node:fs'
import type { DatabaseClient } from '../src/db/connect.ts'

/** Of `getconf CLK_TCK`, the same on all Linux systems. */
const ticksPerSecond = 100

interface Ticks {
  readonly parent: number
  readonly own: number
  /** Of children that have ended. */
  readonly ended: number
}

/** null where there is no such process, or the system does not tell. */
const ticksOf = (pid: number | string): Ticks | null => {
  try {
    // The name, in parentheses, may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)?.split(' ') ?? []
    const at = (place: number): number => Number(fields[place - 3])
    return { parent: at(4), own: at(14) + at(15), ended: at(16) + at(17) }
  } catch {
    return null
  }
}

/** Seconds that a living process has used. */
export const processorOf = (pid: number | undefined): number | null => {
  const ticks = pid === undefined ? null : ticksOf(pid)
  return ticks === null ? null : ticks.own / ticksPerSecond
}

/** Seconds that the server on this machine has used since its start, its workers included; a function to ask again. */
export const serverProcessor = async (client: DatabaseClient): Promise<() => number | null> => {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  const postmaster = ticksOf(rows[0]?.pid ?? 0)?.parent
  return () => {
    const own = postmaster === undefined ? null : ticksOf(postmaster)
    if (own === null) return null
    const children = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (ticksOf(name) ?? []) : []))
    const living = children.filter(({ parent }) => parent === postmaster).reduce((sum, child) => sum + child.own, 0)
    return (own.own + own.ended + living) / ticksPerSecond
  }
}
