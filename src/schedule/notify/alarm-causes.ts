// Collects everything that is wrong now: causes in the ledger, budgets, late nights, and data that should be loaded by a day and are not. A new kind of
// alarm adds its reader here.
import type { Cause } from '../../core/alarm.ts'
import { counted, sum } from '../../core/counted.ts'
import { apiNameOf } from '../../core/source-spec.ts'
import { tagBudgets } from '../../core/budget-scope.ts'
import type { Definition, IsoDate, Window } from '../../core/types.ts'
import { addWindows, alignDown, dateIn, dayOfMonth, isPublished, showWindow, timeIn, windowAt } from '../../core/window.ts'
import { breakLines } from '../../ledger/breaks.ts'
import { causesInLedger, dueWindow, type DueWindow } from '../../ledger/causes.ts'
import { givenUpMs, lastRunMs } from '../../ledger/data-releases.ts'
import { type QuotaSpent, quotaThisMonth, tagThisMonth } from '../../ledger/spent.ts'
import type { Runtime } from '../../run/runtime.ts'
import { lateMs, scheduledOf, untakenTicks } from '../../plan/ticks.ts'

/** All present causes. An alarm begins when its cause appears here and ends when the cause is missing: readers keep no state. */
export const causes = async (runtime: Runtime): Promise<readonly Cause[]> => [
  ...(await causesInLedger(runtime.database.kysely)),
  ...(await quotaCauses(runtime)),
  ...(await lateCauses(runtime)),
  ...(await dueCauses(runtime)),
  ...(await breakCauses(runtime)),
]

/** A single event stays a cause for so long, so that every receiver gets it once. */
const told = '2 days'

/** Tables with the same break in one night share a message. */
export const breakCauses = async ({ database }: Runtime): Promise<Cause[]> =>
  (await breakLines(database.kysely, told)).map(
    ({ breakId, pipeline, kind, startsOn, columns, change, share, noticedOn, oldest, dataVersion }) => ({
      cause: `break/${pipeline}/${breakId}`,
      kind: 'break',
      pipeline,
      grouping: noticedOn,
      message:
        `${pipeline}: from ${startsOn} on the service ${breakWords(kind, dataVersion)}` +
        (columns[0] === undefined
          ? '; no more figures changed than usual.'
          : `: ${Math.round(share * 100)} % of ${columns[0]} changed, by ${(change * 100).toFixed(1)} % on average.`),
      changed: `Figures before and after are not comparable; bi.breaks has it, and comparisons across it are marked.${oldest === null ? '' : ` Months from ${oldest} on were not loaded again.`}`,
      nextStep: `\`millrace plan ${pipeline}\` shows what it costs to load the earlier months again, and a sample of them first. Nothing is bought automatically.`,
      details: { break_id: breakId, starts_on: startsOn, columns, change, share },
    }),
  )

const breakWords = (kind: string, dataVersion: string | null): string =>
  kind === 'version'
    ? `announces version ${dataVersion} of its data`
    : kind === 'dialect'
      ? 'returns other figures in another dialect'
      : 'counts by another method'

const lateCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const late: Cause[] = []
  for (const entry of scheduledOf(runtime.definitions)) {
    const { pipeline, schedule } = entry
    const killedMs = await killedTick(runtime, pipeline)
    const missed = (await untakenTicks(runtime, entry)).filter((dueMs) => dueMs < runtime.clock.now() - lateMs)
    const oldest = killedMs ?? missed[0]
    if (oldest === undefined) continue
    const due = new Date(oldest).toISOString()
    const isDue = `${pipeline} was due at ${timeIn(oldest, schedule.timeZone)} (${schedule.timeZone})`
    late.push({
      cause: `late/${pipeline}`,
      kind: 'late',
      pipeline,
      grouping: 'late',
      ...(killedMs === null
        ? {
            message: `${isDue} and has not run${soFar(missed.length)}; is \`millrace schedule\` running?`,
            changed: 'No scheduler started it at its scheduled time.',
            nextStep: 'Start `millrace schedule` again, or run `millrace run` once; this also loads what was missed.',
          }
        : {
            message: `${isDue} and was started several times; each time its process was killed, so it is not started again before its next time.`,
            changed: 'The due data are not loaded, or only in part.',
            nextStep: `Find out what killed the process (out of memory?), then \`millrace run ${pipeline}\`.`,
          }),
      details: { due_at: due, missed: missed.length },
    })
  }
  return late
}

/** When the killed tick was due; null: there is none, or a later run has made up for it. */
const killedTick = async ({ database: { kysely } }: Runtime, pipeline: string): Promise<number | null> => {
  const dueMs = await givenUpMs(kysely, pipeline)
  return dueMs !== null && dueMs > ((await lastRunMs(kysely, pipeline)) ?? 0) ? dueMs : null
}

