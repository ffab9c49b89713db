// Data that are expected by a day and are not there: reported by whichever process lives, whether or not anything failed (expect in a definition).
import type { Cause } from '../../core/alarm.ts'
import type { Definition, IsoDate, Window } from '../../core/types.ts'
import { addWindows, alignDown, dateIn, dayOfMonth, isPublished, showWindow, windowAt } from '../../core/window.ts'
import { type DueWindow, dueWindow } from '../../ledger/data-due.ts'
import type { Runtime } from '../../run/runtime.ts'

/** Months that are checked: an older one that is not loaded was reported long ago. */
const mostMonths = 3

export const dueCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const nowMs = runtime.clock.now()
  const found: Cause[] = []
  for (const definition of runtime.definitions)
    for (const { window, dueOn } of dueMonths(definition, nowMs)) {
      const state = await dueWindow(runtime.database.kysely, definition, window.from)
      if (state === null || state.missing > 0) found.push(causeOf(definition, window, dueOn, state))
      // Of what never ran the newest month says it all.
      if (state === null) break
    }
  return found
}

/** Months whose day has come, newest first. */
export const dueMonths = (
  { expect, window: rule }: Pick<Definition, 'expect' | 'window'>,
  nowMs: number,
): { readonly window: Window; readonly dueOn: IsoDate }[] => {
  if (expect === null) return []
  const today = dateIn(nowMs, rule.publication.timeZone)
  const months: { window: Window; dueOn: IsoDate }[] = []
  for (let back = 1; back <= mostMonths + 1 && months.length < mostMonths; back += 1) {
    const from = addWindows(alignDown(today, 'month'), 'month', -back)
    const window = windowAt(from, 'month')
    const dueOn = dayOfMonth(window.to, expect.monthBy)
    if (from >= rule.from && dueOn <= today && isPublished(window, rule.publication, nowMs)) months.push({ window, dueOn })
  }
  return months
}

const causeOf = ({ pipeline }: Definition, window: Window, dueOn: IsoDate, state: DueWindow | null): Cause => {
  const month = showWindow(window)
  const about = reasonOf(pipeline, state)
  const missing =
    state === null || state.missing === state.units
      ? 'is not loaded'
      : `lacks ${state.missing} of ${state.units} ${state.units === 1 ? 'unit' : 'units'}`
  return {
    cause: `due/${pipeline}/${month}`,
    kind: 'due',
    pipeline,
    grouping: `due ${month}${about.isService ? ' not published' : ''}`,
    message: `${month} of ${pipeline} ${missing}; it was expected on ${dueOn}.`,
    changed: about.why,
    nextStep: about.next,
    details: { month, due_on: dueOn, reason: about.reason, ...(state ?? {}) },
  }
}

interface Reason {
  readonly reason: 'never ran' | 'service late' | 'trouble' | 'budget' | 'not run'
  readonly isService: boolean
  readonly why: string
  readonly next: string
}

/** The service's own delay is said to be that: nobody needs to look for a fault here. */
const reasonOf = (pipeline: string, state: DueWindow | null): Reason => {
  const of = (reason: Reason['reason'], why: string, next: string): Reason => ({
    reason,
    isService: reason === 'service late',
    why,
    next,
  })
  if (state === null || state.lastRunAt === null)
    return of('never ran', 'No run has ever planned it.', `Start \`millrace schedule\`, or run \`millrace run ${pipeline}\`.`)
  if (state.notPublished > 0)
    return of(
      'service late',
      `The service itself is late: of what was asked for it has not published ${state.notPublished} ${state.notPublished === 1 ? 'unit' : 'units'} yet.`,
      'Nothing has to be done here: every night asks again.',
    )
  if (state.inTrouble > 0)
    return of(
      'trouble',
      `${state.inTrouble} ${state.inTrouble === 1 ? 'unit failed or is held' : 'units failed or are held'}.`,
      `\`millrace status ${pipeline}\` says why and what to do.`,
    )
  if (state.overBudget > 0)
    return of(
      'budget',
      `${state.overBudget} ${state.overBudget === 1 ? 'unit waits' : 'units wait'} for a budget.`,
      '`millrace quota` shows what is spent; raise the budget, or wait.',
    )
  return of(
    'not run',
    `Nothing failed. The last run that worked on it began at ${state.lastRunAt.slice(0, 16).replace('T', ' ')} UTC.`,
    `Is \`millrace schedule\` running? \`millrace run ${pipeline}\` loads what is due.`,
  )
}
