// Who gets which alarms, as notify.yaml says it: receivers, routes, quiet hours. No address and no key: these stand in the environment.
import type { AlarmKind, Severity } from './alarm.ts'

/** Monday is 1. */
export type Weekday = 1 | 2 | 3 | 4 | 5 | 6 | 7

/** From one time of the day to another, also over midnight, and whole days. */
export interface QuietHours {
  /** Minutes since midnight; null: no hours, days alone. */
  readonly hours: { readonly from: number; readonly to: number } | null
  readonly days: readonly Weekday[]
  readonly timeZone: string
  /** Sent all the same. */
  readonly but: readonly Severity[]
}

/** A place in a file, for messages: `notify.yaml:4:11`. */
export type WrittenAt = string

export type ReceiverSpec = { readonly name: string; readonly at: WrittenAt } & (
  | { readonly kind: 'slack' /** Name of the setting. */; readonly variable: string }
  | { readonly kind: 'pagerduty'; readonly variable: string }
  | {
      readonly kind: 'webhook'
      readonly variable: string /** Of the key that signs; null: it is not signed. */
      readonly key: string | null
    }
  | { readonly kind: 'email'; readonly to: readonly string[] }
)

/** What is left out matches everything. */
export interface Route {
  readonly to: readonly string[]
  readonly kinds: readonly AlarmKind[] | null
  readonly severities: readonly Severity[] | null
  readonly pipelines: readonly string[] | null
  /** Tags of the pipeline's definition; all of them. */
  readonly tags: Readonly<Record<string, string>>
  readonly at: WrittenAt
}

export interface AlarmRoutes {
  readonly receivers: readonly ReceiverSpec[]
  /** Each that matches counts: a receiver gets it once. */
  readonly routes: readonly Route[]
  /** null: none. */
  readonly quietHours: QuietHours | null
}
