// What is wrong now and who has heard of it.
import type { Db } from '../../db/tables.ts'

/** Most severe and oldest first, each with what became of its message for each receiver. */
export const openAlarms = async (db: Db) => {
  const alarms = await db
    .selectFrom('etl.notifications')
    .select(['notification_id', 'kind', 'severity', 'pipeline', 'message', 'raised_at'])
    .where('resolved_at', 'is', null)
    .orderBy('notification_id')
    .execute()
  const deliveries = await db
    .selectFrom('etl.deliveries as d')
    .innerJoin('etl.notifications as n', 'n.notification_id', 'd.notification_id')
    .select(['d.notification_id', 'd.target', 'd.outcome', 'd.attempts', 'd.last_error'])
    .where('n.resolved_at', 'is', null)
    .where('d.event', '=', 'raised')
    .orderBy('d.target')
    .execute()
  const order = ['critical', 'error', 'warning', 'info']
  return alarms
    .toSorted((left, right) => order.indexOf(left.severity) - order.indexOf(right.severity))
    .map(({ notification_id, ...alarm }) => ({
      ...alarm,
      told: deliveries
        .filter((delivery) => delivery.notification_id === notification_id)
        .map(({ target, outcome, attempts, last_error }) => ({
          receiver: target,
          state: outcome ?? (attempts === 0 ? 'waits' : `tried ${attempts} times`),
          problem: last_error,
        })),
    }))
}