const soFar = (missed: number): string => (missed > 1 ? ` (${missed} ticks so far)` : '')

/** Percent of a month's budget at which an alarm begins. */
const quotaLevels = [80, 100] as const

export const quotaCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const spent = await quotaThisMonth(runtime.database.kysely)
  const byAccount = Map.groupBy(spent, ({ account, source }) => `account ${account} of ${apiNameOf(source)}`)
  return [
    ...runtime.definitions.flatMap(({ pipeline, limits }) => {
      const own = spent.filter((row) => row.pipeline === pipeline)
      return levelsReached(runtime, pipeline, pipeline, sum(own, 'spent'), limits.quotaPerMonth)
    }),
    ...(await tagCauses(runtime)),
    ...[...byAccount].flatMap(([whose, rows]) =>
      levelsReached(runtime, null, whose, sum(rows, 'spent'), accountBudget(runtime, rows)),
    ),
  ]
}

/** A tag's budget is shared by all pipelines with the tag, so its cause names no pipeline. */
const tagCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const found: Cause[] = []
  for (const { name, value, budget } of tagBudgets(runtime.settings.raw))
    for (const { api, spent } of await tagThisMonth(runtime.database.kysely, name, value))
      found.push(...levelsReached(runtime, null, `${name} ${value} of ${api}`, spent, budget.perMonth))
  return found
}

/** The account's monthly budget; null: none, or the API of that spending is no longer installed. */
const accountBudget = (runtime: Runtime, [first]: readonly QuotaSpent[]): number | null => {
  if (first === undefined || ![...runtime.sources.keys()].some((name) => apiNameOf(name) === apiNameOf(first.source))) return null
  return runtime.allowance(first).budget.perMonth
}

/** One cause for each level reached: at 100 % the alarm for 80 % stays open. */
const levelsReached = (runtime: Runtime, pipeline: string | null, whose: string, spent: number, budget: number | null) => {
  const month = new Date(runtime.clock.now()).toISOString().slice(0, 7)
  if (budget === null || spent === 0) return []
  return quotaLevels
    .filter((level) => spent * 100 >= budget * level)
    .map((level) => ({
      cause: `quota/${whose}/${month}/${level}`,
      kind: 'quota' as const,
      severity: level === 100 ? ('error' as const) : ('warning' as const),
      pipeline,
      message: `${whose} has spent or reserved ${spent} of its ${budget} credits for ${month} (${level} % reached).`,
      changed:
        level === 100
          ? 'No further report is bought under this budget this month.'
          : `${budget - spent} credits are left until the month ends.`,
      nextStep: '`millrace quota` shows who spent them; `millrace plan` what the next night would buy.',
      details: { month, spent, budget, level },
    }))
}

/** Months that are checked: an older one that is not loaded was reported long ago. */
const mostMonths = 3

export const dueCauses = async (runtime: Runtime): Promise<Cause[]> => {
  const nowMs = runtime.clock.now()
  const found: Cause[] = []
  for (const definition of runtime.definitions)
    for (const { window, dueOn } of dueMonths(definition, nowMs)) {
      const state = await dueWindow(runtime.database.kysely, definition, window.from)
      if (state === null || state.missing > 0) found.push(causeOf(definition, window, dueOn, state))
      // A pipeline that never ran gets one alarm, for the newest month.
      if (state === null) break
    }
  return found
}

/** Months that should be loaded by now, newest first. */
export const dueMonths = ({ expect, window: rule }: Pick<Definition, 'expect' | 'window'>, nowMs: number) => {
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
      : `lacks ${state.missing} of ${counted(state.units, 'unit')}`
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

type DueReason = 'never ran' | 'service late' | 'trouble' | 'budget' | 'not run'

/** Why a month is missing. `isService`: the service is late, so there is nothing to fix here. */
const reasonOf = (pipeline: string, state: DueWindow | null) => {
  const of = (reason: DueReason, why: string, next: string) => ({ reason, isService: reason === 'service late', why, next })
  if (state === null || state.lastRunAt === null)
    return of('never ran', 'No run has ever planned it.', `Start \`millrace schedule\`, or run \`millrace run ${pipeline}\`.`)
  if (state.notPublished > 0)
    return of(
      'service late',
      `The service is late: it has not published ${counted(state.notPublished, 'unit')} of the requested data yet.`,
      'No action needed: every night asks again.',
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
    `Nothing failed. The last run for it began at ${state.lastRunAt.slice(0, 16).replace('T', ' ')} UTC.`,
    `Is \`millrace schedule\` running? \`millrace run ${pipeline}\` loads what is due.`,
  )
}
