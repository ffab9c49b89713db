// The terms of alarms: their kinds, their severity, and a cause (one thing that is wrong now).

/** Most severe first. `critical` is sent also in quiet hours. */
export const severities = ['critical', 'error', 'warning', 'info'] as const
export type Severity = (typeof severities)[number]

/**
 * @param severity unless the cause itself says otherwise
 * @param about for docs and messages
 * @param hasEnd false: a single event, whose end sends no message
 */
const kind = (severity: Severity, about: string, hasEnd = true) => ({ severity, about, hasEnd }) as const

/**
 * Every kind of alarm by name. A new kind is a line here and a reader of its causes: schedule/notify/alarm-causes.ts or, where the ledger alone knows them,
 * ledger/causes.ts. One that needs the definitions is also named in `byDefinition` of ledger/deliveries.ts.
 */
export const alarmKinds = {
  failure: kind('error', 'units failed'),
  held: kind('warning', 'units are held and need action'),
  late: kind('critical', 'a scheduled run is an hour overdue, or was killed repeatedly'),
  due: kind('error', 'a month is not loaded on the day it is expected'),
  list: kind('warning', 'a list came empty or much shorter and is not used'),
  drift: kind('warning', 'answers have other fields than the definition says'),
  quarantine: kind('warning', 'rows were rejected'),
  test: kind('warning', 'loaded rows fail a test of their definition', false),
  restated: kind('warning', 'the service changed loaded values by more than a test allows', false),
  break: kind('warning', 'the service counts by another method from a month on', false),
  quota: kind('warning', '80 % or 100 % of a budget is spent'),
  approval: kind('warning', 'a run found purchases beyond its nightly limit, which need approval'),
} as const

export type AlarmKind = keyof typeof alarmKinds

/** Kinds whose end sends no message. */
export const kindsWithoutEnd: readonly string[] = Object.entries(alarmKinds)
  .filter(([, { hasEnd }]) => !hasEnd)
  .map(([name]) => name)

/** One thing that is wrong now. People get one message when it begins and one when it ends. */
export interface Cause {
  /** Its identity for as long as it lasts: `failure/keywords`. */
  readonly cause: string
  readonly kind: AlarmKind
  /** Default: as its kind says. */
  readonly severity?: Severity
  /** null: it concerns no single pipeline. */
  readonly pipeline: string | null
  /** Causes with the same kind and grouping (an error code, a month) share one message. Default: a message of its own. */
  readonly grouping?: string | null
  /** What is wrong, one or two sentences. */
  readonly message: string
  /** What changed: since when, and which data are still available. */
  readonly changed?: string
  /** What to do. */
  readonly nextStep?: string
  /** The same facts for machines; never a secret. */
  readonly details: Readonly<Record<string, unknown>>
}

export const severityOf = ({ kind: name, severity }: Pick<Cause, 'kind' | 'severity'>): Severity =>
  severity ?? alarmKinds[name].severity
