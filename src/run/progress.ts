// What a running process tells people: counters that grow, and events as units change state.
import { counted } from '../core/counted.ts'
import type { UnitState } from '../core/types.ts'
import { reportWait } from '../core/waiting.ts'
import type { RunWaits } from '../ledger/wait-list.ts'
import type { RunSummary } from '../ledger/runs.ts'

export type Counters = Record<'unitsPlanned' | 'unitsDone' | 'rowsRead' | 'pages' | 'bytes' | 'requests', number>

export type RunEvent =
  | { readonly event: 'planned'; readonly run_id: number; readonly units: number }
  | {
      readonly event: 'unit'
      readonly run_id: number
      readonly job_id: number
      /** Key of the unit, or of the box of units that one report covers. */
      readonly unit: string
      /** How many units it covers. */
      readonly units: number
      /** Of them, those that wait for a person. */
      readonly held_units?: number
      readonly state: UnitState | 'unchanged'
      readonly rows?: number
      readonly code?: string
      readonly message?: string
      readonly not_before?: string
      /** Left to a later run: the service did not answer, or refused too many requests. */
      readonly left?: boolean
    }
  | { readonly event: 'report'; readonly unit: string; readonly state: string; readonly report_id: string | null }
  | {
      /** A scheduled run is over. */
      readonly event: 'tick'
      readonly pipeline: string
      readonly due_at: string
      readonly time_zone: string
      readonly run_id: number
      readonly state: string
      readonly units: RunSummary['units']
    }
  | { readonly event: 'notice'; readonly code: string; readonly message: string }

export interface Progress {
  readonly counters: Counters
  emit(event: RunEvent): void
}

export const createProgress = (listener: (event: RunEvent) => void = () => undefined): Progress => ({
  counters: { unitsPlanned: 0, unitsDone: 0, rowsRead: 0, pages: 0, bytes: 0, requests: 0 },
  emit: listener,
})

const inSeconds = (seconds: number): string => `${Math.max(1, Math.round(seconds))} s`

/** Tells what a run without a job in hand waits for, each kind once a minute. */
export const tellRunWaits = ({ reports, putOff, others }: RunWaits): void => {
  const [is, are] = [`that is being made`, `that are being made`]
  if (reports.count > 0)
    reportWait(
      'reports',
      `Waiting for ${counted(reports.count, 'report')} ${reports.count === 1 ? is : are}; the next poll in ${inSeconds(reports.nextInSeconds)}.`,
    )
  if (putOff.count > 0)
    reportWait(
      `put off ${putOff.message}`,
      `Waiting to try ${counted(putOff.count, 'job')} again, the next in ${inSeconds(putOff.nextInSeconds)}: ${putOff.message}`,
    )
  if (others > 0) reportWait('others', `Waiting for ${counted(others, 'job')} that another command works on.`)
}
