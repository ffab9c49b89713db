// Notifications: one open row a cause, one delivery a target and event. Frozen once released; imports nothing of ours.
import { type Kysely, sql } from 'kysely'

const statements = [
  `create table etl.notifications (
    notification_id bigint generated always as identity primary key,
    cause text not null,
    kind text not null check (kind in ('failure', 'held', 'late', 'drift', 'quarantine', 'quota')),
    pipeline text,
    message text not null,
    details jsonb not null default '{}',
    raised_at timestamptz not null default now(),
    resolved_at timestamptz
  )`,
  `create unique index notifications_open on etl.notifications (cause) where resolved_at is null`,
  `create table etl.deliveries (
    notification_id bigint not null references etl.notifications,
    target text not null,
    event text not null check (event in ('raised', 'resolved')),
    attempts integer not null default 0,
    next_at timestamptz not null default now(),
    sent_at timestamptz,
    last_error text,
    primary key (notification_id, target, event)
  )`,
  `create index deliveries_due on etl.deliveries (next_at) where sent_at is null`,
]

export const up = async (database: Kysely<unknown>): Promise<void> => {
  for (const statement of statements) await sql.raw(statement).execute(database)
}
