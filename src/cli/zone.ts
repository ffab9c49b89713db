// In which time zone people read times: that of the schedules.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { timeIn } from '../core/window.ts'
import { pipelinesFolder } from './command-runtime.ts'
import type { Invocation } from './command-spec.ts'
import type { Output } from './output.ts'

const schedule = /^schedule:.*(?:\n[ \t]+.*)*/m

/** The zone that every schedule names, else UTC. Files are searched, not compiled: commands that read the ledger alone start in a third of a second. */
const zoneOf = (folder: string): string => {
  const zones = new Set(
    readdirSync(folder)
      .filter((name) => /\.ya?ml$/.test(name))
      .flatMap((name) => schedule.exec(readFileSync(join(folder, name), 'utf8'))?.[0] ?? [])
      .map((text) => /^[^#\n]*\btime_zone:\s*["']?([\w/+-]+)/m.exec(text)?.[1] ?? 'UTC'),
  )
  const [zone = 'UTC', other] = zones
  return other === undefined && Intl.supportedValuesOf('timeZone').includes(zone) ? zone : 'UTC'
}

/** Shows moments as minutes of one zone. */
export interface Times {
  readonly at: (moment: string | null) => string
  /** Names the zone, below what has times in it. */
  sayZone(output: Output): void
}

/** @returns UTC where there is no folder of pipelines */
export const timesOf = (invocation: Invocation): Times => {
  const zone = folderZone(pipelinesFolder(invocation))
  return {
    at: (moment) => (moment === null ? '-' : timeIn(Date.parse(moment), zone)),
    sayZone: (output) => output.line(`Times: ${zone}.`),
  }
}

const folderZone = (folder: string): string => {
  try {
    return zoneOf(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'UTC'
    throw error
  }
}
