// Every way a unit or a report may change its state: the statements take their conditions from here, the drawings in docs/architecture.md equal it.
import { type RawBuilder, sql } from 'kysely'
import type { ReportState, UnitState } from '../core/types.ts'

export interface Transition<State> {
  /** States it may begin in; empty: there was nothing yet. */
  readonly from: readonly State[]
  /** States it may end in; empty: nothing is left. */
  readonly to: readonly State[]
}

/** `plan` also makes new units. Only what begins in `running` needs a claim, and names its fence. */
export const unitTransitions = {
  plan: { from: ['planned', 'waiting', 'loaded', 'failed', 'held'], to: ['planned'] },
  claim: { from: ['planned', 'waiting', 'landed', 'running'], to: ['running'] },
  'not yet': { from: ['running'], to: ['waiting'] },
  'give back': { from: ['running'], to: ['planned'] },
  'needs a person': { from: ['running'], to: ['held'] },
  'cannot succeed': { from: ['running'], to: ['failed'] },
  'merge commits': { from: ['running'], to: ['loaded'] },
  'nothing changed': { from: ['running'], to: ['loaded'] },
  release: { from: ['held'], to: ['planned', 'landed'] },
  retry: { from: ['failed'], to: ['planned', 'landed'] },
  replay: { from: ['planned', 'waiting', 'landed', 'loaded', 'failed', 'held'], to: ['landed'] },
  'run cancelled': { from: ['planned', 'waiting'], to: ['planned'] },
} as const satisfies Record<string, Transition<UnitState>>

/** Within one edition. `intend` makes a row of its own; what it finds is the newest one before. */
export const reportTransitions = {
  intend: { from: ['uncertain', 'failed', 'rejected', 'expired'], to: ['intent'] },
  'id known': { from: ['intent', 'submitted'], to: ['submitted'] },
  'answer lost': { from: ['intent', 'uncertain'], to: ['uncertain'] },
  'certainly not taken': { from: ['intent'], to: [] },
  'not yet': { from: ['submitted'], to: ['submitted'] },
  'link not good yet': { from: ['ready'], to: ['ready'] },
  done: { from: ['submitted', 'ready', 'downloaded'], to: ['ready'] },
  'free retry': { from: ['submitted', 'ready'], to: ['submitted'] },
  failed: { from: ['submitted', 'ready', 'downloaded'], to: ['failed'] },
  rejected: { from: ['submitted', 'ready', 'downloaded'], to: ['rejected'] },
  'link gone for good': { from: ['submitted', 'ready', 'downloaded'], to: ['expired'] },
  'bytes landed': { from: ['ready'], to: ['downloaded'] },
  'bytes unusable': { from: ['downloaded'], to: ['ready'] },
} as const satisfies Record<string, Transition<ReportState>>

/** Condition that `column` holds a state in which the transition may begin. */
export const mayBegin = (column: string, { from }: Transition<string>): RawBuilder<boolean> =>
  sql<boolean>`${sql.ref(column)} = any(${[...from]}::text[])`
