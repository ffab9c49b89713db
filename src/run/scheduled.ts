// Which pipelines have a schedule, and which of their ticks nobody took.
import type { Definition, Schedule } from '../core/types.ts'
import type { Shop } from './shop.ts'
import { lastTickMs, ticksBetween } from './ticks.ts'

export interface Scheduled {
  readonly definition: Definition
  readonly schedule: Schedule
}

export const scheduledOf = (definitions: readonly Definition[]): Scheduled[] =>
  definitions.flatMap((definition) => (definition.schedule === null ? [] : [{ definition, schedule: definition.schedule }]))

/** Ticks between the last one on record and now, as `catch_up` wants them. A pipeline that never ticked has missed none. */
export const missedTicks = async (shop: Shop, { definition, schedule }: Scheduled): Promise<number[]> => {
  const last = await lastTickMs(shop.database.kysely, definition.pipeline)
  if (last === null || schedule.catchUp === 'none') return []
  const missed = ticksBetween(schedule, last, shop.clock.now())
  return schedule.catchUp === 'all' ? missed : missed.slice(-1)
}
