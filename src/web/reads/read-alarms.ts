// Open alarms and the deliveries of their messages.
import type { Db } from '../../db/tables.ts'
import { type Lists, type Maybe, query, type Row, type Texts } from '../../db/typed-row.ts'

/** The delivery of a message to a receiver. */
type Delivery = Texts<'receiver' | 'state'> & Maybe<Texts<'problem'>>

/** Most severe and oldest first, each with the delivery to each receiver. */
export const openAlarms = (db: Db) =>
  query<Row<'etl.notifications', 'kind' | 'severity' | 'pipeline' | 'message' | 'raised_at'> & Lists<Record<'told', Delivery>>>(
    db,
  )`
    select n.kind, n.severity, n.pipeline, n.message, n.raised_at, coalesce((
      select json_agg(json_build_object('receiver', d.target, 'state', coalesce(d.outcome,
        case d.attempts when 0 then 'waits' else 'tried ' || d.attempts || ' times' end), 'problem', d.last_error) order by d.target)
      from etl.deliveries d where d.notification_id = n.notification_id and d.event = 'raised'), '[]') as told
    from etl.notifications n where n.resolved_at is null
    order by array_position(array['critical', 'error', 'warning', 'info'], n.severity), n.notification_id`
