// The most memory that a command had while it ran, as Linux keeps it.
import { readFileSync } from 'node:fs'
import type { CommandResult, RunningCommand } from './command.ts'

/** 0 once the process has ended. */
const highWaterMb = (pid: number | undefined): number => {
  try {
    const [, kb] = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
    return Number(kb ?? 0) / 1000
  } catch {
    return 0
  }
}

export const peakOfMemory = async ({ child, result }: RunningCommand): Promise<{ peakMb: number; ended: CommandResult }> => {
  let peakMb = 0
  const watch = setInterval(() => {
    peakMb = Math.max(peakMb, highWaterMb(child.pid))
  }, 50)
  const ended = await result
  clearInterval(watch)
  return { peakMb, ended }
}
