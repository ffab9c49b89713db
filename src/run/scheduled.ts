// Which pipelines have a schedule, and which of their ticks nobody took.
import type { Definition, Schedule } from '../core/types.ts'
import type { Runtime } from './runtime.ts'
import { ticksBetween } from '../plan/ticks.ts'
import { lastTickMs } from '../ledger/tick-records.ts'

export interface Scheduled {
  readonly definition: Definition
  readonly schedule: Schedule
}

export const scheduledOf = (definitions: readonly Definition[]): Scheduled[] =>
  definitions.flatMap((definition) => (definition.schedule === null ? [] : [{ definition, schedule: definition.schedule }]))

/** Ticks between the last one on record and now that nobody took, oldest first. A pipeline that never ticked has missed none. */
export const untakenTicks = async (runtime: Runtime, { definition, schedule }: Scheduled): Promise<number[]> => {
  const last = await lastTickMs(runtime.database.kysely, definition.pipeline)
  return last === null ? [] : ticksBetween(schedule, last, runtime.clock.now())
}

/** Those of them that a start of `schedule` takes, as `catch_up` says. */
export const missedTicks = async (runtime: Runtime, entry: Scheduled): Promise<number[]> => {
  const { catchUp } = entry.schedule
  if (catchUp === 'none') return []
  const missed = await untakenTicks(runtime, entry)
  return catchUp === 'all' ? missed : missed.slice(-1)
}
